"""Steering from a second terminal: inbox, answer, signal, drive, watch and the rest."""

from __future__ import annotations

import json
import time

import pytest

PATIENCE_S = 20.0


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def calls(folder):
    path = folder / "calls.txt"
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def waiting(folder, kedge):
    (folder / "waiting.yaml").write_text(
        "goal: Wait and ask\n"
        "steps:\n"
        "  - {id: w, wait: {signal: go}}\n"
        "  - {id: a, tool: double, args: {x: 2}, after: [w]}\n"
        "  - {id: p, tool: double, args: {x: 3}, approval: {ask: 'Double it?', expires_s: 3600}}\n"
    )
    kedge("run", "waiting.yaml", "--run", "w1", code=3)


def test_what_is_asked_while_nobody_drives_is_kept_until_somebody_does(kedge, waiting):
    queued = kedge.data("signal", "w1", "go", '{"n": 1}', "--key", "k", "--by", "anna")
    assert (queued["key"], queued["driven"], queued["decision"]) == ("k", False, None)
    assert "nobody drives the run: kedge drive" in kedge("signal", "w1", "go", "--key", "k").stdout
    (driven,) = kedge.data("drive", code=3)
    assert (driven["run_id"], driven["status"], driven["why"]) == ("w1", "waiting", "an answer to q1")
    log = [json.loads(line) for line in kedge("log", "w1").stdout.splitlines()]
    assert [event["data"]["by"] for event in log if event["kind"] == "command_taken"] == ["anna"]
    assert kedge.data("signal", "w1", "go", "--key", "k")["decision"]["taken"]
    assert kedge.data("drive") == []


def test_the_inbox_shows_what_is_asked_and_the_commands_that_answer(kedge, waiting):
    shown = kedge("inbox").stdout
    assert "run w1, question q1, step p: Double it?" in shown
    assert "kedge answer w1 q1 approve" in shown
    assert "nobody drives the run" in shown
    (one,) = kedge.data("inbox")
    assert (json.loads(one["args"]), one["options"]) == ({"x": 3}, ["approve", "refuse"])
    kedge("answer", "w1", "q1", "approve", "--value", '{"x": 5}', code=3)
    assert kedge.data("inbox") == []
    assert "nobody is asked anything" in kedge("inbox").stderr


def test_an_answer_can_be_left_for_whoever_drives_next(kedge, waiting):
    kedge("signal", "w1", "go")
    left = kedge.data("answer", "w1", "q1", "refuse", "--reason", "too dear", "--no-wait")
    assert left["decision"] is None
    (driven,) = kedge.data("drive", code=1)
    assert driven["status"] == "failed"
    assert "too dear" in kedge("show", "w1").stdout


def test_every_word_reaches_the_run(kedge, folder, waiting):
    (folder / "step.yaml").write_text("id: more\ntool: double\nargs: {x: '${a}'}\n")
    (folder / "patch.yaml").write_text(
        "why: better so\nadd:\n  - step: {id: other, tool: double, args: {x: 1}}\nchange: {a: {do: Twice}}\n"
    )
    for args in (
        ["pause", "w1"], ["unpause", "w1"], ["inject", "w1", "step.yaml", "--why", "more"],
        ["edit", "w1", "patch.yaml"], ["remove", "w1", "more"], ["rollback", "w1", "3"],
        ["set-goal", "w1", "Something else"], ["set-context", "w1", '{"n": 1}'], ["skip", "w1", "other"],
        ["retry", "w1", "a"], ["signal", "w1", "go"],
    ):  # fmt: skip
        assert kedge.data(*args)["command"].replace("_", "-") == args[0]
    kedge("drive", code=3)
    result = kedge.data("show", "w1")
    assert result["version"] == 7
    assert {path: step["status"] for path, step in result["steps"].items()} == {
        "w": "done", "a": "done", "p": "waiting", "more": "done", "other": "skipped",
    }  # fmt: skip
    refused = [json.loads(line) for line in kedge("log", "w1").stdout.splitlines()]
    assert [event["data"]["command"] for event in refused if event["kind"] == "command_refused"] == ["retry"]


