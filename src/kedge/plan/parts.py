"""The parts of a plan: steps, and what a step is made of.

Ranges stand in the types, so reading, checking and the published schema can never disagree on them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import msgspec
from msgspec import Meta

from kedge.base.errors import Category

Join = Literal["all", "any", "settled"]
OnError = Literal["fail", "continue", "ask"]
Kind = Literal["normal", "conditional", "loop", "foreach", "fallback", "composite", "wait", "goal"]


YEAR_S = 366 * 24 * 3600.0
"""The longest any step may wait: beyond it a number is a mistake, and timers overflow."""
Seconds = Annotated[float, Meta(ge=0, le=YEAR_S)]
Timeout = Annotated[float, Meta(gt=0, le=YEAR_S)]


if TYPE_CHECKING:
    from collections.abc import Sequence as Several
else:

    class Several:
        """A tuple of any length. Who builds a plan in Python may give a list: `as_tuples` makes it one."""

        def __class_getitem__(cls, kind: Any) -> Any:
            return tuple[kind, ...]


def as_tuples(part: msgspec.Struct, names: tuple[str, ...]) -> None:
    """Lists that were given for these fields become tuples: a plan is frozen, and equal to what is read."""
    for name in names:
        value = getattr(part, name)
        if type(value) is list:
            msgspec.structs.force_setattr(part, name, tuple(cast("list[Any]", value)))


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Shared settings of every part: frozen, nothing unknown, defaults left out when written."""


class Retry(Part, frozen=True, kw_only=True):
    """Try again after a failure of these categories, waiting longer each time."""

    attempts: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How often in all, the first attempt included."""
    backoff_s: Seconds = 0.5
    """Wait before the second attempt; doubled for each further one, up to `max_backoff_s`."""
    max_backoff_s: Seconds = 60.0
    """The longest wait."""
    on: Several[Category] = ("transient", "timeout", "rate_limited")
    """Failure categories that are worth another try."""

    def __post_init__(self) -> None:
        as_tuples(self, ("on",))


class Loop(Part, frozen=True, kw_only=True):
    """Run the step again and again, one round after another."""

    times: Annotated[int, Meta(ge=1)]
    """Rounds at most. With `until`, not meeting it after so many rounds fails the step."""
    until: str | None = None
    """Stop when true. `loop.previous` is the result of the round just done."""
    delay_s: Seconds = 0.0
    """Wait between two rounds."""
    collect: Literal["last", "all"] = "last"
    """The step's result: the last round's, or the list of all."""


class Approval(Part, frozen=True, kw_only=True):
    """Ask a person before the step's call."""

    ask: str
    """The question."""
    expires_s: Timeout | None = None
    """No answer in this time is a refusal."""


class Call(Part, frozen=True, kw_only=True):
    """A tool call that stands beside a step: what undoes it."""

    tool: str
    """The tool that is called."""
    args: dict[str, Any] = {}
    """What with. `result` is the step's own."""


class Wait(Part, frozen=True, kw_only=True):
    """Wait for something from outside."""

    signal: str
    """Its name."""
    expires_s: Timeout | None = None
    """No signal in this time is a failure."""


class Estimate(Part, frozen=True, kw_only=True):
    """What a step is expected to take."""

    seconds: Seconds | None = None
    """Time of one attempt."""
    cost: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    """Money, in whatever currency all of the plan uses."""
    tokens: Annotated[int, Meta(ge=0)] | None = None
    """A model's tokens."""


class Input(Part, frozen=True, kw_only=True):
    """A value that whoever starts the plan gives."""

    type: Literal["string", "integer", "number", "boolean", "array", "object", "any"] = "any"
    """What may be given."""
    default: Any = msgspec.UNSET
    """Taken when nothing is given."""
    description: str = ""
    """What a person reads."""
    required: bool = True
    """Without a default: must it be given? If not, it is null."""


