"""Limits that calls share: as many at a time as allowed, fewer when the other side has too much to do."""

import asyncio
import collections

import pytest

import kedge
from kedge.engine.gates import Gates


class Meter:
    """Counts how many calls of each tool run at the same time."""

    def __init__(self):
        self.now = collections.Counter()
        self.most = collections.Counter()

    async def __call__(self, name, seconds=0.02):
        self.now[name] += 1
        self.most[name] = max(self.most[name], self.now[name])
        try:
            await asyncio.sleep(seconds)
        finally:
            self.now[name] -= 1


def wide(tool, count, **step):
    return kedge.Plan.parse(
        {"goal": "g", "steps": [{"id": "each", "tool": tool, "foreach": list(range(count)), **step}]}
    )


async def run_all(engine, *plans):
    runs = [await engine.start(plan) for plan in plans]
    async with asyncio.timeout(15):
        return [await run.result() for run in runs]


async def test_a_run_has_so_many_calls_at_a_time_and_no_more():
    meter = Meter()

    @kedge.tool(effect="pure")
    async def work() -> None:
        await meter("work")

    async with kedge.Engine(tools=[work], limits=kedge.Limits(parallel=3)) as engine:
        assert (await run_all(engine, wide("work", 12)))[0].ok
    assert meter.most["work"] == 3


async def test_a_plan_may_ask_for_less():
    meter = Meter()

    @kedge.tool(effect="pure")
    async def work() -> None:
        await meter("work")

    plan = kedge.Plan.parse({**plain(wide("work", 6)), "limits": {"parallel": 2}})
    async with kedge.Engine(tools=[work]) as engine:
        assert (await run_all(engine, plan))[0].ok
    assert meter.most["work"] == 2


def plain(plan):
    import json

    return json.loads(plan.dump("json"))


async def test_all_runs_of_an_engine_share_one_limit():
    meter = Meter()

    @kedge.tool(effect="pure")
    async def work() -> None:
        await meter("work")

    limits = kedge.Limits(parallel=4, parallel_total=5)
    async with kedge.Engine(tools=[work], limits=limits) as engine:
        assert all(result.ok for result in await run_all(engine, *[wide("work", 8)] * 3))
    assert meter.most["work"] == 5


async def test_a_tool_has_a_limit_of_its_own_over_all_runs_and_others_are_not_held_up():
    meter = Meter()

    @kedge.tool(effect="pure", parallel=2)
    async def narrow() -> None:
        await meter("narrow")

    @kedge.tool(effect="pure")
    async def free() -> None:
        await meter("free")

    async with kedge.Engine(tools=[narrow, free]) as engine:
        results = await run_all(engine, wide("narrow", 8), wide("narrow", 8), wide("free", 8))
    assert all(result.ok for result in results)
    assert meter.most == {"narrow": 2, "free": 8}


async def test_a_named_resource_is_shared_between_tools():
    meter = Meter()

    @kedge.tool(effect="pure", resources=("gpu",))
    async def one() -> None:
        await meter("gpu")

    @kedge.tool(effect="pure")
    async def two() -> None:
        await meter("gpu")

    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "steps": [
                {"id": "a", "tool": "one", "foreach": list(range(6))},
                {"id": "b", "tool": "two", "foreach": list(range(6)), "resources": ["gpu"]},
            ],
        }
    )
    async with kedge.Engine(tools=[one, two], resources={"gpu": 3}) as engine:
        assert (await run_all(engine, plan))[0].ok
    assert meter.most["gpu"] == 3


async def test_a_resource_nobody_counted_has_one_unit():
    meter = Meter()

    @kedge.tool(effect="pure")
    async def work() -> None:
        await meter("work", 0.005)

    async with kedge.Engine(tools=[work]) as engine:
        assert (await run_all(engine, wide("work", 5, resources=["printer"])))[0].ok
    assert meter.most["work"] == 1


