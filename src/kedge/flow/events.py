"""What can have happened to a run: a closed union, past tense.

Events are for ever: every release reads what every earlier release wrote. A kind is only added to,
with defaults; a changed meaning is a new kind. The envelope (run, seq, epoch, at, chain) is the
journal's; here is only what happened.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from kedge.flow.advised import (
    DecisionAsked,
    DecisionMissed,
    DecisionTaken,
    Marked,
    Noted,
    RepairAsked,
    RepairRefused,
    Said,
    TroubleFound,
)
from kedge.flow.event import NONE, Event, Raw, Whole
from kedge.flow.settings import RunSettings
from kedge.flow.words import Blob, Failure, RunStatus
from kedge.plan.tools import Effect


class ToolMark(msgspec.Struct, frozen=True, gc=False):
    """What a tool was when the run began."""

    hash: str
    effect: Effect


class RunStarted(Event, tag="RunStarted"):
    """A run began. The plan itself is the blob `plan`."""

    plan: str
    goal: str
    inputs: Raw
    tools: dict[str, ToolMark] = {}
    """Each tool the plan uses, as it was at the start."""
    settings: RunSettings = RunSettings()
    """How it is to be driven."""
    kedge: str = ""
    """Version that wrote this."""


class PlanAdopted(Event, tag="PlanAdopted"):
    """From here on the run follows this plan."""

    version: Whole
    plan: str
    """Hash of the whole plan."""
    cause: str = ""
    """What led to it: `start`, or the word of a command, or `repair`."""
    by: str = ""
    patch: Raw = NONE
    """What changed against the version before."""
    why: str = ""
    tools: dict[str, ToolMark] = {}
    """Each tool that the plan did not use before, as it was then."""


class PlanApproved(Event, tag="PlanApproved"):
    """A person wants the run to follow this plan: they said so, or it is their own change of such a plan."""

    version: int
    by: str = ""


class CommandTaken(Event, tag="CommandTaken"):
    """Somebody asked something of the run, and it is done or under way. What follows has its own events."""

    key: str
    command: str
    by: str = ""
    role: str = "person"


class CommandRefused(Event, tag="CommandRefused"):
    """Somebody asked something of the run that cannot be done."""

    key: str
    command: str
    code: str
    message: str
    by: str = ""
    role: str = "person"


class SignalReceived(Event, tag="SignalReceived"):
    """Something happened outside. A step that waits for it takes it; until one does, it is kept."""

    name: str
    data: Raw = NONE
    blob: Blob | None = None


class SignalTaken(Event, tag="SignalTaken"):
    """A waiting step takes the oldest signal of that name."""

    path: str
    name: str


class Reopened(Event, tag="Reopened"):
    """A failed step is to be tried again, and what was skipped because of it."""

    path: str
    by: str = ""


class RunResumed(Event, tag="RunResumed"):
    """Another driver took the run up."""

    retry_failed: bool = False
    changed_tools: tuple[str, ...] = ()


class Forked(Event, tag="Forked"):
    """Up to here it is the log of another run. From here on this run goes its own way.

    What was in flight there is ready again; an end, a pause and a cancelling are taken back.
    """

    run: str
    """The run that it branched off."""
    seq: int
    """Its last event that the two have in common."""
    by: str = ""
    settings: RunSettings | None = None
    """How it is to be driven, where that is to be otherwise."""
    anew: bool = False
    """Every call is to be made, whatever it came to in the other run."""


class ResultKept(Event, tag="ResultKept"):
    """What a call came to in the run that this one branched off, after that. It need not be made again."""

    source: str
    """Where it came to that: `run@seq`."""
    path: str
    tool: str
    definition: str
    """Hash of the tool as it was."""
    args_hash: str
    generation: int = 0
    iteration: int = 0
    result: Raw = NONE
    blob: Blob | None = None


class ResultReused(Event, tag="ResultReused"):
    """The step comes to a kept result: no call is made for it."""

    path: str
    source: str


AGAIN = "again"


class StepStarted(Event, tag="StepStarted"):
    """One attempt began. For a composite: its children may start.

    With the cause `again`: a composite or foreach step of a run that had ended is taken up where it was.
    """

    path: str
    attempt: Whole = 1
    iteration: Whole = 0
    generation: Whole = 0
    args: Raw = NONE
    """What the call was given; left out where it is large (`args_hash`) or there is no call."""
    args_hash: str = ""
    cause: str = ""


class StepSucceeded(Event, tag="StepSucceeded"):
    """The step is done. A composite or foreach step has its children's results, not repeated here."""

    path: str
    result: Raw = NONE
    blob: Blob | None = None
    version: Whole = 1
    """Plan version it was done under."""
    cause: str = ""


