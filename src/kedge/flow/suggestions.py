"""What could be better the next time: one rule for each thing that a run tells about its plan.

A rule says something only where somebody could do something about it, and says what. Weights are
from 0 to 1: what would have failed a run comes before what would have saved a second of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgspec

from kedge.flow.program import Node, Program
from kedge.flow.state import RunState, StepState
from kedge.flow.usage import Usage
from kedge.flow.words import StepStatus
from kedge.plan.model import Step

_PASSING = frozenset({"transient", "timeout", "rate_limited"})
_SLOW, _QUICK = 2.0, 0.25
"""So many times its estimate is worth telling, for time; below 0.1 s it is not."""
_NOTABLE_S = 0.1
_DEARER = 1.5
_NEAR_TIMEOUT, _FAR_FROM_TIMEOUT = 0.8, 0.05
_LONG_TIMEOUT_S = 10.0
_MANY_ATTEMPTS = 3
_ITEM = re.compile(r"\[\d+\]|#\d+")


class Suggestion(msgspec.Struct, frozen=True):
    """One thing that could be better, and how."""

    path: str
    """The step."""
    code: str
    """Which rule says so."""
    text: str
    """What was seen, and what to do."""
    weight: float
    """How useful it is, from 0 to 1."""


class Work(NamedTuple):
    """What a step did, against what was expected of it."""

    state: RunState
    step: StepState
    quality: float
    threshold: float
    seconds: float
    estimated_s: float | None
    usage: Usage
    estimated_cost: float | None
    estimated_tokens: int | None
    unread: bool
    """Nothing uses what it gives."""

    @property
    def plan_step(self) -> Step:
        return self.step.node.step

    @property
    def done(self) -> bool:
        return self.step.status is not StepStatus.FAILED

    @property
    def last_s(self) -> float:
        """Its last call."""
        return (self.step.ended_at - self.step.attempt_at) / 1000 if self.step.attempt_at else 0.0


def suggested(work: Work) -> Iterator[Suggestion]:
    """All that there is to say about one step."""
    for rule in _RULES:
        found = rule(work)
        if found is not None:
            code, weight, text = found
            yield Suggestion(work.step.path, code, text, weight)


def useful_first(found: Iterable[Suggestion]) -> list[Suggestion]:
    """The most useful first; what holds of many items or rounds is said once, of the first of them."""
    kept: dict[tuple[str, str], list[Suggestion]] = {}
    for one in found:
        kept.setdefault((_ITEM.sub("", one.path), one.code), []).append(one)
    told = [_told_once(many) for many in kept.values()]
    return sorted(told, key=lambda one: -one.weight)


def _told_once(many: list[Suggestion]) -> Suggestion:
    first = many[0]
    if len(many) == 1:
        return first
    return msgspec.structs.replace(first, text=f"{first.text} (and {len(many) - 1:,} more like it)")


_Found = tuple[str, float, str] | None


def _failed(work: Work) -> _Found:
    error = work.step.error
    inside = work.step.node.scope is not None or work.step.items is not None  # what failed there says more
    if work.done or error is None or inside or work.step.stand_in is not None:
        return None
    if error.category in _PASSING and work.step.attempt == 1 and work.step.node.effect != "effect":
        return "no_retry", 1.0, f"it failed for what may pass ({error.category}): set retry.attempts to 3"
    if error.code == "quality_low":
        text = f"quality {work.quality:.2g} is under quality_min: give it a fallback, or better input"
        return "poor", 1.0, text
    do = error.remedy or "give it a fallback, or on_error: continue if the run can do without"
    return "failed", 1.0, f"it failed ({error.code}): {do}"


def _poor(work: Work) -> _Found:
    if not work.done or work.quality >= work.threshold:
        return None
    text = (
        f"its quality {work.quality:.2g} is under {work.threshold:.2g}, and nothing failed: set quality_min"
    )
    return "low_quality", 0.9, text


def _late_success(work: Work) -> _Found:
    attempt, most = work.step.attempt, work.step.node.retry.attempts
    if not work.done or attempt < 2 or (attempt < most and attempt < _MANY_ATTEMPTS):
        return None
    what = "raise retry.attempts" if attempt >= most else "raise retry.backoff_s"
    return "late_success", 0.7, f"it succeeded only at attempt {attempt} of {most}: {what}"


def _replaced(work: Work) -> _Found:
    instead = work.step.stand_in
    if instead is None:
        return None
    return "replaced", 0.6, f"{instead.id} did its work: make that the step if this goes on failing"


def _near_timeout(work: Work) -> _Found:
    timeout_s = _timeout_s(work)
    if not work.done or timeout_s is None or work.last_s < _NEAR_TIMEOUT * timeout_s:
        return None
    return "near_timeout", 0.8, f"it took {_share(work.last_s / timeout_s)} of its timeout_s: raise it"


def _far_from_timeout(work: Work) -> _Found:
    timeout_s = work.plan_step.timeout_s
    if not work.done or not work.step.is_call or timeout_s is None or timeout_s < _LONG_TIMEOUT_S:
        return None
    share = work.last_s / timeout_s
    if share > _FAR_FROM_TIMEOUT:
        return None
    text = f"it took {_share(share)} of its timeout_s: a shorter one tells of a hang sooner"
    return "far_from_timeout", 0.1, text


def _timeout_s(work: Work) -> float | None:
    spec = work.step.node.spec
    if not work.step.is_call:
        return None
    return work.plan_step.timeout_s or (spec.timeout_s if spec is not None else None)


def _slow(work: Work) -> _Found:
    expected = work.estimated_s
    if not work.done or not expected or work.seconds - expected < _NOTABLE_S:
        return None
    times = work.seconds / expected
    if times < _SLOW:
        return None
    return "slow", 0.5, f"it took {times:.2g}x its estimate: set estimate.seconds to {_once(work):.2g}"


def _quick(work: Work) -> _Found:
    expected = work.estimated_s
    if not work.done or not expected or work.step.node.is_sleep or expected - work.seconds < _NOTABLE_S:
        return None
    if work.seconds > _QUICK * expected:
        return None
    share = _share(work.seconds / expected)
    return "quick", 0.2, f"it took {share} of its estimate: set estimate.seconds to {_once(work):.2g}"


def _once(work: Work) -> float:
    return work.seconds / (work.step.iteration + 1)


def _dear(work: Work) -> _Found:
    used = work.usage
    if work.estimated_cost is not None and used.cost > work.estimated_cost * _DEARER:
        return "dear", 0.6, f"it cost {used.cost:,.4g}, and {work.estimated_cost:,.4g} were expected"
    if work.estimated_tokens is not None and used.tokens > work.estimated_tokens * _DEARER:
        return "dear", 0.6, f"it used {used.tokens:,} tokens, and {work.estimated_tokens:,} were expected"
    return None


def _unread(work: Work) -> _Found:
    if not work.done or not work.unread or work.step.owner is not None:
        return None
    return "unread", 0.3, "nothing reads its result, and it changes nothing: remove it, or use what it gives"


def unread(program: Program) -> frozenset[str]:
    """Steps of the plan of which nobody uses what they give, where giving that is all that they do."""
    read: set[str] = set()
    for node in program.nodes:
        read.update(node.reads())
        if "results" in read:
            read.update(node.places)
            read.discard("results")
    for template in (*program.outputs.values(), program.answer):
        read.update(template.names if template is not None else ())
    nodes = () if "results" in read else program.root.nodes
    return frozenset(node.id for node in nodes if node.id not in read and _only_gives(program, node))


def _only_gives(program: Program, node: Node) -> bool:
    step = node.step
    is_test = step.expect is not None or step.quality is not None or step.output is not None
    is_given = not program.outputs and not node.consumers  # a run without `outputs` gives what ends it
    needed = is_test or is_given or node.fallback_for >= 0
    return node.calls and node.effect in ("pure", "read") and not needed


def _share(part: float) -> str:
    return f"{part * 100:.0f} %"


_RULES = (
    _failed, _poor, _near_timeout, _late_success, _replaced, _dear, _slow, _unread, _quick, _far_from_timeout,
)  # fmt: skip
