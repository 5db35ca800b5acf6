"""Cancel, pause, drain, close: what a person does to a live run, and what is left of it."""

# pyright: reportPossiblyUnboundVariable=none, reportArgumentType=none
# ruff: noqa: ASYNC110

import asyncio
import threading
import time
from pathlib import Path

import pytest

import kedge


def plan(*steps, **more):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps), **more})


@kedge.tool(effect="pure")
async def quick() -> str:
    return "quick"


@kedge.tool(effect="pure")
async def long() -> str:
    await asyncio.sleep(3600)
    return "never"


async def send(calls: str) -> str:
    with Path(calls).open("a") as file:  # noqa: ASYNC230
        file.write("once ")
    await asyncio.sleep(3600)
    return "sent"


sends = kedge.tool(effect="effect", name="sends")(send)


@kedge.tool(effect="effect", isolation="process")
def sends_apart(calls: str) -> str:
    with Path(calls).open("a") as file:
        file.write("once ")
    time.sleep(3600)
    return "sent"


async def running(run, path):
    """Wait until a step has started."""
    async with asyncio.timeout(5):
        while (step := run.state.steps.get(path)) is None or step.status != "running":
            await asyncio.sleep(0.005)


async def test_cooperative_tools_are_cancelled_within_a_second_and_finished_work_is_kept():
    steps = [{"id": "first", "tool": "quick"}]
    steps += [{"id": f"long{i}", "tool": "long", "after": ["first"]} for i in range(10)]
    steps += [{"id": "last", "tool": "quick", "after": ["long0"]}]
    async with kedge.Engine(tools=[quick, long]) as engine:
        run = await engine.start(plan(*steps))
        await running(run, "long9")
        begun = time.monotonic()
        await run.cancel("not needed any more", by="ada")
        result = await run.result()
        assert time.monotonic() - begun < 1
        with pytest.raises(kedge.Refused) as refused:
            await run.cancel()
    assert refused.value.code == "run_ended"
    assert result.status == "cancelled"
    assert not result.ok
    assert result.steps["first"].result == "quick"
    assert {result.steps[f"long{i}"].status for i in range(10)} == {"cancelled"}
    assert result.steps["last"].status == "cancelled"
    assert result.counts.done == 1
    assert result.counts.cancelled == 11


async def test_a_plain_function_is_told_through_its_context():
    begun, seen = threading.Event(), threading.Event()

    @kedge.tool(effect="pure")
    def patient(ctx: kedge.Context) -> str:
        begun.set()
        while not ctx.cancelled:
            time.sleep(0.005)
        seen.set()
        return "stopped early"

    async with kedge.Engine(tools=[patient]) as engine:
        run = await engine.start(plan({"id": "a", "tool": "patient"}))
        await asyncio.to_thread(begun.wait, 5)
        since_s = time.monotonic()
        await run.cancel()
        result = await run.result()
    assert time.monotonic() - since_s < 1
    assert seen.is_set()
    assert result.status == "cancelled"
    # A result taken before the step was cancelled wins.
    assert result.steps["a"].result == "stopped early"


async def test_an_effect_that_was_in_flight_stays_in_doubt():
    @kedge.tool(effect="effect")
    async def send() -> str:
        await asyncio.sleep(3600)
        return "sent"

    async with kedge.Engine(tools=[send]) as engine:
        run = await engine.start(plan({"id": "a", "tool": "send"}))
        await running(run, "a")
        await run.cancel()
        result = await run.result()
    assert result.status == "cancelled"
    assert result.steps["a"].status == "in_doubt"
    assert result.counts.in_doubt == 1


@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_call_that_has_not_begun_is_cancelled_at_once_and_without_doubt(sort):
    called = []
    if sort == "async":

        @kedge.tool(effect="effect")
        async def send() -> str:
            called.append(1)
            return "sent"
    else:

        @kedge.tool(effect="effect")
        def send() -> str:
            time.sleep(0.1)
            called.append(1)
            return "sent"

    async with kedge.Engine(tools=[send]) as engine:
        run = await engine.start(plan({"id": "a", "tool": "send"}))
        while run.state.steps["a"].status != "running":
            await asyncio.sleep(0)
        begun = time.monotonic()
        await run.cancel()
        result = await run.result()
    assert time.monotonic() - begun < 1
    assert result.status == "cancelled"
    if not called:
        assert result.steps["a"].status == "cancelled"
    else:
        assert result.steps["a"].status == "done"


