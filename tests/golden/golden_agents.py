"""More shapes: runs in which an agent says how to go on."""

from __future__ import annotations

import asyncio

from golden import RUN_ID
from golden_shapes import Stage, shape

import kedge
from kedge import commands
from kedge.testing import Fail, Hang, Late, ScriptedAgent


async def guided(stage: Stage) -> None:
    agent = ScriptedAgent(
        [
            commands.Say(text="I have seen a"),
            commands.Note(values={"seen": ["a"]}),
            commands.Mark(name="half"),
            commands.Inject(step=kedge.Step(id="more", tool="one", args={"x": "${a}"}), why="one more"),
            commands.Answer(question="q1", answer="approve"),
        ],
        Hang(),
        lambda situation: [commands.Retry(step=path) for path in situation.held],
    )
    settings = kedge.RunSettings(decide_at="milestone", agent_timeout_s=10, agent_default="ask")
    async with stage.engine(agent=agent) as engine:
        run = await engine.start(stage.plan, None, RUN_ID, settings=settings)
        await run.send(commands.Say(text="be quick", by="anna"))
        await asyncio.sleep(30)
        await run.send(commands.Mark(name="later", by="anna"))
        await run.answer("q1", "go on", by="anna")
        await run.result()
    agent.verify()


async def guided_wide(stage: Stage) -> None:
    limits = kedge.Limits(parallel=30)
    settings = kedge.RunSettings(decide_at="every_step")
    async with stage.engine(agent=ScriptedAgent(Late(5, []), [], []), limits=limits) as engine:
        run = await engine.start(stage.plan, None, RUN_ID, settings=settings)
        await run.result()


shape("guided", "An agent speaks and adds at one milestone, is silent at another, and mends a failure", """
    id: a, tool: one, milestone: true
    id: b, tool: slow, args: {x: "${a}"}, milestone: true
    id: c, tool: one, args: {x: "${b}"}
    id: d, tool: bad, after: [c]
""", {"one": [1, 2, 3], "slow": Late(2, 4), "bad": [Fail("permanent"), 5]}, play=guided)  # fmt: skip
shape("guided_wide", "An agent is asked about many steps at once", "\n".join(
    f"    id: s{number}, tool: {'one' if number else 'soon'}" for number in range(23)
) + "\n    id: last, tool: soon, after: [s1]", {"one": [Late(1, 1)] * 22, "soon": [1, 2]},
      play=guided_wide)  # fmt: skip
