"""Whatever a tool does is its own step's failure: siblings finish, and the run names the step."""

# pyright: reportOptionalMemberAccess=none, reportOptionalOperand=none, reportOperatorIssue=none, reportArgumentType=none

import asyncio
import datetime
import decimal
import math
import threading
import time

import pytest

import kedge
from kedge.base.errors import CATEGORIES


@pytest.fixture(autouse=True)
def short_grace(monkeypatch):
    monkeypatch.setattr("kedge.engine.attempts.GRACE_S", 0.2)


@kedge.tool(effect="pure")
async def good() -> str:
    await asyncio.sleep(0.02)
    return "fine"


async def run_beside_good(tool, *, limits=None, **step):
    """Run `bad` (the tool) beside a good step; the result, after checking what must always hold."""
    plan = kedge.Plan.parse(
        {
            "goal": "one good, one bad",
            "steps": [
                {"id": "fine", "tool": "good"},
                {"id": "bad", "tool": tool.spec.name, **step},
                {"id": "after", "tool": "good", "after": ["bad"]},
            ],
        }
    )
    async with kedge.Engine(tools=[good, tool], limits=limits) as engine:
        run = await engine.start(plan)
        async with asyncio.timeout(8):
            result = await run.result()
    assert result.steps["fine"].result == "fine"
    return result


def assert_failed(result, code, category):
    assert result.status == "failed"
    assert "bad" in result.error.message
    failure = result.steps["bad"].error
    assert (failure.code, failure.category) == (code, category), failure
    assert result.steps["after"].status == "skipped"
    return failure


