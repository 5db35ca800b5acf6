"""What a seed stands for: plans, the ways in which tools misbehave, and what goes wrong when.

A scenario is plain data, so that a smaller one can be made of it. Everything that is not in it (who goes
first, how long something takes, what a call returns) is drawn from the seed in it, each thing from a
stream of its own: leaving a fault out changes as little as possible of the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from kedge.testing.authors import Author

What = Literal[
    "kill", "power cut", "stop", "freeze", "second", "error", "full", "busy", "clock",
    "deploy", "pause", "cancel", "again", "edit", "undo", "cancel and undo", "sender",
]  # fmt: skip
Counted = Literal["step", "commit", "store", "call"]
Phase = Literal["before", "written", "after"]

FATES = (
    "slow", "hangs", "ignores cancel", "comes back late", "transient", "permanent", "breaks", "not done",
    "rate limited", "times out", "big", "unstorable", "talks", "blocks", "exits", "drops the line",
)  # fmt: skip
"""How a call can go wrong, or at least not smoothly."""
ADVICE = ("none", "late", "too late", "hangs", "raises", "garbage")
"""How an answer of a planner or an agent can be of no use."""

_REACH: dict[Counted, int] = {"step": 400, "commit": 40, "store": 60, "call": 20}
"""Up to which number of each a fault is set."""


class Fault(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something that happens once, when the n-th of something is counted."""

    what: What
    at: Counted = "step"
    number: int = 1
    phase: Phase = "before"
    for_s: float = 0.0
    take_over: bool = False
    """The process that is frozen is taken for dead, and its runs are taken over."""

    def __str__(self) -> str:
        more = f" for {self.for_s:g} s" if self.for_s else ""
        more += ", taken for dead" if self.take_over else ""
        return f"{self.what} {self.phase} {self.at} {self.number}{more}"


class Order(msgspec.Struct, frozen=True):
    """A run that somebody wants."""

    run_id: str
    plan: dict[str, Any]
    retries: int = 0
    """How often it is taken up again if it fails."""
    settings: dict[str, Any] = {}
    """How it is to be driven."""
    undone_later: int = 0
    """How often it is to be undone once it has ended."""


class Scenario(msgspec.Struct, frozen=True):
    """One life of a world."""

    seed: int
    orders: tuple[Order, ...]
    faults: tuple[Fault, ...] = ()
    fates: tuple[str, ...] = ()
    """What may become of calls, besides going well."""
    rough: int = 30
    """Percent of the calls that do not go well."""
    slow_disk: bool = False
    """Commits are left to a thread."""
    advisers: tuple[str, ...] = ()
    """What may become of the answers of planners and agents, besides being there at once."""

    def __str__(self) -> str:
        lines = [f"seed {self.seed}" + (", a slow disk" if self.slow_disk else "")]
        lines += [f"fault: {fault}" for fault in self.faults]
        if self.fates:
            lines.append(f"tools: {self.rough} % of the calls {', '.join(self.fates)}")
        if self.advisers:
            lines.append(f"advisers: {', '.join(self.advisers)}")
        for order in self.orders:
            text = msgspec.json.encode(order.plan).decode()
            more = f", {order.settings}" if order.settings else ""
            more += f", undone {order.undone_later} times" if order.undone_later else ""
            lines.append(f"{order.run_id} ({order.retries} retries{more}): {text}")
        return "\n".join(lines)


def drawn(seed: int) -> Scenario:
    """The scenario of a seed: two of three are steered."""
    scenario = unsteered(seed)
    return steered(scenario) if seed % 3 else scenario


def unsteered(seed: int) -> Scenario:
    """Runs that go the way their plans say."""
    luck = Random(f"scenario {seed}")
    patient = luck.randrange(100) < 5
    plans = [Author(luck, patient=patient).plan() for _ in range(luck.choice([1, 1, 2, 2, 3]))]
    if luck.randrange(100) < 4:
        _spoil(luck, plans[-1])
    return Scenario(
        seed=seed,
        orders=tuple(
            Order(f"run-{number}", plan, retries=luck.choice([0, 1, 1, 2]))
            for number, plan in enumerate(plans, 1)
        ),
        faults=tuple(_fault(luck) for _ in range(luck.choice([0, 1, 1, 2, 2, 3, 4, 6, 8]))),
        fates=tuple(luck.sample(FATES, luck.choice([0, 1, 2, 3, 5, len(FATES)]))),
        rough=luck.choice([10, 30, 60]),
        slow_disk=luck.randrange(100) < 25,
    )


