"""What becomes of a step that failed for good: it settles so, or somebody is asked first."""

from __future__ import annotations

from kedge.flow import events as ev
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.flow.words import Failure


def fail(turn: Turn, step: StepState, failure: Failure, raw: bytes = b"") -> None:
    """`step` has failed for good. `raw`: what its call gave, if that was no good."""
    state = turn.state
    unfit, blob = turn.store(raw) if raw and step.node.undo is not None else (ev.NONE, None)
    if (
        state.ending
        or step.owner is not None
        or step.node.fallback >= 0
        or _first(step).node.step.on_error != "ask"
    ):
        turn.emit(ev.StepFailed(path=step.path, error=failure, result=unfit, blob=blob))
        return
    turn.emit(ev.StepFailed(path=step.path, error=failure, held=True, result=unfit, blob=blob))
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


def _first(step: StepState) -> StepState:
    """The step that it stands in for, itself if none."""
    while step.node.fallback_for >= 0:
        step = step.scope.steps[step.node.fallback_for]
    return step


def question_id(state: RunState) -> str:
    """The id of the next question."""
    return f"q{len(state.questions) + 1}"
