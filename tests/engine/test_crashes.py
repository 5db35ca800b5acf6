"""Real processes, really killed. What was done is never done again; what may have been done is asked."""

# pyright: reportOptionalMemberAccess=none, reportOptionalOperand=none, reportOperatorIssue=none, reportArgumentType=none

# ruff: noqa: ASYNC110
import asyncio
import collections
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kedge

WORKER = Path(__file__).with_name("crash_worker.py")
SOURCES = str(Path(kedge.__file__).parents[1])


pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the worker forks")


class Worker:
    """Drives runs in processes of their own, one after another."""

    def __init__(self):
        self._process = subprocess.Popen(
            [sys.executable, str(WORKER)],
            env={**os.environ, "PYTHONPATH": SOURCES},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def begin(self, folder, plan, kill="never"):
        """Start driving; the process's id."""
        folder.mkdir(exist_ok=True)
        self._process.stdin.write(json.dumps([str(folder), plan, kill]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())

    def drive(self, folder, plan, kill="never"):
        """What the process found out, or None if it was killed."""
        self.begin(folder, plan, kill)
        code = int(self._process.stdout.readline())
        if code == -signal.SIGKILL:
            return None
        assert code == 0
        return json.loads((folder / "out.json").read_text())

    def close(self):
        with self._process:
            self._process.stdin.close()


@pytest.fixture(scope="module")
def worker():
    worker = Worker()
    yield worker
    worker.close()


def ledger(folder):
    """How often each step did its work, and under how many keys."""
    calls, keys = collections.Counter(), collections.defaultdict(set)
    for line in (folder / "ledger.txt").read_text().splitlines():
        step, key = line.split()
        calls[step] += 1
        keys[step].add(key)
    return calls, keys


@pytest.mark.parametrize(("where", "times"), [("before", 1), ("after", 2)])
def test_a_kill_during_an_idempotent_call_repeats_it_under_the_same_key(worker, tmp_path, where, times):
    assert worker.drive(tmp_path, "idempotent", f"{where}:s1") is None
    assert worker.drive(tmp_path, "idempotent")["status"] == "done"
    calls, keys = ledger(tmp_path)
    assert calls == {"s0": 1, "s1": times, "s2": 1}
    assert len(keys["s1"]) == 1


@pytest.mark.parametrize("where", ["before", "after"])
def test_a_kill_during_an_effect_is_a_question_and_never_a_second_call(worker, tmp_path, where):
    assert worker.drive(tmp_path, "effect", f"{where}:s1") is None
    for _ in range(2):  # resuming again asks nothing anew
        result = worker.drive(tmp_path, "effect")
        assert result["status"] == "waiting"
        assert result["steps"] == {"s0": "done", "s1": "in_doubt", "s2": "pending"}
        assert list(result["questions"]) == ["q1"]
        assert "s1" in result["questions"]["q1"]
    calls, _ = ledger(tmp_path)
    assert calls["s0"] == 1
    assert calls["s1"] == (1 if where == "after" else 0)


@pytest.mark.parametrize("plan", ["pure", "read"])
def test_a_kill_during_a_call_without_effects_repeats_it(worker, tmp_path, plan):
    assert worker.drive(tmp_path, plan, "after:s1") is None
    assert worker.drive(tmp_path, plan)["status"] == "done"
    calls, keys = ledger(tmp_path)
    assert calls["s0"] <= 2  # its result may not have been on disk: nothing waited for that
    assert calls["s1"] == 2
    assert calls["s2"] == 1
    assert all(len(found) == 1 for found in keys.values())


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5])
def test_a_kill_at_any_commit_loses_nothing(worker, tmp_path, number):
    worker.drive(tmp_path, "effect", f"commit:{number}")
    result = worker.drive(tmp_path, "effect")
    calls, keys = ledger(tmp_path)
    assert calls["s1"] <= 1, "an effect was repeated"
    assert max(calls.values()) <= 2
    assert all(len(found) == 1 for found in keys.values())
    if result["status"] == "waiting":
        assert result["steps"]["s1"] == "in_doubt"
    else:
        assert result["status"] == "done"
        assert calls["s1"] == 1


async def test_a_kill_before_the_first_event_leaves_an_id_that_can_be_used(worker, tmp_path):
    assert worker.drive(tmp_path, "idempotent", "commit:1") is None
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        assert engine.runs() == []
        for look in (engine.look, engine.reader):
            with pytest.raises(kedge.NotFound):
                look("r")
        with pytest.raises(kedge.NotFound):
            await engine.resume("r")
    assert worker.drive(tmp_path, "idempotent")["status"] == "done"


def test_a_kill_during_recovery_loses_nothing(worker, tmp_path):
    assert worker.drive(tmp_path, "effect", "after:s1") is None
    for _ in range(3):
        assert worker.drive(tmp_path, "effect", "commit:1") is None
    result = worker.drive(tmp_path, "effect")
    assert result["status"] == "waiting"
    assert list(result["questions"]) == ["q1"]
    assert ledger(tmp_path)[0]["s1"] == 1


def test_items_that_were_finished_are_not_done_again(worker, tmp_path):
    assert worker.drive(tmp_path, "wide", "after:each[11]") is None
    result = worker.drive(tmp_path, "wide")
    assert result["status"] == "done"
    calls, keys = ledger(tmp_path)
    assert {step for step in calls if step.startswith("each")} == {f"each[{i}]" for i in range(20)}
    assert all(len(found) == 1 for found in keys.values())
    assert len(set().union(*(keys[f"each[{i}]"] for i in range(20)))) == 20
    assert sum(calls.values()) <= 21 + 16, "more than what was in flight ran again"


async def test_a_run_has_one_driver_and_a_killed_one_is_replaced_at_once(worker, tmp_path):
    pid = worker.begin(tmp_path, "slow")
    async with asyncio.timeout(10):
        while not (tmp_path / "started").exists():
            await asyncio.sleep(0.01)
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        with pytest.raises(kedge.NotOwner) as refused:
            await engine.resume("r")
        assert str(pid) in str(refused.value)
        assert engine.runs()[0].driven
        assert engine.look("r").steps["s0"].status == "running"
        with pytest.raises(kedge.NotOwner):
            engine.delete("r")
        os.kill(pid, signal.SIGKILL)
        assert int(worker._process.stdout.readline()) == -signal.SIGKILL
        run = await asyncio.wait_for(engine.resume("r"), 2)
        assert (await run.result()).steps["s0"].error.code == "missing_tool"


async def test_two_engines_of_one_process_exclude_each_other(tmp_path):
    @kedge.tool(effect="read")
    async def read() -> int:
        await asyncio.sleep(3600)
        return 1

    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "read"}]})
    async with (
        kedge.Engine(tools=[read], store=tmp_path / "k.db") as one,
        kedge.Engine(tools=[read], store=tmp_path / "k.db") as two,
    ):
        await one.start(plan, run_id="r")
        for take in (two.resume("r"), two.start(plan, run_id="r")):
            with pytest.raises(kedge.NotOwner) as refused:
                await take
            assert refused.value.code == "not_owner"
            assert f"process {os.getpid()}" in str(refused.value)
        await one.close()
        run = await two.resume("r")
        assert run.state.steps["a"].status in ("ready", "running")
