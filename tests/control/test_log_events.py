"""What a run does, as records of `logging`."""

from __future__ import annotations

import ast
import logging
import re
from pathlib import Path
from typing import Literal

import pytest

import kedge
from kedge.control.log_events import ACTIONS, WARNINGS, level_of
from kedge.flow import events as ev
from kedge.flow.words import RunStatus
from kedge.testing import Fail, scripted
from kedge.views.narrate import RunEvent, wanted

SOURCES = Path(kedge.__file__).parent
LOGGED = ("debug", "info", "warning", "error", "exception", "critical")


def told(kind, level: Literal["run", "group", "step"] = "step", source=None, *, milestone=False):
    return RunEvent(1, 1, "r", kind, level, "a", 0.0, "said", milestone, source or {})


def run(plan, script, caplog, level):
    with caplog.at_level(level, logger="kedge.run"):
        result = kedge.run_sync(
            kedge.Plan.parse(plan), tools=scripted(script), run_id="one", on_event=kedge.log_events
        )
    return result, [record for record in caplog.records if record.name == "kedge.run"]


PLAN = {
    "goal": "g",
    "steps": [
        {"id": "a", "tool": "t", "retry": {"attempts": 2, "backoff_s": 0}, "milestone": True},
        {"id": "b", "tool": "t", "after": ["a"]},
    ],
}


def test_each_event_is_a_record_that_says_what_and_where(caplog):
    _, records = run(PLAN, {"t": [Fail("transient"), 1, 2]}, caplog, logging.DEBUG)
    found = [(r.levelname, r.action, r.step) for r in records]
    assert found[:3] == [
        ("INFO", "run_started", ""),
        ("INFO", "plan_adopted", ""),
        ("DEBUG", "step_started", "a"),
    ]
    assert ("WARNING", "retry_scheduled", "a") in found
    assert ("INFO", "step_succeeded", "a") in found, "the end of a milestone"
    assert ("DEBUG", "step_succeeded", "b") in found
    assert found[-1] == ("INFO", "run_ended", "")
    assert {r.run for r in records} == {"one"}
    assert [r.seq for r in records] == sorted(r.seq for r in records)
    assert records[-1].percent == 100.0
    assert records[2].getMessage() == "one: Step a started"


def test_what_is_not_wanted_is_not_logged(caplog):
    _, records = run(PLAN, {"t": [Fail("transient"), 1, Fail("permanent")]}, caplog, logging.WARNING)
    assert [r.action for r in records] == ["retry_scheduled", "step_failed", "run_ended"]
    assert records[-1].levelname == "ERROR"


@pytest.mark.parametrize(
    ("status", "level"),
    [
        ("done", logging.INFO),
        ("failed", logging.ERROR),
        ("empty", logging.ERROR),
        ("cancelled", logging.INFO),
    ],
)
def test_how_loud_an_end_is(status, level):
    event = ev.RunEnded(status=RunStatus(status))
    assert level_of(told("run_ended", "run", event)) == level
    assert level_of(told("group_ended", "group", event)) == logging.DEBUG


def test_what_tools_say_stays_on_one_line(caplog):
    _, records = run(PLAN, {"t": [Fail("permanent", "no\nINFO root: all is well \x1b[2J")]}, caplog, 10)
    (failed,) = [r for r in records if r.action == "step_failed"]
    assert "\n" not in failed.getMessage()
    assert "\x1b" not in failed.getMessage()


def test_the_words_are_those_of_events_that_there_are():
    kinds = {re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in ev.Event.__subclasses__()}
    assert kinds >= WARNINGS
    assert not kinds & set(ACTIONS), "a word means one thing"
    assert wanted(told("step_failed"), "all")


def _logging_calls():
    for file in SOURCES.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                owner = node.func.value
                if isinstance(owner, ast.Name) and owner.id == "_log" and node.func.attr in LOGGED:
                    yield f"{file.name}:{node.lineno}", node


def test_whatever_is_logged_has_a_word_that_is_in_the_table():
    found = {}
    for where, call in _logging_calls():
        extra = next((keyword.value for keyword in call.keywords if keyword.arg == "extra"), None)
        assert isinstance(extra, ast.Dict), f"{where} logs without `extra`"
        keys = [key.value for key in extra.keys if isinstance(key, ast.Constant)]
        assert "action" in keys, where
        found[where] = ast.literal_eval(extra.values[keys.index("action")])
    assert sorted(set(found.values())) == sorted(ACTIONS)
