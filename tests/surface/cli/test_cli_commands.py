"""Each command: what it prints, and the code that it exits with."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile

import pytest
import yaml

from kedge.surface.cli import plans
from kedge.surface.cli.app import COMMANDS


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["run", "good.yaml"], 0),
        (["run", "failing.yaml"], 1),
        (["run", "empty.yaml"], 1),
        (["run", "bad.yaml"], 2),
        (["run", "nowhere.yaml"], 2),
        (["run"], 2),
        (["run", "good.yaml", "--nonsense"], 2),
        (["run", "good.yaml", "--input", "x=many"], 2),
        (["run", "good.yaml", "--input", "unknown=1"], 2),
        (["run", "good.yaml", "--input", "x"], 2),
        (["run", "good.yaml", "--run", "../../etc"], 2),
        (["run", "good.yaml", "--parallel", "0"], 2),
        (["run", "good.yaml", "--tools", "nothing.py"], 2),
        (["run", "good.yaml", "--inputs-file", "nowhere.yaml"], 2),
        (["run", "doubtful.yaml"], 3),
        (["run", "good.yaml", "--store", "good.yaml"], 5),
        (["check", "good.yaml"], 0),
        (["check", "bad.yaml"], 2),
        (["check", "tools.py"], 2),
        (["check", "good.yaml", "--strictness", "loose"], 2),
        (["resume", "nobody"], 2),
        (["answer", "nobody", "q1", "done"], 2),
        (["cancel", "nobody"], 2),
        (["show", "nobody"], 2),
        (["show", "good.yaml"], 0),
        (["log", "nobody"], 2),
        (["log", "nobody", "--follow", "--json"], 2),
        (["diff", "good.yaml", "many.yaml"], 0),
        (["diff", "good.yaml", "bad"], 2),
        (["schema"], 0),
        (["tools"], 0),
        (["delete", "nobody"], 2),
        (["prune"], 2),
        (["prune", "--older-than", "yesterday"], 2),
        (["prune", "--status", "fine"], 2),
        (["runs"], 0),
        (["doctor"], 0),
        (["new"], 2),
        (["unknown"], 2),
    ],
)
def test_commands_exit_with_the_published_code_with_and_without_json(kedge, args, code):
    kedge(*args, code=code)
    if args != ["unknown"]:
        document = json.loads(kedge(*args, "--json", code=code).stdout)
        if code in (2, 5) and args[0] != "check":
            error = document["error"]
            assert set(error) == {"code", "message", "where", "allowed", "remedy", "findings"}
            assert error["code"]
            assert error["message"]


def test_every_command_has_a_sentence_of_help_and_it_is_the_one_in_the_list(kedge):
    listed = kedge("--help").stdout
    for name, (_, line) in COMMANDS.items():
        assert line.split(",")[0][:30] in " ".join(listed.split())
        shown = " ".join(kedge(name, "--help").stdout.split())
        assert line in shown, f"kedge {name} --help does not begin with its line in the list"


def test_without_a_command_there_is_the_help_as_it_is_laid_out(kedge):
    assert kedge(code=2).stderr.split() == kedge("--help").stdout.split()
    assert re.search(r"\n  run +Run a plan", kedge(code=2).stderr)


def test_listing_the_commands_loads_none_of_them(environment):
    code = (
        "import sys; sys.argv = ['kedge', '--help']\n"
        "from kedge.surface.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'apsw', 'yaml', 'rich', 'asyncio'} & set(sys.modules)\n"
        "print('heavy:', sorted(heavy))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    assert done.stdout.splitlines()[-1] == "heavy: []"


# --- run, resume, answer, cancel


def test_run_prints_events_summary_outputs_and_answer(kedge):
    shown = kedge("run", "good.yaml", "--run", "r1").stdout
    for text in ("Step a", "The run is done", "run r1 done: 2 of 2 steps done", "y: 16", "it is 16"):
        assert text in shown


def test_run_as_json_tells_everything_in_one_document(kedge):
    result = kedge.data("run", "good.yaml", "--run", "r1", "--input", "x=5", "--input", "name=7")
    assert (result["run_id"], result["status"], result["ok"]) == ("r1", "done", True)
    assert (result["outputs"], result["answer"]) == ({"y": 20}, "it is 20")
    assert result["steps"]["a"]["status"] == "done"
    assert result["counts"]["done"] == 2
    started = json.loads(kedge("log", "r1").stdout.splitlines()[0])
    assert started["data"]["inputs"] == {"x": 5, "name": "7"}, "text stays text where the plan wants text"


def test_inputs_come_from_a_file_and_typed_ones_win(kedge, folder):
    (folder / "inputs.yaml").write_text("x: 1\nname: Ada\n")
    result = kedge.data("run", "good.yaml", "--inputs-file", "inputs.yaml", "--input", "x=3")
    assert result["outputs"] == {"y": 12}


def test_the_same_id_and_plan_is_that_run_and_another_plan_is_a_conflict(kedge):
    kedge("run", "good.yaml", "--run", "r1")
    events = len(kedge("log", "r1").stdout.splitlines())
    kedge("run", "good.yaml", "--run", "r1")
    assert len(kedge("log", "r1").stdout.splitlines()) == events, "nothing was done twice"
    error = kedge.data("run", "many.yaml", "--run", "r1", code=5)["error"]
    assert error["code"] == "run_conflict"


def test_a_failed_run_says_category_code_and_step(kedge):
    shown = kedge("run", "failing.yaml", code=1).stdout
    assert "a: no way" in shown
    assert "permission, code" in shown


def test_a_wrong_plan_lists_every_finding_with_its_remedy(kedge):
    shown = kedge("run", "bad.yaml", code=2).stderr
    assert "2 errors" in shown
    assert "did you mean" in shown.lower() or "double" in shown
    findings = kedge.data("run", "bad.yaml", code=2)["error"]["findings"]
    assert {finding["code"] for finding in findings} >= {"unknown_tool"}
    assert all(finding["path"] for finding in findings)


def test_a_question_comes_with_the_commands_that_answer_it(kedge):
    shown = kedge("run", "doubtful.yaml", "--run", "d1", "--tools", "tools.py", code=3).stdout
    assert "kedge answer d1 q1 retry --tools tools.py" in shown
    question = kedge.data("show", "d1")["questions"][0]
    assert question["id"] == "q1"
    command = next(words for words in question["answer_with"] if " failed" in words)
    assert command == "kedge answer d1 q1 failed"
    done = kedge("answer", "d1", "q1", "done", "--value", '"sent"', "--by", "Ada")
    assert "2 of 2 steps done" in done.stdout
    log = [json.loads(line) for line in kedge("log", "d1").stdout.splitlines()]
    answered = next(event for event in log if event["kind"] == "question_answered")
    assert (answered["data"]["by"], answered["data"]["answer"]) == ("Ada", "done")


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["q9", "done"], "unknown_question"),
        (["q1", "perhaps"], "unknown_answer"),
        (["q1", "done", "--value", "{"], "option_json"),
        (["q1", "done", "--tools", "other.py"], "tools_missing"),
    ],
)
def test_a_wrong_answer_leaves_the_run_as_it_was(kedge, folder, args, code):
    (folder / "other.py").write_text("import kedge\n\n@kedge.tool\ndef other() -> int: return 1\n")
    kedge("run", "doubtful.yaml", "--run", "d1", code=3)
    before = kedge("log", "d1").stdout
    assert kedge.data("answer", "d1", *args, code=2)["error"]["code"] == code
    assert kedge("log", "d1").stdout == before


def test_answering_a_run_that_has_ended_is_refused(kedge):
    kedge("run", "doubtful.yaml", "--run", "d1", code=3)
    kedge("answer", "d1", "q1", "failed", code=1)
    assert kedge.data("answer", "d1", "q1", "done", code=2)["error"]["code"] == "run_ended"


def test_resume_without_the_tools_it_needs_says_so_and_changes_nothing(kedge, folder):
    kedge("run", "doubtful.yaml", "--run", "d1", code=3)
    (folder / "kedge.toml").unlink()
    before = kedge("log", "d1").stdout
    error = kedge.data("resume", "d1", code=2)["error"]
    assert error["code"] == "tools_missing"
    assert "--tools" in error["remedy"]
    assert kedge("log", "d1").stdout == before


def test_resume_takes_failed_steps_up_again_if_asked(kedge, folder):
    (folder / "flaky.yaml").write_text(
        "goal: Read a file\nsteps:\n  - {id: a, tool: files.read, args: {path: there.txt}}\n"
        "outputs: {text: a}\n"
    )
    kedge("run", "flaky.yaml", "--run", "f1", code=1)
    kedge("resume", "f1", code=1)
    (folder / "there.txt").write_text("now it is")
    assert kedge.data("resume", "f1", "--retry-failed")["outputs"] == {"text": "now it is"}


def test_cancel_ends_a_run_that_nobody_drives(kedge):
    kedge("run", "doubtful.yaml", "--run", "d1", code=3)
    result = kedge.data("cancel", "d1", "--reason", "not needed")
    assert (result["status"], result["questions"]) == ("cancelled", [])
    log = [json.loads(line) for line in kedge("log", "d1").stdout.splitlines()]
    assert not [event for event in log[5:] if event["kind"] == "step_started"], (
        "nothing is started to be cancelled"
    )
    kedge("run", "good.yaml", "--run", "g1")
    assert kedge.data("cancel", "g1", code=2)["error"]["code"] == "run_ended"


UNDONE = """
goal: Write two files
steps:
  - id: a
    tool: files.write
    args: {path: a.txt, text: one}
    compensate: {tool: files.write, args: {path: a.txt, text: gone}}
  - id: b
    tool: files.write
    args: {path: b.txt, text: two}
    after: [a]
    compensate: {tool: files.write, args: {path: /b, text: ""}}
