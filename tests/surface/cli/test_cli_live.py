"""The live view on a real terminal."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import struct
import termios

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


@pytest.mark.parametrize(("width", "height"), [(40, 10), (80, 24), (200, 50)])
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


def test_a_finished_run_leaves_its_last_frame_and_the_summary(command, environment):
    text, code, _ = on_terminal([*command, "run", "slow.yaml", "--run", "s1"], environment)
    assert code == 0
    last = visible(text.rsplit("\x1b[J", 1)[1])
    assert any("100 %" in line and "3 of 3" in line for line in last)
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
    text, code, _ = on_terminal([*command, "run", "slow.yaml", "--no-live"], environment)
    assert code == 0
    assert "\x1b[J" not in text
    assert "Step long" in text


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


def test_the_live_view_takes_little_of_a_large_run(command, environment, folder):
    """Ten thousand steps: watching costs at most 5 % of the processor time.

    The minimum of some tries on both sides, since other programs of the machine only ever add.
    """
    steps = [{"id": f"s{i}", "tool": "double", "args": {"x": i}} for i in range(10_000)]
    plan = {"goal": "Large", "steps": steps}
    (folder / "large.json").write_text(json.dumps(plan))
    run = ["run", "large.json", "--store", ":memory:"]
    silent = (
        "from kedge.surface.cli import drive, live, main\n"
        "drive.watcher = lambda screen, no_live: live.Silent(screen)\n"
        "main()"
    )
    watched, unwatched = [], []
    for _ in range(6):
        text, code, cpu_s = on_terminal([*command, *run], environment)
        assert code == 0
        assert "\x1b[J" in text, "it was not watched at all"
        watched.append(cpu_s)
        text, code, cpu_s = on_terminal([command[0], "-W", "error", "-c", silent, *run], environment)
        assert code == 0
        assert "\x1b[J" not in text
        unwatched.append(cpu_s)
        share = min(watched) / min(unwatched) - 1
        if share < 0.05:
            return
    pytest.fail(f"{share:.1%}: {watched} against {unwatched}")
