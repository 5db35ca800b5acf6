"""The words of a run: statuses, outcomes, failures."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

import msgspec

from kedge.base.errors import Category


class StepStatus(StrEnum):
    """Where one step stands. Published: every surface shows these words."""

    PENDING = "pending"
    """Something it needs is not there yet."""
    READY = "ready"
    """It could start now; a limit or its turn is what it waits for."""
    WAITING = "waiting"
    """For a time: a backoff, a delay, a sleep."""
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    CANCELLED = "cancelled"
    IN_DOUBT = "in_doubt"
    """It may or may not have had its effect: a probe, a late result or a person decides."""
    COMPENSATED = "compensated"
    """Done, and undone again."""


class RunStatus(StrEnum):
    """Where a run stands. Published: every surface shows these words."""

    RUNNING = "running"
    WAITING = "waiting"
    """Only a person or a signal can move it."""
    PAUSED = "paused"
    CANCELLING = "cancelling"
    COMPENSATING = "compensating"
    """All that is left to do is to undo what it did."""
    DONE = "done"
    FAILED = "failed"
    EMPTY = "empty"
    """Nothing failed, and nothing was done: not a success."""
    CANCELLED = "cancelled"


ENDED = frozenset({RunStatus.DONE, RunStatus.FAILED, RunStatus.EMPTY, RunStatus.CANCELLED})


class Outcome(StrEnum):
    """What a settled step means for those that depend on it, its fallback counted in."""

    DONE = "done"
    ABSENT = "absent"
    """No result and no harm: skipped by a condition, or failed and optional."""
    FAILED = "failed"
    CANCELLED = "cancelled"


class Failure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why an attempt or a step failed."""

    category: Category
    """What follows from it; [all categories](errors.md#failure-categories)."""
    code: str
    """What it was, for programs."""
    message: str
    """What it was, for people."""
    classified: bool = False
    """The tool itself said what went wrong, so the failure is known, not in doubt."""
    not_done: bool = False
    """Nothing happened outside: the call was never made, or the tool says so."""
    retry_after_s: float | None = None
    """When the other side wants to be asked again."""
    remedy: str = ""
    """What to do next."""
    trace: str = ""
    """Where in the tool it was raised, shortened."""
    try_args: dict[str, Any] = {}
    """Arguments with which the tool says that it may work, beside the others of the call."""
    at_most: dict[str, int] = {}
    """Of list arguments, how many items the tool says that it takes at once."""


class Blob(msgspec.Struct, frozen=True):
    """A value too large to keep in the state: its bytes are stored under their SHA-256."""

    sha: str
    size: int


INLINE_BYTES = 16 * 1024
"""Values up to this size are kept in the state and in events; larger ones are blobs."""
