"""More shapes: runs of which something is undone."""

from __future__ import annotations

import asyncio

from golden import RUN_ID
from golden_shapes import Stage, shape

import kedge
from kedge import commands
from kedge.testing import Fail, Hang, Late

BIG = "x" * 20_000


async def cancelled(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
        await run.cancel("not needed any more", by="anna", compensate=True)
        await run.result()


async def failed(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID, settings=kedge.RunSettings(undo="failure"))
        await run.result()


async def failed_and_asked(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(
            stage.plan, None, RUN_ID, settings=kedge.RunSettings(undo="failure", ask="effects")
        )
        for number in (1, 2, 3):
            await run.result()
            await run.answer(f"q{number}", "done" if number == 3 else "approve", by="anna")
        await run.result()


async def taken_back_later(stage: Stage) -> None:
    async with stage.engine() as engine:
        await (await engine.start(stage.plan, None, RUN_ID)).result()
        await asyncio.sleep(86_400)
    async with stage.engine() as engine:
        await (await engine.compensate(RUN_ID, "b", "it rains", "anna")).result()
    async with stage.engine() as engine:
        await (await engine.compensate(RUN_ID)).result()


async def live(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(1)
        await run.send(commands.Compensate(step="a", reason="not that one", by="anna"))
        await asyncio.sleep(1)
        step = kedge.Step(id="c", tool="do", compensate=stage.plan.steps[0].compensate)
        await run.send(commands.Inject(step=step))
        await asyncio.sleep(1)
        await run.send(commands.Rollback(version=1, compensate=True))
        await run.result()


EFFECTS = {"do": "effect", "redo": "idempotent", "undo": "effect", "reundo": "idempotent"}
UNDO = "compensate: {tool: undo, args: {x: '${result}'}}"
UNDO_WITH_ANOTHER = "compensate: {tool: reundo, args: {x: '${result}', was: '${a}'}}"

shape("undo_cancelled", "It is cancelled, and what it did is undone, one call at its second attempt", f"""
    id: a, tool: do, {UNDO}
    id: b, tool: redo, args: {{x: "${{a}}"}}, {UNDO_WITH_ANOTHER}
    id: slow, tool: look, after: [b]
""", {"do": 1, "redo": 2, "look": Hang(), "undo": None, "reundo": [Fail("transient"), None]}, EFFECTS,
      play=cancelled)  # fmt: skip
shape("undo_failed", "It fails; items, rounds and a composite are undone, but for one that cannot be", f"""
    id: each, tool: redo, foreach: [1, 2], {UNDO}
    id: turn, tool: redo, after: [each], loop: {{times: 2}}, {UNDO}
    id: job, after: [turn], steps: [{{id: x, tool: do, {UNDO}}}, {{id: y, tool: redo, after: [x]}}]
    id: bad, tool: look, after: [job]
""", {"do": 1, "redo": [1, 2, 3, 4, 5], "look": Fail("permanent"),
      "undo": [None, Fail("permanent"), None, None, None]},
      EFFECTS | {"undo": "idempotent"}, play=failed)  # fmt: skip
shape("undo_in_doubt", "Before it is undone somebody is asked, and after that, whether it was", f"""
    id: a, tool: do, {UNDO}
    id: b, tool: look, after: [a]
""", {"do": 1, "look": Fail("permanent"), "undo": Hang()}, EFFECTS, play=failed_and_asked)  # fmt: skip
shape("undo_unfit", "What did not meet its own test is undone, with what it gave", f"""
    id: a, tool: do, expect: "result == 2", {UNDO}
    id: b, tool: redo, expect: "len(result) < 5", {UNDO}
""", {"do": 1, "redo": Late(1, BIG), "undo": None}, EFFECTS, play=failed)  # fmt: skip
shape("undo_later", "It is done; a day later one step is undone with what used it, and then the rest", f"""
    id: a, tool: do, {UNDO}
    id: b, tool: do, args: {{x: "${{a}}"}}, {UNDO}
    id: c, tool: do, args: {{x: "${{b}}"}}, {UNDO}
""", {"do": [1, 2, 3], "undo": None}, EFFECTS, play=taken_back_later)  # fmt: skip
shape("undo_live", "While it goes on a step is undone, and another by going back to an earlier plan", f"""
    id: a, tool: do, {UNDO}
    id: slow, tool: look
    id: b, tool: do, after: [slow], args: {{x: "${{a}}"}}, on_error: continue
""", {"do": [1, 2], "look": Late(60, 1), "undo": None}, EFFECTS, play=live)  # fmt: skip
