"""What a run came to, field by field; and scripts without an event loop."""

# pyright: reportOptionalMemberAccess=none, reportOptionalOperand=none, reportOperatorIssue=none, reportArgumentType=none

import asyncio
import datetime
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import kedge


@kedge.tool(effect="pure")
async def nap(n: int) -> int:
    await asyncio.sleep(0.1)
    return n


@kedge.tool(effect="pure")
def add(left: int, right: int) -> int:
    return left + right


@kedge.tool(effect="read")
async def broken() -> int:
    raise kedge.ToolError("it is down", "permanent")


PLAN = kedge.Plan.parse(
    {
        "goal": "add two",
        "steps": [
            {"id": "a", "tool": "nap", "args": {"n": 1}},
            {"id": "b", "tool": "nap", "args": {"n": 2}},
            {"id": "both", "tool": "add", "args": {"left": "${a}", "right": "${b}"}},
            {"id": "never", "tool": "nap", "args": {"n": 3}, "when": "both > 100"},
        ],
        "outputs": {"total": "both"},
        "answer": "It is ${both}.",
    }
)


async def test_a_result_says_what_happened():
    async with kedge.Engine(tools=[nap, add]) as engine:
        run = await engine.start(PLAN)
        result = await run.result()
    assert result.ok
    assert result.status == kedge.RunStatus.DONE == "done"
    assert result.outputs == {"total": 3}
    assert result.answer == "It is 3."
    assert result.error is None
    assert result.run_id == run.id
    assert result.plan_id == run.plan_id
    assert len(result.plan_id) == 64
    assert result.version == 1
    assert result.started_at.tzinfo is datetime.UTC
    assert result.started_at <= result.ended_at
    assert result.seconds == pytest.approx((result.ended_at - result.started_at).total_seconds())
    assert 0.09 <= result.critical_path_s <= result.seconds + 0.01
    assert 0.2 < result.parallel_efficiency < 0.7
    assert set(result.groups[0]) == {"a", "b"}
    counts = result.counts
    assert (counts.total, counts.done, counts.failed, counts.skipped) == (4, 3, 0, 1)
    assert (counts.attempts, counts.tool_calls) == (3, 3)
    step = result.steps["both"]
    assert (step.status, step.attempt, step.result, step.error) == ("done", 1, 3, None)
    assert step.started_at <= step.ended_at
    assert step.seconds >= 0
    never = result.steps["never"]
    assert (never.status, never.attempt, never.result, never.started_at) == ("skipped", 0, None, None)
    assert "both > 100" in never.skipped_because
    assert list(result.steps) == ["a", "b", "both", "never"]
    assert "3 of 4 steps done" in result.summary()
    with pytest.raises(KeyError):
        result.steps["nobody"]


async def test_a_live_run_is_drawn_as_it_is_now():
    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "n", "tool": "sleep", "args": {"seconds": 60}}]})
    async with kedge.Engine(tools=[nap]) as engine:
        run = await engine.start(plan)
        await asyncio.sleep(0.3)
        assert run.now_ms >= run.state.at + 250
        assert re.search(r"running · 0 % · 0\.[2-9] s", kedge.draw(plan, run))
        await run.cancel()
        result = await run.result()
        assert kedge.draw(plan, run) == kedge.draw(plan, result)


async def test_efficiency_too_small_to_tell_is_not_told(monkeypatch):
    async with kedge.Engine(tools=[nap, add]) as engine:
        result = await (await engine.start(PLAN)).result()
    monkeypatch.setattr(kedge.RunResult, "parallel_efficiency", 0.004)
    assert "efficiency" not in result.summary()


async def test_a_failed_result_names_the_step():
    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [{"id": "a", "tool": "broken"}, {"id": "b", "tool": "broken", "after": ["a"]}]}
    )
    async with kedge.Engine(tools=[broken]) as engine:
        result = await (await engine.start(plan)).result()
    assert not result.ok
    assert result.status == "failed"
    assert result.outputs == {}
    assert result.answer is None
    assert result.error.category == "permanent"
    assert "step a failed" in result.error.message
    assert "it is down" in result.summary()
    assert result.steps["b"].skipped_because == "it depends on what failed: a"


async def test_a_run_in_which_everything_was_skipped_is_no_success():
    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [{"id": "a", "tool": "nap", "args": {"n": 1}, "when": "false"}]}
    )
    async with kedge.Engine(tools=[nap]) as engine:
        result = await (await engine.start(plan)).result()
    assert result.status == "empty"
    assert not result.ok
    assert result.error is not None


async def test_the_result_is_the_same_after_a_restart(tmp_path):
    store = tmp_path / "k.db"
    async with kedge.Engine(tools=[nap, add], store=store) as engine:
        live = await (await engine.start(PLAN, run_id="r")).result()
        live_facts = facts(live)
    async with kedge.Engine(store=store) as engine:
        assert facts(engine.look("r")) == live_facts
        assert facts(await (await engine.resume("r")).result()) == live_facts


def facts(result):
    steps = {
        path: (s.status, s.result, s.attempt, s.started_at, s.ended_at) for path, s in result.steps.items()
    }
    names = "status outputs answer error version started_at ended_at counts groups critical_path_s".split()
    return steps, [getattr(result, name) for name in names]


async def test_large_results_come_back_whole(tmp_path):
    @kedge.tool(effect="pure")
    async def large() -> str:
        return "x" * 1_000_000

    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [{"id": "a", "tool": "large"}], "outputs": {"copy": "a", "size": "len(a)"}}
    )
    async with kedge.Engine(tools=[large], store=tmp_path / "k.db") as engine:
        result = await (await engine.start(plan, run_id="r")).result()
        assert result.outputs == {"copy": "x" * 1_000_000, "size": 1_000_000}
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        assert engine.look("r").steps["a"].result == "x" * 1_000_000


# --- scripts


def test_a_script_needs_no_event_loop(tmp_path):
    events = []
    result = kedge.run_sync(
        PLAN, tools=[nap, add], store=tmp_path / "k.db", run_id="r", on_event=events.append
    )
    assert result.outputs == {"total": 3}
    assert events[-1].percent == 100
    again = kedge.run_sync(PLAN, tools=[nap, add], store=tmp_path / "k.db", run_id="r")
    assert again.started_at == result.started_at


async def test_run_sync_where_a_loop_runs_says_what_to_use_instead():
    with pytest.raises(kedge.KedgeError) as refused:
        kedge.run_sync(PLAN, tools=[nap, add])
    assert refused.value.code == "loop_running"
    assert "Engine" in refused.value.remedy


STUCK = """
import asyncio, sys, time
import kedge

@kedge.tool(effect="pure", timeout_s=0.1)
def thread() -> int:
    time.sleep(3600)
    return 1

@kedge.tool(effect="pure", timeout_s=0.1)
async def task() -> int:
    while True:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass

import kedge.engine.attempts
kedge.engine.attempts.GRACE_S = 0.1
plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "thread"}, {"id": "b", "tool": "task"}]})
print(kedge.run_sync(plan, tools=[thread, task]).status)
"""


def test_a_program_with_hanging_tools_can_still_end():
    done = subprocess.run(
        [sys.executable, "-c", STUCK],
        env={**os.environ, "PYTHONPATH": str(Path(kedge.__file__).parents[1])},
        capture_output=True, text=True, timeout=15, check=True,
    )  # fmt: skip
    assert done.stdout == "failed\n"
    assert "Traceback" not in done.stderr
