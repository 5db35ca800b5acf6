"""The story: real processes, two kills, and a ledger that has each effect once."""

from __future__ import annotations

import json
import sys
from collections import Counter

import pytest


@pytest.mark.skipif(sys.platform == "win32", reason="its drivers are killed with SIGKILL")
def test_the_story_ends_well_and_each_effect_is_there_once(python, here):
    told = python("examples/story/story.py")
    assert told.returncode == 0, told.stdout + told.stderr
    assert told.stdout.count("kill -9") == 2
    assert "8 effects, each of them once" in told.stdout
    books = here / "examples/story/.kedge"
    lines = [line.split("\t") for line in (books / "ledger.txt").read_text().splitlines()]
    words = "reserve invoice pay ship letter voucher revoke close".split()
    assert [what for _, what, _ in lines] == words
    assert len({key for key, _, _ in lines}) == len(lines)
    assert [about for _, what, about in lines if what == "pay"] == ["90 to supplier"]

    def data(word):
        done = python("-m", "kedge", word, "october", "--store", str(books / "kedge.db"), "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    events = data("log")["events"]
    kinds = Counter(event["kind"] for event in events)
    assert kinds["run_resumed"] == 2
    assert (kinds["step_interrupted"], kinds["step_in_doubt"]) == (1, 1)
    plans = [event["data"]["cause"] for event in events if event["kind"] == "plan_adopted"]
    assert plans == ["start", "repair", "repair", "edit", "rollback"]
    starts = Counter(event["path"] for event in events if event["kind"] == "step_started")
    assert {path for path, count in starts.items() if count > 1} == {"rates", "invoice"}
    ran = data("report")
    assert ran["status"] == "done"
    assert {step["path"]: step["status"] for step in ran["steps"]}["voucher"] == "compensated"
