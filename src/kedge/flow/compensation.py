"""What there is to undo of a run, in which order, and what has become of that. Looks and changes nothing.

A step is undone before those that it used: what waited for a result goes first. So the order is that of
the plan, reversed; a composite is undone through its children, the last round of a loop first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kedge.flow.state import RunState, StepState, Undo, undo_path
from kedge.flow.words import Outcome, StepStatus

Users = dict[StepState, list[StepState]]

TAKEN_BACK = "compensated"
"""Reason of finished steps that later ones are not to read any more."""


def used(step: StepState) -> Iterator[StepState]:
    """Those that a step waited for, with what could have stood in for them."""
    for name in step.node.places:
        found = step.needed(name)
        yield found
        yield from _fallbacks(found)
    if step.node.fallback_for >= 0:
        yield step.scope.steps[step.node.fallback_for]


def _fallbacks(step: StepState) -> Iterator[StepState]:
    steps = step.scope.steps
    while 0 <= step.node.fallback < len(steps):  # one may have come to the plan after this round
        step = steps[step.node.fallback]
        yield step


def users_of(state: RunState) -> Users:
    """For each step, those that used it. Items use nothing: their foreach step does."""
    found: Users = {}
    for step in state.steps.values():
        if step.owner is None:
            for one in used(step):
                found.setdefault(one, []).append(step)
    return found


def rounds_inside(step: StepState) -> list[list[StepState]]:
    """The steps right inside a composite, for each round that counts, or the items of a foreach step."""
    if step.items is not None:
        return [step.items] if step.items else []
    found: list[list[StepState]] = []
    scope = step.inner
    while scope is not None:
        if scope.steps and not scope.replaced:
            found.append(scope.steps)
        scope = scope.earlier
    return found[::-1]


def later_rounds(step: StepState) -> list[StepState]:
    """The steps of the rounds that came after the one that the step is part of."""
    found: list[StepState] = []
    scope = step.scope.owner.inner if step.scope.owner is not None else None
    while scope is not None and scope is not step.scope:
        if not scope.replaced:
            found += scope.steps
        scope = scope.earlier
    return found


def with_users(tops: Iterable[StepState], users: Users) -> set[StepState]:
    """The steps, all inside them, and all that used them, directly or not."""
    todo = list(tops)
    found: set[StepState] = set()
    while todo:
        step = todo.pop()
        if step in found:
            continue
        found.add(step)
        for inside in rounds_inside(step):
            todo += inside
        around: StepState | None = step
        while around is not None:
            todo += users.get(around, ())
            todo += later_rounds(around)
            around = around.owner or around.scope.owner
        if (
            step.node.fallback_for >= 0
            and (target := step.scope.steps[step.node.fallback_for]).stand_in is step
        ):
            todo.append(target)  # it has this one's result
    return found


# --- one step


def rounds_done(step: StepState, *, done: bool = False) -> list[int]:
    """Rounds of a call that had their effect, the last one last; -1 where there is no loop.

    `done`: the call that is in doubt was made.
    """
    if not step.is_call:
        return []
    ended = done or step.status is StepStatus.DONE
    if step.node.step.loop is None:
        return [-1] if ended else []
    before = len(step.rounds or ())
    return list(range(before + 1 if ended else before))


def rounds_left(state: RunState, step: StepState, *, done: bool = False) -> list[int]:
    """Those of them that are not undone yet."""
    if step.node.undo is None or step.path in state.borrowed:
        return []
    unfit = step.status is StepStatus.FAILED and step.path in state.unfit
    return [one for one in rounds_done(step, done=done or unfit) if not _is_undone(state, step, one)]


def _is_undone(state: RunState, step: StepState, round_: int) -> bool:
    undo = state.undos.get(undo_path(step, round_))
    return undo is not None and undo.status is StepStatus.DONE


def stays(state: RunState, step: StepState) -> bool:
    """It had effects, and nothing undoes them here."""
    kept = step.node.undo is None or step.path in state.borrowed
    return kept and step.node.effect in ("idempotent", "effect") and bool(rounds_done(step))


def may_be_undone_twice(state: RunState, step: StepState) -> bool:
    """It is there to be undone, by a call that nobody makes twice unasked."""
    undo = step.node.undo
    return undo is not None and undo.effect == "effect" and bool(rounds_left(state, step))


def is_open(step: StepState) -> bool:
    """Nobody knows whether it did what something undoes."""
    return step.status is StepStatus.IN_DOUBT and step.node.undo is not None


def is_there_anything(state: RunState, wanted: Iterable[StepState]) -> bool:
    """Something to undo, or to tell that it cannot be."""
    return any(is_open(step) or stays(state, step) or rounds_left(state, step) for step in wanted)


def under_way(step: StepState) -> bool:
    """It has begun and not ended, or nobody knows whether it has, or it failed and may be tried again."""
    if step.outcome is not None:
        return False
    waits = step.status is StepStatus.WAITING and step.awaits != "approval"
    return waits or step.held or step.status in (StepStatus.RUNNING, StepStatus.IN_DOUBT)


# --- what became of it


def undone(state: RunState) -> list[str]:
    """Paths of the steps of which every effect is undone, as they were undone."""
    calls: dict[StepState, list[Undo]] = {}
    for undo in sorted(state.undos.values(), key=_ended):
        calls.setdefault(undo.target, []).append(undo)
    return [
        step.path
        for step, undos in calls.items()
        if all(undo.status is StepStatus.DONE for undo in undos) and not rounds_left(state, step)
    ]


def _ended(undo: Undo) -> int:
    return undo.ended_seq


def not_undone(state: RunState) -> dict[str, str]:
    """Paths of the steps that were to be undone and are not, and why."""
    undoing = state.undoing
    if undoing is None:
        return {}
    wanted = state.steps.values() if undoing.wanted is None else undoing.wanted
    found: dict[str, str] = {}
    for step in sorted(wanted, key=lambda one: one.path):
        why = _why_not(state, step)
        if why:
            found[step.path] = why
    return found


def _why_not(state: RunState, step: StepState) -> str:
    if stays(state, step):
        if state.forked_from is not None and step.path in state.borrowed:
            return f"run {state.forked_from[0]} did it"
        return f"nothing undoes {step.node.step.tool}"
    if step.status is StepStatus.IN_DOUBT:
        undoes = "there is anything to undo" if is_open(step) else f"{step.node.step.tool} had its effect"
        return f"nobody knows whether {undoes}"
    left = rounds_left(state, step)
    undos = [undo for one in left if (undo := state.undos.get(undo_path(step, one))) is not None]
    for undo in undos:
        if undo.status is StepStatus.FAILED and undo.error is not None:
            return f"{undo.node.step.tool} failed: {undo.error.message}"
        if undo.status is StepStatus.IN_DOUBT:
            return f"nobody knows whether {undo.node.step.tool} had its effect"
    if not left:
        return ""
    return "it is to be undone" if state.end is None else "the compensation was stopped before"


def has_result(step: StepState) -> bool:
    """It came to a result, taken back since or not."""
    return step.outcome is Outcome.DONE or step.status is StepStatus.COMPENSATED or step.reason == TAKEN_BACK
