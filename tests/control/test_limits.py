"""A limit that is reached asks a person, keeps everything, and goes on or stops as told."""

import asyncio
import time

import pytest

import kedge


@kedge.tool(effect="pure")
async def step(n: int = 0) -> int:
    return n


@kedge.tool(effect="pure")
async def nap() -> int:
    await asyncio.sleep(0.15)
    return 1


@kedge.tool(effect="pure")
async def large() -> str:
    return "x" * 4_000


@kedge.tool(effect="pure")
async def huge() -> str:
    return "x" * 40_000  # not in the event itself: a blob


def chain(count, tool="step", **more):
    steps = [{"id": f"s{i}", "tool": tool, "after": [f"s{i - 1}"] if i else []} for i in range(count)]
    return kedge.Plan.parse({"goal": "g", "steps": steps, **more})


def wide(count, **more):
    steps = [{"id": "each", "tool": "step", "foreach": list(range(count))}]
    return kedge.Plan.parse({"goal": "g", "steps": steps, **more})


REACHED = {
    "calls": (chain(8), kedge.Limits(calls=5)),
    "calls, wide": (wide(8), kedge.Limits(calls=5)),
    "journal_bytes": (chain(8, "large"), kedge.Limits(journal_bytes=20_000)),
    "journal_bytes, large values": (chain(8, "huge"), kedge.Limits(journal_bytes=100_000)),
    "run_s": (chain(4, "nap"), kedge.Limits(run_s=0.2)),
}


async def reach(engine, plan):
    run = await engine.start(plan)
    async with asyncio.timeout(5):
        result = await run.result()
    assert result.status == "waiting", result.summary()
    ((id_, question),) = result.questions.items()
    assert question.reason == "limit"
    assert question.options == ("raise", "stop")
    assert question.limit in question.text
    return run, id_, question


@pytest.mark.parametrize("name", REACHED)
async def test_a_raised_limit_lets_the_run_go_on(name):
    plan, limits = REACHED[name]
    async with kedge.Engine(tools=[step, nap, large, huge], limits=limits) as engine:
        run, id_, question = await reach(engine, plan)
        assert question.limit == name.split(",")[0]
        assert run.state.calls <= limits.calls
        with pytest.raises(kedge.BadInput) as refused:
            await run.answer(id_, "raise", 0.001)
        assert refused.value.code == "limit_value"
        await run.answer(id_, "raise", 10_000_000)
        async with asyncio.timeout(5):
            result = await run.result()
    assert result.ok, result.summary()


@pytest.mark.parametrize("name", REACHED)
async def test_a_run_that_is_told_to_stop_fails_and_says_why(name):
    plan, limits = REACHED[name]
    async with kedge.Engine(tools=[step, nap, large, huge], limits=limits) as engine:
        run, id_, _ = await reach(engine, plan)
        await run.answer(id_, "stop", by="ada")
        result = await run.result()
    assert result.status == "failed"
    assert result.error.category == "limit"
    assert name.split(",")[0] in result.error.message
    assert result.counts.done > 0


async def test_a_run_that_needs_just_as_much_as_it_may_use_is_not_asked():
    async with kedge.Engine(tools=[step], limits=kedge.Limits(calls=5)) as engine:
        assert (await (await engine.start(chain(5))).result()).ok
        assert (await (await engine.start(wide(5))).result()).ok


async def test_a_plan_may_set_a_tighter_limit_than_the_engine():
    async with kedge.Engine(tools=[step]) as engine:
        run, _, question = await reach(engine, chain(4, limits={"calls": 2}))
        assert question.limit == "calls"
        assert run.state.calls == 2


async def test_attempts_count_as_calls():
    @kedge.tool(effect="read", retry=kedge.Retry(attempts=100, backoff_s=0.0))
    async def failing() -> int:
        raise kedge.ToolError("no", "transient")

    async with kedge.Engine(tools=[failing], limits=kedge.Limits(calls=10)) as engine:
        run, _, _ = await reach(engine, chain(1, "failing"))
        assert run.state.calls == 10


async def test_waiting_for_a_person_does_not_use_up_time():
    @kedge.tool(effect="effect")
    async def unclear() -> int:
        raise ValueError("what now?")

    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [{"id": "u", "tool": "unclear"}, {"id": "s", "tool": "step", "after": ["u"]}]}
    )
    async with kedge.Engine(tools=[unclear, step], limits=kedge.Limits(run_s=0.3)) as engine:
        run = await engine.start(plan)
        assert (await run.result()).questions["q1"].reason == "in_doubt"
        await asyncio.sleep(0.6)
        await run.answer("q1", "done", 1)
        result = await run.result()
    assert result.ok, result.summary()


async def test_a_limit_that_was_raised_stays_raised_after_a_restart(tmp_path):
    store, limits = tmp_path / "k.db", kedge.Limits(calls=2)
    async with kedge.Engine(tools=[step], store=store, limits=limits) as engine:
        run = await engine.start(chain(6), run_id="r")
        await run.result()
    async with kedge.Engine(tools=[step], store=store, limits=limits) as engine:
        run = await engine.resume("r")
        result = await run.result()
        assert result.status == "waiting"
        await run.answer("q1", "raise", 4)
        assert (await run.result()).status == "waiting"
    async with kedge.Engine(tools=[step], store=store, limits=limits) as engine:
        run = await engine.resume("r")
        await run.result()
        await run.answer("q2", "raise")
        begun = time.monotonic()
        assert (await run.result()).ok
        assert time.monotonic() - begun < 2


async def test_raising_a_limit_without_a_number_gives_room_beyond_what_is_used_already():
    @kedge.tool(effect="pure")
    async def long_nap() -> int:
        await asyncio.sleep(0.5)
        return 1

    async with kedge.Engine(tools=[long_nap], limits=kedge.Limits(run_s=0.05)) as engine:
        run = await engine.start(chain(2, "long_nap"))
        result = await run.result()
        ((id_, asked),) = result.questions.items()
        assert asked.used >= 0.05
        await run.answer(id_, "raise")
        assert run.state.limit("run_s") == pytest.approx(2 * asked.used)
        await run.cancel()
