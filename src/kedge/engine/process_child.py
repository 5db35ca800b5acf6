"""The other end of `processes`: takes calls from a pipe, one after the other, until it is closed.

A tool may print, read input, fork, change the folder, exit or crash in here, and can harm only its
own call. Where Python's own SIGTERM would end the process at once, ours raises SystemExit in the
tool, so that its `finally` blocks and context managers clean up in the moment it is given.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
import types
from collections.abc import Awaitable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from kedge.base.codec import encode
from kedge.base.errors import ToolError
from kedge.engine.frames import (
    LENGTHS_BYTES,
    Call,
    Ended,
    Message,
    Report,
    Started,
    Usage,
    frame,
    message_of,
    sizes_of,
)
from kedge.tools.context import Context
from kedge.tools.function import tool
from kedge.tools.source import ToolSource
from kedge.tools.tool import Tool

if TYPE_CHECKING:
    import asyncio
if sys.platform != "win32":
    import fcntl
    import resource

_SUBREAPER = 36
"""PR_SET_CHILD_SUBREAPER of Linux."""
_ARGS_BYTES_MAX = 2**63

loading = False
"""A tool's module is being imported: what runs here now is that module's top level."""


class _Stopped(SystemExit):
    """The engine wants this process to end."""


class _Pipe:
    """Writes frames, from whatever thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def send(self, message: Message, payload: bytes = b"") -> None:
        head = frame(message, len(payload))
        with self._lock:
            _write(self._fd, head)
            _write(self._fd, payload)


