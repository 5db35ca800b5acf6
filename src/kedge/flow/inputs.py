"""What can come into a run from outside. Inputs are not stored: what they mean is.

`starts` tells attempts of one step apart: it is the number of times the step had been started when
the attempt began, so what a forgotten attempt says later is never taken for a newer one's word.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kedge.flow.commands import Command
from kedge.flow.events import ResultKept
from kedge.flow.settings import RunSettings
from kedge.flow.usage import Usage
from kedge.flow.words import Blob, Failure
from kedge.plan.patch import Patch


class Returned(msgspec.Struct, gc=False):
    """An attempt came back with a value."""

    path: str
    starts: int
    raw: bytes
    blob: Blob | None = None
    """Set when the value is too large to keep inline; `raw` still holds it."""


class Raised(msgspec.Struct, gc=False):
    """An attempt failed."""

    path: str
    starts: int
    error: Failure
    jitter: float = 0.0
    """A random number from 0 to 1: the core has none of its own."""


class Reported(msgspec.Struct, gc=False):
    """A running tool discovered something."""

    path: str
    starts: int
    what: str
    need: str = ""


class Used(msgspec.Struct, gc=False):
    """An attempt is over, and this is what it used besides time."""

    path: str
    usage: Usage


class Ticked(msgspec.Struct, gc=False):
    """Time went on. Carries nothing: the time comes with every input."""


class Resumed(msgspec.Struct, gc=False):
    """A driver takes the run up again."""

    retry_failed: bool = False
    changed_tools: Mapping[str, str] = {}
    """Tools to ask about, with the hash of what they are now."""
    undo: bool = False
    """It has ended, and what it did is to be undone."""


class Salvaged(msgspec.Struct, gc=False):
    """The log of the run was damaged, and the run is to go on from what is intact of it."""

    lost: str
    """What is not there any more, as a sentence."""


class Branched(msgspec.Struct, gc=False, kw_only=True):
    """All events so far are those of another run, which goes its own way: this is a fork of it."""

    run: str
    seq: int
    """Its last event that the two have in common."""
    kept: Sequence[ResultKept] = ()
    """What its calls came to after that."""
    anew: bool = False
    """Make every call, whatever it came to there."""
    patch: Patch | None = None
    """What is to be otherwise in the plan."""
    settings: RunSettings | None = None
    by: str = ""
    lost: str = ""
    """What is not known of the other run, as a sentence: its log was damaged after that event."""


class Repaired(msgspec.Struct, gc=False):
    """The planner answered one round of a repair."""

    repair: int
    round: int
    patch: Patch | None
    """How the plan is to be changed; None if it knows no way."""
    by: str = ""


class RepairFailed(msgspec.Struct, gc=False):
    """The planner did not answer, or with something that is no patch."""

    repair: int
    round: int
    why: str
    code: str
    by: str = ""
    final: bool = False
    """There is no use in asking again."""


class Decided(msgspec.Struct, gc=False):
    """The agent answered."""

    decision: int
    commands: tuple[Command, ...] = ()
    by: str = ""


class DecisionFailed(msgspec.Struct, gc=False):
    """The agent did not answer, or with something that is no list of commands."""

    decision: int
    why: str
    code: str
    by: str = ""


class Exhausted(msgspec.Struct, gc=False):
    """The driver measured that a limit of the run is used up."""

    limit: str
    value: float


Input = (
    Returned
    | Raised
    | Reported
    | Used
    | Ticked
    | Resumed
    | Salvaged
    | Branched
    | Command
    | Repaired
    | RepairFailed
    | Decided
    | DecisionFailed
    | Exhausted
)
