"""Real processes, really killed. What was done is never done again; what may have been done is asked."""

import asyncio
import collections
import json
import os
import signal
import sys
from pathlib import Path

import pytest

import kedge

WORKER = Path(__file__).with_name("crash_worker.py")
SOURCES = str(Path(kedge.__file__).parents[1])


async def start(folder, plan, kill="never"):
    folder.mkdir(exist_ok=True)
    return await asyncio.create_subprocess_exec(
        sys.executable, str(WORKER), str(folder), plan, kill,
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def end_of(process):
    """What the worker found out, or None if it was killed."""
    async with asyncio.timeout(20):
        out, err = await process.communicate()
    if process.returncode == -signal.SIGKILL:
        return None
    assert process.returncode == 0, err.decode()
    return json.loads(out.decode().splitlines()[-1])


async def drive(folder, plan, kill="never"):
    return await end_of(await start(folder, plan, kill))


def ledger(folder):
    """How often each step did its work, and under how many keys."""
    calls, keys = collections.Counter(), collections.defaultdict(set)
    for line in (folder / "ledger.txt").read_text().splitlines():
        step, key = line.split()
        calls[step] += 1
        keys[step].add(key)
    return calls, keys


async def in_turn(*programs):
    """Two at a time: this machine may have no more processors."""
    gate = asyncio.Semaphore(2)

    async def one(program):
        async with gate:
            await program

    await asyncio.gather(*(one(program) for program in programs))


async def test_a_kill_during_a_call_repeats_that_call_if_that_does_no_harm(tmp_path):
    async def case(plan, where, times):
        folder = tmp_path / f"{plan}-{where}"
        assert await drive(folder, plan, f"{where}:s1") is None
        result = await drive(folder, plan)
        assert result["status"] == "done"
        calls, keys = ledger(folder)
        assert calls["s0"] == 1, "a finished step ran again"
        assert calls["s1"] == times
        assert len(keys["s1"]) == 1, "another attempt got another key"
        assert calls["s2"] == 1

    # A pure step before it may itself be repeated: nothing waited for the disk. These plans' first
    # step is over long before, or is followed by one that does wait.
    await in_turn(
        case("idempotent", "before", 1),
        case("idempotent", "after", 2),
    )


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_kill_during_an_effect_is_a_question_and_never_a_second_call(tmp_path, where):
    assert await drive(tmp_path, "effect", f"{where}:s1") is None
    for _ in range(2):  # resuming again asks nothing anew
        result = await drive(tmp_path, "effect")
        assert result["status"] == "waiting"
        assert result["steps"] == {"s0": "done", "s1": "in_doubt", "s2": "pending"}
        assert list(result["questions"]) == ["q1"]
        assert "s1" in result["questions"]["q1"]
    calls, _ = ledger(tmp_path)
    assert calls["s0"] == 1
    assert calls["s1"] == (1 if where == "after" else 0)


async def test_a_kill_during_a_read_repeats_only_what_was_not_on_disk(tmp_path):
    assert await drive(tmp_path, "read", "after:s1") is None
    result = await drive(tmp_path, "read")
    assert result["status"] == "done"
    calls, _ = ledger(tmp_path)
    assert calls["s1"] == 2
    assert calls["s0"] <= 2
    assert calls["s2"] == 1


async def test_a_kill_at_any_commit_loses_nothing(tmp_path):
    async def case(number):
        folder = tmp_path / f"commit-{number}"
        first = await drive(folder, "effect", f"commit:{number}")
        result = await drive(folder, "effect")
        calls, keys = ledger(folder)
        assert max(calls.values()) <= 1 + (calls["s0"] == 2)
        assert calls["s1"] <= 1, "an effect was repeated"
        assert len(keys["s0"]) == 1
        if first is None and calls["s1"] and result["status"] != "done":
            assert result["steps"]["s1"] == "in_doubt"
        else:
            assert result["status"] == "done"

    await in_turn(*(case(number) for number in (1, 2, 3, 4)))


async def test_a_kill_before_the_first_event_leaves_an_id_that_can_be_used(tmp_path):
    assert await drive(tmp_path, "idempotent", "commit:1") is None
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        assert engine.runs() == []
        with pytest.raises(kedge.NotFound):
            await engine.resume("r")
    result = await drive(tmp_path, "idempotent")
    assert result["status"] == "done"


async def test_a_kill_during_recovery_loses_nothing(tmp_path):
    assert await drive(tmp_path, "effect", "after:s1") is None
    assert await drive(tmp_path, "effect", "commit:1") is None
    assert await drive(tmp_path, "effect", "commit:1") is None
    result = await drive(tmp_path, "effect")
    assert result["status"] == "waiting"
    assert list(result["questions"]) == ["q1"]
    assert ledger(tmp_path)[0]["s1"] == 1


async def test_items_that_were_finished_are_not_done_again(tmp_path):
    assert await drive(tmp_path, "wide", "after:each[11]") is None
    result = await drive(tmp_path, "wide")
    assert result["status"] == "done"
    calls, keys = ledger(tmp_path)
    assert {step for step in calls if step.startswith("each")} == {f"each[{i}]" for i in range(20)}
    assert all(len(found) == 1 for found in keys.values())
    assert len(set().union(*(keys[f"each[{i}]"] for i in range(20)))) == 20
    assert sum(calls.values()) <= 21 + 16, "more than what was in flight ran again"


async def test_a_run_has_one_driver_and_a_killed_one_is_replaced_at_once(tmp_path):
    first = await start(tmp_path, "slow")
    assert (await first.stdout.readline()) == b"started\n"
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        with pytest.raises(kedge.NotOwner) as refused:
            await engine.resume("r")
        assert str(first.pid) in str(refused.value)
        assert engine.runs()[0].driven
        assert engine.look("r").steps["s0"].status == "running"
        with pytest.raises(kedge.NotOwner):
            await engine.delete("r")
        first.kill()
        await first.wait()
        await asyncio.wait_for(engine.resume("r"), 2)
    await first.communicate()


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