class Silent(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Exits(Exception):
    def __str__(self):
        raise SystemExit(3)


class Odd(kedge.ToolError):
    """What a tool's own error class may look like after somebody was clever."""

    def __init__(self):
        super().__init__("odd")
        self.code = 7
        self.category = "nonsense"  # pyright: ignore[reportAttributeAccessIssue]
        self.message = ["not", "text"]
        self.retry_after_s = "soon"


class Bare(kedge.ToolError):
    def __init__(self):
        pass  # has none of the attributes


RAISED = {
    "bug": (lambda: ZeroDivisionError("by zero"), "ZeroDivisionError", "bug"),
    "base": (lambda: BaseException("base"), "BaseException", "bug"),
    "system_exit": (lambda: SystemExit(1), "SystemExit", "bug"),
    "interrupt": (KeyboardInterrupt, "KeyboardInterrupt", "bug"),
    "generator_exit": (GeneratorExit, "GeneratorExit", "bug"),
    "stop_async": (StopAsyncIteration, "StopAsyncIteration", "bug"),
    "group": (lambda: ExceptionGroup("many", [ValueError("a"), OSError("b")]), "ExceptionGroup", "bug"),
    "cancelled": (asyncio.CancelledError, "CancelledError", "cancelled"),
    "memory": (MemoryError, "MemoryError", "limit"),
    "recursion": (RecursionError, "RecursionError", "limit"),
    "timeout": (lambda: TimeoutError("slow"), "TimeoutError", "timeout"),
    "permission": (lambda: PermissionError("no"), "PermissionError", "permission"),
    "connection": (lambda: ConnectionResetError("gone"), "ConnectionResetError", "transient"),
    "silent": (Silent, "Silent", "bug"),
    "exits": (Exits, "Exits", "bug"),
    "odd": (Odd, "7", "bug"),
    "bare": (Bare, "Bare", "bug"),
    "classified": (lambda: kedge.ToolError("no such page", "invalid_input"), "tool_error", "invalid_input"),
    "surrogate": (lambda: ValueError("half \ud800 pair"), "ValueError", "bug"),
    "kedge": (lambda: kedge.NotFound("it uses kedge itself"), "not_found", "bug"),
}


@pytest.mark.parametrize("name", RAISED)
@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_whatever_is_raised_fails_that_step_alone(name, sort):
    make, code, category = RAISED[name]
    if sort == "async":

        @kedge.tool(effect="pure")
        async def bad() -> int:
            await asyncio.sleep(0)
            raise make()
    else:

        @kedge.tool(effect="pure")
        def bad() -> int:
            raise make()

    failure = assert_failed(await run_beside_good(bad), code, category)
    assert failure.category in CATEGORIES
    assert failure.message


@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_stop_iteration_fails_that_step_alone(sort):
    if sort == "async":

        @kedge.tool(effect="pure")
        async def bad() -> int:
            raise StopIteration(3)
    else:

        @kedge.tool(effect="pure")
        def bad() -> int:
            raise StopIteration(3)

    # Python makes a RuntimeError of one that leaves a coroutine.
    code = "RuntimeError" if sort == "async" else "StopIteration"
    assert_failed(await run_beside_good(bad), code, "bug")


async def test_a_message_of_ten_megabytes_is_shortened():
    @kedge.tool(effect="pure")
    async def bad() -> int:
        raise ValueError("x" * 10_000_000)

    failure = assert_failed(await run_beside_good(bad), "ValueError", "bug")
    assert len(failure.message) < 3_000
    assert "10,000,0" in failure.message


async def test_a_trace_names_the_line_in_the_tool():
    @kedge.tool(effect="pure")
    async def bad() -> int:
        raise ValueError("here")

    failure = assert_failed(await run_beside_good(bad), "ValueError", "bug")
    assert "test_bad_tools.py" in failure.trace
    assert "/kedge/engine/" not in failure.trace


@pytest.mark.parametrize("wait", [math.nan, math.inf, -5, "soon", True])
async def test_a_strange_retry_after_harms_nobody(wait):
    @kedge.tool(effect="pure", retry=kedge.Retry(attempts=2, backoff_s=0.01, max_backoff_s=0.05))
    async def bad() -> int:
        raise kedge.ToolError("slow down", "rate_limited", retry_after_s=wait)

    result = await run_beside_good(bad)
    assert_failed(result, "tool_error", "rate_limited")
    assert result.steps["bad"].attempt == 2


# --- time


async def test_a_hanging_async_tool_is_timed_out():
    @kedge.tool(effect="pure", timeout_s=0.1)
    async def bad() -> int:
        await asyncio.sleep(3600)
        return 1

    assert "0.1 s" in assert_failed(await run_beside_good(bad), "timeout", "timeout").message


@pytest.mark.parametrize("of_the_tool", [None, 60.0])
async def test_the_timeout_of_the_step_goes_before_that_of_its_tool(of_the_tool):
    @kedge.tool(effect="pure", timeout_s=of_the_tool)
    async def bad() -> int:
        await asyncio.sleep(3600)
        return 1

    async with asyncio.timeout(10):
        result = await run_beside_good(bad, timeout_s=0.1)
    assert "0.1 s" in assert_failed(result, "timeout", "timeout").message


async def test_a_step_without_a_sign_of_life_is_timed_out():
    @kedge.tool(effect="pure")
    async def bad() -> int:
        await asyncio.sleep(3600)
        return 1

    assert_failed(await run_beside_good(bad, idle_timeout_s=0.1), "idle_timeout", "timeout")


@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_heartbeat_restarts_the_idle_timeout(sort):
    if sort == "async":

        @kedge.tool(effect="pure")
        async def bad(ctx: kedge.Context) -> str:
            for _ in range(6):
                await asyncio.sleep(0.08)
                ctx.heartbeat()
            return "done"
    else:

        @kedge.tool(effect="pure")
        def bad(ctx: kedge.Context) -> str:
            for _ in range(6):
                time.sleep(0.08)
                ctx.progress(0.5)
            return "done"

    result = await run_beside_good(bad, idle_timeout_s=0.25)
    assert result.ok
    assert result.steps["bad"].seconds > 0.25


async def test_a_tool_that_ignores_being_cancelled_is_given_up():
    late = asyncio.Event()

    @kedge.tool(effect="pure", timeout_s=0.1)
    async def bad() -> int:
        while True:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                late.set()

    assert_failed(await run_beside_good(bad), "timeout", "timeout")
    assert late.is_set()
    # The engine is closed: nothing of it may keep this loop from ending.
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not [task for task in others if "_run" in repr(task.get_coro())]


async def test_what_a_cancelled_tool_raises_does_not_hide_the_timeout():
    @kedge.tool(effect="pure", timeout_s=0.1, retry=kedge.Retry(attempts=2, backoff_s=0.01))
    async def bad() -> int:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            raise RuntimeError("the connection was closed") from None
        return 1

    result = await run_beside_good(bad)
    assert_failed(result, "timeout", "timeout")
    assert result.steps["bad"].attempt == 2


async def test_a_tool_that_blocks_the_loop_does_not_use_up_the_time_of_others():
    @kedge.tool(effect="pure")
    async def bad() -> str:
        await asyncio.sleep(0.01)
        time.sleep(1.0)  # noqa: ASYNC251
        return "blocked"

    @kedge.tool(effect="pure", timeout_s=0.5)
    async def quick() -> str:
        for _ in range(5):
            await asyncio.sleep(0.02)
        return "in time"

    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [{"id": "bad", "tool": "bad"}, {"id": "quick", "tool": "quick"}]}
    )
    async with kedge.Engine(tools=[bad, quick]) as engine:
        result = await (await engine.start(plan)).result()
    assert result.ok, result.summary()
    assert result.steps["quick"].result == "in time"


