"""Taking up a run that had ended: what failed, and what came to nothing because of it, is to be done again.

Part of `evolve`: called from nowhere else. What is done stays done. Composites and foreach steps are
started again like all others, and then go on with those of their children that are not done.
"""

from __future__ import annotations

from kedge.flow.consent import want_consent
from kedge.flow.repairs import release
from kedge.flow.scopes import add_missing, let_go, recount, unwatch
from kedge.flow.settle import hold_back, is_movable
from kedge.flow.state import RunState, ScopeState, Span, StepState
from kedge.flow.undone import give_up
from kedge.flow.words import Outcome, StepStatus


def reopen(state: RunState) -> None:
    """Take back the end, and all that came to nothing."""
    take_back_end(state)
    _reopen_scope(state, state.root)


def take_back_end(state: RunState) -> None:
    """The run goes on, with its steps as they are."""
    state.end = None
    state.error = None
    state.cancelling = state.undo_after = False
    state.stopped_by = ""
    give_up(state)
    state.fingerprints.clear()  # somebody wants it tried again
    state.needs.clear()
    state.idle_ms += state.at - state.ended_at
    state.ended_at = 0
    if not state.unapproved:  # undoing needed nobody's consent to the plan; going on does
        want_consent(state)


def reopen_step(state: RunState, step: StepState) -> None:
    """In a run that goes on, a failed step is tried again, with those that were skipped because of it."""
    if step.held:  # nobody was told that it failed
        _try_again(state, step)
        return
    release(state, step)
    again: list[StepState] = []
    _take_back(state, step, again)
    for one in again:  # grows
        if one.owner is None:
            for index in one.node.consumers:
                waiter = one.scope.steps[index]
                if waiter.reason in ("dependency", "absent") and waiter.node.fallback_for < 0:
                    _take_back(state, waiter, again)
    taken = set(again)
    waiting = [
        one for one in state.steps.values() if is_movable(one) and one not in taken and _needs(one, taken)
    ]
    hold_back(state, waiting)
    for one in waiting:
        unwatch(one)
        one.status = StepStatus.PENDING
    for one in (*again, *waiting):
        if one.owner is None:
            recount(one)
    for one in (*again, *waiting):
        _go_on(state, one)


def _try_again(state: RunState, step: StepState) -> None:
    release(state, step)
    _reset(state, step)
    unwatch(step)
    recount(step)
    _go_on(state, step)


def _needs(step: StepState, taken: set[StepState]) -> bool:
    return any(step.needed(name) in taken for name in step.node.places)


def _reopen_scope(state: RunState, scope: ScopeState) -> None:
    again = add_missing(state, scope)
    for step in scope.steps[: len(scope.steps) - len(again)]:
        if step.node.fallback_for >= 0:
            continue  # goes with its target
        doubt = _doubt_in_chain(step)
        if doubt is not None:
            _await(state, step, doubt, again)
        elif step.outcome is None:
            _rearm(state, step, again)
        elif _is_to_do(step) or _lost_outer(step):
            _take_back(state, step, again)
    for step in again:  # grows: what had nothing to go on may have it now
        for index in step.node.consumers:
            waiter = scope.steps[index]
            if waiter.reason == "absent":
                _take_back(state, waiter, again)
    for step in again:
        recount(step)
    for step in again:
        _go_on(state, step)
    if not scope.open:
        state.closing.append(scope.owner)


def _is_to_do(step: StepState) -> bool:
    if step.outcome is None or step.outcome is Outcome.DONE:
        return False  # in doubt, or done by its fallback
    if step.status in (StepStatus.FAILED, StepStatus.CANCELLED) or step.reason == "dependency":
        return True
    if step.reason != "empty":
        return False
    if step.items is not None:
        return any(_is_to_do(item) for item in step.items)
    return step.inner is not None and any(_is_to_do(child) for child in step.inner.steps)


def _lost_outer(step: StepState) -> bool:
    """It had nothing to go on, and an outer step is done again."""
    return step.reason == "absent" and any(step.needed(name).outcome is None for name in step.node.places)


def _doubt_in_chain(step: StepState) -> StepState | None:
    """The step or the fallback of it that is in doubt."""
    while step.node.fallback >= 0 or step.node.fallback_for >= 0:
        if _holds_doubt(step):
            return step
        if step.node.fallback < 0:
            break
        step = step.scope.steps[step.node.fallback]
    return None


def _holds_doubt(step: StepState) -> bool:
    inside = step.items or (step.inner.steps if step.inner is not None else ())
    return step.status is StepStatus.IN_DOUBT or any(_holds_doubt(one) for one in inside)


def _await(state: RunState, step: StepState, doubt: StepState, again: list[StepState]) -> None:
    """Those before the doubt have failed and wait for it, those after it have not been tried."""
    steps = step.scope.steps
    while step is not doubt:
        if step.outcome is not None:
            _unsettle(state, step)
        step = steps[step.node.fallback]
    if doubt.outcome is not None:
        _take_back(state, doubt, again)
    elif doubt.node.fallback >= 0:
        _take_back(state, steps[doubt.node.fallback], again)


def _rearm(state: RunState, step: StepState, again: list[StepState]) -> None:
    """The step is under way: its doubt was settled before its composite was taken up."""
    while step.outcome is None and step.node.fallback >= 0:
        step = step.scope.steps[step.node.fallback]
    _take_back(state, step, again)


def _take_back(state: RunState, step: StepState, again: list[StepState]) -> None:
    """The step and its chain of fallbacks are as if they had never been tried."""
    while step.outcome is not None:
        _reset(state, step)
        again.append(step)
        if step.owner is not None or step.node.fallback < 0:
            return
        step = step.scope.steps[step.node.fallback]


def _unsettle(state: RunState, step: StepState) -> None:
    state.settled -= 1
    if step.owner is None:
        step.scope.open += 1
    else:
        step.owner.open += 1
    step.outcome = None


def _reset(state: RunState, step: StepState) -> None:
    if step.outcome is not None:
        _unsettle(state, step)
    state.forget_quality(step.path)
    step.held = step.waived = False
    step.approved, step.given = "", None
    if step.attempt_at:
        _keep_last(step)
    step.status = StepStatus.PENDING
    step.stand_in = None
    step.error = None
    step.reason = ""
    step.because = ()
    step.attempt = 0
    step.attempt_at = 0
    step.ended_at = 0
    step.ended_seq = 0


def _keep_last(step: StepState) -> None:
    """The attempt that the step ended with, or only its end, if it was waiting for another one."""
    spans = step.spans = step.spans or []
    start = step.attempt_at if not spans or step.attempt_at >= spans[-1].end else step.ended_at
    span = Span(start, step.ended_at, step.attempt, step.iteration, step.status.value)
    span.final = True
    spans.append(span)


def _go_on(state: RunState, step: StepState) -> None:
    if step.inner is None:
        step.wake_at = 0  # one that waited to begin another attempt or round is to begin that
    let_go(state, step)


def go_on_inside(state: RunState, step: StepState) -> None:
    """A composite or foreach step is taken up where it was."""
    if step.inner is not None:
        _reopen_scope(state, step.inner)
        return
    again: list[StepState] = []
    for item in step.items or ():
        if _is_to_do(item):
            _take_back(state, item, again)
    for item in again:
        _go_on(state, item)
    if not step.open:
        state.closing.append(step)