class RoundEnded(Event, tag="RoundEnded"):
    """One round of a loop is done and another follows, not before `next_at`."""

    path: str
    iteration: Whole
    result: Raw = NONE
    blob: Blob | None = None
    next_at: Whole = 0


class StepFailed(Event, tag="StepFailed"):
    """The step failed for good: no attempts left."""

    path: str
    error: Failure
    held: bool = False
    """What that means for others is still to be said: somebody is asked."""
    repair: bool = False
    """The planner is asked first, and only then a person."""
    decide: bool = False
    """The agent is asked first, and only then a person."""
    severity: float = 0.0
    """How grave it is; 0 where something else stands in for the step or tries again."""
    result: Raw = NONE
    """What its call gave, if that was no good, and something undoes it."""
    blob: Blob | None = None
    """The same, where it is large."""


class FailureSettled(Event, tag="FailureSettled"):
    """What the failure of a held step means for others is decided."""

    path: str
    waived: bool = False
    """The run goes on as if the step were optional."""


class RetryScheduled(Event, tag="RetryScheduled"):
    """An attempt failed; the next one starts at `at`."""

    path: str
    attempt: Whole
    error: Failure
    at: Whole


class StepWaiting(Event, tag="StepWaiting"):
    """The step waits: for a time, or for something from outside that is to come by then."""

    path: str
    until: Whole
    """When it is over; 0 for what no time ends."""
    reason: Literal["sleep", "delay", "signal", "approval", "input"] = "sleep"
    signal: str = ""
    """Name of the signal that it waits for."""


class StepSkipped(Event, tag="StepSkipped"):
    """The step will not run."""

    path: str
    reason: Literal["condition", "absent", "dependency", "not_needed", "empty", "command"]
    """command: somebody said so; condition: its own `when`; absent: nothing it depends on is there;
    dependency: one failed; not_needed: a fallback whose target did not fail;
    empty: a composite that did nothing."""
    because: tuple[str, ...] = ()


class StepCancelled(Event, tag="StepCancelled"):
    """A running attempt was stopped."""

    path: str


class StepInterrupted(Event, tag="StepInterrupted"):
    """Its driver was lost while it ran. Running it again does no harm, so it is ready again."""

    path: str


class StepInDoubt(Event, tag="StepInDoubt"):
    """The attempt may have had its effect. Nobody starts it again unasked."""

    path: str
    error: Failure


class StepExpanded(Event, tag="StepExpanded"):
    """A foreach step has its items."""

    path: str
    count: Whole
    items: Raw = NONE
    blob: Blob | None = None
    generation: Whole = 0


class Discovered(Event, tag="Discovered"):
    """A tool reported something nobody planned for."""

    path: str
    what: str
    need: str = ""


class FeedbackGiven(Event, tag="FeedbackGiven"):
    """What could not be told from the rest of the log: how good a result is, or what an attempt used."""

    path: str
    quality: float | None = None
    """0 to 1, as the step's `quality` finds it."""
    tokens: int = 0
    cost: float = 0.0
    cpu_s: float = 0.0
    memory_mb: float = 0.0
    """The most at once."""


