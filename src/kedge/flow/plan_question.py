"""The question whether a plan is to be followed at all, and what a refusal means."""

from __future__ import annotations

from kedge.base.errors import Refused
from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow.brief import plan_brief
from kedge.flow.changes import Act, rolled_back
from kedge.flow.failing import fail, question_id
from kedge.flow.state import RunState
from kedge.flow.turn import Turn
from kedge.flow.words import Failure, StepStatus


def ask_for_plan(turn: Turn) -> None:
    """Ask a person, unless somebody is being asked."""
    state = turn.state
    if any(question.open and question.asked.reason == "plan" for question in state.questions.values()):
        return
    turn.emit(
        ev.QuestionAsked(
            question=question_id(state), reason="plan", text=plan_brief(state),
            options=("approve", "refuse"), binding=state.unapproved,
        )
    )  # fmt: skip


def refused_plan(state: RunState, given: cmd.Answer) -> Act:
    """What was approved before is followed again; a run of which nothing was approved is cancelled."""
    why = f"version {state.version} was refused" + (f": {given.reason}" if given.reason else "")
    if state.approved is not None:
        try:
            return _taken_back(rolled_back(state, state.approved[0], why, given.by), why, given.by)
        except Refused:
            pass  # what makes it another plan cannot be taken back
    cancelling = ev.RunCancelling(by=given.by, reason=f"the plan's {why}")
    return lambda turn: turn.emit(cancelling)


def _taken_back(roll_back: Act, why: str, by: str) -> Act:
    """Without the plan that was to mend them, failures are failures: nothing is tried again by a refusal."""

    def act(turn: Turn) -> None:
        state = turn.state
        failed = list(state.tried_unapproved)
        roll_back(turn)
        for path in failed if not state.unapproved else ():
            _fail_again(turn, path, why, by)

    return act


def _fail_again(turn: Turn, path: str, why: str, by: str) -> None:
    step = turn.state.steps.get(path)
    if step is None:
        return
    if step.waived:
        turn.emit(ev.Reopened(path=path, by=by))
    if step.status is StepStatus.READY:
        failure = Failure(category="permission", code="refused", message=why, classified=True, not_done=True)
        fail(turn, step, failure)


def own_change(turn: Turn, act: Act, by: str) -> None:
    """A person changes an approved plan: that they want the change need not be asked."""
    waits = bool(turn.state.unapproved)
    act(turn)
    if turn.state.unapproved and not waits:
        turn.emit(ev.PlanApproved(version=turn.state.version, by=by))
