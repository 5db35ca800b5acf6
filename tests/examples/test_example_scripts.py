"""The scripts in examples/python, run as a user would."""

from __future__ import annotations

import signal
import sys

import pytest


def test_diamond_joins_what_two_sources_say(python):
    done = python("examples/python/diamond.py")
    assert done.returncode == 0, done.stderr
    assert "{'total': 15}" in done.stdout
    assert "after: left, right" in done.stdout


@pytest.mark.skipif(sys.platform == "win32", reason="the example kills itself with SIGKILL")
def test_crash_goes_on_after_a_kill_and_repeats_only_what_was_in_flight(python, here):
    killed = python("examples/python/crash.py")
    assert killed.returncode == -signal.SIGKILL
    resumed = python("examples/python/crash.py")
    assert resumed.returncode == 0, resumed.stderr
    assert "4 of 4 steps done" in resumed.stdout
    ledger = [line.split() for line in (here / ".kedge" / "ledger.txt").read_text().splitlines()]
    assert [part for part, _ in ledger] == ["1", "2", "2", "3", "4"]
    assert ledger[1] == ledger[2], "the second try has the key of the first"
    assert len({key for _, key in ledger}) == 4
    again = python("examples/python/crash.py")
    assert again.returncode == 0, again.stderr
    assert len((here / ".kedge" / "ledger.txt").read_text().splitlines()) == 5, "a finished run does nothing"


def test_in_doubt_asks_and_goes_on_with_the_answer(python):
    done = python("examples/python/in_doubt.py")
    assert done.returncode == 0, done.stderr
    first, *_, last = done.stdout.splitlines()
    assert first.startswith("waiting: q1: Did send_invoice (step send) have its effect?")
    assert last == "done: {'note': 'sent: invoice 17'}"


def test_watch_pauses_unpauses_and_cancels(python):
    done = python("examples/python/watch.py")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    assert "paused by ann" in text
    assert "cancelled by ann: ten are enough" in text
    assert text.splitlines()[-1].startswith("cancelled: ")
    percents = [int(line[:3]) for line in text.splitlines() if line[4:5] == "%"]
    assert percents == sorted(percents)
    assert percents[-1] == 100
