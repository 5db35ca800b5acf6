"""What people, programs and agents can ask of a run while it runs.

Imperative, closed, plain data: a command can be written down, sent from another process and read
there. Each has a key; a run takes the command of one key once. What a command asks for happens or is
refused with a reason; nothing is done by half.
"""

from __future__ import annotations

from typing import Any, Literal, dataclass_transform

import msgspec

from kedge.plan.parts import Step
from kedge.plan.patch import Patch

Role = Literal["person", "agent"]


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Order(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="command",
    forbid_unknown_fields=True,
    omit_defaults=True,
):
    """Base of all commands."""

    by: str = ""
    """Who wants it."""
    role: Role = "person"
    """With whose authority: an agent may not do all that a person may."""
    key: str = ""
    """The same key again is the same command again."""


class Pause(Order, tag="pause"):
    """Start nothing new; what runs goes on."""


class Unpause(Order, tag="unpause"):
    """Lift a pause."""


class Cancel(Order, tag="cancel"):
    """Stop what runs and end the run. What is done stays done, unless it is to be undone."""

    reason: str = ""
    compensate: bool = False
    """Undo what was done, as far as the plan says how."""


class Compensate(Order, tag="compensate"):
    """Undo a finished step and all that used it; without a step, all that a run did which has ended."""

    step: str = ""
    reason: str = ""


class Answer(Order, tag="answer"):
    """Answer a question. Each takes one answer."""

    question: str
    answer: str
    value: Any = None
    """With `done`: the result to take. With `raise`: the new limit. With `approve`: other arguments."""
    reason: str = ""


class Inject(Order, tag="inject"):
    """Add a step."""

    step: Step
    into: str = ""
    """The composite it becomes part of; empty for the plan itself."""
    why: str = ""


class Remove(Order, tag="remove"):
    """Take a step out that has not run."""

    step: str
    why: str = ""


class Edit(Order, tag="edit"):
    """Change the plan: anything a patch can."""

    patch: Patch


class Rewire(Order, tag="rewire"):
    """Let a step read and wait for other steps."""

    step: str
    reads: dict[str, str]
    """The step it names now, and the one it is to name instead."""
    why: str = ""


class Skip(Order, tag="skip"):
    """Go on without a step that has not run, or that failed and is being asked about."""

    step: str
    reason: str = ""


class Retry(Order, tag="retry"):
    """Try a failed step again, and what was skipped because of it."""

    step: str


class Repair(Order, tag="repair"):
    """Let the planner change the plan."""

    need: str
    """What is wanted of it."""
    step: str = ""
    """The step that it is about."""


class Say(Order, tag="say"):
    """Say something, for agents and people to read."""

    text: str


class Note(Order, tag="note"):
    """Keep something for later decisions."""

    values: dict[str, Any]
    """Merged into what is kept already; null takes a value out."""


class Mark(Order, tag="mark"):
    """Give the present position of the run a name."""

    name: str


class SetGoal(Order, tag="set_goal"):
    """Say otherwise what the run is for. The old words stay in the plan's earlier version."""

    goal: str
    why: str = ""


class SetContext(Order, tag="set_context"):
    """Give steps that have not run other values to read."""

    values: dict[str, Any]
    """Merged into the context; null takes a value out."""
    why: str = ""
    need: str = ""
    """What it would take to use them: makes it trouble, for the planner to mend."""


class Prioritise(Order, tag="prioritise"):
    """Let a step go before others that are ready, or after them."""

    step: str
    priority: int


class Rollback(Order, tag="rollback"):
    """Follow an earlier version of the plan again. What is finished stays finished, or is undone."""

    version: int
    why: str = ""
    compensate: bool = False
    """Undo finished steps that the version does not have."""


class Signal(Order, tag="signal"):
    """Something happened outside that a step may wait for."""

    name: str
    data: Any = None


Command = (
    Pause
    | Unpause
    | Cancel
    | Compensate
    | Answer
    | Inject
    | Remove
    | Edit
    | Rewire
    | Skip
    | Retry
    | Repair
    | Say
    | Note
    | Mark
    | SetGoal
    | SetContext
    | Prioritise
    | Rollback
    | Signal
)

KINDS: dict[str, type[Order]] = {str(kind.__struct_config__.tag): kind for kind in Order.__subclasses__()}
"""Every command by the word for it."""