def test_steps_are_rewired_and_prioritised_and_a_repair_needs_a_planner(kedge, folder, waiting):
    kedge("rewire", "w1", "a", "w=p", "--why", "p is enough")
    kedge("prioritise", "w1", "a", "-2")
    kedge("repair", "w1", "--need", "parse XML", "--key", "mend")
    kedge("drive", code=3)
    plan = kedge.data("show", "w1", "--version", "3")["plan"]
    (step,) = [step for step in plan["steps"] if step["id"] == "a"]
    assert (step["after"], step["priority"]) == (["p"], -2)
    assert (
        kedge.data("repair", "w1", "--need", "parse XML", "--key", "mend", code=2)["error"]["code"]
        == "no_repair"
    )


def test_drive_tells_which_commands_were_not_taken(kedge, waiting):
    kedge("remove", "w1", "nobody", "--key", "k1")
    kedge("set-goal", "w1", "Something else", "--key", "k2")
    shown = kedge("drive", code=3).stdout
    assert "not taken: " in shown
    assert "nobody" in shown
    assert "(key k1)" in shown
    assert "k2" not in shown
    kedge("remove", "w1", "nobody", "--key", "k3")
    (driven,) = kedge.data("drive", code=3)
    assert list(driven["refused"]) == ["k3"]


def test_words_that_say_nothing_are_refused_before_they_are_sent(kedge, waiting):
    for args, code in [
        (["rewire", "w1", "a", "w"], "option_input"),
        (["rewire", "w1", "a", "w=p", "=p"], "option_input"),
        (["set-goal", "w1", "  "], "blank_goal"),
        (["repair", "w1"], "usage"),
    ]:
        assert kedge.data(*args, code=2)["error"]["code"] == code
    assert kedge.data("drive") == []


def test_a_rollback_undoes_what_the_version_does_not_have(kedge, folder, waiting):
    undo = "{tool: files.write, args: {path: a.txt, text: gone}}"
    (folder / "step.yaml").write_text(
        f"id: note\ntool: files.write\nargs: {{path: a.txt, text: there}}\ncompensate: {undo}\n"
    )
    kedge("inject", "w1", "step.yaml")
    kedge("drive", code=3)
    assert (folder / "a.txt").read_text() == "there"
    kedge("rollback", "w1", "1", "--undo", "--why", "too much", "--by", "ben")
    kedge("drive", code=3)
    assert (folder / "a.txt").read_text() == "gone"
    report = kedge("report", "w1").stdout
    assert "- wanted by `ben`: too much\n- `note` is undone" in report
    assert "- the signal `go`\n- an answer to `q1`" in report


def test_a_step_of_a_run_that_another_process_drives_is_undone_by_that_one(start, kedge, folder):
    undo = "{tool: files.write, args: {path: a.txt, text: gone}}"
    (folder / "undone.yaml").write_text(
        f"goal: g\nsteps:\n  - id: a\n    tool: files.write\n    args: {{path: a.txt, text: there}}\n"
        f"    compensate: {undo}\n  - {{id: long, tool: held, args: {{name: long}}}}\n"
    )
    driver = start("run", "undone.yaml", "--run", "s1")
    wait_for(lambda: "long" in calls(folder) and (folder / "a.txt").exists(), "both steps")
    wait_for(lambda: kedge.data("show", "s1")["steps"]["a"]["status"] == "done", "the end of the first")
    assert "compensate is taken" in kedge("compensate", "s1", "a", "--reason", "wrong").stdout
    wait_for(lambda: (folder / "a.txt").read_text() == "gone", "the undoing")
    (folder / "go").touch()
    out, _ = driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 0, out


BROKEN = """
import kedge

@kedge.tool(effect="read", substitutes=("archive",))
def market() -> float:
    raise kedge.ToolError("closed", "permanent")

@kedge.tool(effect="read")
def archive() -> float:
    return 41.5
"""


def test_the_planner_of_the_settings_mends_plans_and_the_report_tells_it(kedge, folder):
    (folder / "market.py").write_text(BROKEN)
    (folder / "market.yaml").write_text("goal: g\nsteps:\n  - {id: price, tool: market}\n")
    (folder / "kedge.toml").write_text('tools = ["market.py"]\n')
    kedge("run", "market.yaml", "--run", "m1", code=1)
    (folder / "kedge.toml").write_text('tools = ["market.py"]\nplanner = "rules"\n')
    kedge("run", "market.yaml", "--run", "m2")
    repaired = "- failed: `price`: closed → **version 2 of the plan** by `rules`"
    assert repaired in kedge("report", "m2").stdout
    assert kedge.data("report", "m2")["repairs"][0]["became"] == 2
    (folder / "kedge.toml").write_text('planner = "nowhere.py:Mine"\n')
    assert kedge.data("show", "m2")["version"] == 2, "who only looks needs no planner"
    assert kedge.data("inbox") == []
    assert kedge.data("resume", "m2", code=2)["error"]["code"] == "no_tools_file"


