"""How well each finished step did: told from the state on demand, so that no step pays an event for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

import msgspec

from kedge.base.codec import decode
from kedge.flow.judging import form_quality
from kedge.flow.names import bytes_of
from kedge.flow.state import RunState, StepState
from kedge.flow.stretches import worked_ms
from kedge.flow.suggestions import Suggestion, Work, suggested, unread, useful_first
from kedge.flow.usage import Told, Usage
from kedge.flow.words import StepStatus
from kedge.plan.estimates import NO_ESTIMATE, estimate_of

FINISHED = frozenset({StepStatus.DONE, StepStatus.FAILED, StepStatus.COMPENSATED})
"""What was skipped or cancelled did nothing that could be good or bad."""
_BEYOND_REPAIR = frozenset({"cancelled", "in_doubt", "permission"})
"""Failures that another plan does not help against: somebody has to look, or to allow it."""


class Feedback(msgspec.Struct, frozen=True, kw_only=True):
    """How well one step did."""

    path: str
    """The step."""
    quality: float
    """0 to 1. By the step's `quality`; else 1, or 0 if it failed or its tool promised another form."""
    threshold: float
    """The least that is good enough: its `quality_min`, else the run's `quality_threshold`."""
    ok: bool
    """It is done, and good enough."""
    attempts: int
    """Calls that were made for it."""
    seconds: float
    """What its calls took, waits between them left out."""
    estimated_s: float | None
    """What one call for each of its rounds should have taken; None: nobody said."""
    usage: Usage
    """What its calls used, as far as anybody told."""
    estimated_cost: float | None
    """For one call of each round."""
    estimated_tokens: int | None
    """For one call of each round."""
    repairable: bool
    """It is not good, and another plan could help."""
    suggestions: tuple[Suggestion, ...]
    """What could be better, most useful first; also if it went well."""
    at: datetime | None
    """When it ended."""


class Feedbacks(Mapping[str, Feedback]):
    """Of the steps that are finished, by path."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._unread: tuple[int, frozenset[str]] = (0, frozenset())
        """Of a version of the plan: to ask for one step after the other must not look at all each time."""

    def __getitem__(self, path: str) -> Feedback:
        step = self._state.steps[path]
        if step.status not in FINISHED:
            raise KeyError(path)
        return _feedback(_work(self._state, step, unread=self._is_unread(step)))

    def _is_unread(self, step: StepState) -> bool:
        state = self._state
        if self._unread[0] != state.version:
            self._unread = state.version, unread(state.program)
        return step.scope is state.root and step.id in self._unread[1]

    def __iter__(self) -> Iterator[str]:
        return (path for path, step in self._state.steps.items() if step.status in FINISHED)

    def __len__(self) -> int:
        return sum(step.status in FINISHED for step in self._state.steps.values())


def _feedback(work: Work) -> Feedback:
    step = work.step
    failed = step.status is StepStatus.FAILED
    ok = not failed and work.quality >= work.threshold
    category = step.error.category if failed and step.error is not None else ""
    return Feedback(
        path=step.path,
        quality=work.quality,
        threshold=work.threshold,
        ok=ok,
        attempts=step.starts,
        seconds=work.seconds,
        estimated_s=work.estimated_s,
        usage=work.usage,
        estimated_cost=work.estimated_cost,
        estimated_tokens=work.estimated_tokens,
        repairable=not ok and category not in _BEYOND_REPAIR,
        suggestions=tuple(useful_first(suggested(work))),
        at=datetime.fromtimestamp(step.ended_at / 1000, UTC) if step.ended_at else None,
    )


def _work(state: RunState, step: StepState, *, unread: bool) -> Work:
    least, rounds = step.node.step.quality_min, step.iteration + 1
    # What is said of one call is said of a foreach step's items, not of all of them together.
    estimate = estimate_of(step.node.step) if step.items is None else NO_ESTIMATE
    cost, tokens = estimate.cost, estimate.tokens
    return Work(
        state=state,
        step=step,
        quality=_quality(state, step),
        threshold=state.settings.quality_threshold if least is None else least,
        seconds=worked_ms(step, state.at) / 1000,
        estimated_s=None if estimate.seconds is None else estimate.seconds * rounds,
        usage=state.told.get(step.path, Told()).usage,
        estimated_cost=None if cost is None else cost * rounds,
        estimated_tokens=None if tokens is None else tokens * rounds,
        unread=unread,
    )


def _quality(state: RunState, step: StepState) -> float:
    told = state.told.get(step.path)
    said = told.quality if told is not None and step.node.quality is not None else None
    if step.status is StepStatus.FAILED:
        low = step.error is not None and step.error.code == "quality_low"
        return said if low and said is not None else 0.0
    if said is not None:
        return said
    if step.items is not None:
        each = [_quality(state, item) for item in step.items if item.status in FINISHED]
        return sum(each) / len(each) if each else 1.0
    return _form_quality(state, step)


def _form_quality(state: RunState, step: StepState) -> float:
    spec, loop = step.node.spec, step.node.step.loop
    if spec is None or spec.returns is None or step.result is None:
        return 1.0
    raw = bytes_of(state, step.result)
    if loop is None or loop.collect == "last":
        return form_quality(step.node, decode(raw))
    return min((form_quality(step.node, value) for value in decode(raw)), default=1.0)
