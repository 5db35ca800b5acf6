"""A compensation, step by step. Part of `evolve`: called from nowhere else.

Steps are counted backwards: each waits for those that used it, and for its turn in what it is part of.
One that did nothing that is to be undone has its turn and is over at once. So work is in proportion to
the run when a compensation begins, and to the calls made after that.
"""

from __future__ import annotations

from heapq import heappush
from typing import cast

from kedge.flow.compensation import Users, is_open, later_rounds, rounds_inside, rounds_left, stays
from kedge.flow.state import RunState, StepState, Undo, Undoing, undo_path
from kedge.flow.words import Outcome, StepStatus


def unwind(state: RunState, undoing: Undoing, wanted: list[StepState], users: Users) -> None:
    """Begin with those that nothing used."""
    _count(undoing, wanted, users)
    _go(state, undoing, [step for step in reversed(wanted) if not undoing.waits[step]])


def _count(undoing: Undoing, wanted: list[StepState], users: Users) -> None:
    """Each waits for those that used it or what it is part of, and for its turn in that if that is wanted."""
    members = set(wanted)
    undoing.open = len(members)
    undoing.over = not members
    for step in wanted:
        before = list(users.get(step, ()))
        part, around = step, step.owner or step.scope.owner
        inside_of = around in members
        while around is not None and around not in members:
            before += later_rounds(part)
            before += users.get(around, ())
            part, around = around, around.owner or around.scope.owner
        undoing.waits[step] = len(before) + inside_of
        for one in before:
            undoing.frees.setdefault(one, []).append(step)


def _go(state: RunState, undoing: Undoing, free: list[StepState]) -> None:
    """Let those have their turn whose users are undone, and those that are free by that."""
    while free:
        step = free.pop()
        if step.items or step.inner is not None:
            undoing.turns[step] = rounds_inside(step)
            free += _next_turn(state, undoing, step)
        elif not _begin(state, undoing, step):
            free += _over(state, undoing, step)


def _next_turn(state: RunState, undoing: Undoing, step: StepState) -> list[StepState]:
    """The items of a foreach step, or the last round of a composite, or the one before."""
    turns = undoing.turns[step]
    if not turns:
        return _over(state, undoing, step)
    turn = turns.pop()
    undoing.left[step] = len(turn)
    return _counted_down(undoing, turn)


def _counted_down(undoing: Undoing, steps: list[StepState]) -> list[StepState]:
    """One thing less for them to wait for; those that wait for nothing more."""
    for step in steps:
        undoing.waits[step] -= 1
    return [step for step in steps if not undoing.waits[step]]


def _over(state: RunState, undoing: Undoing, step: StepState) -> list[StepState]:
    """Nothing is left to undo of the step: what it used is free, and what it is part of may be over."""
    if step in undoing.undone and step not in undoing.kept:
        _mark(state, step)
    undoing.open -= 1
    undoing.over = not undoing.open
    free = _counted_down(undoing, undoing.frees.get(step, []))
    around = step.owner or step.scope.owner
    if around is None or around not in undoing.left:
        return free
    for marks in (undoing.undone, undoing.kept):
        if step in marks:
            marks.add(around)
    undoing.left[around] -= 1
    return free if undoing.left[around] else free + _next_turn(state, undoing, around)


def _mark(state: RunState, step: StepState) -> None:
    """All that it did is undone."""
    if step.status is StepStatus.DONE:
        step.status = StepStatus.COMPENSATED
        step.outcome = Outcome.ABSENT
        state.done -= 1


# --- calls


def _begin(state: RunState, undoing: Undoing, step: StepState) -> bool:
    """Begin to undo one call; False if there is nothing to do, or nothing more."""
    if stays(step):
        undoing.kept.add(step)
        return False
    if is_open(step):
        undoing.doubts.add(step)
        return True
    undoing.rounds[step] = rounds_left(state, step)
    return _begin_round(state, undoing, step)


def _begin_round(state: RunState, undoing: Undoing, step: StepState) -> bool:
    rounds = undoing.rounds[step]
    if not rounds or step.node.undo is None:
        return False
    last = rounds.pop()
    path = undo_path(step, last)
    undo = state.undos.get(path)
    if undo is None:
        undo = state.undos[path] = Undo(step, step.node.undo, last)
    if undo.status is not StepStatus.IN_DOUBT:  # then somebody is asked
        _make_ready(state, undo)
    return True


def _make_ready(state: RunState, undo: Undo) -> None:
    undo.status = StepStatus.READY
    undo.outcome = undo.error = undo.given = None
    undo.attempt = undo.wake_at = undo.ended_at = undo.ended_seq = 0
    undo.awaits = undo.approved = ""
    undo.ready_at = state.at
    order = state.order = state.order + 1
    heappush(state.ready, (undo.node.rank, order, undo))


def settled(state: RunState, undo: Undo, outcome: Outcome) -> None:
    """A call that was to undo something is over, well or not."""
    undo.outcome = outcome
    undoing, step = cast("Undoing", state.undoing), undo.target  # there is no such call without one
    done = undo.status is StepStatus.DONE
    if done:
        state.done -= 1  # it was counted like a step
    if step not in undoing.rounds:  # it was in doubt since an earlier one, and has not had its turn in this
        _settled_early(state, undoing, undo)
        return
    (undoing.undone if done else undoing.kept).add(step)
    if not _begin_round(state, undoing, step):
        _go(state, undoing, _over(state, undoing, step))


def _settled_early(state: RunState, undoing: Undoing, undo: Undo) -> None:
    step = undo.target
    if undo.status is StepStatus.DONE:
        undoing.undone.add(step)
        if step not in undoing.waits and not rounds_left(state, step):
            _mark(state, step)


def doubt_settled(state: RunState, step: StepState, *, done: bool) -> None:
    """It is known by now whether the step did something."""
    undoing = state.undoing
    if undoing is None or step not in undoing.doubts:
        return
    undoing.doubts.discard(step)
    undoing.rounds[step] = rounds_left(state, step, done=done)
    if not _begin_round(state, undoing, step):
        _go(state, undoing, _over(state, undoing, step))
