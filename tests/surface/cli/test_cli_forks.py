"""Forks, versions of plans, and questions about whole plans, on the command line."""

# pyright: reportArgumentType=none

import json

import pytest

from kedge.surface.cli import branches

PLAN = """
goal: Write it down
steps:
  - {id: a, tool: data.json, args: {text: "[1]"}}
  - {id: b, tool: files.write, args: {path: out.txt, text: "one"}, after: [a]}
"""


@pytest.fixture
def lived(kedge, folder):
    (folder / "p.yaml").write_text(PLAN)
    (folder / "patch.yaml").write_text("why: otherwise\nchange: {b: {args: {path: out.txt, text: two}}}\n")
    kedge("run", "p.yaml", "--run", "r")
    return folder


def test_a_fork_takes_over_what_is_known(kedge, lived):
    (lived / "out.txt").unlink()
    told = kedge("fork", "r", "--at", "2", "--run", "again").stdout
    assert "fork of run r after event 2" in told
    assert "taken over: a, b" in told
    assert not (lived / "out.txt").exists(), "nothing was written again"
    assert kedge.data("show", "again")["forked_from"] == ["r", 2]


def test_effects_are_repeated_only_if_somebody_says_so(kedge, lived, monkeypatch):
    edit = ("fork", "r", "--before", "b", "--edit", "patch.yaml", "--run", "two")
    told = kedge(*edit, "--dry-run").stdout
    assert "! may have its effect again: b (files.write, done in the other run)" in told
    error = kedge(*edit, code=2)
    assert "say that they may: --yes" in error.stderr
    assert kedge.data(*edit, code=2)["error"]["code"] == "repeats_effects"
    assert [run["id"] for run in kedge.data("runs")] == ["r"]
    kedge(*edit, "--yes", "--by", "anna")
    assert (lived / "out.txt").read_text() == "two"
    versions = kedge.data("show", "two", "--versions")
    assert [(one["version"], one["cause"], one["by"], one["why"]) for one in versions][1] == (
        2, "fork", "anna", "otherwise",
    )  # fmt: skip


@pytest.mark.parametrize(("typed", "code"), [("y\n", 0), ("n\n", 4), ("\n", 4)])
def test_whoever_sits_there_is_asked(kedge, lived, monkeypatch, typed, code):
    said = iter([typed.strip() == "y"])
    monkeypatch.setattr(branches, "_somebody_is_there", lambda: True)
    monkeypatch.setattr(branches.click, "confirm", lambda *_, **__: next(said))
    kedge("fork", "r", "--before", "b", "--edit", "patch.yaml", code=code)
    assert (lived / "out.txt").read_text() == ("two" if code == 0 else "one")


def test_a_dry_run_is_data_too(kedge, lived):
    found = kedge.data("fork", "r", "--before", "b", "--anew", "--dry-run")
    assert found["repeats"] == [{"path": "b", "tool": "files.write", "status": "done"}]
    assert (found["source"], found["again"], found["reused"], found["damage"]) == ("r", ["b"], [], "")


def test_what_cannot_be_forked_is_told(kedge, lived):
    for options, code in [
        (("--at", "99"), "fork_at"),
        (("--before", "zzz"), "unknown_step"),
        (("--at", "2", "--before", "b"), "option_twice"),
        (("--edit", "none.yaml"), "file_missing"),
        (("--edit", "p.yaml"), "patch_file"),
        (("--edit", "patch.yaml"), "fixed_step"),
    ]:
        assert kedge.data("fork", "r", *options, code=2)["error"]["code"] == code
    assert kedge.data("fork", "nobody", code=2)["error"]["code"] == "unknown_run"


def test_versions_of_a_runs_plan_can_be_seen_and_compared(kedge, lived):
    kedge("fork", "r", "--before", "b", "--edit", "patch.yaml", "--run", "two", "--yes", "--by", "anna")
    assert "otherwise" in kedge("show", "two", "--versions").stdout
    shown = kedge("show", "two", "--version", "2").stdout
    assert shown.startswith("version 2 of 2, fork by anna, ")
    assert "b [normal]" in shown
    assert "version 1 of 2, start, " in kedge("show", "two", "--version", "1").stdout
    data = kedge.data("show", "two", "--version", "2")
    assert data["plan"]["steps"][1]["args"]["text"] == "two"
    assert "two" in kedge("diff", "two", "1", "2").stdout
    changed = kedge.data("diff", "two", "1", "2")
    assert [one["step"] for one in changed["changed"]] == ["b"]
    assert kedge.data("show", "two", "--version", "9", code=2)["error"]["code"] == "unknown_version"
    assert "is not the number of a version" in kedge("diff", "two", "1", "x", code=2).stderr
    assert "name two plans" in kedge("diff", "two", code=2).stderr


def test_a_plan_is_approved_before_it_is_followed(kedge, folder):
    (folder / "p.yaml").write_text(PLAN)
    told = kedge("run", "p.yaml", "--run", "r", "--ask", "plan", code=3).stdout
    assert "2 steps, 1 that change something outside" in told
    assert "approve takes a patch of the plan" in told
    assert not (folder / "out.txt").exists()
    kedge("answer", "r", "q1", "approve")
    assert (folder / "out.txt").read_text() == "one"


def test_what_asks_can_be_set(kedge, folder):
    (folder / "p.yaml").write_text(PLAN)
    (folder / "kedge.toml").write_text('ask = "plan"\n')
    kedge("run", "p.yaml", code=3)
    kedge("run", "p.yaml", "--ask", "never")
    (folder / "kedge.toml").write_text('ask = "now and then"\n')
    assert kedge.data("run", "p.yaml", code=2)["error"]["code"] == "setting_value"


def test_an_input_that_was_not_given_is_asked_for(kedge, folder):
    (folder / "p.yaml").write_text(
        "goal: Write\ninputs: {text: {type: string}}\n"
        'steps: [{id: b, tool: files.write, args: {path: out.txt, text: "${inputs.text}"}}]\n'
    )
    assert kedge.data("run", "p.yaml", code=2)["error"]["code"] == "inputs"
    told = kedge("run", "p.yaml", "--run", "r", "--ask", "plan", code=3).stdout
    assert "What is the input text (string)?" in told
    assert "give takes the input" in told
    kedge("answer", "r", "q2", "approve", code=3)
    kedge("answer", "r", "q1", "give", "--value", json.dumps("said"))
    assert (folder / "out.txt").read_text() == "said"
