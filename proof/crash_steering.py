"""Workflows of the crash matrix whose run is steered: commands with keys, approvals, signals.

Every command has a key, and is sent again by each life until its receipt is written down: the run must
take it once.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kedge
from kedge import commands

if TYPE_CHECKING:
    from crash_plans import Client


async def send(client: Client, run: kedge.Run, command: Any) -> None:
    """Send it, unless it is known to have been decided on; write down that it was."""
    if client.acked("sent", key=command.key) or run.state.ended:
        return
    decision = await run.send(command)
    if decision.code != "run_ended":
        client.ack("sent", run="r", key=command.key, taken=decision.taken)


async def signalled(client: Client, run: kedge.Run) -> None:
    """What the run waits for happens."""
    await send(client, run, commands.Signal(name="go", data={"n": 1}, key="s1"))


async def changed(client: Client, run: kedge.Run) -> None:
    """A step more, one that is refused, and what the run waits for."""
    step = kedge.Step(id="more", tool="pay", after=("s0",))
    await send(client, run, commands.Inject(step=step, key="i1", by="anna"))
    await send(client, run, commands.Inject(step=step, key="i2", by="ben"))
    await send(client, run, commands.Signal(name="go", key="s1"))


async def tried_again(client: Client, run: kedge.Run) -> None:
    """What failed is mended, and tried again."""
    while run.state.steps["b"].status not in ("failed", "done") and not run.state.ended:  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    Path("mended").touch()  # noqa: ASYNC240 - nothing to wait for
    if run.state.steps["b"].status == "failed":
        await send(client, run, commands.Retry(step="b", key="r1"))
    await send(client, run, commands.Signal(name="go", key="s1"))


async def _from_elsewhere(client: Client, run: kedge.Run, asked: list[Any]) -> None:
    """Send commands by the store, all at once, and write down what became of each."""
    todo = [command for command in asked if not client.acked("sent", key=command.key)]
    if not todo or run.state.ended:
        return
    async with kedge.Engine(store="k.db") as other:
        await asyncio.gather(*(_told(client, other, command) for command in todo))


async def _told(client: Client, other: kedge.Engine, command: Any) -> None:
    try:
        receipt = await other.send("r", command)
        client.ack("posted", run="r", key=command.key)
        decision = await receipt.decided(30)
    except kedge.Refused:
        return  # it has ended in the meantime
    if decision.code != "run_ended":
        client.ack("sent", run="r", key=command.key, taken=decision.taken)


async def signalled_elsewhere(client: Client, run: kedge.Run) -> None:
    """Somebody else says that it has happened, twice with one key; a step is added, and one is refused."""
    step = kedge.Step(id="more", tool="pay", after=("s0",))
    asked = [
        commands.Inject(step=step, key="i1"),
        commands.Inject(step=step, key="i2"),
        commands.SetGoal(goal="h", key="g1"),
    ]
    await _from_elsewhere(client, run, asked)
    await _from_elsewhere(client, run, [commands.Signal(name="go", key="s1")] * 2)


async def answered_elsewhere(client: Client, run: kedge.Run) -> None:
    """Every question is answered by two people at once, in no order; one of the answers counts."""
    while run.state.open_questions < ASKED and not run.state.ended and not client.acked("answers"):  # noqa: ASYNC110 - nobody tells
        await asyncio.sleep(0)
    client.ack("answers")
    order = [3, 1, 6, 5, 2, 4]
    asked = [
        commands.Answer(question=f"q{n}", answer="approve", key=f"{who}{n}", by=who)
        for n in order
        for who in ("anna", "ben")
    ]
    await _from_elsewhere(client, run, asked)


async def signalled_while_nobody_drives(client: Client) -> None:
    """Between two lives: what is sent then is kept until the next one takes the run up."""
    if client.acked("started", run="r") and not client.acked("posted", key="early"):
        async with kedge.Engine(store="k.db") as other:
            try:
                await other.send("r", commands.Signal(name="go", key="early"))
            except kedge.Refused:
                return
        client.ack("posted", run="r", key="early")


async def signalled_at_last(client: Client, run: kedge.Run) -> None:
    """If no life was cut short, nobody has said it."""
    if not client.acked("posted", key="early"):
        await send(client, run, commands.Signal(name="go", key="early"))


class Guide:
    """An agent that does not answer at first, and then says, notes, names and adds something."""

    name = "guide"

    async def decide(self, situation: kedge.Situation, /) -> list[commands.Command]:
        await asyncio.sleep(0)
        if situation.decision == 1:
            raise ConnectionError("not yet")
        return [
            commands.Say(text=f"decision {situation.decision}"),
            commands.Note(values={"seen": [point.path for point in situation.points]}),
            commands.Mark(name=f"after {situation.decision}"),
            commands.Inject(step=kedge.Step(id="more", tool="pay", after=("s1",))),
            commands.Answer(question="q1", answer="approve"),
        ]


async def demanded(client: Client, run: kedge.Run) -> None:
    """Somebody wants the plan to be another one, whatever becomes of it else."""
    await send(client, run, commands.Repair(need="one more", key="d1", by="anna"))


def wait(id_: str, *after: str) -> dict[str, Any]:
    """A step that waits for the signal `go`."""
    return {"id": id_, "wait": {"signal": "go"}, "after": list(after)}


def call(id_: str, tool: str, *after: str, **more: Any) -> dict[str, Any]:
    """A step that calls a tool."""
    return {"id": id_, "tool": tool, "after": list(after), **more}


class Fixer:
    """A planner that is wrong first; then it gives what is broken another tool, and the plan a step more."""

    name = "fixer"

    async def repair(self, situation: kedge.Situation, /) -> kedge.Patch:
        await asyncio.sleep(0)
        if situation.round == 1:
            return kedge.Patch(remove=("s0",))
        more = kedge.Step(id="more" if situation.held else "asked", tool="pay", after=("s0",))
        return kedge.Patch(
            retry=situation.held,
            change={path: {"tool": "pay"} for path in situation.held},
            add=(kedge.Addition(step=more),),
        )


GUIDED = [call("s0", "put"), call("s1", "pay", "s0"), call("s2", "put", "s1"), call("side", "pay")]
REPAIRED = [call("s0", "put"), call("b", "broken", "s0"), call("side", "pay"), call("c", "put", "b")]
SIGNALLED = [call("s0", "put"), wait("w", "s0"), call("last", "pay", "w")]
CHANGED = [call("s0", "put"), wait("w"), call("last", "put", "s0", "w")]
APPROVED = [call("s0", "put"), call("s1", "pay", "s0", approval={"ask": "Pay?"}), call("s2", "put", "s1")]
ASKED = 6
ANSWERED = [call(f"p{n}", "pay", approval={"ask": "Pay?"}) for n in range(ASKED)]
FAILING = [
    call("s0", "put"),
    call("s1", "mended", "s0", on_error="ask"),
    call("s2", "pay", "s1", join="settled"),
]
TRIED_AGAIN = [call("s0", "put"), call("b", "mended", "s0"), call("c", "pay", "b"), wait("w")]
