"""Days pass in no time, in order, and never while something outside is at work."""

from __future__ import annotations

import asyncio
import socket
import threading
import time

import pytest

import kedge
from kedge.testing.virtual_time import START_MS, VirtualClock, VirtualLoop, run_virtually, virtual

DAY_S = 86_400.0


@virtual
async def test_days_pass_in_no_time():
    began_s = time.perf_counter()
    await asyncio.sleep(3 * DAY_S)
    assert asyncio.get_running_loop().time() == pytest.approx(3 * DAY_S)
    assert VirtualClock().now_ms() == START_MS + 3 * 86_400_000
    assert time.perf_counter() - began_s < 0.5


@virtual
async def test_what_is_due_sooner_comes_first():
    came = []
    await asyncio.gather(*(_after(s, came) for s in (5, 1, 3, 0.001, 1e6, 2)))
    assert came == [0.001, 1, 2, 3, 5, 1e6]


async def _after(seconds, came):
    await asyncio.sleep(seconds)
    came.append(seconds)


@virtual
async def test_small_steps_still_pass_when_much_time_has():
    await asyncio.sleep(9 * 365 * DAY_S)
    clock = VirtualClock()
    for _ in range(50):
        before = clock.now_ms()
        await asyncio.sleep(0.001)
        assert before < clock.now_ms() <= before + 2


@virtual
async def test_a_timeout_is_virtual_too():
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.Event().wait(), DAY_S)


@virtual
async def test_an_open_socket_is_waited_for_in_real_time():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    thread = threading.Timer(0.05, theirs.send, [b"x"])
    thread.start()
    got = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(ours, 1), 60)
    assert got == b"x"
    assert asyncio.get_running_loop().time() < 30
    thread.join()
    ours.close()
    theirs.close()


@virtual
async def test_a_thread_is_waited_for_in_real_time_if_somebody_says_so():
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    done = asyncio.Event()
    thread = threading.Timer(0.05, lambda: loop.call_soon_threadsafe(done.set))
    loop.outside = thread.is_alive
    thread.start()
    await asyncio.wait_for(done.wait(), 60)
    thread.join()


@virtual
async def test_work_for_an_executor_is_done_in_the_loop_and_its_error_told():
    assert await asyncio.to_thread(threading.get_ident) == threading.get_ident()
    with pytest.raises(ZeroDivisionError):
        await asyncio.to_thread(lambda: 1 // 0)


def test_who_waits_for_what_never_comes_is_told(monkeypatch):
    monkeypatch.setattr("kedge.testing.virtual_time.QUIET_S", 0.01)
    with pytest.raises(kedge.KedgeError, match="every task waits") as told:
        run_virtually(_for_ever())
    assert told.value.code == "test_stands_still"


async def _for_ever():
    await asyncio.Event().wait()


def test_who_waits_for_what_never_comes_is_told_though_a_timer_ticks():
    async def tick():
        for _ in range(100_000):
            await asyncio.sleep(DAY_S)

    async def main():
        ticking = asyncio.create_task(tick())
        await _for_ever()
        await ticking

    with pytest.raises(kedge.KedgeError, match="ten years"):
        run_virtually(main())


async def test_virtual_time_is_refused_in_a_loop_that_keeps_real_time():
    with pytest.raises(kedge.KedgeError, match=r"@kedge\.testing\.virtual"):
        VirtualClock()


PLAN = kedge.Plan.parse(
    """
    goal: Wait and hang
    steps:
      - {id: rest, tool: sleep, args: {seconds: 259200}}
      - id: hang
        tool: hang
        after: [rest]
        timeout_s: 86400
        retry: {attempts: 3, backoff_s: 3600, max_backoff_s: 7200}
    """
)


@kedge.tool(effect="read")
async def hang() -> None:
    """Never return."""
    await asyncio.Event().wait()


@virtual
async def test_an_engine_sleeps_hangs_and_backs_off_in_virtual_time():
    began_s = time.perf_counter()
    async with kedge.Engine([hang, *kedge.builtin_tools()], clock=VirtualClock()) as engine:
        run = await engine.start(PLAN)
        result = await run.result()
    assert result.steps["hang"].attempt == 3
    assert 6 * DAY_S + 2 * 1800 < result.seconds < 7 * DAY_S
    assert time.perf_counter() - began_s < 1.0
