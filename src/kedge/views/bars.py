"""What ran when, as bars: the facts behind the timeline and the strip under the SVG."""

from __future__ import annotations

from typing import Literal, NamedTuple

from kedge.flow.critical import critical_path
from kedge.flow.state import RunState, StepState
from kedge.flow.words import StepStatus
from kedge.views.outline import ITEMS_MAX

_S = StepStatus
What = Literal["run", "wait", "queue", "group"]
"""run: a call in flight; wait: for a time (a backoff, a delay, a sleep); queue: ready, with no place to
run in; group: something inside it."""


class Bar(NamedTuple):
    """One stretch of time."""

    start: int
    end: int
    what: What
    failed: bool = False
    """An attempt that failed."""


class Lane(NamedTuple):
    """One row: a step, an item, or (`many`) the rest of a group."""

    label: str
    depth: int
    status: StepStatus
    bars: list[Bar]
    seconds: float
    attempts: int
    critical: bool
    is_open: bool
    many: int = 0
    """How many steps the row stands for; its bars may overlap."""


def lanes(state: RunState, now_ms: int, lanes_max: int) -> list[Lane]:
    """Rows for all that ran, in the order of their starts, each under its parent; what is too much as one."""
    critical = set(critical_path(state)[1])
    found: list[Lane] = []
    rest: list[StepState] = []
    todo: list[tuple[StepState | list[StepState], int, bool]] = [
        (step, 0, step.id in critical) for step in reversed(_in_order(state.root.steps))
    ]
    while todo:
        step, depth, is_critical = todo.pop()
        if isinstance(step, list):
            found.append(_many(step, depth, now_ms, "items"))
            continue
        if len(found) >= lanes_max:
            rest.append(step)
            continue
        found.append(_lane(step, depth, now_ms, critical=is_critical))
        inside = step.items if step.items is not None else step.inner.steps if step.inner is not None else []
        children = _in_order(inside)
        if step.items is not None and len(children) > ITEMS_MAX:
            todo.append((children[ITEMS_MAX:], depth + 1, False))
            children = children[:ITEMS_MAX]
        todo += [(child, depth + 1, False) for child in reversed(children)]
    if rest:
        found.append(_many(rest, 0, now_ms, "steps"))
    return found


def _in_order(steps: list[StepState]) -> list[StepState]:
    return sorted((step for step in steps if step.started_at), key=lambda step: step.started_at)


def _lane(step: StepState, depth: int, now_ms: int, *, critical: bool) -> Lane:
    end = step.ended_at or now_ms
    name = f"{step.id}[{step.index}]" if step.index >= 0 else step.id
    seconds = max(0, end - step.started_at) / 1000
    return Lane(
        name, depth, step.status, bars(step, now_ms), seconds, step.starts, critical, not step.ended_at
    )


def _many(steps: list[StepState], depth: int, now_ms: int, what: str) -> Lane:
    running = [bar for step in steps for bar in bars(step, now_ms) if bar.what in ("run", "group")]
    span = max((b.end for b in running), default=0) - min((b.start for b in running), default=0)
    is_open = any(not step.ended_at for step in steps)
    status = _S.RUNNING if is_open else _S.DONE
    if any(step.status is _S.FAILED for step in steps):
        status = _S.FAILED
    return Lane(
        f"{len(steps):,} more {what}", depth, status, running, span / 1000, 0, False, is_open, len(steps)
    )


def bars(step: StepState, now_ms: int) -> list[Bar]:
    """One step's stretches, in order."""
    found: list[Bar] = []
    if step.ready_at and step.ready_at < step.started_at:
        found.append(Bar(step.ready_at, step.started_at, "queue"))
    end = step.ended_at or now_ms
    if step.items is not None or step.node.scope is not None:
        found.append(Bar(step.started_at, end, "group", step.status is _S.FAILED))
        return found
    if step.node.is_sleep:
        found.append(Bar(step.started_at, end, "wait"))
        return found
    at = step.started_at
    for span in step.spans or ():
        if span.start > at:
            found.append(Bar(at, span.start, "wait"))
        found.append(Bar(span.start, span.end, "run", span.outcome != "done"))
        at = span.end
    if step.attempt_at >= at:
        if step.attempt_at > at:
            found.append(Bar(at, step.attempt_at, "wait"))
        failed = step.status in (_S.FAILED, _S.IN_DOUBT, _S.CANCELLED)
        found.append(Bar(step.attempt_at, end, "run", failed))
    else:
        found.append(Bar(at, end, "queue" if step.status is _S.READY else "wait"))
    return [bar for bar in found if bar.end >= bar.start]
