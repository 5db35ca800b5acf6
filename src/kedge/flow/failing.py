"""What becomes of a step that failed for good: it settles so, or the planner or somebody is asked first."""

from __future__ import annotations

from collections.abc import Iterable

from kedge.flow import events as ev
from kedge.flow.repairs import is_grave, is_mended
from kedge.flow.state import RunState, StepState
from kedge.flow.trouble import failure_severity
from kedge.flow.turn import Turn
from kedge.flow.words import Failure


def fail(turn: Turn, step: StepState, failure: Failure, raw: bytes = b"") -> None:
    """`step` has failed for good. `raw`: what its call gave, if that was no good."""
    state = turn.state
    unfit, blob = turn.store(raw) if raw and step.node.undo is not None else (ev.NONE, None)
    severity = failure_severity(step, failure)
    grave = not state.ending and is_grave(state, severity)
    repair = grave and bool(state.settings.repair)
    decide = grave and not repair and state.decides > 0
    asks = first(step).node.step.on_error == "ask"
    apart = state.ending or step.owner is not None or step.node.fallback >= 0
    held = not apart and (repair or decide or asks)
    turn.emit(
        ev.StepFailed(
            path=step.path, error=failure, held=held, repair=held and repair, decide=held and decide,
            severity=severity, result=unfit, blob=blob,
        )
    )  # fmt: skip
    if held and not (repair or decide):
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


def settle_held(turn: Turn, paths: Iterable[str], *, ask: bool = False) -> None:
    """Nobody mends these failures any more: they are what they are, or a person is asked."""
    state = turn.state
    for path in dict.fromkeys(paths):
        step = state.steps.get(path)
        if step is None or not step.held or path in state.deciding or _is_asked(state, path):
            continue
        if is_mended(state, step):  # it failed once more since, which is the next repair's
            continue
        if ask or first(step).node.step.on_error == "ask":
            ask_what_to_do(turn, step, step.error.message if step.error is not None else "")
        else:
            turn.emit(ev.FailureSettled(path=path))


def _is_asked(state: RunState, path: str) -> bool:
    id_ = state.asked_about.get(path)
    return id_ is not None and state.questions[id_].asked.reason == "failed"


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