class Step(Part, frozen=True, kw_only=True):
    """One piece of work."""

    id: str
    """The name by which others refer to it."""
    do: str = ""
    """What a person reads."""
    tool: str | None = None
    """The tool that is called."""
    role: str | None = None
    """Who does it when no tool is named."""
    goal: str | None = None
    """A goal that is planned only when it is reached."""
    wait: Wait | None = None
    """Wait for a signal from outside."""
    use: str | None = None
    """A plan kept elsewhere."""
    steps: Several[Step] | None = None
    """Steps of its own: a composite."""
    args: dict[str, Any] = {}
    """What the tool is called with; `${…}` reads results and inputs."""
    after: Several[str] = ()
    """Steps to wait for whose results it does not read."""
    when: str | None = None
    """A condition: false skips the step."""
    foreach: str | list[Any] | None = None
    """A list: the step runs once for each item, side by side."""
    loop: Loop | None = None
    """The step runs again and again, one round after another."""
    fallback_for: str | None = None
    """Runs only if that step has failed for good, and then stands in for it."""
    join: Join = "all"
    """How many of its dependencies must have succeeded."""
    expect: str | None = None
    """The step's own test of its `result`: false fails it."""
    output: dict[str, Any] | None = None
    """JSON Schema of the result."""
    quality: str | None = None
    """How good the result is, 0 to 1."""
    quality_min: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Less quality than this is trouble."""
    retry: Retry | None = None
    """Which failures are tried again; the tool's own setting, if there is none."""
    timeout_s: Timeout | None = None
    """One attempt."""
    idle_timeout_s: Timeout | None = None
    """One attempt, counted from its last progress or heartbeat."""
    approval: Approval | None = None
    """Ask a person first."""
    compensate: Call | None = None
    """What undoes it."""
    on_error: OnError = "fail"
    """`fail`: the run fails with it. `continue`: it is optional. `ask`: a person decides."""
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    """Among ready steps the higher goes first."""
    complexity: Annotated[int, Meta(ge=1, le=5)] | None = None
    """How hard it is, 1 to 5."""
    milestone: bool | None = None
    """A point worth telling. The end of a composite is one by itself."""
    estimate: Estimate | None = None
    """What it is expected to take: the basis for order and progress."""
    resources: Several[str] = ()
    """Named resources of the engine that one attempt takes one unit of each."""
    speculate: bool | None = None
    """May it be started before it is known to be needed?"""
    metadata: dict[str, Any] = {}
    """Whatever others want to keep with the step; nothing here reads it."""

    def __post_init__(self) -> None:
        if list in (type(self.steps), type(self.after), type(self.resources)):
            as_tuples(self, ("steps", "after", "resources"))

    @property
    def kind(self) -> Kind:
        """The step's type, in one word."""
        if self.fallback_for is not None:
            return "fallback"
        if self.foreach is not None:
            return "foreach"
        if self.loop is not None:
            return "loop"
        if self.when is not None:
            return "conditional"
        if self.steps is not None:
            return "composite"
        if self.wait is not None:
            return "wait"
        return "goal" if self.goal is not None else "normal"

    @property
    def is_milestone(self) -> bool:
        """Whether its end is worth telling: as it says itself, else if it is a composite."""
        return self.steps is not None if self.milestone is None else self.milestone

    @property
    def worker(self) -> str:
        """Who does it: the tool, the role, or the kind of step that needs nobody."""
        return self.tool or self.role or self.kind


DOERS = ("tool", "role", "goal", "wait", "use", "steps")
"""A step has exactly one of these."""

LATER_FIELDS = (
    "goal",
    "role",
    "use",
    "speculate",
)
"""Fields of the language that parse and are checked, and that no engine acts on yet."""

RESERVED_IDS = frozenset(
    {"goal", "context", "inputs", "results", "result", "item", "index", "loop", "secret"}
)
ID_PATTERN = r"[a-z][a-z0-9_]{0,63}"
SLEEP = "sleep"
"""The tool name that is a durable timer, not a call."""