async def test_a_call_that_waits_for_the_disk_is_cancelled_without_doubt(tmp_path):
    called, gate = [], asyncio.Event()

    @kedge.tool(effect="pure")
    async def first() -> None:
        await gate.wait()

    @kedge.tool(effect="effect")
    async def send() -> str:
        called.append(1)
        return "sent"

    async with kedge.Engine(tools=[first, send], store=tmp_path / "k.db") as engine:
        run = await engine.start(
            plan({"id": "q", "tool": "first"}, {"id": "a", "tool": "send", "after": ["q"]})
        )
        driver = engine._drivers[run.id]
        engine._writer.full = "held by the test"
        gate.set()
        async with asyncio.timeout(5):
            while not driver._held:
                await asyncio.sleep(0.001)
        cancelling = asyncio.create_task(run.cancel())
        await asyncio.sleep(0.05)
        engine._writer.full = ""
        engine._writer.flush()
        await cancelling
        result = await run.result()
    assert not called
    assert result.status == "cancelled"
    assert result.steps["a"].status == "cancelled"


async def test_a_paused_run_starts_nothing_and_goes_on_when_unpaused():
    gate = asyncio.Event()
    called = []

    @kedge.tool(effect="pure")
    async def first() -> str:
        await gate.wait()
        return "first"

    @kedge.tool(effect="pure")
    async def second() -> str:
        called.append(1)
        return "second"

    async with kedge.Engine(tools=[first, second]) as engine:
        run = await engine.start(
            plan({"id": "a", "tool": "first"}, {"id": "b", "tool": "second", "after": ["a"]})
        )
        await running(run, "a")
        await run.pause(by="ada")
        with pytest.raises(kedge.Refused) as refused:
            await run.pause()
        assert refused.value.code == "cannot_pause"
        gate.set()
        result = await run.result()
        assert result.status == "paused"
        assert result.steps["a"].status == "done"
        assert not called
        await run.unpause()
        result = await run.result()
        assert result.ok
        with pytest.raises(kedge.Refused):
            await run.unpause()


async def test_a_run_that_nobody_paused_cannot_be_unpaused():
    async with kedge.Engine(tools=[long]) as engine:
        run = await engine.start(plan({"id": "a", "tool": "long"}))
        with pytest.raises(kedge.Refused) as refused:
            await run.unpause()
    assert refused.value.code == "not_paused"


async def test_a_paused_run_is_still_paused_after_a_restart(tmp_path):
    store = tmp_path / "k.db"
    async with kedge.Engine(tools=[quick, long], store=store) as engine:
        run = await engine.start(
            plan({"id": "a", "tool": "long"}, {"id": "b", "tool": "quick", "after": ["a"]}), run_id="r"
        )
        await running(run, "a")
        await run.pause()
    async with kedge.Engine(tools=[quick, long], store=store) as engine:
        run = await engine.resume("r")
        assert (await run.result()).status == "paused"
        await run.cancel()
        assert (await run.result()).status == "cancelled"


async def test_draining_lets_running_steps_end_and_starts_no_more(tmp_path):
    called = []

    @kedge.tool(effect="effect")
    async def work(n: int) -> int:
        called.append(n)
        await asyncio.sleep(0.1)
        return n

    steps = [{"id": f"s{i}", "tool": "work", "args": {"n": i}} for i in range(4)]
    for i in range(1, 4):
        steps[i]["after"] = [f"s{i - 1}"]
    store = tmp_path / "k.db"
    async with kedge.Engine(tools=[work], store=store) as engine:
        run = await engine.start(plan(*steps), run_id="r")
        await running(run, "s1")
        await engine.drain(3)
        assert run.state.steps["s1"].status == "done"
    assert called == [0, 1]
    async with kedge.Engine(tools=[work], store=store) as engine:
        result = await (await engine.resume("r")).result()
    assert result.ok
    assert called == [0, 1, 2, 3]


async def test_what_returns_while_the_engine_closes_is_kept(tmp_path):
    called = []

    @kedge.tool(effect="effect")
    async def careful() -> str:
        called.append(1)
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            await asyncio.sleep(0.05)
        return "finished in time"

    @kedge.tool(effect="effect")
    def plain() -> str:
        called.append(1)
        time.sleep(0.2)
        return "so did the thread"

    store = tmp_path / "k.db"
    both = plan({"id": "a", "tool": "careful"}, {"id": "b", "tool": "plain"})
    async with kedge.Engine(tools=[careful, plain], store=store) as engine:
        run = await engine.start(both, run_id="r")
        await running(run, "a")
        await running(run, "b")
        while len(called) < 2:
            await asyncio.sleep(0.005)
    async with kedge.Engine(tools=[careful, plain], store=store) as engine:
        result = await (await engine.resume("r")).result()
    assert result.ok, result.summary()
    assert result.steps["a"].result == "finished in time"
    assert result.steps["b"].result == "so did the thread"
    assert len(called) == 2


