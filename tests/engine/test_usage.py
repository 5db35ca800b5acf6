"""What calls used reaches the log, wherever the tool runs and however its call ends."""

from __future__ import annotations

import asyncio
import math
import time

import pytest

import kedge
from kedge.engine.usage import added
from kedge.flow.usage import Usage


def plan(*steps):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps)})


async def used(tool, **step):
    """The run of a plan with one step that calls `tool`."""
    async with kedge.Engine([tool]) as engine:
        run = await engine.start(plan({"id": "a", "tool": tool.spec.name, **step}))
        return await run.result()


@kedge.tool(effect="read")
async def in_loop(ctx: kedge.Context) -> int:
    ctx.usage(tokens=3)
    ctx.usage(tokens=4, cost=0.5)
    return 1


@kedge.tool(effect="read")
def in_thread(ctx: kedge.Context) -> int:
    ctx.usage(tokens=7, cost=0.5)
    return 1


@kedge.tool(effect="read", isolation="process")
def apart(ctx: kedge.Context) -> int:
    ctx.usage(tokens=7)
    return 1


@pytest.mark.parametrize("tool", [in_loop, in_thread])
async def test_all_that_a_call_says_is_one_record(tool):
    result = await used(tool)
    assert result.feedback["a"].usage == Usage(tokens=7, cost=0.5)
    assert result.usage == Usage(tokens=7, cost=0.5)


async def test_what_a_process_took_is_measured():
    result = await used(apart)
    usage = result.feedback["a"].usage
    assert (usage.cpu_s > 0, usage.tokens) == (True, 7)
    assert 1 < usage.memory_mb < 1_000


async def test_what_failed_attempts_used_counts_too():
    @kedge.tool(effect="read", retry=kedge.Retry(attempts=2, backoff_s=0))
    async def flaky(ctx: kedge.Context) -> int:
        ctx.usage(tokens=10)
        if ctx.attempt == 1:
            raise ConnectionError("gone")
        return 1

    assert (await used(flaky)).usage.tokens == 20


async def test_what_a_call_used_that_ignores_its_end_counts_too(monkeypatch):
    monkeypatch.setattr("kedge.engine.attempts.GRACE_S", 0.1)

    @kedge.tool(effect="read")
    def deaf(ctx: kedge.Context) -> int:
        ctx.usage(tokens=10)
        time.sleep(0.6)
        return 1

    result = await used(deaf, timeout_s=0.1)
    assert (result.status, result.usage.tokens) == ("failed", 10)


async def test_what_a_call_used_that_is_given_up_is_counted_once_also_when_it_comes_back(monkeypatch):
    monkeypatch.setattr("kedge.engine.attempts.GRACE_S", 0.1)
    back = asyncio.Event()

    @kedge.tool(effect="read")
    async def deaf(ctx: kedge.Context) -> int:
        ctx.usage(tokens=10)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0.3)
        back.set()
        return 1

    @kedge.tool(effect="read")
    async def later() -> None:
        await back.wait()
        await asyncio.sleep(0.05)

    steps = [
        {"id": "a", "tool": "deaf", "timeout_s": 0.1, "on_error": "continue"},
        {"id": "b", "tool": "later"},
    ]
    async with kedge.Engine([deaf, later]) as engine:
        result = await (await engine.start(plan(*steps))).result()
    assert (result.status, result.usage.tokens) == ("done", 10)


async def test_what_a_call_used_before_its_engine_was_closed_is_kept(tmp_path):
    @kedge.tool(effect="read")
    async def long(ctx: kedge.Context) -> int:
        ctx.usage(tokens=10)
        await asyncio.sleep(60)
        return 1

    async with kedge.Engine([long], tmp_path / "k.db") as engine:
        await engine.start(plan({"id": "a", "tool": "long"}), run_id="one")
        await asyncio.sleep(0.05)
    async with kedge.Engine([long], tmp_path / "k.db") as engine:
        assert engine.look("one").usage.tokens == 10


@pytest.mark.parametrize("said", ["7", None, True, -1, math.nan, [], {}])
def test_what_is_no_amount_counts_as_nothing(said):
    assert added(Usage(tokens=1), {"tokens": said, "cost": said, "cpu_s": said}) == Usage(tokens=1)


def test_an_amount_that_cannot_be_is_held_to_what_can_be():
    assert added(None, {"cost": 1e300, "rss_bytes": 5_000_000}) == Usage(cost=1e12, memory_mb=5.0)
