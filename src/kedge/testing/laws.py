"""What holds of a run's state after every event, whatever the plan and whatever happened.

`check_laws` recounts what `evolve` keeps up to date by adding and subtracting, and says which law is
broken. `picture` writes a state down so that two can be compared: one that was driven, and one that
was folded from the log of the first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kedge.flow.compensation import TAKEN_BACK, rounds_left, users_of
from kedge.flow.events import AnyEvent, QuestionAsked, StepExpanded, StepInterrupted, StepStarted, StepWaiting
from kedge.flow.repairs import is_mended
from kedge.flow.state import RunState, ScopeState, StepState, Undo
from kedge.flow.words import Outcome, StepStatus

_SETTLED_AS = {
    StepStatus.DONE: {Outcome.DONE, Outcome.ABSENT},  # absent: taken back, and not undone yet or not at all
    StepStatus.COMPENSATED: {Outcome.ABSENT},
    StepStatus.SKIPPED: {Outcome.ABSENT, Outcome.FAILED},
    StepStatus.CANCELLED: {Outcome.CANCELLED, Outcome.ABSENT},  # absent: stopped because the plan changed
    StepStatus.FAILED: {None, Outcome.FAILED, Outcome.ABSENT, Outcome.DONE},  # None: its fallback is on
}


def check_laws(state: RunState) -> None:
    """AssertionError with the broken law, if one is."""
    steps = state.steps
    calls = (*steps.values(), *state.undos.values())
    _same("running", state.running, sum(s.status is StepStatus.RUNNING and s.is_call for s in calls))
    _same("total", state.total, len(steps))
    _same("settled", state.settled, sum(s.outcome is not None for s in steps.values()))
    _same("done", state.done, sum(s.status is StepStatus.DONE for s in steps.values()))
    open_ones = [q for q in state.questions.values() if q.open]
    _same("open questions", state.open_questions, len(open_ones))
    _same(
        "blocked by",
        state.blocked_by,
        sum(not q.asked.path and not q.asked.input for q in open_ones) + bool(state.unapproved),
    )
    _same(
        "asked about",
        state.asked_about,
        {q.asked.path: id_ for id_, q in state.questions.items() if q.open and q.asked.path},
    )
    for path, step in steps.items():
        _same("path", path, step.path)
        allowed = _SETTLED_AS.get(step.status, {None})
        if step.outcome not in allowed:
            raise AssertionError(f"{path} is {step.status} and counts as {step.outcome}")
        if step.status is StepStatus.DONE and step.outcome is Outcome.ABSENT and step.reason != TAKEN_BACK:
            raise AssertionError(f"{path} is done and counts as absent")
    _check_undos(state)
    listening = [s for s in steps.values() if s.status is StepStatus.WAITING and s.awaits == "signal"]
    _same("listening", state.listening, len(listening))
    for scope in _live_scopes(state.root):
        _check_scope(state, scope)
    if state.end is not None:
        open_ones = {StepStatus.IN_DOUBT, StepStatus.FAILED}  # failed, and its fallback is in doubt
        left = [s.path for s in steps.values() if s.outcome is None and s.status not in open_ones]
        if left:
            raise AssertionError(f"the run has ended ({state.end}) and these have not: {left}")


def check_moves(state: RunState) -> None:
    """AssertionError if something stands still and nobody will ever move it. Holds after each turn."""
    asked = [q.asked.path for q in state.questions.values() if q.open and q.asked.reason == "in_doubt"]
    calls = (*state.steps.values(), *state.undos.values())
    in_doubt = [s.path for s in calls if s.status is StepStatus.IN_DOUBT]
    _same("in doubt", sorted(asked), sorted(in_doubt))
    waits = [s.path for s in calls if s.status is StepStatus.WAITING and s.awaits == "approval"]
    approvals = [q.asked.path for q in state.questions.values() if q.open and q.asked.reason == "approval"]
    _same("to be approved", sorted(approvals), sorted(waits))
    held = [s.path for s in state.steps.values() if s.held and s.outcome is None]
    failed = [q.asked.path for q in state.questions.values() if q.open and q.asked.reason == "failed"]
    mended = {path for path in held if is_mended(state, state.steps[path])}
    decided = {path for path in held if path in state.deciding}
    _same("held", sorted(held), sorted(mended | decided | set(failed)))
    _same("held twice", set[str](), mended.intersection(failed))
    open_points = [*state.points, *(state.decision.points if state.decision is not None else ())]
    if not {point.path for point in open_points} <= state.deciding.keys():
        raise AssertionError(f"of {open_points} some are not waited for: {list(state.deciding)}")
    if state.decision is not None or (state.end is None and state.mends and state.repair is None):
        waits = state.is_undoing and not state.points  # no plan is mended meanwhile
        if state.decision is None and not (state.paused or state.blocked_by or state.cancelling or waits):
            raise AssertionError("somebody is to be asked, and is not")
        return
    if state.end is not None or state.paused or state.open_questions or state.running:
        return
    if state.repair is not None and state.repair.asked:
        return
    waiting = [s.path for s in calls if s.status is StepStatus.WAITING]
    if not waiting and not state.parked:
        raise AssertionError(f"nothing moves and nobody is asked: {_unsettled(state)}")


def _check_undos(state: RunState) -> None:
    """A step is undone before what it used, and nothing is undone that was not done."""
    undoing = state.undoing
    in_frontier, timed = set(frontier(state)), {step.path for _, _, step in state.timers}
    for path, undo in state.undos.items():
        _same("path", path, undo.path)
        if undo.status is StepStatus.READY and state.end is None and path not in in_frontier:
            raise AssertionError(f"{path} is ready and will never be started")
        if undo.status is StepStatus.WAITING and undo.wake_at and path not in in_frontier | timed:
            raise AssertionError(f"{path} waits for no time")
    if undoing is None or undoing.told:
        return
    _same("over", undoing.over, not undoing.open)
    if undoing.over:
        return
    under_way = [u for u in state.undos.values() if u.outcome is None]
    if not under_way and not undoing.doubts and state.end is None:
        raise AssertionError("the compensation is not over, and nothing of it is under way")


def check_undone_before_used(state: RunState, undo: Undo) -> None:
    """AssertionError if a step is about to be undone of which something that used it is not."""
    alone = state.undoing is not None and state.undoing.alone
    for step in users_of(state).get(undo.target, ()):
        began_later = not alone and step.reason != TAKEN_BACK  # so it did not use it
        if rounds_left(state, step) and not _gave_up(state, step) and not began_later:
            raise AssertionError(f"{undo.path} begins before {step.path} is undone, which used it")


def _gave_up(state: RunState, step: StepState) -> bool:
    undos = [undo for undo in state.undos.values() if undo.target is step]
    return any(undo.status is StepStatus.FAILED for undo in undos)


def _unsettled(state: RunState) -> str:
    return ", ".join(f"{s.path} {s.status}" for s in state.steps.values() if s.outcome is None)


def _same(what: str, kept: object, counted: object) -> None:
    if kept != counted:
        raise AssertionError(f"{what}: kept {kept!r}, counted {counted!r}")


def _live_scopes(scope: ScopeState) -> Iterator[ScopeState]:
    todo = [scope]
    while todo:
        scope = todo.pop()
        yield scope
        for step in scope.steps:
            inners = [item.inner for item in step.items or ()] if step.items is not None else [step.inner]
            todo.extend(inner for inner in inners if inner is not None)


def _check_scope(state: RunState, scope: ScopeState) -> None:
    in_frontier, timed = set(frontier(state)), {step.path for _, _, step in state.timers}
    _same(f"open in {scope.prefix!r}", scope.open, sum(step.outcome is None for step in scope.steps))
    for step in scope.steps:
        if state.steps.get(step.path) is not step:
            raise AssertionError(f"{step.path} is not the step of that path")
        if step.items is not None:
            _same(f"open in {step.path}", step.open, sum(item.outcome is None for item in step.items))
        for one in (step, *(step.items or ())):
            if one.status is StepStatus.READY and one.path not in in_frontier:
                raise AssertionError(f"{one.path} is ready and will never be looked at")
            if one.status is StepStatus.WAITING and one.awaits == "signal":
                if one not in state.listeners.get(one.signal, ()):
                    raise AssertionError(f"{one.path} will never hear {one.signal!r}")
            elif one.status is StepStatus.WAITING and one.awaits in ("approval", "input"):
                continue  # `check_moves` looks whether somebody is asked
            elif one.status is StepStatus.WAITING and one.path not in in_frontier | timed:
                raise AssertionError(f"{one.path} waits for no time")
        if step.status is StepStatus.PENDING and not state.cancelling:  # then nobody is told any more
            _same(f"waiting of {step.path}", step.waiting, _count_waiting(step))
            if not step.waiting:
                raise AssertionError(f"{step.path} waits for nothing and is not ready")


def _count_waiting(step: StepState) -> int:
    waiting = sum(step.needed(name).outcome is None for name in step.node.places)
    target = step.node.fallback_for
    return waiting + (target >= 0 and step.scope.steps[target].status is not StepStatus.FAILED)


def frontier(state: RunState) -> list[str]:
    """Paths of the steps that are to be looked at or to be started."""
    steps = [*state.fresh, *(entry[2] for entry in state.ready)]
    steps += [entry[2] for heap in state.parked.values() for entry in heap]
    steps += [*state.undecided_fresh, *(entry[2] for entry in state.undecided_ready)]
    return sorted({s.path for s in steps if s.status in (StepStatus.READY, StepStatus.WAITING)})


def picture(state: RunState, now_ms: int) -> dict[str, Any]:
    """The whole state as plain data.

    Left out is what is no part of the fold: the order among equals, and whether the scheduler has
    looked at a step that it could not start yet.
    """
    seen = [] if state.ending else state.closing  # then nobody looks at them any more
    closing = {owner.path if owner else "" for owner in seen if state.is_over(owner)}
    own = (
        "at seq version started_at ended_at idle_ms end error outputs answer paused cancelling stopped_by "
        "extended doubted open_questions blocked_by listening running calls retries total settled done "
        "retired discoveries status undo_after unfit forked_from borrowed kept asks approved unapproved "
        "tried_unapproved "
        "missing end_waits inputs troubles unmended repairs repair fingerprints needs guarded decides points "
        "deciding decision decisions messages notes positions"
    )
    return {
        "run": {name: getattr(state, name) for name in own.split()},
        "questions": {
            id_: (q.asked, q.asked_at, q.answer, q.answered_at, q.by) for id_, q in state.questions.items()
        },
        "root": _picture_scope(state.root),
        "undos": {path: _picture_step(undo, now_ms) for path, undo in state.undos.items()},
        "undoing": _picture_undoing(state),
        "signals": {name: list(kept) for name, kept in state.signals.items()},
        "commands": dict(state.commands),
        "told": {path: (told.quality, told.usage) for path, told in state.told.items()},
        "usage": state.usage,
        "versions": [(one.number, one.id, one.cause, one.by, one.why) for one in state.versions],
        "steps": {path: _picture_step(step, now_ms) for path, step in state.steps.items()},
        "closing": sorted(closing),
        "to_start": sorted(
            step.path
            for step in state.steps.values()
            if step.status is StepStatus.READY
            or (step.status is StepStatus.WAITING and step.wake_at <= now_ms)
        ),
    }


def _picture_scope(scope: ScopeState | None) -> Any:
    if scope is None:
        return None
    earlier = scope.earlier.prefix if scope.earlier else ""
    return (
        scope.prefix,
        scope.open,
        earlier,
        scope.replaced,
        scope.waited_ms,
        [step.path for step in scope.steps],
    )


def _picture_undoing(state: RunState) -> Any:
    undoing = state.undoing
    if undoing is None:
        return None
    return (
        undoing.started, undoing.alone, undoing.over, undoing.told, undoing.ends, undoing.open,
        {step.path: count for step, count in undoing.waits.items()},
        {step.path: rounds for step, rounds in undoing.rounds.items()},
        sorted(step.path for step in undoing.doubts),
        sorted(step.path for step in undoing.undone),
        sorted(step.path for step in undoing.kept),
    )  # fmt: skip


def _picture_step(step: StepState, now_ms: int) -> dict[str, Any]:
    own = (
        "path status outcome starts attempt iteration generation result error reason because ready_at "
        "started_at attempt_at ended_at ended_seq index items_value open rounds troubled missed unwanted "
        "waived held approved given waiting"
    )
    found = {name: getattr(step, name) for name in own.split()}
    found["wake_at"] = step.wake_at if step.wake_at > now_ms else 0
    found["awaits"] = (step.awaits, step.signal) if step.status is StepStatus.WAITING else ""
    found["stand_in"] = step.stand_in.path if step.stand_in else ""
    found["owner"] = step.owner.path if step.owner else ""
    found["items"] = None if step.items is None else [item.path for item in step.items]
    found["inner"] = _picture_scope(step.inner)
    found["spans"] = [(s.start, s.end, s.attempt, s.iteration, s.outcome, s.final) for s in step.spans or ()]
    found["watchers"] = [watcher.path for watcher in step.watchers or ()]
    return found


def check_event(state: RunState, event: AnyEvent) -> None:
    """AssertionError if this event must not happen to a run that stands so."""
    path = getattr(event, "path", "")
    undo = state.undos.get(path)
    if undo is not None and isinstance(event, StepStarted):
        check_undone_before_used(state, undo)
    step = state.steps.get(path) or undo
    if step is None:
        return
    if isinstance(event, QuestionAsked) and (id_ := state.asked_about.get(path)) is not None:
        before = state.questions[id_].asked
        if (before.reason, before.binding) == (event.reason, event.binding):
            raise AssertionError(f"{path}: the same is asked again while {id_} is open")
    if isinstance(event, StepInterrupted) and step.node.effect == "effect":
        raise AssertionError(f"{path} may have had its effect, and would be run again")
    if isinstance(event, StepStarted | StepExpanded | StepWaiting) and step.owner is None:
        needs = [step.needed(name) for name in step.node.places]
        if step.node.join == "any" and any(need.outcome is Outcome.DONE for need in needs):
            return
        early = [need.path for need in needs if need.outcome is None]
        if early and not step.starts:
            raise AssertionError(f"{path} begins before these have settled: {early}")
        target = step.node.fallback_for
        if target >= 0 and step.scope.steps[target].status is not StepStatus.FAILED:
            raise AssertionError(f"{path} is not needed")
