"""Exit codes: part of the interface, so in one table."""

from __future__ import annotations

from kedge import (
    BadInput,
    NotOwner,
    Refused,
    RunConflict,
    RunStatus,
    StoreError,
)

DONE = 0
FAILED = 1
BAD_INPUT = 2
WAITS = 3
CANCELLED = 4
STORE = 5
INTERRUPTED = 130
"""128 + SIGINT, as shells have it; SIGTERM gives 143."""

OF_STATUS: dict[RunStatus, int] = {
    RunStatus.DONE: DONE,
    RunStatus.FAILED: FAILED,
    RunStatus.EMPTY: FAILED,
    RunStatus.CANCELLED: CANCELLED,
    RunStatus.WAITING: WAITS,
    RunStatus.PAUSED: WAITS,
    RunStatus.RUNNING: FAILED,  # it stopped being driven before it could end
    RunStatus.CANCELLING: FAILED,
    RunStatus.COMPENSATING: FAILED,
}


def of_error(error: BaseException) -> int:
    """The exit code for an error that reached the top."""
    if isinstance(error, BadInput | Refused):
        return BAD_INPUT
    return STORE if isinstance(error, StoreError | NotOwner | RunConflict) else FAILED
