"""What becomes of a step that failed for good: it settles so, or the planner or somebody is asked first."""

from __future__ import annotations

from kedge.flow import events as ev
from kedge.flow.repairs import wants_repair
from kedge.flow.state import RunState, StepState
from kedge.flow.trouble import failure_severity
from kedge.flow.turn import Turn
from kedge.flow.words import Failure


def fail(turn: Turn, step: StepState, failure: Failure) -> None:
    """`step` has failed for good."""
    state = turn.state
    ending = state.cancelling or bool(state.stopped_by)
    severity = failure_severity(step, failure)
    repair = not ending and wants_repair(state, severity)
    asks = first(step).node.step.on_error == "ask"
    if ending or step.owner is not None or step.node.fallback >= 0 or not (repair or asks):
        turn.emit(ev.StepFailed(path=step.path, error=failure, severity=severity))
        return
    turn.emit(ev.StepFailed(path=step.path, error=failure, held=True, repair=repair, severity=severity))
    if not repair:
        ask_what_to_do(turn, step, failure.message)


def ask_what_to_do(turn: Turn, step: StepState, message: str) -> None:
    """Ask what the failure of a held step is to mean."""
    turn.emit(
        ev.QuestionAsked(
            question=question_id(turn.state),
            reason="failed",
            path=step.path,
            text=f"Step {step.path} failed: {message}. Try again, go on without it, or let it fail?",
            options=("retry", "skip", "fail"),
        )
    )


def backoff_s(step: StepState) -> float:
    """How long its next attempt is waited for: doubles with each one, up to a maximum."""
    retry = step.node.retry
    return min(retry.backoff_s * 2.0 ** (step.attempt - 1), retry.max_backoff_s)


def first(step: StepState) -> StepState:
    """The step that it stands in for, itself if none."""
    while step.node.fallback_for >= 0:
        step = step.scope.steps[step.node.fallback_for]
    return step


def question_id(state: RunState) -> str:
    """The id of the next question."""
    return f"q{len(state.questions) + 1}"
