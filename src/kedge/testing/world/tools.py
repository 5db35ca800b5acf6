"""The tools of a world, and how their calls go: well, or in one of the ways that the scenario names."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from kedge.base.errors import NotDone, ToolError
from kedge.plan.tools import Effect
from kedge.testing.authors import TOOLS
from kedge.testing.world.loop import SimulatedLoop
from kedge.testing.world.trouble import Died
from kedge.tools.context import Context
from kedge.tools.function import tool
from kedge.tools.registry import Registry

if TYPE_CHECKING:
    from kedge.testing.world.process import Process

UNDOERS: dict[str, Effect] = {"unsend": "effect", "unput": "idempotent"}
"""What undoes the call of another tool."""
ALL_TOOLS: dict[str, Effect] = {**TOOLS, **UNDOERS}
BIG = 20_000
"""Characters of a result that is kept as a blob."""


class Call:
    """One call: who is called, for what, and how it will go."""

    def __init__(self, name: str, ctx: Context, given: dict[str, Any]) -> None:
        self.process = _process()
        self.name = name
        self.ctx = ctx
        world = self.process.world
        epoch = self.process.journal.epoch_of(ctx.run_id)
        number = world.ledger.call(ctx, epoch, name, given)
        self.luck = Random(f"{world.scenario.seed} {ctx.run_id} {ctx.step} {number}")
        scenario = world.scenario
        rough = scenario.fates and not world.calm and self.luck.randrange(100) < scenario.rough
        self.fate = self.luck.choice(scenario.fates) if rough else ""
        self._pending = world.count("call", self.process)
        self.happen("before")

    def happen(self, phase: str) -> None:
        """What goes wrong with the process at this point of the call."""
        for fault in [fault for fault in self._pending if fault.phase == phase]:
            self.process.world.strike(fault, self.process)
        if self.process.dead:
            raise Died

    def value(self) -> Any:
        """What it gives."""
        number = self.luck.randrange(1_000_000)
        if self.fate == "big":
            return f"{number} " * (BIG // len(str(number)))
        if self.fate == "unstorable":
            return {"bad": float("nan")}
        if self.name == "many":
            return [number + extra for extra in range(self.luck.randrange(4))]
        return number

    def fail(self) -> None:
        """Raise what it is fated to."""
        match self.fate:
            case "transient" | "permanent":
                raise ToolError("bad luck", self.fate)
            case "not done":
                raise NotDone("nothing happened")
            case "rate limited":
                raise ToolError("too many", "rate_limited", retry_after_s=self.luck.choice([0.5, 20.0]))
            case "breaks":
                raise ValueError("a mistake in the tool")
            case "times out":
                raise TimeoutError("the other side is slow")
            case "drops the line":
                raise ConnectionError("the line is dead")
            case "exits":
                raise SystemExit(3)
            case _:
                return

    async def wait(self) -> None:
        """Take as long as it is fated to."""
        luck = self.luck
        match self.fate:
            case "slow":
                await asyncio.sleep(luck.choice([0.3, 3.0, 20.0, 400.0]))
            case "hangs":
                await asyncio.sleep(1e9)
            case "ignores cancel" | "comes back late":
                wait_s = 1e9 if self.fate == "ignores cancel" else luck.choice([1.0, 30.0])
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.sleep(wait_s)
                await asyncio.sleep(luck.choice([0.0, 1.0, 5.0, 60.0]))
            case "talks":
                for part in range(luck.randrange(4)):
                    self.ctx.progress(part / 4, "on the way")
                    self.ctx.discover("something", need="somebody")
                    self.ctx.usage(tokens=part + 1, cost=0.5)
                    await asyncio.sleep(0.1)
            case "blocks":
                self.process.world.clock.advance(luck.choice([0.05, 2.0, 15.0]))
            case _:
                if luck.randrange(2):
                    await asyncio.sleep(luck.choice([0.0, 0.001, 0.05, 1.0]))

    async def go(self) -> Any:
        """The call, from its beginning to its end."""
        await self.wait()
        self.fail()
        self.happen("written")
        if self.luck.randrange(3) == 0:
            await asyncio.sleep(0.002)
        self.happen("after")
        return self.value()


def _process() -> Process:
    """Whose call it is."""
    loop = asyncio.get_running_loop()
    if not isinstance(loop, SimulatedLoop):
        raise TypeError("these tools live in a simulated world only")
    process: Process = loop.process
    if process.dead:
        raise Died
    return process


async def _called(name: str, ctx: Context, given: dict[str, Any]) -> Any:
    return await Call(name, ctx, given).go()


async def read(ctx: Context, **given: Any) -> Any:
    """Look at something."""
    return await _called("read", ctx, given)


async def many(ctx: Context, **given: Any) -> Any:
    """List some things."""
    return await _called("many", ctx, given)


async def put(ctx: Context, **given: Any) -> Any:
    """Write something under a key."""
    return await _called("put", ctx, given)


async def send(ctx: Context, **given: Any) -> Any:
    """Do something that cannot be undone."""
    return await _called("send", ctx, given)


async def unsend(ctx: Context, **given: Any) -> Any:
    """Undo what was sent."""
    return await _called("unsend", ctx, given)


async def unput(ctx: Context, **given: Any) -> Any:
    """Take back what was written."""
    return await _called("unput", ctx, given)


def pure(ctx: Context, **given: Any) -> Any:
    """Compute: a plain function, which runs in a thread."""
    call = Call("pure", ctx, given)
    call.fail()
    call.happen("after")
    return call.value()


async def send_anew(ctx: Context, copies: int = 1, **given: Any) -> Any:
    """Do something that cannot be undone, as a later release of the tool does it."""
    return await _called("send", ctx, given)


def _registry(sender: Callable[..., Any]) -> Registry:
    return Registry(
        [
            tool(effect=TOOLS["pure"])(pure),
            tool(effect=TOOLS["read"])(read),
            tool(effect=TOOLS["many"], resources=("line",))(many),
            tool(effect=TOOLS["put"], parallel=2)(put),
            tool(effect=TOOLS["send"], name="send")(sender),
            tool(effect=UNDOERS["unsend"])(unsend),
            tool(effect=UNDOERS["unput"])(unput),
        ]
    )


REGISTRY = _registry(send)
"""Made once: what a tool is does not depend on the process that calls it."""
LATER_REGISTRY = _registry(send_anew)
"""After a deployment: one of the tools is not what it was."""
