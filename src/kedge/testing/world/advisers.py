"""Planners and agents of a world: mostly sensible, and in all the ways of no use that a scenario names."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

from kedge.flow import commands as cmd
from kedge.flow.situation import Situation
from kedge.testing.menders import Mender

if TYPE_CHECKING:
    from kedge.testing.world.process import Process

ROUGH = 40
"""Percent of the answers that are of no use, where some may be."""


class Adviser:
    """Planner and agent of one process."""

    name = "adviser"

    def __init__(self, process: Process) -> None:
        self._world = process.world
        self._luck = Random(f"adviser {process.world.scenario.seed} {process.number}")
        self._mender = Mender(self._luck)
        self._mender.count = 1_000 * process.number

    async def repair(self, situation: Situation, /) -> Any:
        """Change the plan."""
        return await self._answered(self._mender.patch(situation))

    async def decide(self, situation: Situation, /) -> Any:
        """Say how to go on."""
        return await self._answered([self._command(situation) for _ in range(self._luck.randrange(3))])

    async def _answered(self, answer: Any) -> Any:
        luck, ways = self._luck, self._world.scenario.advisers
        rough = ways and not self._world.calm and luck.randrange(100) < ROUGH
        match luck.choice(ways) if rough else "":
            case "none":
                return None
            case "late" | "too late" as way:
                await asyncio.sleep(luck.choice([0.01, 1.0, 20.0]) if way == "late" else 4000.0)
                return answer
            case "hangs":
                await asyncio.sleep(1e9)
            case "raises":
                raise OSError("the model is not there")
            case "garbage":
                return luck.choice(["yes", {"add": 1}, [answer], 7, float("nan")])
            case _:
                if luck.randrange(2):
                    await asyncio.sleep(luck.choice([0.0, 0.01, 2.0]))
        return answer

    def _command(self, situation: Situation) -> cmd.Command:
        luck = self._luck
        path = luck.choice(situation.steps).path if situation.steps else "s1"
        match luck.randrange(10):
            case 0:
                return cmd.Say(text="on we go")
            case 1:
                return cmd.Note(values={"seen": luck.randrange(9)})
            case 2:
                return cmd.Inject(step=self._mender.step(), why="more")
            case 3:
                return luck.choice([cmd.Pause(), cmd.Unpause(), cmd.Mark(name=f"m{luck.randrange(9)}")])
            case 4:
                return cmd.Skip(step=path)
            case 5:
                return cmd.Retry(step=path)
            case 6 if situation.questions:
                return cmd.Answer(question=luck.choice(situation.questions).id, answer="approve")
            case 7:
                return cmd.Compensate(step=path)
            case 8 if luck.randrange(4) == 0:
                return cmd.Cancel(compensate=luck.randrange(2) == 0)
            case _:
                return cmd.Edit(patch=self._mender.careless(situation.plan))
