"""What a finished attempt comes to: its own test, its loop, and then done, another round, or failed."""

from __future__ import annotations

from kedge.base.errors import BadInput
from kedge.flow import events as ev
from kedge.flow.failing import fail
from kedge.flow.judging import found_wanting
from kedge.flow.names import bytes_of, resolver
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.flow.words import INLINE_BYTES, Failure
from kedge.plan.expr import evaluate_condition
from kedge.plan.parts import Loop


def conclude(turn: Turn, step: StepState, raw: bytes, *, empty: bool = False) -> None:
    """`step` came back with `raw`: decide what that means for the step.

    `empty`: it is a composite in which nothing was done, in this round or any before.
    """
    node = step.node
    loop = node.step.loop
    failure = found_wanting(turn, step, raw) if not empty else None
    if failure is not None:
        fail(turn, step, failure, raw)
        return
    if empty and (loop is None or step.iteration + 1 >= loop.times):
        turn.emit(ev.StepSkipped(path=step.path, reason="empty"))
        return
    if loop is not None:
        try:
            again = _another_round(turn.state, step, loop, raw)
        except BadInput as error:
            text = f"until: {error}"
            failure = Failure(category="invalid_input", code=error.code, message=text, classified=True)
            fail(turn, step, failure, raw)
            return
        if again is None:
            text = f"`until` was not met after {loop.times} rounds"
            failure = Failure(category="permanent", code="until_not_met", message=text, classified=True)
            fail(turn, step, failure, raw)
            return
        if again:
            value, blob = turn.store(raw)
            next_at = turn.now + int(loop.delay_s * 1000)
            turn.emit(
                ev.RoundEnded(
                    path=step.path, iteration=step.iteration, result=value, blob=blob, next_at=next_at
                )
            )
            if turn.state.compensating:  # it was in doubt, and what is known of it now is to be undone
                turn.emit(ev.StepCancelled(path=step.path))
            return
        if loop.collect == "all":
            rounds = [bytes_of(turn.state, value) for value in step.rounds or ()]
            raw = b"[" + b",".join([*rounds, raw]) + b"]"
    succeed(turn, step, raw)


def succeed(turn: Turn, step: StepState, raw: bytes) -> None:
    """The step is done. Composites keep no result of their own unless a loop made one."""
    version = turn.state.version
    if (step.node.scope is not None or step.items is not None) and step.node.step.loop is None:
        turn.emit(ev.StepSucceeded(path=step.path, version=version))
    elif len(raw) <= INLINE_BYTES:
        turn.emit(ev.StepSucceeded(path=step.path, result=ev.Raw(raw), version=version))
    else:
        _, blob = turn.store(raw)
        turn.emit(ev.StepSucceeded(path=step.path, blob=blob, version=version))


def _another_round(state: RunState, step: StepState, loop: Loop, raw: bytes) -> bool | None:
    """True: another round. False: enough. None: the rounds are used up and `until` was never met."""
    until = step.node.until
    last = step.iteration + 1 >= loop.times
    if until is None:
        return not last
    if evaluate_condition(until, resolver(state, step, previous=raw)):
        return False
    return None if last else True
