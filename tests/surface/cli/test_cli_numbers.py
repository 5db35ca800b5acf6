"""`kedge stats` and `kedge report`: runs in numbers and in words."""

from __future__ import annotations

import json

import pytest

from kedge.control.numbers import NumberRow, Numbers
from kedge.surface.cli import stats
from kedge.surface.cli.screen import Screen


@pytest.fixture
def played(kedge):
    """Two runs that are done, and one that failed."""
    kedge("run", "good.yaml", "--run", "r1")
    kedge("run", "good.yaml", "--run", "r2")
    kedge("run", "failing.yaml", "--run", "r3", code=1)
    return kedge


def test_stats_are_a_table_of_tools(played):
    shown = played("stats").stdout
    assert shown.split()[:6] == ["tool", "runs", "ok", "p50", "p95", "retries"]
    assert "100.0%" in shown
    assert "0.0%" in shown


@pytest.mark.parametrize(("by", "title"), [("plan", "goal"), ("day", "day (UTC)"), ("week", "week (UTC)")])
def test_stats_by_something_else(played, by, title):
    lines = played("stats", "--by", by).stdout.splitlines()
    assert title in lines[0]
    assert len(lines) == (3 if by == "plan" else 2)
    if by != "plan":
        assert "66.7%" in lines[1]


def test_stats_as_json(played):
    found = played.data("stats", "--by", "day")
    assert (found["by"], found["runs"], found["of"], found["unreadable"]) == ("day", 3, 3, [])
    assert (found["rows"][0]["done"], found["rows"][0]["failed"]) == (2, 1)


def test_it_is_said_of_how_many_runs(played):
    done = played("stats", "--last", "1")
    assert "of the newest 1 of 3 runs: --last 3 counts all" in done.stderr
    assert "newest" not in played("stats").stderr


def test_stats_of_lately(played):
    assert played.data("stats", "--since", "1h")["of"] == 3
    done = played("stats", "--since", "0s")
    assert (done.stdout, done.stderr) == ("", "no runs to count\n")
    assert played.data("stats", "--since", "often", code=2)["error"]["code"] == "age"


def test_stats_need_a_store(kedge):
    assert kedge.data("stats", code=2)["error"]["code"] == "no_store"


def test_a_report_is_markdown(played):
    shown = played("report", "r1").stdout
    assert shown.startswith("# ")
    assert "run `r1`, **done**" in shown
    assert "## What was done" in shown


def test_a_report_as_data(played):
    found = played.data("report", "r3")
    assert (found["run_id"], found["status"]) == ("r3", "failed")
    assert found["steps"][0]["why"]


def test_a_report_goes_to_a_file(played, folder):
    done = played("report", "r1", "--to", "r1.md")
    assert (done.stdout, done.stderr) == ("", "written to r1.md\n")
    assert (folder / "r1.md").read_text() == played("report", "r1").stdout
    played("report", "r1", "--to", "r1.json", "--json")
    assert json.loads((folder / "r1.json").read_text())["run_id"] == "r1"


def test_a_report_that_cannot_be_written_says_so(played):
    done = played("report", "r1", "--to", "nowhere/r1.md", code=2)
    assert "it cannot be written: No such file or directory" in done.stderr


def test_a_report_of_nobody(played):
    assert played.data("report", "nobody", code=2)["error"]["code"] == "unknown_run"


def test_what_tools_say_can_do_nothing_in_a_report(kedge):
    kedge("run", "nasty.yaml", "--run", "r1", code=1)
    shown = kedge("report", "r1").stdout
    assert "\x1b" not in shown
    assert "bad [red]markup[/red] thing" in shown


@pytest.mark.parametrize("by", ["tool", "plan", "day"])
def test_in_a_narrow_terminal_nothing_is_cut_off(by, monkeypatch, capsys):
    monkeypatch.setattr(Screen, "size", property(lambda _: (60, 24)))
    row = NumberRow(
        name="d7d68ffc31c4" * 4, goal="Compare " * 20, runs=12_345, done=9, failed=1, success=0.9, p50_s=83.0,
        p95_s=7_300.0, retries=1_234, cost=12.5, tokens=1_234_567,
    )  # fmt: skip
    screen = Screen()
    screen.is_terminal = True
    stats._table(screen, Numbers(by=by, runs=1, of=1, unreadable=(), rows=(row,)))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 60
    shown = " ".join(lines)
    for part in ("12,345 runs", "ok 90.0%", "p50 1 min 23 s", "retries 1,234", "tokens 1,234,567"):
        assert part in shown


@pytest.mark.parametrize("width", [40, 60, 100])
def test_in_a_narrow_terminal_no_id_is_cut(width, monkeypatch, capsys):
    monkeypatch.setattr(Screen, "size", property(lambda _: (width, 24)))
    screen = Screen()
    screen.is_terminal = True
    row = ("a-run-with-a-long-id-2026", "waiting", "0/4", "2026-11-20 01:34:06", "1.3 KiB", "Wait " * 20)
    screen.table(("run", "status", "steps", "started", "size", "goal"), [row, ("b", "", "", "", "", "")])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    for cell in row[:-1]:
        assert cell in shown
    assert shown.count("Wait") == 20
