"""What follows from a run's branching off another: the events with which it goes its own way."""

from __future__ import annotations

from kedge.flow import events as ev
from kedge.flow import inputs as inp
from kedge.flow.changes import changed
from kedge.flow.plan_question import own_change
from kedge.flow.turn import Turn
from kedge.flow.words import RunStatus, StepStatus

TAKEN = (ev.SignalTaken, ev.ResultReused)
"""What is taken is used in one piece: a fork between the two would lose it, so it is after both."""


def branch_off(turn: Turn, given: inp.Branched) -> None:
    """From here on the run is not the other one."""
    state = turn.state
    if state.end is None and (state.cancelling or state.stopped_by):
        _bring_to_end(turn)  # what came to nothing by it can only be taken up again as a whole
    turn.emit(ev.Forked(run=given.run, seq=given.seq, by=given.by, settings=given.settings, anew=given.anew))
    for one in given.kept:
        turn.emit(one)


def _bring_to_end(turn: Turn) -> None:
    if not turn.state.cancelling:
        turn.emit(ev.RunCancelling(reason="it was to stop, and a fork goes on"))
    for step in list(turn.state.steps.values()):
        if step.status is StepStatus.RUNNING and step.is_call:
            turn.emit(ev.StepCancelled(path=step.path))
    turn.emit(ev.RunEnded(status=RunStatus.CANCELLED))


def edit(turn: Turn, given: inp.Branched) -> None:
    """The plan is to be another one; InvalidPlan or Refused if it may not be."""
    if given.patch is not None:
        own_change(turn, changed(turn.state, given.patch, "fork", given.by), given.by)
