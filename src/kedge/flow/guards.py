"""Approvals that left the plan with their steps. Part of `evolve`: called from nowhere else, `whole` apart.

Who may not take an approval away may not bring a step back without it either, so what was taken out is
remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kedge.flow.state import RunState
from kedge.plan.model import Step
from kedge.plan.patch import Patch


def leaving(state: RunState, patch: Patch) -> None:
    """Steps are about to be taken out of the plan."""
    for path in patch.remove:
        steps: Sequence[Step] | None = state.plan.steps
        step: Step | None = None
        for id_ in path.split("/"):
            step = next((one for one in steps or () if one.id == id_), None)
            steps = step.steps if step is not None else None
        for inner, one in whole(step, path) if step is not None else ():
            if one.approval is not None:
                state.guarded[inner] = one.approval


def whole(step: Step, path: str) -> Iterator[tuple[str, Step]]:
    """The step and all inside it, with their paths."""
    todo = [(path, step)]
    while todo:
        here, one = todo.pop()
        yield here, one
        todo.extend((f"{here}/{inner.id}", inner) for inner in one.steps or ())
