"""Calls, turns and timers that wait: what has not begun is not in doubt, and waiting costs nothing."""

# ruff: noqa: ASYNC110

import asyncio
import threading
import time

import pytest

import kedge
from kedge.base.clock import SystemClock
from kedge.engine import threads


def plan(*steps, **more):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps), **more})


def many(tool, count):
    return plan(*({"id": f"s{i}", "tool": tool} for i in range(count)))


async def test_a_call_stopped_before_a_thread_was_free_is_not_in_doubt(monkeypatch):
    monkeypatch.setattr(threads, "MAX_THREADS", 2)
    release, called = threading.Event(), []

    @kedge.tool(effect="effect")
    def send() -> None:
        called.append(1)
        release.wait(10)

    async with kedge.Engine(tools=[send]) as engine:
        run = await engine.start(many("send", 5))
        async with asyncio.timeout(5):
            while len(called) < 2:
                await asyncio.sleep(0.01)
        cancelling = asyncio.create_task(run.cancel())
        await asyncio.sleep(0.05)
        release.set()
        await cancelling
        result = await run.result()
    assert len(called) == 2
    assert result.counts.in_doubt == 0
    assert (result.counts.done, result.counts.cancelled) == (2, 3)


async def test_the_time_a_call_waits_for_a_thread_is_not_its_own(monkeypatch):
    monkeypatch.setattr(threads, "MAX_THREADS", 1)

    @kedge.tool(effect="pure", timeout_s=0.3)
    def nap() -> None:
        time.sleep(0.15)

    async with kedge.Engine(tools=[nap]) as engine:
        result = await (await engine.start(many("nap", 5))).result()
    assert result.ok, result.summary()


@pytest.mark.parametrize("standing", ["paused", "asked"])
async def test_a_run_that_stands_still_takes_no_turns_although_a_timer_is_due(standing, monkeypatch):
    @kedge.tool(effect="pure", retry=kedge.Retry(attempts=9, backoff_s=0.05))
    async def flaky() -> None:
        raise kedge.ToolError("no", "transient")

    limits = kedge.Limits() if standing == "paused" else kedge.Limits(calls=1)
    async with kedge.Engine(tools=[flaky], limits=limits) as engine:
        run = await engine.start(plan({"id": "a", "tool": "flaky"}))
        await asyncio.sleep(0.02)
        if standing == "paused":
            await run.pause()
        await asyncio.sleep(0.2)
        turns, driver = [], run._driver
        usual = driver._take_turn

        def counted():
            turns.append(1)
            usual()

        monkeypatch.setattr(driver, "_take_turn", counted)
        await asyncio.sleep(0.2)
    assert len(turns) < 5


async def test_a_clock_that_was_wrong_for_a_moment_holds_no_timer_up():
    class Clock(SystemClock):
        ahead_ms = 0

        def now_ms(self):
            return super().now_ms() + self.ahead_ms

    clock = Clock()

    @kedge.tool(effect="pure")
    async def jump() -> None:
        clock.ahead_ms = 3_600_000
        await asyncio.sleep(0.05)

    @kedge.tool(effect="pure")
    async def back() -> None:
        clock.ahead_ms = 0

    steps = (
        {"id": "a", "tool": "jump"},
        {"id": "b", "tool": "back", "after": ["a"]},
        {"id": "c", "tool": "sleep", "args": {"seconds": 0.1}, "after": ["b"]},
    )
    async with kedge.Engine(tools=[jump, back], clock=clock) as engine:
        run = await engine.start(plan(*steps))
        async with asyncio.timeout(3):
            assert (await run.result()).ok


async def test_a_tool_that_discovers_without_end_fills_no_log(caplog):
    @kedge.tool(effect="pure")
    async def chatty(ctx: kedge.Context) -> None:
        for n in range(5_000):
            ctx.discover(f"thing {n}")

    async with kedge.Engine(tools=[chatty]) as engine:
        run = await engine.start(plan({"id": "a", "tool": "chatty"}))
        assert (await run.result()).ok
        found = [event async for event in run.events() if event.kind == "discovered"]
    assert len(found) == 100
    assert "discovers too much" in caplog.text


async def test_the_time_of_a_run_is_counted_over_resumes(tmp_path):
    @kedge.tool(effect="pure")
    async def nap() -> None:
        await asyncio.sleep(0.3)

    steps = [{"id": f"s{i}", "tool": "nap", "after": [f"s{i - 1}"] if i else []} for i in range(6)]
    document = plan(*steps, limits={"run_s": 1.0})
    async with kedge.Engine(tools=[nap], store=tmp_path / "k.db") as engine:
        run = await engine.start(document, run_id="r")
        await asyncio.sleep(0.75)
    await asyncio.sleep(1.0)  # nobody drives it: that does not count
    async with kedge.Engine(tools=[nap], store=tmp_path / "k.db") as engine:
        began = time.monotonic()
        run = await engine.resume("r")
        result = await run.result()
        assert [asked.limit for asked in result.questions.values()] == ["run_s"]
        assert 0.1 < time.monotonic() - began < 0.9
