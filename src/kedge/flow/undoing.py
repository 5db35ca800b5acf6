"""Undoing what a run did: when it begins, what people may ask for, and how a run ends with it."""

from __future__ import annotations

from kedge.base.errors import NotFound, Refused
from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow.changes import Act, changed, instances, way_back
from kedge.flow.compensation import (
    is_open,
    is_there_anything,
    later_rounds,
    not_undone,
    rounds_left,
    under_way,
    users_of,
    with_users,
)
from kedge.flow.state import RunState, StepState, Undoing
from kedge.flow.turn import Turn
from kedge.flow.words import Failure, Outcome, RunStatus, StepStatus

_MEANWHILE = (cmd.Pause, cmd.Unpause, cmd.Cancel, cmd.Answer)


def end_run(turn: Turn, status: RunStatus, error: Failure | None = None) -> None:
    """The run is to end so; what it did is undone first, if that is wanted."""
    state = turn.state
    if state.undoing is not None and state.compensating:
        finish(turn, state.undoing)
        return
    wanted = state.undo_after or (status is RunStatus.FAILED and state.settings.undo == "failure")
    if wanted and is_there_anything(state, state.steps.values()):
        turn.emit(ev.CompensationStarted(status=status, error=error))
    else:
        turn.emit(ev.RunEnded(status=status, error=error))


def is_over(undoing: Undoing) -> bool:
    """Nothing is left to undo, and that is to be told, or to end the run."""
    return undoing.over and (undoing.alone or not undoing.told)


def finish(turn: Turn, undoing: Undoing) -> None:
    """Nothing more is undone: tell it, and end the run if that was all there was to do."""
    undone = sum(step.is_call for step in undoing.undone - undoing.kept)
    if not undoing.told:
        turn.emit(ev.CompensationEnded(undone=undone, left=len(not_undone(turn.state))))
    if undoing.alone:
        turn.emit(_end(undoing, undone))


def _end(undoing: Undoing, undone: int) -> ev.RunEnded:
    """A run that was done is not that any more, once something is taken back."""
    if undoing.ends.status is not RunStatus.DONE or not undone:
        return undoing.ends
    who = f" by {undoing.started.by}" if undoing.started.by else ""
    why = f": {undoing.started.reason}" if undoing.started.reason else ""
    message = f"{undone} step{'s were' if undone > 1 else ' was'} undone{who}{why}"
    failure = Failure(category="cancelled", code="compensated", message=message, classified=True)
    return ev.RunEnded(status=RunStatus.CANCELLED, error=failure)


# --- commands


def refuse_meanwhile(state: RunState, given: cmd.Order) -> None:
    """Refused, if that cannot be asked of a run that has ended, or does nothing but undo what it did."""
    if state.end is not None and not isinstance(given, cmd.Compensate):
        raise Refused(
            f"the run has ended ({state.end})", code="run_ended", where=f"run {state.run_id}",
            remedy="fork it, or start another run",
        )  # fmt: skip
    if state.compensating and not isinstance(given, _MEANWHILE):
        raise Refused(
            "the run is over, and what it did is being undone",
            code="run_ended", where=f"run {state.run_id}", allowed=["pause", "unpause", "cancel", "answer"],
        )  # fmt: skip


def refuse_redoing(state: RunState) -> None:
    """Refused, if what the run did has been undone: with the same keys it could not be done once more."""
    if any(undo.status is StepStatus.DONE for undo in state.undos.values()):
        raise Refused(
            "what it did has been undone", code="cannot_retry", where=f"run {state.run_id}",
            remedy="start another run",
        )  # fmt: skip


def compensate(state: RunState, given: cmd.Compensate) -> Act:
    """What follows from wanting a step undone, or all of a run that has ended."""
    if not given.step:
        if state.end is None:
            raise Refused(
                "the run goes on: not all that it does can be undone meanwhile",
                code="cannot_compensate", where=f"run {state.run_id}",
                remedy="name a step, or cancel the run and have it undone",
            )  # fmt: skip
        return undo(state, (), given.by, given.reason)
    if given.step not in state.steps:
        raise NotFound(
            f"run {state.run_id} has no step {given.step[:80]!r}",
            code="unknown_step", allowed=list(state.steps)[:10], remedy="name a step of the run",
        )  # fmt: skip
    return undo(state, (given.step,), given.by, given.reason)


def undo(state: RunState, paths: tuple[str, ...], by: str, reason: str) -> Act:
    """Undo these steps and what used them; without any, everything. Refused if that cannot be."""
    if state.end is None and state.undoing is not None and not state.undoing.told:
        raise _refused(state, "", "a compensation is under way", "wait until it is over")
    users = users_of(state)
    tops = [state.steps[path] for path in paths]
    wanted = with_users(tops, users) if paths else set(state.steps.values())
    if state.end is None:
        _refuse_unsettled(state, tops, wanted)
    if not any(is_open(step) or rounds_left(state, step) for step in wanted):
        raise _refused(
            state, ", ".join(paths), "nothing of it can be undone",
            "give its steps `compensate`; only what is done can be undone",
        )  # fmt: skip
    event = ev.CompensationStarted(steps=paths, by=by, reason=reason)
    return lambda turn: turn.emit(event)


def rolled_back_undone(state: RunState, given: cmd.Rollback) -> Act:
    """An earlier version again, and finished steps that it does not have are undone."""
    patch, staying = way_back(state, given.version, given.why)
    tops = [one.path for path in staying for one in instances(state, path) if one.outcome is Outcome.DONE]
    if not tops:
        return changed(state, patch, "rollback", given.by)
    undo_them = undo(state, tuple(tops), given.by, patch.why)
    if patch.is_empty:
        return undo_them
    change = changed(state, patch, "rollback", given.by)

    def act(turn: Turn) -> None:
        change(turn)
        undo_them(turn)

    return act


def _refuse_unsettled(state: RunState, tops: list[StepState], wanted: set[StepState]) -> None:
    for step in tops:
        if step.outcome is not Outcome.DONE and step.status is not StepStatus.DONE:
            raise _refused(state, step.path, f"it is {step.status}, not done", "name a step that is done")
        around = step.owner or step.scope.owner
        if around is not None and (around.outcome is not None or later_rounds(step)):
            raise _refused(
                state, step.path, f"{around.path}, which it is part of, has ended", f"undo {around.path}"
            )
    busy = sorted(step.path for step in wanted if under_way(step))
    if busy:
        raise _refused(
            state, tops[0].path, f"{', '.join(busy[:5])} used it and is under way",
            "wait for that, or cancel it with an edit that names it in `cancel`",
        )  # fmt: skip


def _refused(state: RunState, step: str, message: str, remedy: str) -> Refused:
    where = f"step {step}" if step else f"run {state.run_id}"
    return Refused(message, code="cannot_compensate", where=where, remedy=remedy)
