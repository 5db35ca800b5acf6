"""Real processes, really killed. What was done is never done again; what may have been done is asked.

The matrix itself is `proof/crashes.py`: here is a share of it, and what is told to people after a kill.
"""

# pyright: reportOptionalMemberAccess=none, reportMissingImports=none

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import kedge
from kedge.testing.failpoints import PLACES

ROOT = Path(__file__).parents[2]
SOURCES = str(Path(kedge.__file__).parents[1])
SHARE = 40

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="the laboratory forks")


@pytest.fixture(scope="module")
def matrix():
    """`crashes`, which stands beside the parts that it needs."""
    sys.path.append(str(ROOT / "proof"))
    import crashes

    yield crashes
    sys.path.remove(str(ROOT / "proof"))


@pytest.fixture(scope="module")
def tally(matrix):
    """What a share of the matrix came to."""
    found = matrix.Tally()
    with matrix.Laboratories() as laboratories:
        matrix.run_a_few(laboratories, found, SHARE)
    return found


def test_every_named_place_is_passed_by_some_workflow(tally):
    passed = {place for hits in tally.hits.values() for place in hits}
    assert set(PLACES) - passed == set()
    assert len(PLACES) >= 60


def test_what_was_promised_holds_after_kills_at_named_places(matrix, tally):
    assert tally.cycles >= SHARE // 2, "hardly anything was killed: nothing was shown"
    assert not tally.wrong, "\n".join(f"{matrix.again(case)}: {fault}" for case, fault in tally.wrong)


def test_every_kind_of_event_is_in_the_log_of_some_workflow(matrix, tally):
    assert {kind for outcome in tally.outcomes for kind in outcome["kinds"]} == matrix.KINDS


def kill(case, folder):
    """Kill a client where the case says, and leave in `folder` what it left."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "proof" / "crash_lab.py"), *case.split(), str(folder)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        capture_output=True,
        text=True,
        check=False,
    )
    outcome = json.loads(done.stdout)
    assert outcome["kills"], "it was not killed"
    assert not outcome["wrong"]


def ledger(folder):
    """Paths of the steps that were done, in order."""
    return [line.split()[1] for line in (folder / "ledger.txt").read_text().splitlines()]


@pytest.mark.parametrize("where", ["before", "after"])
async def test_a_kill_during_an_effect_is_a_question_and_never_a_second_call(matrix, tmp_path, where):
    kill(f"pays tool.{where}:2", tmp_path)
    calls = ledger(tmp_path)
    assert calls == ["s0", "s1"][: 2 if where == "after" else 1]
    from crash_tools import all_tools

    for _ in range(2):  # resuming again asks nothing anew
        async with kedge.Engine(tools=all_tools(), store=tmp_path / "k.db") as engine:
            result = await (await engine.resume("r")).result()
            assert result.status == "waiting"
            assert [str(step.status) for step in result.steps.values()] == [
                "done", "in_doubt", "pending", "pending",
            ]  # fmt: skip
            assert list(result.questions) == ["q1"]
            assert "s1" in result.questions["q1"].text
    assert ledger(tmp_path) == calls


async def test_a_kill_before_the_first_event_leaves_an_id_that_can_be_used(tmp_path):
    kill("pays journal.commit.before:1", tmp_path)
    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "nap", "tool": "sleep", "args": {"seconds": 0}}]})
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        assert engine.runs() == []
        for look in (engine.look, engine.reader):
            with pytest.raises(kedge.NotFound):
                look("r")
        with pytest.raises(kedge.NotFound):
            await engine.resume("r")
        assert (await (await engine.start(plan, run_id="r")).result()).ok


DRIVE = """
import asyncio, sys, kedge

@kedge.tool(effect="read")
async def wait() -> int:
    await asyncio.sleep(60)
    return 1

async def drive():
    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "s0", "tool": "wait"}]})
    async with kedge.Engine(tools=[wait], store=sys.argv[1]) as engine:
        run = await engine.start(plan, run_id="r")
        print("started", flush=True)
        await run.result()

asyncio.run(drive())
"""


async def test_a_run_has_one_driver_and_a_killed_one_is_replaced_at_once(tmp_path):
    store = tmp_path / "k.db"
    driver = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs here
        [sys.executable, "-c", DRIVE, str(store)],
        env={**os.environ, "PYTHONPATH": SOURCES},
        stdout=subprocess.PIPE,
        text=True,
    )
    with driver:
        assert driver.stdout.readline() == "started\n"
        async with kedge.Engine(store=store) as engine:
            with pytest.raises(kedge.NotOwner) as refused:
                await engine.resume("r")
            assert str(driver.pid) in str(refused.value)
            assert engine.runs()[0].driven
            assert engine.look("r").steps["s0"].status == "running"
            with pytest.raises(kedge.NotOwner):
                engine.delete("r")
            driver.kill()
            assert driver.wait() == -signal.SIGKILL
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
