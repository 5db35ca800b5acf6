"""Workflows of the crash matrix whose run branched off another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crash_steering import call

from kedge import Addition, Patch, Step

if TYPE_CHECKING:
    from crash_plans import Client

SOURCE = "source"


async def forked(client: Client) -> None:
    """What the other run did is taken over; one effect is new."""
    patch = Patch(add=(Addition(step=Step(id="more", tool="pay", after=("s3",))),))
    await _branch_off(client, before="s1", patch=patch)


async def forked_anew(client: Client) -> None:
    """Everything is done again, as was asked for."""
    await _branch_off(client, before="s1", anew=True)


async def _branch_off(client: Client, **how: Any) -> None:
    if client.acked("forked"):
        return
    source = await client.second(SOURCE, FORKED)
    result = await source.result()
    for question in result.questions:
        await source.answer(question, "done", by="anna")
        client.ack("answered", run=SOURCE, question=question)
    result = await source.result()
    client.ack("ended", run=SOURCE, status=str(result.status))
    run = await client.engine.fork(SOURCE, **how).start("r", repeat=True)
    client.ack("forked", run=run.id)


FORKED = [call("s0", "put"), call("s1", "pay", "s0"), call("s2", "look", "s1"), call("s3", "put", "s2")]