"""
MORE = "  - {id: c, wait: {signal: go}, after: [b]}\n"


def test_compensate_undoes_what_a_run_did(kedge, folder):
    (folder / "undone.yaml").write_text(UNDONE)
    kedge("run", "undone.yaml", "--run", "u1")
    shown = kedge("compensate", "u1", "--reason", "wrong", "--by", "Ada", code=4).stdout
    assert (folder / "a.txt").read_text() == "gone"
    assert "1 compensated" in shown
    assert "not undone: b: files.write failed: " in shown
    result = kedge.data("show", "u1")
    assert (result["undone"], list(result["not_undone"])) == (["a"], ["b"])
    assert result["error"]["message"] == "1 step was undone by Ada: wrong"
    assert kedge.data("compensate", "u1", "a", code=4)["undone"] == ["a"]
    assert kedge.data("compensate", "u1", "c", code=2)["error"]["code"] == "unknown_step"


def test_compensate_without_the_tools_it_needs_says_so_and_changes_nothing(kedge, folder):
    again = "    compensate: {tool: double, args: {x: 1}}"
    plan = f"goal: g\nsteps:\n  - id: a\n    tool: files.write\n    args: {{path: a, text: x}}\n{again}\n"
    (folder / "far.yaml").write_text(plan)
    kedge("run", "far.yaml", "--run", "u3", "--tools", "tools.py")
    (folder / "other.py").write_text("import kedge\n\n@kedge.tool\ndef other() -> int: return 1\n")
    error = kedge.data("compensate", "u3", "--tools", "other.py", code=2)["error"]
    assert (error["code"], "double" in error["message"]) == ("tools_missing", True)
    assert kedge.data("show", "u3")["status"] == "done"


def test_cancel_undoes_what_was_done_if_asked(kedge, folder):
    (folder / "halfway.yaml").write_text(UNDONE.replace("/b", "b.txt") + MORE)
    kedge("run", "halfway.yaml", "--run", "u2", code=3)
    result = kedge.data("cancel", "u2", "--undo")
    assert (result["status"], result["undone"]) == ("cancelled", ["b", "a"])


# --- lists


def test_runs_lists_the_newest_first_and_makes_no_store(kedge, folder):
    assert kedge.data("runs") == []
    assert not (folder / ".kedge").exists(), "looking at runs must not make a store"
    kedge("run", "good.yaml", "--run", "r1")
    kedge("run", "failing.yaml", "--run", "r2", code=1)
    found = kedge.data("runs")
    assert [(run["id"], run["status"], run["ended"]) for run in found] == [
        ("r2", "failed", True),
        ("r1", "done", True),
    ]
    shown = kedge("runs").stdout
    assert "r1" in shown
    assert "Double a number" in shown


def test_delete_forgets_a_run(kedge):
    kedge("run", "good.yaml", "--run", "r1")
    assert kedge.data("delete", "r1") == {"deleted": ["r1"]}
    assert kedge.data("runs") == []
    kedge("delete", "r1", code=2)


def test_prune_deletes_what_the_policy_gives_up_and_a_dry_run_nothing(kedge):
    for name in ("r1", "r2", "r3"):
        kedge("run", "good.yaml", "--run", name)
    kedge("run", "doubtful.yaml", "--run", "open", code=3)
    dry = kedge.data("prune", "--keep", "1", "--dry-run")
    assert [run["id"] for run in dry["deleted"]] == ["r2", "r1"]
    assert len(kedge.data("runs")) == 4
    assert [run["id"] for run in kedge.data("prune", "--keep", "1")["deleted"]] == ["r2", "r1"]
    assert [run["id"] for run in kedge.data("runs")] == ["open", "r3"]
    kedge.data("prune", "--status", "waiting")
    assert [run["id"] for run in kedge.data("runs")] == ["r3"], "a named status is taken even if not ended"
    assert kedge.data("prune", "--older-than", "1h")["deleted"] == []


# --- log, show, check, diff, schema, tools


def test_the_log_is_gapless_json_lines_from_any_number(kedge):
    kedge("run", "many.yaml", "--run", "m1")
    lines = [json.loads(line) for line in kedge("log", "m1").stdout.splitlines()]
    assert [event["seq"] for event in lines] == list(range(1, len(lines) + 1))
    assert lines[-1]["kind"] == "run_ended"
    assert lines[-1]["percent"] == 100
    later = [json.loads(line) for line in kedge("log", "m1", "--from", "5").stdout.splitlines()]
    assert later == lines[4:]
    assert kedge.data("log", "m1", "--from", "5")["events"] == later
    assert kedge("log", "m1", "--follow").stdout == kedge("log", "m1").stdout, (
        "it has ended: nothing to wait for"
    )


@pytest.mark.parametrize(
    ("form", "holds"), [("--ascii", "a"), ("--mermaid", "flowchart"), ("--timeline", "a"), ("--svg", "<svg")]
)
def test_show_draws_runs(kedge, form, holds):
    kedge("run", "good.yaml", "--run", "r1")
    assert holds in kedge("show", "r1", form).stdout


def test_a_plan_has_no_timeline(kedge):
    kedge("show", "good.yaml", "--timeline", code=2)


def test_show_as_json_of_a_plan_is_the_plan(kedge):
    assert kedge.data("show", "good.yaml")["goal"] == "Double a number"


def test_check_tells_all_findings(kedge):
    report = kedge.data("check", "bad.yaml", code=2)
    assert report["ok"] is False
    assert report["missing_tools"] == ["dubble"]
    assert report["errors"] == len([f for f in report["findings"] if f["severity"] == "error"])
    assert "good.yaml can be run" in kedge("check", "good.yaml").stdout


def test_check_never_says_that_a_plan_can_be_run_which_run_refuses(kedge, folder):
    (folder / "later.yaml").write_text(
        "goal: Later\nsteps:\n  - {id: a, tool: double, args: {x: 1}, speculate: true}\n"
    )
    told = kedge("check", "later.yaml", code=2).stdout
    assert "not_supported_yet" in told
    assert "cannot be run: 1 error" in told
    kedge("run", "later.yaml", code=2)


def test_check_tells_a_text_that_is_no_plan(kedge, folder):
    (folder / "broken.yaml").write_text("goal: [unclosed\n")
    assert kedge.data("check", "broken.yaml", code=2)["findings"]


@pytest.mark.parametrize("args", [("check",), ("run",), ("show",), ("diff", "good.yaml")])
def test_the_limits_of_the_settings_hold_for_reading_plans_too(kedge, folder, args):
    kedge(*args, "many.yaml")
    with (folder / "kedge.toml").open("a") as settings:
        settings.write("[limits]\ndocument_bytes = 100\n")
    assert "document_too_big" in kedge(*args, "many.yaml", "--json", code=2).stdout


def test_diff_says_which_is_better(kedge):
    found = kedge.data("diff", "good.yaml", "many.yaml")
    assert found["same"] is False
    assert found["better"] in ("a", "b", "neither")
    assert "is better" in kedge("diff", "good.yaml", "many.yaml").stdout


def test_schema_and_tools_are_data(kedge):
    assert kedge.data("schema")["properties"]["steps"]
    names = {spec["name"] for spec in kedge.data("tools")}
    assert {"double", "files.read", "sleep"} <= names
    assert "files.read" in kedge("tools").stdout


# --- doctor, new


def test_doctor_measures_and_makes_no_store(kedge, folder):
    report = kedge.data("doctor")
    assert report["ok"] is True
    assert {"python", "sqlite", "wal", "disk", "fsync", "store", "tools", "limits"} <= {
        check["name"] for check in report["checks"]
    }
    limits = next(check["text"] for check in report["checks"] if check["name"] == "limits")
    assert "result_bytes 67,108,864," in limits
    assert "e+" not in limits
    assert not (folder / ".kedge").exists()
    assert not list(folder.glob(".kedge-doctor*"))


def test_doctor_fails_on_what_would_fail_a_run(kedge, folder):
    (folder / "tools.py").write_text("import nothing_of_that_name\n")
    report = kedge.data("doctor", code=1)
    tools = next(check for check in report["checks"] if check["name"] == "tools")
    assert tools["verdict"] == "fail"
    assert tools["remedy"]
    assert "fail tools" in kedge("doctor", code=1).stdout


def test_new_makes_a_plan_that_runs_as_it_is(kedge, folder, monkeypatch):
    shown = kedge("new", "fresh").stdout
    assert "cd fresh && kedge run plan.yaml" in shown
    monkeypatch.chdir(folder / "fresh")
    assert yaml.safe_load((folder / "fresh" / "plan.yaml").read_text())["goal"]
    kedge("check", "plan.yaml", "--strictness", "strict")
    assert "Hello, Ada!" in kedge("run", "plan.yaml").stdout


def test_new_changes_nothing_that_is_there(kedge, folder):
    before = (folder / "tools.py").read_text()
    assert kedge.data("new", code=2)["error"]["code"] == "file_exists"
    assert (folder / "tools.py").read_text() == before
    assert not (folder / "plan.yaml").exists()


# --- text that is not ours, and errors


def test_what_comes_from_plans_and_tools_cannot_act_on_the_terminal(kedge):
    done = kedge("run", "nasty.yaml", "--run", "n1", code=1)
    for text in (done.stdout, done.stderr, kedge("show", "n1").stdout, kedge("runs").stdout):
        assert "\x1b" not in text
        assert "\x07" not in text
    assert "[bold]screen[/bold]" in kedge("runs").stdout, "markup is shown, not obeyed"
    assert "bad [red]markup[/red] thing" in done.stdout
    assert "do: use another tool" in done.stdout


def test_with_json_what_tools_print_is_not_in_the_document(kedge, folder):
    with (folder / "tools.py").open("a") as file:
        file.write('\nprint("printed by the import")\n')
    done = kedge("run", "chatty.yaml", "--json")
    assert json.loads(done.stdout)["status"] == "done"
    assert "printed by a tool" in done.stderr
    assert "printed by the import" in done.stderr


def test_a_wrong_setting_is_an_error_that_names_the_nearest(kedge, folder):
    (folder / "kedge.toml").write_text("paralel = 4\n")
    error = kedge.data("runs", code=2)["error"]
    assert (error["code"], error["remedy"]) == ("unknown_setting", "did you mean parallel?")


def test_what_nobody_foresaw_is_called_a_bug_and_shows_no_traceback(kedge, monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(plans, "build_tools", lambda settings: 1 / 0)
    done = kedge("tools", code=1)
    assert "Traceback" not in done.output
    assert "this is a bug in kedge" in done.stderr
    (details,) = tmp_path.glob("kedge-bug-*.txt")
    assert "ZeroDivisionError" in details.read_text()
    assert kedge.data("tools", code=1)["error"]["code"] == "internal"
    assert "Traceback" in kedge("--debug", "tools", code=1).stderr


def test_an_approval_shows_what_the_call_would_be_given_and_takes_other_arguments(kedge, folder):
    (folder / "ask.yaml").write_text(
        "goal: Ask first\nsteps:\n"
        '  - {id: a, tool: data.json, args: {text: "[1]"}, approval: {ask: Really?}}\n'
        "  - {id: b, wait: {signal: go}, after: [a]}\n"
    )
    told = kedge("run", "ask.yaml", "--run", "r", code=3).stdout
    assert 'it would be given: {"text":"[1]"}' in told
    assert "--value JSON" in told
    told = kedge("answer", "r", "q1", "approve", "--value", '{"text": "[2]"}', code=3).stdout
    assert "waits for the signal 'go'" in told
    assert kedge.data("show", "r")["steps"]["a"]["status"] == "done"
