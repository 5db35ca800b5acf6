"""Tools for another process, good and bad. Loaded as a file and as a module."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import kedge.tools.context
from kedge.base.errors import NotDone, ToolError
from kedge.tools.function import tool

process = tool(effect="pure", isolation="process")
kept = {"calls": 0}


@process
def add(a: int, b: int = 1) -> int:
    return a + b


@process
def which_process() -> int:
    return os.getpid()


@process
def count_calls() -> int:
    kept["calls"] += 1
    return kept["calls"]


@process
async def add_async(a: int, b: int) -> int:
    await asyncio.sleep(0)
    return a + b


@process
async def which_loop() -> int:
    return id(asyncio.get_running_loop())


@process
def where(ctx: kedge.tools.context.Context) -> dict:
    ctx.progress(0.5, "half")
    ctx.heartbeat()
    ctx.discover("a door", "a key")
    return {
        "run": ctx.run_id,
        "step": ctx.step,
        "attempt": ctx.attempt,
        "key": ctx.idempotency_key,
        "folder": str(Path.cwd()),
    }


@process
def report_late(ctx: kedge.tools.context.Context) -> None:
    """A thread that goes on when the call is over."""

    def later() -> None:
        time.sleep(0.2)
        with contextlib.suppress(Exception):
            ctx.progress(0.9, "from the last call")

    threading.Thread(target=later, daemon=True).start()


@process
def nap(seconds: float) -> None:
    time.sleep(seconds)


@process
def prints_and_reads() -> str:
    sys.stdout.write("on stdout\n")
    os.write(1, b"\x00\x00\x00\x05 straight to the file descriptor")
    sys.stderr.write("on stderr\n")
    try:
        return input()
    except EOFError:
        return "nothing to read"


@process
def big(size: int) -> str:
    return "x" * size


@process
def size_of(text: str) -> int:
    return len(text)


@process
def burns(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        pass


@process
def fills(size: int) -> int:
    return len(bytearray(b"x") * size)


# --- failures


class OddError(ConnectionError):
    def __reduce__(self):
        raise RuntimeError("cannot be pickled")


class UnshowableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@process
def raises(kind: str) -> None:
    raise {
        "tool": ToolError("slow down", "rate_limited", retry_after_s=1.5, remedy="wait"),
        "not_done": NotDone("nothing was sent"),
        "value": ValueError("a wrong value"),
        "odd": OddError("gone"),
        "unshowable": UnshowableError(),
        "group": ExceptionGroup("several", [ValueError("one")]),
        "long": ValueError("x" * 10_000_000),
        "system_exit": SystemExit(3),
        "keyboard": KeyboardInterrupt(),
        "generator_exit": GeneratorExit(),
        "stop": StopIteration(),
        "memory": MemoryError(),
        "missing_file": FileNotFoundError(2, "No such file", "x"),
        "cancelled": asyncio.CancelledError(),
    }[kind]


@process
def returns_odd(kind: str) -> object:
    loop: list = []
    loop.append(loop)
    return {"nan": {"a": [float("nan")]}, "set": {1}, "loop": loop, "bytes": b"x", "code": raises}[kind]


@process
def dies(how: str) -> None:
    sys.stdout.write("about to go\n")
    if how == "exit":
        os._exit(7)
    if how == "exit_0":
        os._exit(0)
    if how == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    ctypes.string_at(0)


@process
def closes_pipes() -> None:
    os.closerange(3, 64)
    time.sleep(30)


@process
def writes_rubbish() -> None:
    for fd in range(3, 20):
        with contextlib.suppress(OSError):
            os.write(fd, b"\xff" * 64)
    time.sleep(30)


# --- what does not stop by itself


def sleeper() -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])


def write_ids(note: str, ids: list[int]) -> None:
    """All at once: whoever waits for the note reads it whole."""
    Path(note + ".new").write_text(" ".join(map(str, ids)))
    Path(note + ".new").rename(note)


def touch(note: str) -> None:
    Path(note).touch()


@process
def hangs(note: str, manner: str = "sleep", *, with_child: bool = True) -> None:
    """Writes its process ids to `note`, then does not come back."""
    ids = [os.getpid()]
    if with_child:
        ids.append(sleeper().pid)
    if manner == "deaf":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    write_ids(note, ids)
    if manner == "regex":  # holds the interpreter's lock: no other thread runs
        re.match(r"(a+)+$", "a" * 60 + "b")
    if manner == "tidy":
        try:
            time.sleep(60)
        finally:
            touch(note + ".cleaned")
    time.sleep(60)


@tool(effect="effect", isolation="process")
def hangs_with_effects(note: str) -> None:
    write_ids(note, [os.getpid()])
    time.sleep(60)


@process
async def hangs_async(note: str) -> None:
    write_ids(note, [os.getpid()])
    try:
        await asyncio.sleep(60)
    finally:
        touch(note + ".cleaned")


@process
def leaves_child() -> int:
    return sleeper().pid


@process
def leaves_orphan() -> int:
    """The shell that started it is gone when the call returns."""
    done = subprocess.run(
        ["sh", "-c", "sleep 60 >/dev/null 2>&1 & echo $!"], stdout=subprocess.PIPE, check=True
    )
    return int(done.stdout)


@process
def forks_and_returns_twice() -> str:
    return "child" if os.fork() == 0 else "parent"


@process
def changes_folder(folder: str) -> None:
    os.chdir(folder)


@process
def environment(name: str) -> str | None:
    return os.environ.get(name)


def plain(a: int) -> int:
    return a * 2


plain_as_tool = tool(effect="pure", isolation="process", name="plain.tool")(plain)
