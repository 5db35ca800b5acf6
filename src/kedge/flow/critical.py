"""The critical path of a run: the chain of work that its end had to wait for.

Walked backwards from what ended last, each time to that one of the things it waited for which came
last. So it follows what really happened: through composites and items, from a round or attempt to the
one before, to a fallback that stood in, and past a composite that began early to the step outside that
one of its children waited for. Delays, backoffs and sleeps count, since the end waited for them too;
waiting for a place to run in does not: that is what more room would save.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from kedge.flow.state import RunState, ScopeState, StepState
from kedge.flow.stretches import spent_ms


class CriticalPath(NamedTuple):
    """The path, and how long it took."""

    seconds: float
    steps: list[StepState]
    """Calls and sleeps, first to last."""

    @property
    def top(self) -> list[str]:
        """The steps of the plan's first level that it leads through, first to last."""
        return list(dict.fromkeys(around(step)[-1].id for step in self.steps))


class _Link(NamedTuple):
    step: StepState
    waited_ms: int = 0
    """The delay or backoff between it and what waited for it."""


def critical_path(state: RunState) -> CriticalPath:
    """The path as far as the run has come."""
    worked = [_Link(step) for step in state.steps.values() if step.started_at and _is_leaf(step)]
    link = max(worked, key=_last_first_begun, default=None)
    total_ms = 0
    steps: list[StepState] = []
    while link is not None:
        steps.append(link.step)
        link_before = max(_waited_for(link.step), key=_last, default=None)
        total_ms += spent_ms(link.step, state.at)
        if link_before is not None:
            total_ms += link_before.waited_ms
        link = link_before
    return CriticalPath(total_ms / 1000, steps[::-1])


def around(step: StepState) -> list[StepState]:
    """The step and all that holds it, outward."""
    found = [step]
    while True:
        owner = step.owner if step.owner is not None else step.scope.owner
        if owner is None:
            return found
        found.append(owner)
        step = owner


def _is_leaf(step: StepState) -> bool:
    return step.node.scope is None and step.items is None


def _last(link: _Link) -> float:
    return link.step.ended_seq or inf


def _last_first_begun(link: _Link) -> tuple[float, int]:
    """Of those that have not ended, the one that has been under way for longest."""
    return _last(link), -link.step.started_at


def _waited_for(step: StepState) -> Iterator[_Link]:
    """What the start depended on: names, a target's failure, the round before; and its composite's own."""
    inside: StepState | None = step
    while inside is not None:
        node = inside.node
        for name in node.places:
            if inside.missed is None or name not in inside.missed:
                dep = inside.needed(name)
                while dep.stand_in is not None:
                    dep = dep.stand_in
                yield from _last_leaf(dep)
        if node.fallback_for >= 0:
            yield from _last_leaf(inside.scope.steps[node.fallback_for])  # its failure, not who stood in
        yield from _before(inside.scope)
        inside = inside.scope.owner


def _before(scope: ScopeState) -> Iterator[_Link]:
    """What came last in the round or attempt before; in one before that, where nothing was done in it."""
    waited_ms = 0
    while scope.earlier is not None:
        waited_ms += scope.waited_ms
        scope = scope.earlier
        for link in _last_of(scope.steps):
            yield _Link(link.step, waited_ms + link.waited_ms)
            return


def _last_leaf(step: StepState) -> Iterator[_Link]:
    """The work inside `step` that ended last."""
    if step.items is not None:
        yield from _last_of(step.items)
    elif step.inner is None:
        if step.started_at:
            yield _Link(step)
    else:
        found = list(_last_of(step.inner.steps))
        yield from found or _before(step.inner)


def _last_of(steps: list[StepState]) -> Iterator[_Link]:
    worked = [step for step in steps if step.started_at]
    if worked:
        yield from _last_leaf(max(worked, key=_ended))


def _ended(step: StepState) -> float:
    return step.ended_seq or inf