async def test_a_hanging_thread_is_given_up_and_its_place_is_free_again():
    release = threading.Event()
    told = []

    @kedge.tool(effect="pure", timeout_s=0.1, parallel=1)
    def bad(ctx: kedge.Context) -> int:
        release.wait(5)
        told.append(ctx.cancelled)
        return 1

    result = await run_beside_good(bad, foreach=[1, 2, 3])
    release.set()
    assert result.status == "failed"
    assert [result.steps[f"bad[{i}]"].error.code for i in range(3)] == ["timeout"] * 3
    for _ in range(100):
        if len(told) == 3:
            break
        await asyncio.sleep(0.01)
    assert told == [True] * 3


async def test_a_late_result_of_an_effect_settles_the_doubt():
    @kedge.tool(effect="effect", timeout_s=0.1)
    def bad() -> str:
        time.sleep(0.6)
        return "it happened"

    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "bad", "tool": "bad"}]})
    async with kedge.Engine(tools=[bad]) as engine:
        run = await engine.start(plan)
        waiting = await run.result()
        assert waiting.status == "waiting"
        assert waiting.steps["bad"].status == "in_doubt"
        async for event in run.events():
            if event.kind == "question_answered":
                assert event.data["by"] == "late result"
        result = await run.result()
    assert result.ok
    assert result.steps["bad"].result == "it happened"
    assert not result.questions


async def test_a_late_result_of_an_attempt_that_was_replaced_is_ignored():
    calls = []

    @kedge.tool(effect="read", timeout_s=0.1, retry=kedge.Retry(attempts=2, backoff_s=0.01))
    def bad() -> str:
        calls.append(1)
        if len(calls) == 1:
            time.sleep(0.45)
            return "old"
        return "new"

    result = await run_beside_good(bad)
    await asyncio.sleep(0.2)
    assert result.ok
    assert result.steps["bad"].result == "new"


# --- results


def loop_value():
    value = {"a": []}
    value["a"].append(value)
    return value


def deep_value():
    value = 1
    for _ in range(100_000):
        value = [value]
    return value


class Opaque:
    pass


class Hostile:
    def __eq__(self, other):
        raise SystemExit(9)

    def __hash__(self):
        return 1


UNSERIALISABLE = {
    "nan": (lambda: {"a": [1, math.nan]}, "result.a[1]", "finite"),
    "infinity": (lambda: math.inf, "result", "finite"),
    "cycle": (loop_value, "result.a[0]", "tree"),
    "set": (lambda: {"a": {1, 2}}, "result.a", "sorted"),
    "bytes": (lambda: [b"raw"], "result[0]", "decode"),
    "datetime": (lambda: {"when": datetime.datetime.now(datetime.UTC)}, "result.when", "isoformat"),
    "decimal": (lambda: decimal.Decimal("1.5"), "result", "str(value)"),
    "deep": (deep_value, "result[0]", "flatten"),
    "surrogate": (lambda: {"text": "\ud800"}, "result.text", "replace"),
    "huge_integer": (lambda: 10**5000, "result", "text"),
    "huge_integer_inside": (lambda: {"n": [10**5000]}, "result.n[0]", "text"),
    "int_keys": (lambda: {1: "a", "1": "b"}, "result[1]", "str(key)"),
    "generator": (lambda: (i for i in range(3)), "result", "list(value)"),
    "function": (lambda: print, "result", "numbers, text"),
    "lambda": (lambda: {"f": lambda: 1}, "result.f", "data, not code"),
    "object": (lambda: [Opaque()], "result[0]", "numbers, text"),
    "hostile": (lambda: [Hostile()], "result[0]", "numbers, text"),
}


@pytest.mark.parametrize("name", UNSERIALISABLE)
@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_an_unserialisable_result_names_path_type_and_remedy(name, sort):
    make, path, remedy = UNSERIALISABLE[name]
    if sort == "async":

        @kedge.tool(effect="pure")
        async def bad():
            return make()
    else:

        @kedge.tool(effect="pure")
        def bad():
            return make()

    failure = assert_failed(await run_beside_good(bad), "not_serializable", "not_serializable")
    assert failure.message.startswith(path), failure.message
    assert remedy in failure.remedy


async def test_text_with_a_nul_and_negative_zero_come_through():
    @kedge.tool(effect="pure")
    async def bad():
        return {"nul": "a\0b", "zero": -0.0, "deep": [[[[]]]]}

    result = await run_beside_good(bad)
    assert result.steps["bad"].result == {"nul": "a\0b", "zero": -0.0, "deep": [[[[]]]]}
    assert math.copysign(1, result.steps["bad"].result["zero"]) == -1


