"""Tools that write down what they do before they do it, in a ledger that outlives any process.

The ledger is what happened outside: kedge does not know of it. Each line is one effect: class, path, key,
process, attempt. A tool works in the current folder, which is the case's own.
"""

from __future__ import annotations

import asyncio
import os
import time
from functools import cache
from pathlib import Path
from typing import Any, Literal

import kedge
from kedge.base.failpoints import armed, reach
from kedge.plan.model import Retry

Kind = Literal["pure", "read", "idempotent", "effect"]
LEDGER = "ledger.txt"
IN_TOOLS = ("tool.before", "tool.after")
"""Places of our own: before and after an effect."""


def append_line(name: str, line: str) -> None:
    """A line at the end of a file, on disk when this returns."""
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line.encode() + b"\n")
        os.fsync(handle)
    finally:
        os.close(handle)


def _do(kind: Kind, ctx: kedge.Context) -> None:
    """The effect."""
    if armed:
        reach("tool.before")
    append_line(LEDGER, f"{kind} {ctx.step} {ctx.idempotency_key} {os.getpid()} {ctx.attempt}")
    if armed:
        reach("tool.after")


def _in_loop(kind: Kind, name: str) -> kedge.Tool:
    async def work(ctx: kedge.Context, value: Any = None, size: int = 0, wait_s: float = 0.0) -> Any:
        _do(kind, ctx)
        if wait_s:
            await asyncio.sleep(wait_s)
        return value if value is not None else f"{ctx.step} " + "x" * size

    return kedge.tool(effect=kind, name=name)(work)


def _in_thread(kind: Kind, name: str) -> kedge.Tool:
    def work(ctx: kedge.Context, value: Any = None, size: int = 0, wait_s: float = 0.0) -> Any:
        _do(kind, ctx)
        time.sleep(wait_s)
        return value if value is not None else f"{ctx.step} " + "x" * size

    return kedge.tool(effect=kind, name=name)(work)


_PLAIN = [
    _in_loop("pure", "think"),
    _in_loop("read", "look"),
    _in_loop("idempotent", "put"),
    _in_loop("effect", "pay"),
    _in_thread("pure", "think_hard"),
    _in_thread("idempotent", "put_slowly"),
    _in_thread("effect", "pay_slowly"),
]


@kedge.tool(effect="idempotent")
async def flaky(ctx: kedge.Context, fails: int) -> str:
    """Fail so often, then work."""
    _do("idempotent", ctx)
    if ctx.attempt <= fails:
        raise kedge.ToolError("not now", "transient")
    return ctx.step


@kedge.tool(effect="idempotent", retry=Retry(attempts=4, backoff_s=0.002))
async def flaky_undo(ctx: kedge.Context, value: Any) -> str:
    """Fail at first, then work."""
    _do("idempotent", ctx)
    if ctx.attempt == 1:
        raise kedge.ToolError("not now", "transient")
    return ctx.step


@kedge.tool(effect="effect", retry=Retry(attempts=4, backoff_s=0.002))
async def unsent(ctx: kedge.Context) -> str:
    """Say of the first attempt that nothing happened."""
    if ctx.attempt == 1:
        raise kedge.NotDone("the line was busy")
    _do("effect", ctx)
    return ctx.step


@kedge.tool(effect="effect")
async def unsure(ctx: kedge.Context) -> str:
    """Have its effect, and lose the answer of the first attempt."""
    _do("effect", ctx)
    if ctx.attempt == 1:
        raise ConnectionError("the line broke")
    return ctx.step


@kedge.tool(effect="pure")
async def broken(ctx: kedge.Context) -> str:
    """Never work."""
    _do("pure", ctx)
    raise kedge.ToolError("it is broken")


@kedge.tool(effect="read")
async def mended(ctx: kedge.Context) -> str:
    """Work once somebody has mended it."""
    _do("read", ctx)
    if not Path("mended").exists():  # noqa: ASYNC240 - nothing to wait for
        raise kedge.ToolError("it is broken")
    return ctx.step


@kedge.tool(effect="read")
async def hang(ctx: kedge.Context) -> str:
    """Hang at the first attempt."""
    _do("read", ctx)
    if ctx.attempt == 1:
        await asyncio.sleep(30)
    return ctx.step


@kedge.tool(effect="read")
def stubborn(ctx: kedge.Context) -> str:
    """Take no notice of being told to stop, at the first attempt."""
    _do("read", ctx)
    if ctx.attempt == 1:
        time.sleep(0.2)
    return ctx.step


@kedge.tool(effect="read")
async def scout(ctx: kedge.Context) -> str:
    """Find more than was asked for."""
    _do("read", ctx)
    ctx.discover("a door", "a key")
    return ctx.step


@kedge.tool(effect="pure", isolation="process")
def far_think(ctx: kedge.Context) -> str:
    """Think in a process of its own."""
    _do("pure", ctx)
    return ctx.step


@kedge.tool(effect="effect", isolation="process")
def far_pay(ctx: kedge.Context) -> str:
    """Have an effect in a process of its own."""
    _do("effect", ctx)
    return ctx.step


@kedge.tool(effect="effect", isolation="process")
def far_undo(ctx: kedge.Context, value: Any) -> str:
    """Undo something in a process of its own."""
    _do("effect", ctx)
    return ctx.step


@kedge.tool(effect="read", isolation="process")
def far_hang(ctx: kedge.Context) -> str:
    """Hang in a process of its own, at the first attempt."""
    _do("read", ctx)
    if ctx.attempt == 1:
        time.sleep(30)
    return ctx.step


@cache
def changing(version: int) -> kedge.Tool:
    """A tool with effects that is another one in each version."""

    async def change(ctx: kedge.Context) -> str:
        _do("effect", ctx)
        return ctx.step

    change.__doc__ = f"Version {version}."
    return kedge.tool(effect="effect", name="change")(change)


_OWN = [
    flaky,
    flaky_undo,
    unsent,
    unsure,
    broken,
    mended,
    hang,
    stubborn,
    scout,
    far_think,
    far_pay,
    far_undo,
    far_hang,
]


def all_tools(version: int = 1) -> list[kedge.Tool]:
    """What every engine of the matrix has."""
    return [*_PLAIN, *_OWN, changing(version)]
