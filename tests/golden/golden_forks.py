"""More shapes: runs that branched off another, and plans that a person approves."""

from __future__ import annotations

from golden import RUN_ID
from golden_shapes import Stage, shape

import kedge
from kedge import commands
from kedge.testing import Fail

BIG = "x" * 20_000
OTHER = "other"


async def reused(stage: Stage) -> None:
    async with stage.engine() as engine:
        await (await engine.start(stage.plan, None, OTHER)).result()
        patch = kedge.Patch(why="one more", add=(kedge.Addition(step=kedge.Step(id="z", tool="two")),))
        fork = engine.fork(OTHER, 2, patch, ask="effects", by="anna")
        run = await fork.start(RUN_ID, repeat=True)
        await run.result()
        await run.answer("q1", "approve", by="anna")
        await run.result()


async def anew(stage: Stage) -> None:
    async with stage.engine() as engine:
        await (await engine.start(stage.plan, None, OTHER)).result()
        await (await engine.fork(OTHER, before="b", anew=True).start(RUN_ID, repeat=True)).result()


async def approved_plan(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID, ask="plan")
        await run.result()
        await run.answer("q1", "approve", {"change": {"a": {"args": {"x": 1}}}}, by="anna")
        await run.send(commands.Inject(step=kedge.Step(id="c", tool="one"), by="bot", role="agent"))
        await run.result()
        await run.answer("q2", "refuse", by="anna")
        await run.send(commands.SetGoal(goal="Another", by="ben"))
        await run.result()


async def refused_plan(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID, ask="plan")
        await run.result()
        await run.send(commands.Answer(question="q1", answer="refuse", reason="too dear", by="anna"))
        await run.result()


async def asked_for(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID, ask="effects")
        await run.result()
        await run.answer("q1", "give", {"n": 1}, by="anna")
        await run.result()


shape("fork_reused", "What the other run did is taken over, and a step is added", """
    id: a, tool: one, loop: {times: 2}
    id: b, tool: two, args: {x: "${a}"}
    id: job, steps: [{id: try, tool: three}], retry: {attempts: 2, backoff_s: 1, on: [permanent]}
""", {"one": [1, BIG], "two": [3, 4], "three": [Fail("permanent"), 5]}, {"two": "effect"},
      play=reused)  # fmt: skip
shape("fork_anew", "All that came after is done again", """
    id: a, tool: one
    id: b, tool: two, args: {x: "${a}"}
""", {"one": [1], "two": [2, 3]}, {"two": "effect"}, play=anew)  # fmt: skip
shape("plan_approved", "A plan is approved with edits, a bot's change refused, a person's own taken", """
    id: a, tool: one
    id: s, wait: {signal: never, expires_s: 60}
    id: b, tool: two, args: {x: "${a}"}
""", {"one": 1, "two": 2}, {"two": "effect"}, play=approved_plan)  # fmt: skip
shape("plan_refused", "A plan is refused, and nothing of it is done", """
    id: a, tool: one
""", {"one": 1}, play=refused_plan)  # fmt: skip
shape("inputs_asked", "An input was not given, and a person is asked for it", """
inputs: {who: {description: Whom to tell}}
===
    id: a, tool: one, args: {x: "${inputs.who}"}
    id: b, tool: one
""", {"one": 1}, play=asked_for)  # fmt: skip
