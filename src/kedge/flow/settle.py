"""What follows for others when a step settles. Part of `evolve`: called from nowhere else.

A step is settled when nothing about it will change any more. A failed step with a fallback is not:
its dependents wait until the pair has settled, and see the target's id with the fallback's result.
"""

from __future__ import annotations

from heapq import heapify, heappush

from kedge.flow.questions import void
from kedge.flow.repairs import release
from kedge.flow.state import RunState, StepState, Undo
from kedge.flow.unwind import settled as undo_settled
from kedge.flow.words import Outcome, StepStatus

_DONE = Outcome.DONE
_PENDING = StepStatus.PENDING
_READY = StepStatus.READY


def settle(state: RunState, step: StepState, outcome: Outcome) -> None:
    """`step` has come to an end of its own: tell its fallback, its owner and those that wait for it."""
    if step.owner is not None:
        count_settled(state, step, outcome)
        return
    node = step.node
    if node.fallback >= 0:
        fallback = step.scope.steps[node.fallback]
        if step.status is not StepStatus.FAILED:
            _dismiss(state, fallback)
        elif fallback.status is not StepStatus.SKIPPED:  # somebody may have ruled it out beforehand
            _release(state, fallback)
            return
    _conclude(state, step, outcome)
    if node.fallback_for >= 0:
        _stand_in(state, step)


def _conclude(state: RunState, step: StepState, outcome: Outcome) -> None:
    scope = step.scope
    steps = scope.steps
    step.outcome = outcome
    state.settled += 1
    done = outcome is _DONE
    for index in step.node.consumers:
        waiter = steps[index]
        waiting = waiter.waiting = waiter.waiting - 1
        if not done:
            waiter.troubled = True
        if not waiting:
            if waiter.status is _PENDING:
                unblock(state, waiter)
        elif waiter.node.join == "any" and done:
            start_early(state, waiter)
    if step.watchers is not None:
        for waiter in step.watchers:
            waiter.troubled = waiter.troubled or not done
            waiter.waiting -= 1
            if not waiter.waiting:
                if waiter.status is StepStatus.PENDING:
                    unblock(state, waiter)
            elif done and waiter.node.join == "any":
                start_early(state, waiter)
        step.watchers = None
    scope.open -= 1
    if not scope.open:
        state.closing.append(scope.owner)


def start_early(state: RunState, waiter: StepState) -> None:
    """`join: any` goes with the first success. Those not finished count as absent."""
    target = waiter.node.fallback_for
    armed = target < 0 or waiter.scope.steps[target].status is StepStatus.FAILED
    if waiter.status is StepStatus.PENDING and armed:
        waiter.missed = frozenset(name for name in waiter.node.places if waiter.needed(name).outcome is None)
        unblock(state, waiter)


def has_any(step: StepState) -> bool:
    """`join: any`, and something that it waits for is done already."""
    return step.node.join == "any" and any(step.needed(name).outcome is _DONE for name in step.node.places)


def count_settled(state: RunState, step: StepState, outcome: Outcome) -> None:
    """Settle without telling anybody but the list or scope that the step is in."""
    if isinstance(step, Undo):
        undo_settled(state, step, outcome)
        return
    step.outcome = outcome
    state.settled += 1
    owner = step.owner
    if owner is None:
        step.scope.open -= 1  # it is cancelled, and so is the run: what it is in comes to nothing more
        return
    owner.open -= 1
    if not owner.open:
        state.closing.append(owner)


def _release(state: RunState, fallback: StepState) -> None:
    """The target failed for good: its fallback may go, once its own dependencies are there."""
    fallback.waiting -= 1
    if not fallback.waiting and fallback.status is StepStatus.PENDING:
        unblock(state, fallback)
    elif has_any(fallback):
        start_early(state, fallback)


def _dismiss(state: RunState, fallback: StepState) -> None:
    """The target did not fail: its fallback is not needed, whatever else it still waits for."""
    if fallback.status is not _PENDING:
        return  # cut off by the run's end, and not taken up again yet
    fallback.reason = "not_needed"
    fallback.status = StepStatus.READY
    state.fresh.append(fallback)


def settle_failure(state: RunState, step: StepState, *, waived: bool) -> None:
    """What the failure of a held step means: that of any failure, or that the run goes on without it."""
    release(state, step)
    first = step
    while waived:
        first.waived = True
        if first.node.fallback_for < 0:
            break
        first = first.scope.steps[first.node.fallback_for]
    settle(state, step, Outcome.FAILED if step.required else Outcome.ABSENT)


def _stand_in(state: RunState, fallback: StepState) -> None:
    while fallback.node.fallback_for >= 0:  # a chain, from its last link to its first
        target = fallback.scope.steps[fallback.node.fallback_for]
        if target.status is not StepStatus.FAILED or target.outcome is not None:
            return
        if fallback.outcome is _DONE:
            target.stand_in = fallback
            outcome = _DONE
        else:
            outcome = Outcome.FAILED if target.required else Outcome.ABSENT
        _conclude(state, target, outcome)
        fallback = target


def unblock(state: RunState, step: StepState, *, again: bool = False) -> None:
    """Nothing holds the step back: a plain call goes to the heap, all else is to be looked at first."""
    step.status = _READY
    step.ready_at = state.at
    node = step.node
    plain = node.plain or ((step.owner is not None or again) and node.calls)
    if plain and (again or not step.troubled):
        order = state.order = state.order + 1
        heappush(state.ready, (node.rank, order, step))
    else:
        state.fresh.append(step)


def is_movable(step: StepState) -> bool:
    """It has not begun: what it waits for can still be another thing."""
    if step.owner is not None or step.inner is not None or step.items is not None:
        return False
    asks = step.status is StepStatus.WAITING and step.awaits in ("approval", "input")
    return asks or (step.status in (_PENDING, _READY) and step.reason != "not_needed")


def hold_back(state: RunState, steps: list[StepState]) -> None:
    """The opposite of unblocking: what was about to start, to be looked at or approved, is not any more."""
    for step in steps:
        if step.awaits in ("approval", "input"):
            void(state, step.path)
            step.awaits = ""
            step.wake_at = 0
        step.attempt = 0  # one that was interrupted is looked at again: its condition may be another one now
    off = {step for step in steps if step.status is _READY}
    if not off:
        return
    state.ready = [entry for entry in state.ready if entry[2] not in off]
    heapify(state.ready)
    state.undecided_ready = [entry for entry in state.undecided_ready if entry[2] not in off]
    state.undecided_fresh = [step for step in state.undecided_fresh if step not in off]
    for name, heap in list(state.parked.items()):
        kept = [entry for entry in heap if entry[2] not in off]
        heapify(kept)
        state.parked[name] = kept
        if not kept:
            del state.parked[name]
    for _ in range(len(state.fresh)):
        step = state.fresh.popleft()
        if step not in off:
            state.fresh.append(step)
