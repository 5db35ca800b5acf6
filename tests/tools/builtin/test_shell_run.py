import asyncio
import os
import sys
import time
from pathlib import Path

import pytest

from kedge.base import codec
from kedge.base.errors import ToolError
from kedge.tools.builtin import shell as shell_module
from kedge.tools.builtin.rooted import Rooted
from kedge.tools.builtin.shell import shell_tools

PY = sys.executable


@pytest.fixture
def shell(tmp_path):
    return shell_tools(Rooted([tmp_path]), allowed=True)[0]


def gone(pid: int) -> bool:
    """Is the process dead? A zombie that its new parent has not buried yet is."""
    try:
        os.kill(pid, 0)
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (ProcessLookupError, FileNotFoundError):
        return True


def wait_until(true, seconds=5.0):
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_it_is_off_unless_allowed(tmp_path, call):
    off = shell_tools(Rooted([tmp_path]), allowed=False)[0]
    assert off.spec.available is False
    assert "allow_shell=True" in off.spec.unavailable_because
    with pytest.raises(ToolError, match="allow_shell=True") as caught:
        call(off, command=["true"])
    assert caught.value.category == "permission"


def test_a_program_runs_with_input_folder_and_output(shell, call, tmp_path):
    (tmp_path / "sub").mkdir()
    code = "import sys, os; print(os.getcwd(), sys.argv[1], sys.stdin.read()); print('é', file=sys.stderr)"
    done = call(shell, command=[PY, "-c", code, "$HOME; *"], cwd="sub", input="in")
    assert done == {
        "exit_code": 0,
        "stdout": f"{tmp_path}/sub $HOME; * in\n",
        "stderr": "é\n",
        "truncated": False,
    }
    assert shell.spec.effect == "effect"


def test_another_exit_code_is_a_failure_unless_it_is_a_result(shell, call):
    command = [PY, "-c", "import sys; print('why', file=sys.stderr); sys.exit(3)"]
    with pytest.raises(ToolError, match="ended with exit code 3: why; ") as caught:
        call(shell, command=command)
    assert caught.value.category == "permanent"
    assert call(shell, command=command, check=False)["exit_code"] == 3
    killed = [PY, "-c", "import os; os.kill(os.getpid(), 9)"]
    with pytest.raises(ToolError, match="was killed by signal 9; "):
        call(shell, command=killed)


@pytest.mark.parametrize(
    ("arguments", "category", "says"),
    [
        ({"command": []}, "invalid_input", "length >= 1"),
        ({"command": ["no-such-program-here"]}, "invalid_input", "cannot be started: No such file"),
        ({"command": [""]}, "invalid_input", "cannot be started"),
        ({"command": ["/"]}, "invalid_input", "cannot be started"),
        ({"command": ["a\0b"]}, "invalid_input", "NUL"),
        ({"command": ["true"], "cwd": "../"}, "permission", "upward"),
        ({"command": ["true"], "cwd": "no"}, "invalid_input", "there is no 'no'"),
        ({"command": ["true"], "timeout_s": 0}, "invalid_input", "timeout_s"),
        ({"command": "true"}, "invalid_input", "expected array, got str"),
    ],
)
def test_what_cannot_be_run_is_refused(shell, call, arguments, category, says):
    with pytest.raises(ToolError, match=says) as caught:
        call(shell, **arguments)
    assert caught.value.category == category


def test_a_program_that_takes_too_long_is_killed_with_its_children(shell, call, tmp_path):
    script = "sleep 60 & echo $! > pid; wait"
    started = time.monotonic()
    with pytest.raises(ToolError, match="was killed: it took longer than 1 s") as caught:
        call(shell, command=["sh", "-c", script], timeout_s=1)
    assert caught.value.category == "timeout"
    assert time.monotonic() - started < 5
    child = int((tmp_path / "pid").read_text())
    wait_until(lambda: gone(child))


async def test_a_cancelled_call_kills_the_whole_group(shell, tmp_path):
    script = "trap '' TERM; echo $$ > pid; sleep 60; sleep 60"
    arguments = shell.decode(codec.encode({"command": ["sh", "-c", script]}))
    task = asyncio.create_task(shell.invoke(arguments, None))
    pid_file = tmp_path / "pid"
    await asyncio.to_thread(wait_until, lambda: pid_file.exists() and pid_file.read_text())
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wait_until(lambda: gone(int(pid_file.read_text())))


def test_nothing_left_in_the_background_outlives_the_call(shell, call):
    started = time.monotonic()
    done = call(shell, command=["sh", "-c", "sleep 60 & echo $!"])
    assert time.monotonic() - started < 5
    wait_until(lambda: gone(int(done["stdout"])))


def test_a_daemon_that_keeps_the_pipes_does_not_hold_the_call(shell, call, monkeypatch):
    monkeypatch.setattr(shell_module, "_LINGER_S", 0.2)
    started = time.monotonic()
    done = call(shell, command=["sh", "-c", "setsid sleep 5 & echo $!"])
    assert time.monotonic() - started < 3
    os.kill(int(done["stdout"]), 9)


def test_output_is_capped_and_said_to_be(shell, call, monkeypatch):
    monkeypatch.setattr(shell_module, "OUTPUT_BYTES_MAX", 1000)
    done = call(shell, command=[PY, "-c", "print('x' * 5_000_000)"])
    assert (len(done["stdout"]), done["truncated"]) == (1000, True)
    done = call(shell, command=[PY, "-c", "import sys; sys.stdout.buffer.write(b'\\xff' * 3)"])
    assert done["stdout"] == "\ufffd" * 3


def test_input_nobody_reads_is_no_failure(shell, call):
    assert call(shell, command=["true"], input="x" * 1_000_000)["exit_code"] == 0
