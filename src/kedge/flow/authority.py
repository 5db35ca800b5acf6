"""What only a person may do: an agent's or planner's credential opens nothing that asks for one.

An agent may stop, narrow and change; it may not answer what a person is asked, by whatever command, nor take
out of the plan that a person is asked.
"""

from __future__ import annotations

from collections.abc import Iterator

from kedge.base.errors import Refused
from kedge.flow import commands as cmd
from kedge.flow.changes import step_at
from kedge.flow.guards import whole
from kedge.flow.state import RunState
from kedge.plan.findings import Finding
from kedge.plan.model import Approval
from kedge.plan.patch import Patch
from kedge.plan.places import at

_PERSONS = "let a person do it"


def refuse_agent(state: RunState, given: cmd.Order) -> None:
    """Refused if the command is a person's alone."""
    if isinstance(given, cmd.Unpause):
        raise Refused("a pause is lifted by a person", code="not_a_person", remedy=_PERSONS)
    if isinstance(given, cmd.Skip | cmd.Retry) and given.step in state.asked_about:
        id_ = state.asked_about[given.step]
        if state.questions[id_].asked.reason != "approval" or isinstance(given, cmd.Retry):
            raise Refused(
                f"a person is asked about it ({id_})",
                code="not_a_person", where=f"step {given.step}", remedy=_PERSONS,
            )  # fmt: skip


def widening(state: RunState, patch: Patch) -> Iterator[Finding]:
    """Parts of a patch with which a person would not be asked any more."""
    for path, fields in patch.change.items():
        step = step_at(state.plan, path)
        if step is None:
            continue
        if step.approval is not None and "approval" in fields:
            yield _fault(at(at("change", path), "approval"), path)
        if step.on_error == "ask" and "on_error" in fields:
            yield _fault(at(at("change", path), "on_error"), path)
    guarded = {**state.guarded, **_taken_out(state, patch)}
    for number, addition in enumerate(patch.add):
        path = f"{addition.into}/{addition.step.id}" if addition.into else addition.step.id
        for inner, step in whole(addition.step, path):
            if inner in guarded and step.approval != guarded[inner]:
                yield _fault(f"add[{number}].step", inner)
    for number, path in enumerate(patch.waive):
        if path in state.asked_about:
            yield _fault(f"waive[{number}]", path)
    for number, path in enumerate(patch.retry):
        if path in state.asked_about:
            yield _fault(f"retry[{number}]", path)


def _taken_out(state: RunState, patch: Patch) -> dict[str, Approval]:
    """Approvals of steps that the same patch takes out."""
    if not patch.add:
        return {}
    gone = ((path, step_at(state.plan, path)) for path in patch.remove)
    return {
        inner: one.approval
        for path, step in gone
        if step is not None
        for inner, one in whole(step, path)
        if one.approval is not None
    }


def _fault(place: str, path: str) -> Finding:
    return Finding(
        code="not_a_person", path=place, step=path, remedy=_PERSONS,
        message=f"{path} asks a person: only a person can change that",
    )  # fmt: skip
