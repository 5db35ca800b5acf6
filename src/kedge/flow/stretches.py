"""What a step did when: its attempts, and its waits before and between them.

What pictures show and what accounts add up is the same, so both begin here.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from kedge.flow.state import Span, StepState
from kedge.flow.words import StepStatus

What = Literal["run", "wait", "queue", "group"]
"""run: a call in flight; wait: for a time (a backoff, a delay, a sleep); queue: ready, with no place to
run in; group: something inside it."""

_ENDINGS = {
    "done": StepStatus.DONE,
    "interrupted": StepStatus.CANCELLED,
    "cancelled": StepStatus.CANCELLED,
    "in_doubt": StepStatus.IN_DOUBT,
}


class Stretch(NamedTuple):
    """One stretch of a step's time."""

    start: int
    end: int
    what: What
    status: StepStatus
    """How an attempt or round ended; of all else, and of the attempt under way, the step's own."""


def stretches(step: StepState, now_ms: int) -> list[Stretch]:
    """One step's stretches, in order. What is not over yet is taken to last until `now_ms`.

    The time after the end of a run that was taken up again is no stretch: nothing was going on.
    """
    if not step.started_at:
        return []
    status = step.status
    found: list[Stretch] = []
    if step.ready_at and step.ready_at < step.started_at:
        found.append(Stretch(step.ready_at, step.started_at, "queue", status))
    what: What = "group" if step.items is not None or step.node.scope is not None else "run"
    if not step.node.calls and step.node.scope is None:
        what = "wait"
    at, last = step.started_at, None
    for span in step.spans or ():
        if last is None or not last.final:
            found.append(Stretch(at, span.start, _between(last), status))
        found.append(Stretch(span.start, span.end, what, ending(span)))
        at, last = span.end, span
    found += _current(step, what, at, last, now_ms)
    return [one for one in found if one.end > one.start or one.what in ("run", "group")]


def _between(last: Span | None) -> What:
    """What an attempt is waited for after `last`."""
    return "queue" if last is not None and (last.final or last.outcome == "interrupted") else "wait"


def _current(step: StepState, what: What, at: int, last: Span | None, now_ms: int) -> list[Stretch]:
    """After the spans: the attempt under way, or the one that was the last, and the wait before it."""
    status = step.status
    end = step.ended_at or now_ms
    if last is not None and last.final:
        at = max(at, step.ready_at)
    between = status is StepStatus.READY or (status is StepStatus.WAITING and step.node.calls)
    if step.attempt_at >= at and not between:
        return [
            Stretch(at, step.attempt_at, _between(last), status),
            Stretch(step.attempt_at, end, what, status),
        ]
    if status is StepStatus.READY:
        return [Stretch(at, end, "queue", status)]
    return [] if last is not None and last.final else [Stretch(at, end, "wait", status)]


def ending(span: Span) -> StepStatus:
    """How an attempt or round ended."""
    return _ENDINGS.get(span.outcome, StepStatus.FAILED)


def spent_ms(step: StepState, now_ms: int) -> int:
    """Time of its attempts and of the waits between them."""
    if not step.started_at:
        return 0
    if step.spans is None:
        return max(0, (step.ended_at or now_ms) - step.started_at)
    return sum(one.end - one.start for one in stretches(step, now_ms) if one.what != "queue")


def worked_ms(step: StepState, now_ms: int) -> int:
    """Time of its attempts alone; of a sleep or wait, all of it."""
    if step.spans is None and step.attempt_at:
        return max(0, (step.ended_at or now_ms) - step.attempt_at)
    work = ("run", "group") if step.node.calls or step.node.scope is not None else ("wait",)
    return sum(one.end - one.start for one in stretches(step, now_ms) if one.what in work)
