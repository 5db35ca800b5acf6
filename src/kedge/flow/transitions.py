"""Theory of operation: which event may find a step in which status, and where it leads.

    pending ──> ready ──> running ──> done            A step becomes `ready` by what settles before it,
       │          │        │  │  └──> failed          never by an event of its own; every other move is
       │          │        │  └─────> in_doubt        in the table below.
       │          │        └────────> cancelled
       └──────────┴─────────────────> skipped         `waiting` is between two attempts or rounds, and
                                                      all there is to a sleep.

The table is the whole truth: `evolve` moves a step nowhere else, the picture in the docs is drawn
from it, and an event that finds a step in a status not listed is our bug, not a user's.
"""

from __future__ import annotations

from kedge.base.errors import InternalError
from kedge.flow.events import (
    Event,
    ResultReused,
    RetryScheduled,
    RoundEnded,
    StepCancelled,
    StepExpanded,
    StepFailed,
    StepInDoubt,
    StepInterrupted,
    StepSkipped,
    StepStarted,
    StepSucceeded,
    StepWaiting,
)
from kedge.flow.words import StepStatus

_S = StepStatus

TABLE: dict[type[Event], dict[StepStatus, StepStatus]] = {
    StepStarted: {_S.READY: _S.RUNNING, _S.WAITING: _S.RUNNING},
    ResultReused: {_S.READY: _S.RUNNING, _S.WAITING: _S.RUNNING},  # no call: its success follows at once
    StepExpanded: {_S.READY: _S.RUNNING},
    StepSucceeded: {_S.RUNNING: _S.DONE, _S.WAITING: _S.DONE, _S.IN_DOUBT: _S.DONE},
    RoundEnded: {_S.RUNNING: _S.WAITING, _S.WAITING: _S.WAITING, _S.IN_DOUBT: _S.WAITING},
    # From ready: its arguments could not be made. From waiting: a sleep that is past its limit.
    StepFailed: {
        _S.RUNNING: _S.FAILED,
        _S.READY: _S.FAILED,
        _S.WAITING: _S.FAILED,
        _S.IN_DOUBT: _S.FAILED,
    },
    RetryScheduled: {_S.RUNNING: _S.WAITING, _S.IN_DOUBT: _S.WAITING},
    StepWaiting: {_S.READY: _S.WAITING, _S.WAITING: _S.WAITING},
    StepSkipped: {
        _S.READY: _S.SKIPPED,
        _S.PENDING: _S.SKIPPED,
        _S.RUNNING: _S.SKIPPED,
        _S.WAITING: _S.SKIPPED,
    },
    StepCancelled: {_S.RUNNING: _S.CANCELLED, _S.WAITING: _S.CANCELLED},
    StepInDoubt: {_S.RUNNING: _S.IN_DOUBT},
    StepInterrupted: {_S.RUNNING: _S.READY},
}

SETTLED = frozenset({_S.DONE, _S.FAILED, _S.SKIPPED, _S.CANCELLED, _S.COMPENSATED})
"""Statuses a step does not leave by itself."""


def illegal(path: str, status: StepStatus, event: Event) -> InternalError:
    """The error for an event that the table does not know."""
    allowed = ", ".join(sorted(TABLE[type(event)]))
    return InternalError(
        f"step {path} is {status} and cannot take {type(event).__name__} (it may from: {allowed})"
    )
