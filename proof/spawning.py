"""Every call to the system that a tool's process takes fails once: making it, talking to it, ending it.

After each, the step has its result or a failure with a name, nothing hangs, no process and no open file is
left behind, and the next call works.
"""

from __future__ import annotations

import asyncio
import errno
import os
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import kedge

CALLS = "pipe close killpg kill waitpid fdopen read write set_blocking getpgid".split()
"""Those of `os`; and one of the event loop, which makes the process."""
ERRNOS = {"eagain": errno.EAGAIN, "enomem": errno.ENOMEM, "emfile": errno.EMFILE, "eperm": errno.EPERM}
PATIENCE_S = 20.0
OURS = (str(Path(kedge.__file__).parent / "engine"),)


@kedge.tool(effect="pure", isolation="process", timeout_s=10)
def far(x: int) -> int:
    """Work elsewhere."""
    return x + 1


PLAN = kedge.Plan.parse({"goal": "Work elsewhere", "steps": [{"id": "a", "tool": "far", "args": {"x": 1}}]})


def failed_calls(number: int, most: int = 200) -> Iterator[tuple[str, list[str]]]:
    """Where each failure struck, and what was wrong after it; ends with the pass that met none."""
    for n in range(1, most + 1):
        where, wrong = asyncio.run(_one(number, n))
        if not where:
            return
        yield where, wrong
    yield "it never ends", ["no clean pass"]


async def _one(number: int, n: int) -> tuple[str, list[str]]:
    wrong: list[str] = []
    before, struck = _open_files(), _Strike(n)
    try:
        async with asyncio.timeout(PATIENCE_S), kedge.Engine([far]) as engine:
            with _failing(struck, number):
                result = await (await engine.start(PLAN)).result()
                struck.armed = False
            error = result.steps["a"].error
            if not (result.ok or (error is not None and error.category and error.code)):
                wrong.append(f"it ended {result.status} without a named error")
            if not (await (await engine.start(PLAN)).result()).ok:
                wrong.append("the next call fails too")
    except TimeoutError:
        wrong.append("it hangs")
    except BaseException as error:
        wrong.append(f"{type(error).__name__}: {error}")
    if _children():
        wrong.append(f"{len(_children())} processes are left")
    if (more := _open_files() - before) > 1:  # the child watcher of the first loop keeps one
        wrong.append(f"{more} files stay open")
    return struck.where, wrong


class _Strike:
    def __init__(self, n: int) -> None:
        self.left = n
        self.where = ""
        self.armed = True

    def hits(self, name: str) -> bool:
        frame = sys._getframe(2)  # noqa: SLF001
        if not self.armed or not frame.f_code.co_filename.startswith(OURS):
            return False
        self.left -= 1
        if not self.left:
            self.where = f"{name} in {Path(frame.f_code.co_filename).stem}.{frame.f_code.co_name}"
        return not self.left


@contextmanager
def _failing(strike: _Strike, number: int) -> Generator[None]:
    loop = asyncio.get_running_loop()
    places: list[tuple[Any, str]] = [*((os, name) for name in CALLS), (loop, "subprocess_exec")]
    usual = [(home, name, getattr(home, name)) for home, name in places]
    for home, name, call in usual:
        setattr(home, name, _wrapped(name, call, strike, number))
    try:
        yield
    finally:
        for home, name, call in usual:
            setattr(home, name, call)


def _wrapped(name: str, call: Callable[..., Any], strike: _Strike, number: int) -> Callable[..., Any]:
    def wrapped(*args: Any, **named: Any) -> Any:
        if strike.hits(name):
            if name == "close":
                call(*args, **named)  # it is closed all the same
            raise OSError(number, os.strerror(number))
        return call(*args, **named)

    return wrapped


def _open_files() -> int:
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.exists() else 0


def _children() -> list[str]:
    listed = Path(f"/proc/self/task/{os.getpid()}/children")
    return listed.read_text().split() if listed.exists() else []


if __name__ == "__main__":
    for told, found in failed_calls(ERRNOS[sys.argv[1]]):
        print(f"{told}: {'; '.join(found) or 'nothing is wrong'}")
