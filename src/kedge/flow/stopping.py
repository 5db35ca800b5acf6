"""Nothing of the plan begins any more. Part of `evolve`: called from nowhere else."""

from __future__ import annotations

from kedge.flow import decisions, repairs
from kedge.flow.questions import void_all
from kedge.flow.state import RunState, StepState
from kedge.flow.transitions import SETTLED
from kedge.flow.words import Outcome, StepStatus


def stop_all(state: RunState) -> None:
    """What has not settled is cut off, but for what is in doubt."""
    repairs.run_ended(state)
    decisions.run_ended(state)
    state.fresh.clear()
    state.timers.clear()
    state.listeners.clear()
    state.heard.clear()
    state.listening = 0
    void_all(state)
    state.parked.clear()
    state.ready.clear()
    state.closing.clear()
    if state.settled < state.total:
        for step in state.steps.values():
            step.watchers = None
            if step.outcome is None and not _in_doubt(step):
                _cut_off(state, step)
    for undo in state.undos.values():
        if undo.outcome is None and undo.status is not StepStatus.IN_DOUBT:
            undo.status, undo.outcome = StepStatus.CANCELLED, Outcome.CANCELLED


def _in_doubt(step: StepState) -> bool:
    """It is, or it failed and a fallback that is decides what it comes to."""
    while step.status is StepStatus.FAILED and step.node.fallback >= 0 and step.owner is None:
        step = step.scope.steps[step.node.fallback]
    return step.status is StepStatus.IN_DOUBT


def _cut_off(state: RunState, step: StepState) -> None:
    """The run ended before the step did; one that failed was waiting for its fallback."""
    state.settled += 1
    if step.owner is None:
        step.scope.open -= 1
    else:
        step.owner.open -= 1
    if step.status in SETTLED:
        step.outcome = Outcome.FAILED
        return
    step.status = StepStatus.CANCELLED
    step.outcome = Outcome.CANCELLED
    step.ended_at = state.at
    step.ended_seq = state.seq
