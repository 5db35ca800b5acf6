"""The parts of a plan: steps, and what a step is made of.

Ranges stand in the types, so reading, checking and the published schema can never disagree on them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

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


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Shared settings of every part: frozen, nothing unknown, defaults left out when written."""


class Retry(Part, frozen=True, kw_only=True):
    """Try again after a failure of these categories, waiting longer each time."""

    attempts: Annotated[int, Meta(ge=1, le=1000)] = 1
    """How often in all, the first attempt included."""
    backoff_s: Seconds = 0.5
    """Wait before the second attempt; doubled for each further one, up to `max_backoff_s`."""
    max_backoff_s: Seconds = 60.0
    on: tuple[Category, ...] = ("transient", "timeout", "rate_limited")


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
    expires_s: Timeout | None = None


class Call(Part, frozen=True, kw_only=True):
    """A tool call that stands beside a step: what undoes it."""

    tool: str
    args: dict[str, Any] = {}


class Wait(Part, frozen=True, kw_only=True):
    """Wait for something from outside."""

    signal: str
    expires_s: Timeout | None = None


class Estimate(Part, frozen=True, kw_only=True):
    """What a step is expected to take."""

    seconds: Seconds | None = None
    cost: Annotated[float, Meta(ge=0, le=1e12)] | None = None
    tokens: Annotated[int, Meta(ge=0)] | None = None


class Input(Part, frozen=True, kw_only=True):
    """A value that whoever starts the plan gives."""

    type: Literal["string", "integer", "number", "boolean", "array", "object", "any"] = "any"
    default: Any = msgspec.UNSET
    description: str = ""
    required: bool = True
    """Without a default: must it be given? If not, it is null."""


class Step(Part, frozen=True, kw_only=True):
    """One piece of work."""

    id: str
    do: str = ""
    """What a person reads."""
    tool: str | None = None
    role: str | None = None
    goal: str | None = None
    wait: Wait | None = None
    use: str | None = None
    steps: tuple[Step, ...] | None = None
    args: dict[str, Any] = {}
    after: tuple[str, ...] = ()
    when: str | None = None
    foreach: str | list[Any] | None = None
    loop: Loop | None = None
    fallback_for: str | None = None
    join: Join = "all"
    expect: str | None = None
    output: dict[str, Any] | None = None
    """JSON Schema of the result."""
    quality: str | None = None
    quality_min: Annotated[float, Meta(ge=0, le=1)] | None = None
    retry: Retry | None = None
    timeout_s: Timeout | None = None
    """One attempt."""
    idle_timeout_s: Timeout | None = None
    """One attempt, counted from its last progress or heartbeat."""
    approval: Approval | None = None
    compensate: Call | None = None
    on_error: OnError = "fail"
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    """Among ready steps the higher goes first."""
    complexity: Annotated[int, Meta(ge=1, le=5)] | None = None
    """How hard it is, 1 to 5."""
    milestone: bool | None = None
    estimate: Estimate | None = None
    resources: tuple[str, ...] = ()
    """Named resources of the engine that one attempt takes one unit of each."""
    speculate: bool | None = None
    metadata: dict[str, Any] = {}

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
    def worker(self) -> str:
        """Who does it: the tool, the role, or the kind of step that needs nobody."""
        return self.tool or self.role or self.kind


DOERS = ("tool", "role", "goal", "wait", "use", "steps")
"""A step has exactly one of these."""

LATER_FIELDS = (
    "goal",
    "role",
    "wait",
    "use",
    "output",
    "approval",
    "compensate",
    "quality",
    "quality_min",
    "speculate",
)
"""Fields of the language that parse and are checked, and that no engine acts on yet."""

RESERVED_IDS = frozenset(
    {"goal", "context", "inputs", "results", "result", "item", "index", "loop", "secret"}
)
ID_PATTERN = r"[a-z][a-z0-9_]{0,63}"
SLEEP = "sleep"
"""The tool name that is a durable timer, not a call."""
