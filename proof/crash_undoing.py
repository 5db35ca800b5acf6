"""Workflows of the crash matrix of which something is undone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crash_steering import call, send, wait

import kedge
from kedge import commands

if TYPE_CHECKING:
    from crash_plans import Client


def undone(id_: str, tool: str, *after: str, by: str = "", **more: Any) -> dict[str, Any]:
    """A step that a call of `by` undoes, of its own tool if none is named."""
    undo = {"tool": by or tool, "args": {"value": "${result}"}}
    return call(id_, tool, *after, compensate=undo, **more)


async def cancelled(client: Client, run: kedge.Run) -> None:
    """Cancelled in the middle, and what was done is undone."""
    while not (run.state.done > 1 or run.state.ended or run.state.open_questions):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    if not run.state.ended:
        await run.cancel("enough", by="anna", compensate=True)
        client.ack("cancelled")


async def taken_back(client: Client, _: kedge.Run) -> None:
    """It is done, and then it was not wanted: one step first, and then all that is left."""
    for step in ("s1", ""):
        if client.acked("taken_back", step=step):
            continue
        try:
            run = await client.engine.compensate("r", step, "not wanted", "anna")
        except kedge.Refused:
            pass  # a life before came so far, and no further
        else:
            while not (result := await run.result()).state.ended:
                for question in result.questions:
                    await run.answer(question, "done", by="anna")
                    client.ack("answered", run="r", question=question, answer="done")
            client.ack("ended", run="r", status=str(result.status))
        client.ack("taken_back", step=step)


async def one_step(client: Client, run: kedge.Run) -> None:
    """A step is undone while the run goes on."""
    while run.state.steps["s1"].status != "done" and not (run.state.ended or run.state.open_questions):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    await send(client, run, commands.Compensate(step="s1", key="c1", by="anna"))
    await send(client, run, commands.Signal(name="go", key="s1"))


CANCELLED = [
    undone("s0", "put"),
    undone("s1", "pay", "s0"),
    undone("s2", "pay", "s1", by="put"),
    call("long", "put", "s2", args={"wait_s": 30}),
]
FAILED = [
    undone("s0", "pay"),
    undone("each", "pay", "s0", foreach=[1, 2]),
    undone("turn", "put", "each", by="pay", loop={"times": 2}),
    call("bad", "broken", "turn"),
]
DONE = [
    undone("s0", "put", by="pay"),
    undone("s1", "pay", "s0"),
    {"id": "job", "after": ["s1"], "steps": [undone("x", "put"), undone("y", "pay", "x", by="flaky_undo")]},
]
ONE_STEP = [undone("s0", "put"), undone("s1", "pay", "s0"), wait("w"), call("last", "put", "w", "s1")]
FAR = [undone("s0", "put", by="far_undo"), call("bad", "broken", "s0")]
