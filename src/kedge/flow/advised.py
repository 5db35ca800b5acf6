"""Events of those who advise a run, planners and agents, and of what is said in it."""

from __future__ import annotations

from kedge.flow.decision import Point
from kedge.flow.event import Event, Raw, Whole
from kedge.flow.trouble import Fault, Trouble


class TroubleFound(Event, tag="TroubleFound"):
    """Somebody says that there is trouble. That of failures and discoveries is in their own events."""

    trouble: Trouble
    by: str = ""


class RepairAsked(Event, tag="RepairAsked"):
    """The planner is asked to change the plan."""

    repair: Whole
    """Number of the repair in this run."""
    version: Whole
    """The plan that it is shown."""
    fingerprint: str
    """Hash of what is left to do and of the trouble: the same again is not repaired again."""
    round: Whole = 1
    """How often it was asked, for this repair."""
    troubles: tuple[Trouble, ...] = ()
    """What it is for, the first of them."""
    more: Whole = 0
    """Troubles left out here."""


class RepairRefused(Event, tag="RepairRefused"):
    """Nothing came of one round of a repair: the plan stays as it is."""

    repair: Whole
    code: str
    message: str
    round: Whole = 1
    findings: tuple[Fault, ...] = ()
    """All that is wrong with the patch."""
    final: bool = False
    """The planner is not asked again: the repair is over."""
    by: str = ""


class DecisionAsked(Event, tag="DecisionAsked"):
    """The agent is asked how the run is to go on. What reads these steps waits for that."""

    decision: Whole
    """Number of the decision in this run."""
    points: tuple[Point, ...] = ()
    """Why it is asked, the first of them."""
    more: Whole = 0
    """Points left out here."""


class DecisionTaken(Event, tag="DecisionTaken"):
    """The agent answered. What became of each of its commands follows, under keys that name the decision."""

    decision: Whole
    by: str = ""
    commands: tuple[str, ...] = ()
    """A word for each."""


class DecisionMissed(Event, tag="DecisionMissed"):
    """The agent gave no answer that could be used: the run goes on as its settings say."""

    decision: Whole
    code: str
    message: str
    by: str = ""
    ask: bool = False
    """A person is asked in its place."""


class Said(Event, tag="Said"):
    """Somebody said something, for agents and people to read."""

    text: str
    by: str = ""
    role: str = "person"


class Noted(Event, tag="Noted"):
    """Something is to be known later: by name, null for what is not to be known any more."""

    values: Raw
    by: str = ""


class Marked(Event, tag="Marked"):
    """This position of the run has a name."""

    name: str
    by: str = ""
