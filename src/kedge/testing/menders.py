"""Random repairs: sensible patches, careless ones, and none.

    patch = Mender(Random(7)).patch(situation)

It sees what any planner sees, and nothing else. As a planner of an engine it answers at once.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kedge.flow.situation import Situation
from kedge.plan.model import Plan
from kedge.plan.parts import Step
from kedge.plan.patch import Addition, Patch
from kedge.testing.authors import TOOLS

_ANSWERS = ("retry", "retry", "swap", "fallback", "waive", "add", "several", "several", "careless", "none")


class Mender:
    """Answers one question after another."""

    name = "mender"

    def __init__(self, luck: Random) -> None:
        self.luck = luck
        self.count = 0

    async def repair(self, situation: Situation, /) -> Patch | None:
        """For an engine."""
        return self.patch(situation)

    def patch(self, situation: Situation) -> Patch | None:
        """What it would change, mostly about the first step that is held."""
        held = situation.held[0] if situation.held else ""
        answer = self.luck.choice(_ANSWERS)
        if answer == "none" or not (held or answer in ("add", "careless")):
            return None
        step = _named(held)
        match answer:
            case "retry":
                return Patch(retry=(held,), change={step: {"args": self.args()}})
            case "swap":
                return Patch(retry=(held,), change={step: {"tool": self.tool()}})
            case "fallback":
                addition = Addition(step=self.step(fallback_for=_id(step)), into=step.rpartition("/")[0])
                return Patch(add=(addition,))
            case "waive":
                return Patch(waive=situation.held)
            case "add":
                return Patch(add=(Addition(step=self.step()),))
            case "several":
                return Patch(
                    add=(Addition(step=self.step()),), retry=(held,), change={step: {"args": self.args()}},
                    waive=situation.held[1:], cancel=tuple(self.some(situation.running)),
                )  # fmt: skip
            case _:
                return self.careless(situation.plan)

    def careless(self, plan: Plan) -> Patch:
        """About whatever steps there are, as if nothing had run."""
        names = [step.id for step in plan.steps]
        return Patch(
            remove=tuple(self.some(names)),
            change={self.luck.choice(names): {"args": self.args()}},
            retry=tuple(self.some(names)),
        )

    def some(self, names: Any) -> list[str]:
        """A few of them, or none."""
        return [name for name in names if not self.luck.randrange(3)]

    def args(self) -> dict[str, Any]:
        """Arguments that are most likely no step's yet."""
        return {"luck": self.luck.randrange(1_000_000)}

    def tool(self) -> str:
        """One of the tools of random plans."""
        return self.luck.choice(list(TOOLS))

    def step(self, **more: Any) -> Step:
        """A step more."""
        self.count += 1
        id_ = f"m{self.count}_{self.luck.randrange(1000)}"
        return Step(id=id_, tool=self.tool(), args=self.args(), **more)


def _named(path: str) -> str:
    """The path of the plan's step that a step of the run comes from."""
    return "/".join(part.split("[")[0].split("#")[0] for part in path.split("/"))


def _id(path: str) -> str:
    return path.rpartition("/")[2]