def test_a_fork_says_where_it_comes_from(kedge):
    kedge("run", "good.yaml", "--run", "g1")
    kedge("fork", "g1", "--run", "g2")
    assert "branched off run `g1` after event" in kedge("report", "g2").stdout


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[1]", "inputs_file"),
        ("wrong: 1", "patch_file"),
        ("add: 1", "patch_file"),
        ("add: [{into: a}]", "patch_file"),
        ("add: [{step: {id: a, tool: t}, into: 1}]", "patch_file"),
        ("add: [{step: {id: A B, tool: t}}]", "bad_id"),
    ],
)
def test_a_patch_that_is_none_is_refused_before_it_is_sent(kedge, folder, waiting, text, code):
    (folder / "patch.yaml").write_text(text + "\n")
    assert kedge.data("edit", "w1", "patch.yaml", code=2)["error"]["code"] == code
    assert kedge.data("set-context", "w1", "[]", code=2)["error"]["code"] == "option_json"


def test_a_run_that_another_process_drives_is_steered_and_watched(start, kedge, folder):
    driver = start("run", "held.yaml", "--run", "s1")
    wait_for(lambda: "long" in calls(folder), "the long step")
    watcher = start("watch", "s1", "--no-live")
    paused = kedge.data("pause", "s1", "--by", "anna")
    assert paused["driven"]
    assert paused["decision"]["taken"]
    error = kedge.data("pause", "s1", code=2)["error"]
    assert error["code"] == "cannot_pause"
    assert "unpause" in error["message"]
    assert "unpause is taken" in kedge("unpause", "s1").stdout
    assert kedge.data("pause", "s1", "--no-wait")["decision"] is None
    wait_for(lambda: kedge.data("runs")[0]["status"] == "paused", "the pause")
    kedge("unpause", "s1")
    assert kedge.data("cancel", "s1", "--reason", "enough")["decision"]["taken"]
    out, _ = driver.communicate(timeout=PATIENCE_S)
    told, _ = watcher.communicate(timeout=PATIENCE_S)
    assert (driver.returncode, watcher.returncode) == (4, 4), out
    assert "run s1 cancelled" in told


def test_drive_goes_on_for_ever_until_it_is_stopped(start, kedge, folder, waiting):
    driver = start("drive", "--forever", "--tools", "tools.py")
    kedge("signal", "w1", "go")
    wait_for(lambda: kedge.data("runs")[0]["driven"], "the driver")
    assert kedge.data("answer", "w1", "q1", "approve")["decision"]["taken"]
    wait_for(lambda: kedge.data("runs")[0]["status"] == "done", "the end of the run")
    driver.terminate()
    driver.communicate(timeout=PATIENCE_S)
    assert driver.returncode == 143


def test_drive_names_what_it_cannot_drive_and_drives_the_others(kedge, folder, waiting):
    kedge("run", "waiting.yaml", "--run", "w2", code=3)
    kedge("signal", "w1", "go")
    kedge("signal", "w2", "go")
    import apsw

    db = apsw.Connection(str(folder / ".kedge" / "kedge.db"))
    db.execute(
        "update event set data = x'00' where id = ((select key from run where run_id = 'w1') << 32 | 2)"
    )
    db.close()
    found = {one["run_id"]: one for one in kedge.data("drive", code=1)}
    assert (found["w1"]["status"], found["w1"]["code"]) == ("not driven", "store_damaged")
    assert found["w2"]["status"] == "waiting"
    (folder / "kedge.toml").unlink()
    kedge("signal", "w2", "go", "--key", "again")
    assert {one["code"] for one in kedge.data("drive", code=1)} == {"store_damaged", "tools_missing"}
    (damaged, *_) = [one for one in kedge.data("inbox") if one["reason"] == "damaged"]
    assert damaged["run_id"] == "w1"
    assert "salvage" in kedge("inbox").stdout
