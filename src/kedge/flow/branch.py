"""A run that branched off another one. Part of `evolve`: called from nowhere else.

Its log begins with the other's events, so its state up to there is the other's. What differs from then
on is its id, and with it the key of every call: nothing that it does is taken for what the other did.
"""

from __future__ import annotations

from kedge.flow import events as ev
from kedge.flow.consent import settings_changed
from kedge.flow.reopen import reopen, take_back_end
from kedge.flow.settle import settle, unblock
from kedge.flow.state import RunState, StepState
from kedge.flow.words import Outcome, RunStatus, StepStatus


def forked(state: RunState, event: ev.Forked) -> None:
    """The run goes its own way: nothing is in flight here, and it is not at an end."""
    state.forked_from = event.run, event.seq
    state.commands.clear()  # their keys were given to the other run
    if event.settings is not None:
        state.settings = event.settings
        settings_changed(state)
    if event.anew:
        state.kept.clear()
        state.kept_for.clear()
    state.look_at_calls()
    state.undo_after = False
    for step in list(state.steps.values()):
        if step.status is StepStatus.DONE or step.rounds:
            state.borrowed[step.path] = None
        if step.outcome is None:
            step.approved, step.given = "", None  # that was for the other run's call
        if step.status is StepStatus.RUNNING and step.is_call:
            _forget_call(state, step)
    if state.end is RunStatus.DONE:
        take_back_end(state)  # what failed in it was no harm to it
        state.closing.append(None)
    elif state.end is not None:
        reopen(state)
    state.paused = False


def _forget_call(state: RunState, step: StepState) -> None:
    """It is the other run's, and so is its time. What it may have done was told before this run began."""
    state.running -= 1
    if not step.spans:
        step.started_at = 0
    if step.unwanted:
        step.status = StepStatus.CANCELLED
        step.ended_at = state.at
        step.ended_seq = state.seq
        settle(state, step, Outcome.ABSENT)
    else:
        step.attempt_at = state.at
        unblock(state, step, again=True)


def result_kept(state: RunState, event: ev.ResultKept) -> None:
    """A result is at hand for the same call."""
    state.kept[event.source] = event
    state.kept_for.setdefault(same_call(event), []).append(event.source)
    state.look_at_calls()


def take_kept(state: RunState, source: str) -> None:
    """Each result stands for one call."""
    kept = state.kept.pop(source)
    state.kept_for[same_call(kept)].remove(source)
    state.look_at_calls()


def same_call(kept: ev.ResultKept) -> tuple[str, str, str]:
    """What makes a call the same as this one."""
    return kept.tool, kept.definition, kept.args_hash