class _Sink:
    """Takes the reports of one call, while it lasts."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe
        self._process_id = os.getpid()
        self.closed = False

    def report(self, kind: str, data: Mapping[str, Any]) -> None:
        # A thread that outlives its call must not speak for the next one; a fork shares no lock with us.
        if not self.closed and os.getpid() == self._process_id:
            self._pipe.send(Report(kind, dict(data)))


def main() -> None:
    """Serve calls until the engine closes the pipe."""
    lifeline = int(sys.argv.pop(1))
    calls, pipe = _take_pipes()
    faulthandler.enable()
    signal.signal(signal.SIGTERM, _stop)
    if sys.platform != "win32":
        _die_with_engine(lifeline)
    if sys.platform == "linux":
        _adopt_orphans()
    server = _Server(pipe)
    try:
        while (request := _read(calls)) is not None:
            server.serve(*request)
    finally:
        server.close()


def _take_pipes() -> tuple[int, _Pipe]:
    """The pipes to the engine, moved to where no print can reach them."""
    calls, answers = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return calls, _Pipe(answers)


def _stop(_signal: int, _frame: types.FrameType | None) -> NoReturn:
    raise _Stopped(128 + signal.SIGTERM)


def _die_with_engine(lifeline: int) -> None:
    """End the whole group with the engine's process: nobody would be left to stop it.

    Nothing is ever written to the lifeline; it ends when the engine's process does.
    """

    def watch() -> None:
        os.read(lifeline, 1)
        os.killpg(os.getpgrp(), signal.SIGKILL)

    threading.Thread(target=watch, name="kedge-lifeline", daemon=True).start()
    if sys.platform == "linux":
        # The same by the kernel, because a tool that is stuck with the interpreter lock held (a bad
        # regular expression is enough) lets no thread run. Not PR_SET_PDEATHSIG: it spares the rest
        # of the group, and fires already when the thread ends that started this process.
        fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)


def _adopt_orphans() -> None:
    """Become the parent of what a tool leaves behind (as `command &` in a shell does), to notice it."""
    import ctypes

    ctypes.CDLL(None).prctl(_SUBREAPER, 1, 0, 0, 0)


class _Server:
    """Runs calls."""

    def __init__(self, pipe: _Pipe) -> None:
        self._pipe = pipe
        self._runner: asyncio.Runner | None = None
        self._process_id = os.getpid()

    def serve(self, call: Call, args: bytes) -> None:
        """Run one call and tell how it ended."""
        meter = _Meter()
        raw = b""
        failed: BaseException | None = None
        try:
            if call.folder and call.folder != _folder():
                os.chdir(call.folder)
            raw = self._result(call, args)
            if len(raw) > call.result_bytes:
                raise _too_large(len(raw), call.result_bytes)
        except _Stopped:
            raise
        except BaseException as error:  # a tool can raise anything
            failed = error
        if os.getpid() != self._process_id:
            os._exit(0)  # the tool forked and both came back: only one of them has the pipes
        if failed is None:
            self._pipe.send(Ended(meter.read(), _is_alone()), raw)
        else:
            from kedge.engine.failures import failure_of  # brings asyncio, which most calls do not need

            self._pipe.send(Ended(meter.read(), _is_alone(), failure_of(failed)))

    def _result(self, call: Call, args: bytes) -> bytes:
        found = _load(call.source)
        prepared = found.decode(args)
        sink = _Sink(self._pipe)
        context = Context(sink, call.run_id, call.step, call.attempt, lambda: call.key)
        self._pipe.send(Started())
        try:
            result = found.invoke(prepared, context)
            return encode(self._awaited(result) if found.is_async else result)
        finally:
            sink.closed = True

    def _awaited(self, result: Awaitable[Any]) -> Any:
        import asyncio

        async def wait() -> Any:
            return await result

        # One loop for all calls: what a module keeps between calls (a client, a lock) belongs to a loop.
        self._runner = self._runner or asyncio.Runner()
        return self._runner.run(wait())

    def close(self) -> None:
        if self._runner is not None:
            self._runner.close()


@cache
def _load(source: ToolSource) -> Tool:
    global loading  # noqa: PLW0603 - one process, one module at a time
    loading = True
    try:
        found: Any = source.find()
    except _Stopped:
        raise
    except BaseException as error:
        raise ToolError(
            f"its process cannot load {source}: {type(error).__name__}: {error}",
            "bug",
            remedy="its module must be importable by itself; in a script, put what starts runs "
            'under `if __name__ == "__main__":`',
        ) from error
    finally:
        loading = False
    return found if isinstance(found, Tool) else tool(found)


class _Meter:
    """Processor time and peak memory from here on."""

    def __init__(self) -> None:
        try:
            with open("/proc/self/clear_refs", "w") as file:  # noqa: PTH123 - not a path of anybody's
                file.write("5")  # start a new peak; the kernel's number for it
        except OSError:
            pass  # elsewhere the peak is that of the process so far
        self._cpu_s = _cpu_s()

    def read(self) -> Usage:
        return Usage(max(0.0, _cpu_s() - self._cpu_s), _peak_bytes())


def _cpu_s() -> float:
    if sys.platform == "win32":
        return time.process_time()
    own, others = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def _peak_bytes() -> int:
    try:
        # Not getrusage on Linux: its peak includes that of the engine this process was forked from.
        with open("/proc/self/status", "rb") as file:  # noqa: PTH123
            for line in file:
                if line.startswith(b"VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    if sys.platform == "win32":
        return 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def _is_alone() -> bool:
    if sys.platform == "win32":
        return True
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return True
    return False  # and this process is not used again, so nobody misses an exit status taken here


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - Path.cwd() is the same, slower
    except OSError:
        return ""


def _too_large(size: int, limit: int) -> ToolError:
    return ToolError(
        f"the result is {size:,} bytes, the limit result_bytes is {limit:,}",
        "limit",
        remedy="return less, or write a file and return its path",
    )


# --- frames over blocking pipes


def _read(fd: int) -> tuple[Call, bytes] | None:
    """The next call with its arguments; None once the engine has closed the pipe."""
    lengths = _read_bytes(fd, LENGTHS_BYTES)
    if lengths is None:
        return None
    head_size, payload_size = sizes_of(lengths, _ARGS_BYTES_MAX)
    head, args = _read_bytes(fd, head_size), _read_bytes(fd, payload_size)
    if head is None or args is None:
        return None
    message = message_of(head)
    return (message, args) if isinstance(message, Call) else None


def _read_bytes(fd: int, count: int) -> bytes | None:
    parts: list[bytes] = []
    while count:
        part = os.read(fd, min(count, 1024 * 1024))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
