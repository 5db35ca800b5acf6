"""The live view on a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import termios
import time

import pytest

from kedge.views.text import columns

COMMAND = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def on_terminal(argv, environment, columns_=80, lines=24):
    """Everything a command writes to a terminal of that size, its exit code and its processor time."""
    main, side = pty.openpty()
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns_, 0, 0))
    pid = os.posix_spawn(
        argv[0], argv, environment,
        file_actions=[(os.POSIX_SPAWN_DUP2, side, fd) for fd in (0, 1, 2)] + [(os.POSIX_SPAWN_CLOSE, main)],
    )  # fmt: skip
    os.close(side)
    written = bytearray()
    while True:
        try:
            part = os.read(main, 65536)
        except OSError:  # Linux says so when the other side is closed
            break
        if not part:
            break
        written += part
    os.close(main)
    _, status, usage = os.wait4(pid, 0)
    return written.decode(), os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime


def visible(text):
    return [COMMAND.sub("", line.rstrip("\r")) for line in text.split("\n")]


@pytest.mark.parametrize(("width", "height"), [(40, 10), (200, 50)])
def test_the_tree_fits_the_terminal(command, environment, width, height):
    text, code, _ = on_terminal([*command, "run", "slow.yaml", "--run", "s1"], environment, width, height)
    assert code == 0
    assert "\x1b[" in text
    assert f"{'█'}" in text
    frames = text.split("run s1 done")[0]
    assert "long" in frames
    assert max(columns(line) for line in visible(frames)) < width
    rewinds = [int(n) for n in re.findall(r"\x1b\[(\d+)F", text)]
    assert rewinds
    assert max(rewinds) < height, "a frame that is taller than the screen cannot be painted over"
    last = visible(text.rsplit("\x1b[J", 1)[1])
    assert any("100 %" in line and "3 of 3" in line for line in last), "the last frame stays"
    assert any(line.startswith("run s1 done: 3 of 3") for line in last)


@pytest.mark.parametrize(
    ("more", "colour", "repaints"),
    [
        ({}, True, True),
        ({"NO_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, False, False),
        ({"PYTHONIOENCODING": "ascii"}, True, True),
    ],
)
def test_terminals_get_what_they_can_show(command, environment, more, colour, repaints):
    text, code, _ = on_terminal([*command, "run", "slow.yaml", "--run", "s1"], environment | more)
    assert code == 0
    assert bool(re.search(r"\x1b\[\d+m", text)) == colour
    assert ("\x1b[J" in text) == repaints
    if more.get("TERM") == "dumb" or "PYTHONIOENCODING" in more:
        assert text.isascii()


def test_no_live_prints_lines(command, environment):
    text, code, _ = on_terminal([*command, "run", "good.yaml", "--no-live"], environment)
    assert code == 0
    assert "\x1b[J" not in text
    assert "Step a started" in text


def test_what_tools_print_and_say_does_not_disturb_the_tree(command, environment, folder):
    (folder / "both.yaml").write_text(
        "goal: Print while something runs\nsteps:\n"
        "  - {id: long, tool: slow, args: {name: long, seconds: 0.5}}\n"
        "  - {id: wait, tool: sleep, args: {seconds: 0.3}}\n"
        "  - {id: said, tool: chatty, after: [wait]}\n"
        "  - {id: bad, tool: nasty, after: [wait], on_error: continue}\n"
    )
    text, code, _ = on_terminal([*command, "run", "both.yaml", "--run", "b1"], environment)
    assert code == 0
    assert "printed by a tool\r\n" in text
    assert "\x07" not in text
    assert "\x1b]0;" not in text
    assert "\x1b[2J" not in text


MEASURED = """
import time
from pathlib import Path
from kedge.surface.cli import live, main

spent_s = 0.0

def timed(function):
    def call(*args):
        global spent_s
        began = time.thread_time()
        try:
            return function(*args)
        finally:
            spent_s += time.thread_time() - began
    return call

live.Live._frame = timed(live.Live._frame)
live.Live._show = timed(live.Live._show)
try:
    main()
finally:
    Path("spent.txt").write_text(f"{spent_s} {time.process_time()}")
"""


def test_the_live_view_takes_little_of_a_large_run(command, environment, folder):
    """Ten thousand steps: watching takes at most 5 % of the processor time.

    Measured inside one process: two runs one after the other differ by more than that on a busy machine.
    Its steps wait a little, as real ones do: ten thousand that do nothing are over before the first frame.
    """
    steps = [{"id": f"s{i}", "tool": "answered", "args": {"x": i}} for i in range(10_000)]
    (folder / "large.json").write_text(json.dumps({"goal": "Large", "steps": steps}))
    run = [command[0], "-c", MEASURED, "run", "large.json", "--store", ":memory:", "--parallel", "100"]
    text, code, _ = on_terminal(run, environment)
    assert code == 0
    assert text.count("\x1b[J") >= 4, "it was hardly watched"
    spent_s, total_s = map(float, (folder / "spent.txt").read_text().split())
    assert 0 < spent_s < 0.05 * total_s, f"{spent_s / total_s:.1%} of {total_s:.2f} s"


@pytest.mark.parametrize("width", [40, 120])
def test_a_run_of_another_process_is_watched_on_a_terminal_of_any_width(start, command, environment, width):
    driver = start("run", "slow.yaml", "--run", "s1")
    deadline = time.monotonic() + 20
    while on_terminal([*command, "runs"], environment)[0].find("s1") < 0:
        assert time.monotonic() < deadline
    text, code, _ = on_terminal([*command, "watch", "s1"], environment, width, 12)
    driver.communicate(timeout=20)
    assert (code, driver.returncode) == (0, 0)
    assert "run s1 done" in text
    assert max(columns(line) for line in visible(text)) < width
