"""A plan that a person approves before anything of it starts. Part of `evolve`: called from nowhere else.

Consent is for one plan, by its hash: a plan that was approved and is followed again needs no other word.
"""

from __future__ import annotations

from collections.abc import Iterable

from kedge.flow import events as ev
from kedge.flow.questions import VOID, closed
from kedge.flow.state import RunState


def want_consent(state: RunState, failures: Iterable[str] = ()) -> None:
    """The run follows another plan: where that is asked for, nothing starts before a person wants it.

    `failures`: what it tries again, or goes on without.
    """
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
    state.tried_unapproved.update(dict.fromkeys(failures))


def plan_approved(state: RunState, event: ev.PlanApproved) -> None:
    """A person wants it."""
    state.approved = event.version, state.versions[-1].id
    _unblock(state)


def settings_changed(state: RunState) -> None:
    """The run is driven otherwise: somebody has to approve its plan now, or nobody."""
    if state.settings.ask == "plan":
        want_consent(state)
    else:
        need_none(state)


def need_none(state: RunState) -> None:
    """Nobody has to approve the plan: nothing of it starts any more, or nobody is to be asked."""
    void_question(state)
    _unblock(state)


def _unblock(state: RunState) -> None:
    state.tried_unapproved.clear()
    if state.unapproved:
        state.unapproved = ""
        state.blocked_by -= 1


def void_question(state: RunState) -> None:
    """What is asked about a plan means nothing any more."""
    for id_, question in state.questions.items():
        if question.open and question.asked.reason == "plan":
            closed(state, id_, VOID, "")
