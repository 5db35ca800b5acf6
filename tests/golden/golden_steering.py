"""More shapes: runs whose plan is changed, whose calls are approved, and that signals reach."""

from __future__ import annotations

import asyncio

from golden import RUN_ID
from golden_shapes import Stage, shape

import kedge
from kedge import commands
from kedge.testing import Fail, Hang, Late

BIG = "x" * 20_000


async def changed(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
        step = kedge.Step(id="c", tool="two", args={"x": "${a}"})
        await run.send(commands.Inject(step=step, why="one more", by="anna", key="k1"))
        await run.send(
            commands.Inject(step=step, by="bot", role="agent", key="k2")
        )  # there is one of that id by now
        await run.send(commands.Remove(step="b", by="bot", role="agent", key="k3"))
        await run.send(commands.SetGoal(goal="Something else", why="it changed", by="anna"))
        await run.send(commands.Edit(patch=kedge.Patch(base=4, cancel=("slow",), why="enough")))
        await run.send(commands.Skip(step="never", reason="not now"))
        await run.result()


async def rolled_back(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
        fallback = kedge.Step(id="other", tool="two", fallback_for="a")
        await run.send(commands.Inject(step=fallback))
        await run.send(commands.Rewire(step="b", reads={"a": "z"}))
        await run.send(commands.Rollback(version=2))
        await run.send(commands.Prioritise(step="b", priority=3))
        await run.send(commands.SetContext(values={"k": 1}))
        await run.result()


async def approved(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, {"big": BIG}, RUN_ID, ask="effects")
        await run.result()
        await run.send(
            commands.Answer(question="q1", answer="approve", value={"x": BIG + "!"}, by="anna", reason="ok")
        )
        await run.result()
        await run.answer("q2", "refuse", by="anna")
        await run.result()


async def expired(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(120)
        await run.result()


async def failures_decided(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        for number, answer in enumerate(["retry", "skip", "fail"], 1):
            await run.result()
            await run.answer(f"q{number}", answer, by="anna")
        await run.result()


async def retried(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(1)
        await run.send(commands.Retry(step="a", by="anna"))
        await run.result()


async def signalled(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await run.result()
        await run.send(commands.Signal(name="early", data=BIG))
        await run.send(commands.Signal(name="go-7", data={"n": 7}))
        await run.result()


shape("live_changes", "Its plan is changed: a step more, one less, another goal, a call stopped", """
    id: a, tool: one
    id: slow, tool: one
    id: b, tool: one, after: [a]
    id: never, tool: one, after: [a]
""", {"one": [Late(60, 1), Hang()], "two": 2}, play=changed)  # fmt: skip
shape("live_rollback", "A fallback is added in time, a rewiring is taken back", """
    id: a, tool: one
    id: z, tool: two
    id: b, tool: two, args: {x: "${a}"}
""", {"one": [Late(60, Fail("permanent"))], "two": [1, 2, 3]}, play=rolled_back)  # fmt: skip
shape("approval", "Each effect is asked about: one is approved with other arguments, one refused", """
inputs: {big: {type: string}}
===
    id: a, tool: one, args: {x: "${inputs.big}"}
    id: b, tool: one, args: {x: 1}, after: [a]
""", {"one": [1]}, {"one": "effect"}, play=approved)  # fmt: skip
shape("approval_expired", "Nobody approves it in time", """
    id: a, tool: one, 'approval': {ask: "May ${inputs.who}?", expires_s: 60}
    id: b, tool: one, fallback_for: a
""".replace("${inputs.who}", "it"), {"one": 1}, play=expired)  # fmt: skip
shape("failures_decided", "A person decides on failures: again, without it, and let it fail", """
    id: a, tool: one, on_error: ask
    id: b, tool: two, on_error: ask
""", {"one": [Fail("permanent"), Fail("permanent")], "two": [Late(60, Fail("permanent"))]},
      play=failures_decided)  # fmt: skip
shape("retried", "A failed step is tried again while the run goes on", """
    id: a, tool: one
    id: b, tool: two, args: {x: "${a}"}
    id: c, tool: three
""", {"one": [Fail("permanent"), 5], "two": 6, "three": Late(60, 1)}, play=retried)  # fmt: skip
shape("signals", "It waits for what comes from outside, early and in time", """
    id: a, wait: {signal: "go-${n}", expires_s: 60}, after: [n]
    id: n, tool: one
    id: b, wait: {signal: early}, after: [a]
""", {"one": 7}, play=signalled)  # fmt: skip