def steered(scenario: Scenario) -> Scenario:
    """With plans that are changed, mended, decided on and undone; drawn from a stream of its own."""
    luck = Random(f"steered {scenario.seed}")
    orders = [_steered_order(luck, order) for order in scenario.orders]
    steering: list[What] = ["edit", "edit", "edit", "undo", "cancel and undo", "sender", "sender"]
    faults = [_placed(luck, luck.choice(steering)) for _ in range(luck.choice([1, 2, 4, 8, 12]))]
    return replace(
        scenario, orders=tuple(orders), faults=(*scenario.faults, *faults),
        advisers=tuple(luck.sample(ADVICE, luck.choice([0, 0, 1, 2, len(ADVICE)]))),
    )  # fmt: skip


def _steered_order(luck: Random, order: Order) -> Order:
    for step in _calls(order.plan["steps"]):
        if "un" + step["tool"] in ("unsend", "unput") and luck.randrange(100) < 60:
            step["compensate"] = {"tool": "un" + step["tool"], "args": {"what": "${" + step["id"] + "}"}}
        if luck.randrange(100) < 15:
            step["milestone"] = True
    settings = {
        "ask": luck.choice(["never", "never", "never", "never", "plan", "effects", "every_step"]),
        "repair": luck.choice([None, None, False]),
        "adaptation_sensitivity": luck.choice([0.7, 0.5, 0.3]),
        "decide_at": luck.choice(["never", "never", "trouble", "milestone", "every_step"]),
        "agent_default": luck.choice(["go_on", "ask"]),
        "undo": luck.choice(["never", "never", "failure"]),
    }
    return replace(order, settings=settings, undone_later=luck.choice([0, 0, 1, 1, 2]))


def _calls(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        if "tool" in step:
            yield step
        yield from _calls(step.get("steps", []))


def _fault(luck: Random) -> Fault:
    what: What = luck.choice(
        (
            "kill", "kill", "kill", "kill", "power cut", "power cut", "stop", "freeze", "freeze", "second",
            "error", "error", "full", "busy", "clock", "deploy", "pause", "cancel", "again",
        )
    )  # fmt: skip
    return _placed(luck, what)


def _placed(luck: Random, what: What) -> Fault:
    """Some time early in the life, at one thing or another."""
    places: list[Counted] = ["step", "step", "commit", "commit", "store", "call"]
    if what == "error":
        places = ["commit", "commit", "store"]
    elif what == "freeze":
        places = ["step", "commit", "commit", "call"]
    at = luck.choice(places)
    number = round(_REACH[at] ** luck.random())
    phase: Phase = luck.choice(("before", "written", "after")) if at != "step" else "before"
    lengths = {
        "freeze": (0.0, 0.001, 0.02, 0.5, 5.0, 120.0, 3600.0),
        "full": (0.5, 5.0, 300.0),
        "busy": (0.001, 0.5, 30.0, 70.0),
        "clock": (-3600.0, -1.0, 3600.0, 86_400.0),
    }
    for_s = luck.choice(lengths.get(what, (0.0,)))
    return Fault(what, at, number, phase, for_s, what == "freeze" and luck.randrange(100) < 70)


def _spoil(luck: Random, plan: dict[str, Any]) -> None:
    """Make it a plan that nobody may run."""
    step = luck.choice(plan["steps"])
    match luck.randrange(4):
        case 0:
            plan["steps"].append({"id": step["id"], "tool": "pure"})
        case 1:
            step["after"] = ["nobody"]
        case 2:
            plan["steps"].append({"id": "extra", "tool": "nothing"})
        case _:
            plan["steps"].append({"id": "extra", "tool": "pure", "after": [step["id"]]})
            step["after"] = [*step.get("after", ()), "extra"]