async def test_a_call_that_was_not_made_when_the_engine_closed_is_made_later_without_a_question(tmp_path):
    called, gate = [], asyncio.Event()

    @kedge.tool(effect="pure")
    async def first() -> None:
        await gate.wait()

    @kedge.tool(effect="effect")
    async def send() -> str:
        called.append(1)
        return "sent"

    store = tmp_path / "k.db"
    async with kedge.Engine(tools=[first, send], store=store) as engine:
        await engine.start(
            plan({"id": "q", "tool": "first"}, {"id": "a", "tool": "send", "after": ["q"]}), run_id="r"
        )
        engine._writer.full = "held by the test"
        gate.set()
        async with asyncio.timeout(5):
            while not engine._drivers["r"]._held:
                await asyncio.sleep(0.001)
        engine._writer.full = ""
    assert not called
    async with kedge.Engine(tools=[first, send], store=store) as engine:
        result = await (await engine.resume("r")).result()
    assert result.ok, result.summary()
    assert called == [1]


@pytest.mark.parametrize("isolation", ["none", "process"])
async def test_a_call_with_effects_cut_short_by_closing_is_in_doubt_and_not_made_again(tmp_path, isolation):
    calls = tmp_path / "calls"
    calls.touch()
    tool = sends if isolation == "none" else sends_apart
    store = tmp_path / "k.db"
    step = {"id": "a", "tool": tool.spec.name, "args": {"calls": str(calls)}}
    async with kedge.Engine(tools=[tool], store=store) as engine:
        await engine.start(plan(step), run_id="r")
        async with asyncio.timeout(10):
            while not calls.read_text():
                await asyncio.sleep(0.01)
    async with kedge.Engine(tools=[tool], store=store) as engine:
        async with asyncio.timeout(10):
            result = await (await engine.resume("r")).result()
        assert [asked.reason for asked in result.questions.values()] == ["in_doubt"]
        assert result.steps["a"].status == "in_doubt"
    assert calls.read_text() == "once "


async def test_a_pure_step_cut_short_by_closing_is_not_a_failure(tmp_path):
    starts = []

    @kedge.tool(effect="read")
    async def fetch() -> str:
        starts.append(1)
        if len(starts) == 1:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                raise RuntimeError("connection closed") from None
        return "fetched"

    store = tmp_path / "k.db"
    async with kedge.Engine(tools=[fetch], store=store) as engine:
        run = await engine.start(plan({"id": "a", "tool": "fetch"}), run_id="r")
        await running(run, "a")
        await asyncio.sleep(0.01)
    async with kedge.Engine(tools=[fetch], store=store) as engine:
        result = await (await engine.resume("r")).result()
    assert result.ok
    assert len(starts) == 2


async def test_many_hanging_runs_close_together(monkeypatch):
    monkeypatch.setattr("kedge.engine.attempts.GRACE_S", 0.3)

    @kedge.tool(effect="pure")
    def stuck(ctx: kedge.Context) -> int:
        time.sleep(2)
        return 1

    engine = kedge.Engine(tools=[stuck])
    async with engine:
        for _ in range(8):
            await engine.start(plan({"id": "a", "tool": "stuck"}))
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        await engine.close()
        assert time.monotonic() - begun < 1.5
        await engine.close()  # closing twice is nothing


async def test_ended_runs_are_let_go_by_the_engine(tmp_path):
    async with kedge.Engine(tools=[quick], store=tmp_path / "k.db") as engine:
        for i in range(5):
            run = await engine.start(plan({"id": "a", "tool": "quick"}), run_id=f"r{i}")
            assert (await run.result()).ok
        assert not engine._runs
        assert not engine._drivers
        assert not list((tmp_path / "k.db.locks").glob("*.lock"))
        # The handle still answers, and so does the store.
        assert (await run.result()).outputs == {"a": "quick"}
        assert [event.kind async for event in run.events(level="run")][-1] == "run_ended"
        again = await engine.resume("r0")
        assert (await again.result()).outputs == {"a": "quick"}
        assert len(engine.runs()) == 5
