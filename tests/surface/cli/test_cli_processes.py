"""What only real processes show: signals, pipes, two at once."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import time

import pytest

PATIENCE_S = 20.0


def wait_for(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.02)


def let_go(folder):
    """The held step may end."""
    (folder / "go").touch()


def calls(folder):
    file = folder / "calls.txt"
    return file.read_text().split() if file.exists() else []


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupt_drains_says_how_to_resume_and_nothing_finished_runs_again(
    start, kedge, folder, number, code
):
    process = start("run", "held.yaml", "--run", "s1", "--tools", "tools.py")
    wait_for(lambda: "long" in calls(folder), "the long step")
    process.send_signal(number)
    time.sleep(0.2)
    let_go(folder)
    _, remarks = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == code
    assert "resume with: kedge resume s1 --tools tools.py" in remarks
    assert calls(folder) == ["first", "long"], "nothing new is started"
    assert kedge.data("show", "s1")["steps"]["long"]["status"] == "done", "what ran was given time to end"
    kedge("resume", "s1", "--tools", "tools.py")
    assert calls(folder) == ["first", "long", "last"]


def test_an_interrupt_with_json_is_one_document(start, folder):
    process = start("run", "held.yaml", "--run", "s1", "--json")
    wait_for(lambda: "long" in calls(folder), "the long step")
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    let_go(folder)
    answer, _ = process.communicate(timeout=PATIENCE_S)
    error = json.loads(answer)["error"]
    assert (error["code"], error["remedy"]) == ("interrupted", "resume with: kedge resume s1")


def test_a_second_interrupt_ends_at_once(start, folder):
    process = start("run", "stuck.yaml", "--run", "s1")
    wait_for(lambda: "stubborn" in calls(folder), "the step that cannot be stopped")
    process.send_signal(signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None, "the first one waits for what runs"
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert time.monotonic() - began < 1.5


def test_a_killed_run_is_listed_as_not_driven_and_resumed(start, kedge, folder):
    process = start("run", "held.yaml", "--run", "s1")
    wait_for(lambda: "long" in calls(folder), "the long step")
    wait_for(lambda: "Step long started" in kedge("log", "s1").stdout, "all that came before it, on disk")
    (driven,) = kedge.data("runs")
    assert (driven["status"], driven["driven"]) == ("running", True)
    process.kill()
    process.wait()
    (left,) = kedge.data("runs")
    assert (left["status"], left["driven"]) == ("running", False)
    assert "not driven" in kedge("runs").stdout
    let_go(folder)
    kedge("resume", "s1")
    assert calls(folder) == ["first", "long", "long", "last"], "what was in flight ran again, nothing else"


def test_a_run_that_another_process_drives_is_left_alone_and_can_be_followed(start, kedge, folder):
    driver = start("run", "held.yaml", "--run", "s1")
    wait_for(lambda: "long" in calls(folder), "the long step")
    follower = start("log", "s1", "--follow")
    for args in (["resume", "s1"], ["delete", "s1"]):
        error = kedge.data(*args, code=5)["error"]
        assert error["code"] == "not_owner"
        assert str(driver.pid) in error["message"]
        assert error["remedy"]
    pruned = kedge.data("prune", "--status", "running")
    assert (pruned["deleted"], [run["id"] for run in pruned["kept"]]) == ([], ["s1"])
    let_go(folder)
    told, _ = follower.communicate(timeout=PATIENCE_S)
    driver.communicate(timeout=PATIENCE_S)
    assert (driver.returncode, follower.returncode) == (0, 0)
    assert told == kedge("log", "s1").stdout
    assert json.loads(told.splitlines()[-1])["kind"] == "run_ended"


def test_a_reader_that_goes_away_is_no_error(command, environment, kedge, folder):
    plan = {
        "goal": "Many",
        "steps": [{"id": "a", "tool": "double", "args": {"x": 1}, "foreach": list(range(2000))}],
    }
    (folder / "big.json").write_text(json.dumps(plan))
    kedge("run", "big.json", "--run", "b1")
    log = subprocess.Popen(
        [*command, "log", "b1"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    )
    assert log.stdout is not None
    assert log.stderr is not None
    assert log.stdout.readline().startswith(b'{"seq":1,')
    log.stdout.close()
    assert log.stderr.read() == b""
    log.stderr.close()
    assert log.wait(PATIENCE_S) == 0


def test_a_run_goes_on_when_nobody_reads_its_lines(command, environment, kedge, folder):
    run = subprocess.Popen(
        [*command, "run", "held.yaml", "--run", "s1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
    )
    assert run.stdout is not None
    assert run.stderr is not None
    run.stdout.readline()
    run.stdout.close()
    let_go(folder)
    assert run.stderr.read() == b""
    run.stderr.close()
    assert run.wait(PATIENCE_S) == 0
    assert kedge.data("show", "s1")["status"] == "done"


def test_a_terminal_without_unicode_gets_letters(start, environment, kedge):
    kedge("run", "good.yaml", "--run", "r1")
    process = start("show", "r1", PYTHONIOENCODING="ascii")
    shown, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0
    assert shown.isascii()
    assert "D a" in shown


def test_a_new_folder_runs_as_it_is(command, environment, tmp_path):
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    for args in (["new"], ["check", "plan.yaml"], ["run", "plan.yaml"]):
        done = subprocess.run(
            [*command, *args], cwd=fresh, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert "Hello, Grace!" in done.stdout


def test_help_is_quick(command, environment):
    """In processor time, which other programs of the machine do not change much."""
    took_s = []
    for _ in range(3):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([*command, "--help"], env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert min(took_s) < 0.3, took_s


def test_an_unwritable_store_is_an_error_with_a_remedy(kedge, folder):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (folder / ".kedge").mkdir(mode=0o500)
    error = kedge.data("run", "good.yaml", code=5)["error"]
    assert error["remedy"]
