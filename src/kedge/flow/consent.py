"""A plan that a person approves before anything of it starts. Part of `evolve`: called from nowhere else.

Consent is for one plan, by its hash: a plan that was approved and is followed again needs no other word.
"""

from __future__ import annotations

from kedge.flow import events as ev
from kedge.flow.questions import VOID, closed
from kedge.flow.state import RunState


def want_consent(state: RunState) -> None:
    """The run follows another plan: where that is asked for, nothing starts before a person wants it."""
    if state.settings.ask != "plan":
        return
    void_question(state)
    followed = state.versions[-1].id
    if state.approved is not None and state.approved[1] == followed:
        _unblock(state)
        return
    if not state.unapproved:
        state.blocked_by += 1
    state.unapproved = followed


def plan_approved(state: RunState, event: ev.PlanApproved) -> None:
    """A person wants it."""
    state.approved = event.version, state.versions[-1].id
    _unblock(state)


def settings_changed(state: RunState) -> None:
    """The run is driven otherwise: somebody has to approve its plan now, or nobody."""
    if state.settings.ask == "plan":
        want_consent(state)
    else:
        void_question(state)
        _unblock(state)


def nothing_follows(state: RunState) -> None:
    """Nothing of the plan begins any more: nobody need want it."""
    void_question(state)
    _unblock(state)


def _unblock(state: RunState) -> None:
    if state.unapproved:
        state.unapproved = ""
        state.blocked_by -= 1


def void_question(state: RunState) -> None:
    """What is asked about a plan means nothing any more."""
    for id_, question in state.questions.items():
        if question.open and question.asked.reason == "plan":
            closed(state, id_, VOID, "")
