"""More shapes: runs whose plan is repaired, or is not."""

from __future__ import annotations

import asyncio

from golden import RUN_ID
from golden_shapes import Stage, shape

import kedge
from kedge import commands
from kedge.testing import Discover, Fail, Late, ScriptedPlanner

MORE = kedge.Step(id="more", tool="two", args={"x": "${a}"})


async def repaired(stage: Stage) -> None:
    planner = ScriptedPlanner(
        OSError("not now"),
        kedge.Patch(remove=("a", "c"), retry=("nobody",)),
        kedge.Patch(retry=("b",), change={"b": {"args": {"x": 2}}}, why="less of it"),
        kedge.Patch(add=(kedge.Addition(step=MORE),), why="as anna wants it"),
        None,
    )
    async with stage.engine(planner=planner) as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
        await run.send(commands.Repair(need="more of it", step="c", by="anna", key="k1"))
        await asyncio.sleep(5)
        await run.send(commands.SetContext(values={"xml": True}, need="read xml", by="anna"))
        await run.result()
    planner.verify()


async def given_up(stage: Stage) -> None:
    settings = kedge.RunSettings(adaptation_sensitivity=0.9)
    limits = kedge.Limits(parallel=30)
    async with stage.engine(planner=ScriptedPlanner(None, None), limits=limits) as engine:
        run = await engine.start(stage.plan, None, RUN_ID, settings=settings)
        await run.result()


async def offered(stage: Stage) -> None:
    @kedge.tool(effect="read", name="three")
    async def three(x: int, many: list[int]) -> int:
        if x > 2 or len(many) > 2:
            raise kedge.ToolError("less", try_args={"x": 2}, at_most={"many": 2})
        return x

    stage.more_tools.append(three)
    async with stage.engine(planner=kedge.RulePlanner()) as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await run.result()


shape("repaired", "Its plan is repaired: the planner fails, is refused, mends it; a person wants more", """
    id: a, tool: one
    id: b, tool: bad, args: {x: "${a}"}
    id: c, tool: slow, after: [a]
""", {"one": Discover("xml", "", 1), "bad": [Fail("permanent", "too much"), 2], "two": 3,
      "slow": Late(60, 4)}, play=repaired)  # fmt: skip
shape("repair_given_up", "Everything fails, and the planner knows no way", "\n".join(
    f"    id: s{number}, tool: bad" for number in range(23)
), {"bad": [Fail("permanent", "no"), *[Late(1, Fail("permanent", "no"))] * 22]},
      play=given_up)  # fmt: skip
shape("offered", "A tool says what would work: other arguments, and fewer at once", """
    id: a, tool: three, args: {x: 5, many: [1, 2, 3]}
""", {}, play=offered)  # fmt: skip