@pytest.mark.parametrize("how", ["fails", "bad arguments", "times out", "cannot render"])
async def test_a_place_is_given_back_however_a_call_ends(how):
    @kedge.tool(effect="pure", parallel=1, timeout_s=0.05)
    async def work(n: int) -> int:
        if how == "fails":
            raise ValueError("no")
        if how == "times out":
            await asyncio.sleep(3600)
        return n

    value = {"bad arguments": "${'seven'}", "cannot render": "${1 // (index - index)}"}.get(how, "${index}")
    plan = wide("work", 4, args={"n": value}, on_error="continue")
    async with kedge.Engine(tools=[work]) as engine:
        (result,) = await run_all(engine, plan)
        assert engine._workshop.gates._free == engine.limits.parallel_total
        window = engine._workshop.gates._windows.get("work")
        assert window is None or window.taken == 0
    assert result.steps["each"].status == "failed"
    assert all(result.steps[f"each[{i}]"].status == "failed" for i in range(4))


async def test_a_rate_limited_tool_shrinks_to_one_at_a_time_and_grows_back():
    meter = Meter()
    history = []
    strict = True

    @kedge.tool(effect="read")
    async def api() -> int:
        crowd = meter.now["api"]
        await meter("api", 0.01)
        if strict and crowd:
            raise kedge.ToolError("too many requests", "rate_limited")
        return 1

    @kedge.tool(effect="pure")
    async def free() -> None:
        await meter("free", 0.01)

    retry = {"attempts": 50, "backoff_s": 0.01, "max_backoff_s": 0.03}
    async with kedge.Engine(tools=[api, free], limits=kedge.Limits(parallel=12)) as engine:
        run = await engine.start(wide("api", 24, retry=retry))
        other = await engine.start(wide("free", 24))
        gates = engine._workshop.gates

        async def watch():
            while not run.state.ended:
                history.append(gates._windows["api"].size if "api" in gates._windows else None)
                await asyncio.sleep(0.005)

        async with asyncio.timeout(10):
            watching = asyncio.create_task(watch())
            assert (await run.result()).ok
            await watching
            assert (await other.result()).ok
        assert meter.most["api"] == 12
        assert 1 <= min(size for size in history if size) < 2, "it never went down to one at a time"
        assert meter.most["free"] == 12
        strict = False
        meter.most.clear()
        low = gates._windows["api"].size
        assert (await run_all(engine, wide("api", 100)))[0].ok
        assert "api" not in gates._windows or gates._windows["api"].size > low + 3
        assert meter.most["api"] > 3


async def test_a_failure_that_has_nothing_to_do_with_load_narrows_nothing():
    @kedge.tool(effect="read")
    async def api() -> int:
        raise kedge.ToolError("no such page", "invalid_input")

    async with kedge.Engine(tools=[api]) as engine:
        await run_all(engine, wide("api", 8))
        assert not engine._workshop.gates._windows


async def test_a_resource_that_says_too_many_is_narrowed_and_widens_again():
    meter, refused = Meter(), []

    @kedge.tool(
        effect="pure",
        resources=("host",),
        retry=kedge.Retry(attempts=9, backoff_s=0.01, on=("rate_limited",)),
    )
    async def ask() -> None:
        if len(refused) < 6:
            refused.append(1)
            raise kedge.ToolError("slow down", "rate_limited")
        await meter("ask", 0.01)

    async with kedge.Engine(tools=[ask], resources={"host": 8}) as engine:
        run = await engine.start(wide("ask", 60))
        window = None
        sizes = set()
        async with asyncio.timeout(15):
            while not run.state.ended:
                window = engine._workshop.gates._windows.get("resource host", window)
                if window is not None:
                    sizes.add(int(window.size))
                await asyncio.sleep(0.002)
        assert (await run.result()).ok
    assert min(sizes) == 1, "down to one at a time"
    assert window is not None
    assert window.size > 2, "and back"
    assert meter.most["ask"] <= 8


async def test_who_waits_for_a_place_is_woken_in_the_order_they_came():
    async with kedge.Engine(tools=[kedge.tool(effect="pure")(nothing)]) as engine:
        run = await engine.start(kedge.Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "nothing"}]}))
        node = run.state.root.steps[0].node
        await run.result()
    gates, woken = Gates(), []
    for name in range(50):
        gates.when_given(lambda name=name: woken.append(name))
    gates.take(node)
    gates.give(node)
    assert woken == list(range(50))


def nothing() -> None:
    return None
