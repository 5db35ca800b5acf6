"""The critical path of a run: the chain of work that its end had to wait for.

Walked backwards from what ended last, each time to that one of the things it waited for which came
last. So it follows what really happened: through composites and items, to a fallback that stood in,
and past a composite that began early to the step outside that one of its children waited for.
"""

from __future__ import annotations

from collections.abc import Iterator

from kedge.flow.state import RunState, StepState


def critical_path(state: RunState) -> tuple[float, list[str]]:
    """Seconds of work on the path, and the top-level steps it leads through, first to last."""
    worked = [step for step in state.steps.values() if step.started_at and _is_leaf(step)]
    at: StepState | None = max(worked, key=_end, default=None)
    seconds = 0.0
    tops: list[str] = []
    seen: set[str] = set()
    while at is not None and at.path not in seen:
        seen.add(at.path)
        seconds += max(0, _end(at) - at.started_at) / 1000
        top = _top(at)
        if top not in tops:
            tops.append(top)
        at = max((leaf for leaf in _waited_for(at) if leaf is not None), key=_end, default=None)
    return seconds, tops[::-1]


def _is_leaf(step: StepState) -> bool:
    return step.node.scope is None and step.items is None


def _end(step: StepState) -> int:
    return step.ended_at or step.started_at


def _top(step: StepState) -> str:
    while step.scope.owner is not None:
        step = step.scope.owner
    return step.id


def _waited_for(step: StepState) -> Iterator[StepState | None]:
    """What the start depended on: the step's names, its target's failure, what its composite waited for."""
    inside: StepState | None = step
    while inside is not None:
        node = inside.node
        for level, index in node.places.values():
            scope = inside.scope
            for _ in range(level):
                scope = scope.owner.scope if scope.owner is not None else scope
            dep = scope.steps[index]
            while dep.stand_in is not None:
                dep = dep.stand_in
            yield _last_leaf(dep)
        if node.fallback_for >= 0:
            yield _last_leaf(inside.scope.steps[node.fallback_for])  # its failure, not who stood in
        inside = inside.scope.owner


def _last_leaf(step: StepState) -> StepState | None:
    """The work inside `step` that ended last."""
    while True:
        inside = (
            step.items if step.items is not None else step.inner.steps if step.inner is not None else None
        )
        if inside is None:
            return step if step.started_at else None
        worked = [child for child in inside if child.started_at]
        if not worked:
            return None
        step = max(worked, key=_end)