class QuestionAsked(Event, tag="QuestionAsked"):
    """Somebody has to decide before this part of the run goes on."""

    question: str
    reason: Literal[
        "in_doubt", "limit", "tool_changed", "approval", "failed", "salvaged", "plan", "input", "decision"
    ]
    """salvaged: what is lost of the log may hold calls with effects; plan: nothing starts before a person
    wants it; input: it was not given."""
    text: str
    options: tuple[str, ...]
    path: str = ""
    limit: str = ""
    input: str = ""
    """The input that is asked for."""
    used: float = 0.0
    """How much of the limit is used."""
    tools: dict[str, str] = {}
    """The hash of each tool that is taken as it is now, if the answer is to go on."""
    args: Raw = NONE
    """What the call that is asked about would be given."""
    blob: Blob | None = None
    """The same, where it is large."""
    binding: str = ""
    """Hash of all that an approval is for. If that is another by then, it is asked anew."""
    expires_at: Whole = 0
    """When no answer is a refusal; 0: never."""


class QuestionAnswered(Event, tag="QuestionAnswered"):
    """A question is closed; each is answered once."""

    question: str
    answer: str
    by: str = ""
    result: Raw = NONE
    """With the answer `done`: what the step's result is taken to be. With `approve`: other arguments. With
    `give`: the input."""
    blob: Blob | None = None
    """The same, where it is large."""
    reason: str = ""
    """Why, in the words of who answered."""
    limit: float | None = None
    """With the answer `raise`: the new limit."""


class LimitReached(Event, tag="LimitReached"):
    """A limit of the run is used up. Nothing starts until the question is answered."""

    limit: str
    value: float


class RunPaused(Event, tag="RunPaused"):
    """Nothing new starts; what runs goes on."""

    by: str = ""


class RunUnpaused(Event, tag="RunUnpaused"):
    """The pause is lifted."""

    by: str = ""


class RunCancelling(Event, tag="RunCancelling"):
    """Running attempts are being stopped."""

    by: str = ""
    reason: str = ""
    compensate: bool = False
    """After that, what was done is undone."""


class CompensationStarted(Event, tag="CompensationStarted"):
    """What steps did is being undone, in reverse. The calls are steps of their own: `STEP.undo`."""

    steps: tuple[str, ...] = ()
    """These, and all that used them; empty: everything that was done."""
    by: str = ""
    reason: str = ""
    status: RunStatus | None = None
    """How the run ends once that is over, if nothing else is to be done in it."""
    error: Failure | None = None
    """With which error it ends then."""


class CompensationEnded(Event, tag="CompensationEnded"):
    """All is undone that could be."""

    undone: int = 0
    """Steps that were undone."""
    left: int = 0
    """Steps that were not, though they were to be."""


class RunEnded(Event, tag="RunEnded"):
    """The end. Steps that had not started are cancelled by it."""

    status: RunStatus
    outputs: Raw = NONE
    blob: Blob | None = None
    answer: str | None = None
    error: Failure | None = None


AnyEvent = (
    RunStarted
    | PlanAdopted
    | PlanApproved
    | CommandTaken
    | CommandRefused
    | SignalReceived
    | SignalTaken
    | Reopened
    | RunResumed
    | Forked
    | ResultKept
    | ResultReused
    | StepStarted
    | StepSucceeded
    | RoundEnded
    | StepFailed
    | FailureSettled
    | RetryScheduled
    | StepWaiting
    | StepSkipped
    | StepCancelled
    | StepInterrupted
    | StepInDoubt
    | StepExpanded
    | Discovered
    | TroubleFound
    | RepairAsked
    | RepairRefused
    | DecisionAsked
    | DecisionTaken
    | DecisionMissed
    | Said
    | Noted
    | Marked
    | FeedbackGiven
    | QuestionAsked
    | QuestionAnswered
    | LimitReached
    | RunPaused
    | RunUnpaused
    | RunCancelling
    | CompensationStarted
    | CompensationEnded
    | RunEnded
)

_encoder = msgspec.json.Encoder(order="deterministic")
encode_event = _encoder.encode
decode_event = msgspec.json.Decoder(AnyEvent).decode


def kind_of(event: Event) -> str:
    """The kind's published name."""
    return type(event).__name__


def plain(event: Event) -> dict[str, Any]:
    """The event as plain data, for people and programs that read logs."""
    return msgspec.json.decode(encode_event(event))
