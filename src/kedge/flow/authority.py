"""What only a person may do: an agent's or planner's credential opens nothing that asks for one.

An agent may stop, narrow and change; it may not answer what a person is asked, by whatever command, nor take
out of the plan that a person is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kedge.base.errors import Refused
from kedge.flow import commands as cmd
from kedge.flow.approvals import must_ask
from kedge.flow.changes import step_at
from kedge.flow.compensation import rounds_left, users_of, with_users
from kedge.flow.guards import whole
from kedge.flow.state import RunState, StepState
from kedge.plan.findings import Finding
from kedge.plan.model import Approval
from kedge.plan.patch import Patch
from kedge.plan.places import at

_PERSONS = "let a person do it"


def refuse_agent(state: RunState, given: cmd.Order) -> None:
    """Refused if the command is a person's alone."""
    if isinstance(given, cmd.Unpause):
        raise Refused("a pause is lifted by a person", code="not_a_person", remedy=_PERSONS)
    if isinstance(given, cmd.Cancel | cmd.Rollback | cmd.Compensate):
        _refuse_undoing(state, given)
    if isinstance(given, cmd.Skip | cmd.Retry) and given.step in state.asked_about:
        id_ = state.asked_about[given.step]
        if state.questions[id_].asked.reason != "approval" or isinstance(given, cmd.Retry):
            raise Refused(
                f"a person is asked about it ({id_})",
                code="not_a_person", where=f"step {given.step}", remedy=_PERSONS,
            )  # fmt: skip


def _refuse_undoing(state: RunState, given: cmd.Cancel | cmd.Rollback | cmd.Compensate) -> None:
    """What a person allowed is not taken back unasked."""
    if not isinstance(given, cmd.Compensate) and not given.compensate:
        return
    steps: Iterable[StepState] = state.steps.values()
    if isinstance(given, cmd.Compensate) and given.step in state.steps:
        steps = with_users([state.steps[given.step]], users_of(state))
    for step in steps:
        undo = step.node.undo
        if undo is None or must_ask(state, undo) or not rounds_left(state, step):
            continue
        if step.approved or step.node.ask is not None:
            raise Refused(
                "a person allowed it, and nobody would be asked before it is undone",
                code="not_a_person", where=f"step {step.path}", remedy=_PERSONS,
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
