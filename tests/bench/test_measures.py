"""What the benchmark measures is real: results checked, events written and chained, syncs and kills honest.

Each measure runs as `make bench` runs it, in a process of its own, on a small graph.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from kedge.journal.entry import verify
from kedge.journal.sqlite import SqliteJournal

ROOT = Path(__file__).parents[2]
STEPS = 200
RUN_EVENTS = 3
"""RunStarted, PlanAdopted, RunEnded."""
TOLERANCE_S = 0.100
"""A busy machine keeps a process waiting: beyond the 20 ms that are promised."""


def run_child(measure: str, code: int = 0, **arguments: Any) -> dict[str, Any]:
    """What the measure found; nothing if it is to end with another exit code."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "child.py"), measure, json.dumps(arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if code == 0 else {}


def events_of(folder, run_id="bench0"):
    """The verified log of a run, as plain data."""
    journal = SqliteJournal(folder / "kedge.db")
    try:
        entries = journal.read(run_id)
    finally:
        journal.close()
    assert verify(entries, 0, 1, run_id) == entries[-1].chain
    return [json.loads(entry.data) for entry in entries]


@pytest.mark.parametrize("who", ["L1", "L3", "memory", "sqlite", "effect"])
def test_every_subject_gives_the_right_results(who):
    found = run_child("wall", who=who, graph="W3", n=STEPS, reps=2)
    assert found["n"] == STEPS
    assert len(found["runs"]) == 2
    assert all(run["wall"] > 0 for run in found["runs"])


def test_a_wrong_result_spoils_the_measurement():
    said = subprocess.run(
        [sys.executable, "-c", "import graphs; graphs.chain(5).check([1, 2, 3, 4, 4])"],
        cwd=ROOT / "bench",
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 1
    assert "wrong results: 1 of 5" in said.stderr


@pytest.mark.parametrize("graph", ["W1", "W2", "W3"])
def test_a_timed_run_has_two_events_a_step_and_an_unbroken_chain(graph, tmp_path):
    run_child("wall", who="sqlite", graph=graph, n=STEPS, reps=1, keep=True, folder=str(tmp_path))
    events = events_of(tmp_path, "bench1")  # bench0 warms up
    steps = STEPS + (graph == "W2")
    kinds = [event["kind"] for event in events]
    assert kinds.count("StepStarted") == kinds.count("StepSucceeded") == steps
    assert len(events) == 2 * steps + RUN_EVENTS
    assert all("args" in event for event in events if event["kind"] == "StepStarted")


def test_every_chained_step_with_effects_is_synced_before_its_call():
    found = run_child("syncs", n=20)
    assert found["syncs"] >= 20


@pytest.mark.parametrize(("graph", "n"), [("W1", 1_500), ("W3", 3_000)])
def test_the_disk_is_never_far_behind(graph, n):
    found = run_child("lag", graph=graph, n=n)
    assert 0 < found["behind_events"] <= 1_000 + found["turn_events"]
    assert found["behind_s"] <= 0.020 + TOLERANCE_S


@pytest.mark.parametrize("graph", ["W3", "W6"])
def test_a_killed_run_repeats_only_what_was_in_flight_or_not_on_disk(graph, tmp_path):
    run_child("kill", -signal.SIGKILL, graph=graph, n=600, folder=str(tmp_path))
    then = json.loads((tmp_path / "killed.json").read_text())
    found = run_child("resume", graph=graph, n=600, folder=str(tmp_path))
    assert found["ok"]
    assert 0 <= found["twice"] <= then["in_flight"] + then["behind"]
    started = [event["path"] for event in events_of(tmp_path) if event["kind"] == "StepSucceeded"]
    assert len(started) == len(set(started)) == 600


@pytest.mark.parametrize("shape", ["foreach", "loop"])
def test_a_long_log_is_taken_up_where_it_was(shape, tmp_path):
    run_child("kill", -signal.SIGKILL, events=2_000, shape=shape, folder=str(tmp_path))
    then = json.loads((tmp_path / "killed.json").read_text())
    found = run_child("resume", events=2_000, folder=str(tmp_path))
    assert found["ok"]
    assert found["calls"] > 0
    assert found["twice"] <= then["in_flight"] + then["behind"]


def test_events_reach_a_subscriber_while_the_run_goes_on():
    found = run_child("follow", n=100)
    assert found["events"] >= 2 * 100
    assert found["p50_s"] < 0.1


def test_a_cancel_ends_steps_that_wait():
    assert run_child("cancel", n=100)["seconds"] < 1.0


def test_the_table_says_what_was_measured_and_what_was_left_out(tmp_path):
    report = tmp_path / "bench.json"
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), "--quick", "--only", "start", "--json", str(report)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(report.read_text())["rows"]
    assert {row["part"] for row in rows} == {"start"}
    for row in rows:
        assert row["title"] in done.stdout
        assert row["value"] is not None or "left out" in row["note"]


def test_an_unknown_part_is_refused_with_those_there_are():
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench" / "run.py"), "--only", "W9"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "W9" in done.stderr
    assert "W1" in done.stderr


def test_commands_are_timed_and_none_is_lost_or_out_of_order():
    sent = run_child("send", n=50)
    assert 0 < sent["p50_s"] <= sent["p99_s"] < 0.1
    assert sent["disk_p50_s"] > 0
    told = run_child("elsewhere", n=20)
    assert 0 < told["p50_s"] <= told["p99_s"] < 0.9, "woken, and not found by the slow look"
    queued = run_child("queued", n=1_280)
    assert queued["wrong"] == 0
    assert 1_280 / queued["accepted_s"] > 200