@pytest.mark.parametrize("size", [1_000_000, 100_000_000])
@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_result_over_the_limit_fails_the_step(sort, size):
    limits = kedge.Limits(result_bytes=1_000_000)
    if sort == "async":

        @kedge.tool(effect="pure")
        async def bad() -> str:
            return "x" * size
    else:

        @kedge.tool(effect="pure")
        def bad() -> str:
            return "x" * size

    failure = assert_failed(await run_beside_good(bad, limits=limits), "tool_error", "limit")
    assert "result_bytes" in failure.message
    assert f"{size + 2:,}" in failure.message  # with its quotes


async def test_changing_a_result_after_its_return_changes_nothing():
    kept = {}

    @kedge.tool(effect="pure")
    async def bad():
        kept["value"] = {"list": [1]}
        return kept["value"]

    @kedge.tool(effect="pure")
    async def reader(value: dict) -> dict:
        kept["value"]["list"].append(2)
        value["list"].append(3)
        return value

    steps = [
        {"id": "bad", "tool": "bad"},
        {"id": "one", "tool": "reader", "args": {"value": "${bad}"}},
        {"id": "two", "tool": "reader", "args": {"value": "${bad}"}, "after": ["one"]},
    ]
    async with kedge.Engine(tools=[bad, reader]) as engine:
        result = await (await engine.start(kedge.Plan.parse({"goal": "g", "steps": steps}))).result()
    assert result.steps["bad"].result == {"list": [1]}
    assert result.steps["two"].result == {"list": [1, 3]}


# --- what is said on the way


@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_strange_reports_do_not_reach_the_journal_as_they_are(sort):
    def talk(ctx):
        ctx.discover("\ud800" * 5_000, need=7)
        ctx.progress(math.nan, message="\ud800")
        ctx.progress(5, message=["not text"])

    if sort == "async":

        @kedge.tool(effect="pure")
        async def bad(ctx: kedge.Context) -> int:
            talk(ctx)
            return 1
    else:

        @kedge.tool(effect="pure")
        def bad(ctx: kedge.Context) -> int:
            talk(ctx)
            return 1

    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "bad", "tool": "bad"}]})
    async with kedge.Engine(tools=[bad]) as engine:
        run = await engine.start(plan)
        events = [event async for event in run.events()]
        assert (await run.result()).ok
    found = next(event for event in events if event.kind == "discovered")
    assert len(found.data["what"]) < 3_000
    assert found.data["need"] == "7"
    assert all(event.message.encode() for event in events)


async def test_a_thread_that_never_stops_talking_does_not_flood_the_loop():
    @kedge.tool(effect="pure")
    def bad(ctx: kedge.Context) -> int:
        for i in range(50_000):
            ctx.progress(i / 50_000)
        return 1

    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "bad", "tool": "bad"}]})
    told = []
    async with kedge.Engine(tools=[bad]) as engine:
        run = await engine.start(plan, on_event=told.append)
        result = await run.result()
    assert result.ok
    assert told[-1].kind == "run_ended"


async def test_arguments_whose_own_type_raises_fail_the_step():
    import dataclasses

    @dataclasses.dataclass
    class Picky:
        a: int

        def __post_init__(self):
            raise KeyError("never")

    @kedge.tool(effect="effect")
    async def bad(picky: Picky) -> int:
        return 1

    result = await run_beside_good(bad, args={"picky": {"a": 1}})
    assert result.status == "failed"
    assert result.steps["bad"].status == "failed"
    assert result.steps["bad"].error.code == "KeyError"


async def test_a_process_that_exits_is_its_step_failing(tmp_path):
    import importlib.util
    import sys

    file = tmp_path / "exiting_tools.py"
    file.write_text(
        "import os, kedge\n"
        "@kedge.tool(effect='read', isolation='process')\n"
        "def bad() -> int:\n"
        "    os._exit(7)\n"
    )
    spec = importlib.util.spec_from_file_location("exiting_tools", file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["exiting_tools"] = module
    sys.path.insert(0, str(tmp_path))
    try:
        spec.loader.exec_module(module)
        failure = assert_failed(await run_beside_good(module.bad), "ProcessDied", "transient")
    finally:
        sys.path.remove(str(tmp_path))
        del sys.modules["exiting_tools"]
    assert "exit code 7" in failure.message


async def test_a_loop_with_eager_tasks_runs_plans_too():
    factory = getattr(asyncio, "eager_task_factory", None)
    if factory is None:
        pytest.skip("tasks are eager from Python 3.12 on")

    @kedge.tool(effect="pure")
    async def bad() -> int:
        return 1

    loop = asyncio.get_running_loop()
    loop.set_task_factory(factory)
    try:
        result = await run_beside_good(bad)
    finally:
        loop.set_task_factory(None)
    assert result.ok
