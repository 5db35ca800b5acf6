"""Composites, foreach steps and the run itself: what they come to once everything in them is settled."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from kedge.base.codec import decode, encode
from kedge.base.errors import BadInput
from kedge.flow import events as ev
from kedge.flow.conclude import conclude
from kedge.flow.failing import backoff_s, fail
from kedge.flow.names import result_bytes
from kedge.flow.state import RunState, ScopeState, StepState
from kedge.flow.trouble import may_repeat
from kedge.flow.turn import Turn
from kedge.flow.undoing import end_run
from kedge.flow.words import Failure, Outcome, RunStatus, StepStatus
from kedge.plan.expr import Absent


def close(turn: Turn, step: StepState | None) -> None:
    """Everything in `step` (None: in the run) is settled."""
    if not turn.state.is_over(step):
        return
    if step is None:
        _end_run(turn)
    elif step.items is not None:
        _close_items(turn, step, step.items)
    else:
        _close_composite(turn, step, cast("ScopeState", step.inner))  # it is over, so there is one


def _failed_for_good(scope: ScopeState) -> list[StepState]:
    """A fallback that failed counts through its target."""
    return [step for step in scope.steps if step.outcome is Outcome.FAILED and step.node.fallback_for < 0]


def _close_items(turn: Turn, step: StepState, items: list[StepState]) -> None:
    failed = [item for item in items if item.status is StepStatus.FAILED]
    done = any(item.outcome is Outcome.DONE for item in items)
    if items and not failed and not done:
        turn.emit(ev.StepSkipped(path=step.path, reason="empty"))
        return
    if failed and (step.required or not done):
        paths = ", ".join(item.path for item in failed[:5]) + (" …" if len(failed) > 5 else "")
        first = failed[0].error
        failure = Failure(
            category=first.category if first else "permanent",
            code="items_failed",
            message=f"{len(failed)} of {len(items)} items failed: {paths}",
            classified=True,
        )
        fail(turn, step, failure)
        return
    turn.emit(ev.StepSucceeded(path=step.path, version=turn.state.version))


def _close_composite(turn: Turn, step: StepState, scope: ScopeState) -> None:
    failed = _failed_for_good(scope)
    if failed:
        _fail_composite(turn, step, failed)
    else:
        raw = result_bytes(turn.state, step) if step.node.tested else b""
        conclude(turn, step, raw, empty=not _did_something(scope))


def _did_something(scope: ScopeState) -> bool:
    found: ScopeState | None = scope
    while found is not None:
        if not found.replaced and any(child.outcome is Outcome.DONE for child in found.steps):
            return True
        found = found.earlier
    return False


def _fail_composite(turn: Turn, step: StepState, failed: list[StepState]) -> None:
    cause = next((child for child in failed if child.error is not None), failed[0])
    failure = Failure(
        category=cause.error.category if cause.error else "permanent",
        code="child_failed",
        message=f"{cause.path} failed" + (f": {cause.error.message}" if cause.error else ""),
        classified=True,
    )
    if may_repeat(step, failure):
        at = turn.now + int(backoff_s(step) * 1000)
        turn.emit(ev.RetryScheduled(path=step.path, attempt=step.attempt + 1, error=failure, at=at))
        return
    fail(turn, step, failure)


# --- the run


def _end_run(turn: Turn) -> None:
    state = turn.state
    steps = state.root.steps
    failed = _failed_for_good(state.root)
    if failed:
        _end_failed(turn, failed)
        return
    if not any(step.outcome is Outcome.DONE for step in steps):
        error = Failure(
            category="permanent", code="nothing_done", message="every step was skipped", classified=True
        )
        end_run(turn, RunStatus.EMPTY, error)
        return
    resolve = run_resolver(state)
    try:
        values = {name: expression.evaluate(resolve) for name, expression in state.program.outputs.items()}
        outputs = encode(values) if values else b""
        answer = state.program.answer.render(resolve) if state.program.answer is not None else None
    except BadInput as error:
        failure = Failure(
            category="invalid_input", code="outputs", message=f"outputs: {error}", classified=True
        )
        end_run(turn, RunStatus.FAILED, failure)
        return
    raw, blob = turn.store(outputs) if outputs else (ev.NONE, None)
    text = answer if answer is None or isinstance(answer, str) else encode(answer).decode()
    turn.emit(ev.RunEnded(status=RunStatus.DONE, outputs=raw, blob=blob, answer=text))


def _end_failed(turn: Turn, failed: list[StepState]) -> None:
    cause = next((step for step in failed if step.error is not None), failed[0])
    message = f"step {cause.path} failed" + (f": {cause.error.message}" if cause.error else "")
    if len(failed) > 1:
        message += f" ({len(failed)} steps failed or were skipped because of it)"
    category = cause.error.category if cause.error else "permanent"
    code = cause.error.code if cause.error else "dependency"
    failure = Failure(category=category, code=code, message=message, classified=True)
    end_run(turn, RunStatus.FAILED, failure)


def run_resolver(state: RunState) -> Callable[[str], object]:
    """How names resolve in `outputs` and `answer`."""

    def resolve(name: str) -> object:
        index = state.program.root.by_id.get(name)
        if index is not None:
            step = state.root.steps[index]
            if step.outcome is not Outcome.DONE:
                raise Absent(name, f"step {name} was {step.status}")
            return decode(result_bytes(state, step))
        match name:
            case "inputs":
                return state.inputs_value()
            case "context":
                return state.plan.context
            case "goal":
                return state.plan.goal
            case "results":
                return {
                    step.id: decode(result_bytes(state, step))
                    for step in state.root.steps
                    if step.outcome is Outcome.DONE
                }
            case _:
                raise Absent(name, "it means nothing here")

    return resolve
