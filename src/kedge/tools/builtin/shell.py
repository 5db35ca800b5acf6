"""shell.run: a program of this machine, off unless the user allows it.

The program gets a process group of its own, and nothing of that group outlives the call: not after
a timeout, not after a cancel, not after an ordinary end.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec

from kedge.base.errors import ToolError
from kedge.tools.builtin.rooted import Rooted
from kedge.tools.function import tool
from kedge.tools.tool import Tool

OUTPUT_BYTES_MAX = 1024 * 1024
"""For each of stdout and stderr; what comes after is read and dropped, and `truncated` says so."""
_STDERR_SHOWN = 2000
_LINGER_S = 1.0
_OFF = (
    "running programs is off; whoever runs this can allow it: allow_shell = true in kedge.toml, "
    "builtin_tools(allow_shell=True) in Python"
)
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class Finished(msgspec.Struct, frozen=True):
    """How a program ended. A negative exit code is the signal that killed it."""

    exit_code: int
    stdout: str
    stderr: str
    truncated: bool = False


class _Child(asyncio.SubprocessProtocol):
    """Collects a program's output. `ended` is set when it exits, though others may hold its pipes."""

    def __init__(self) -> None:
        self.ended = asyncio.Event()
        self.closed = asyncio.Event()
        self.output = {_STDOUT: bytearray(), _STDERR: bytearray()}
        self.truncated = False

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        kept = self.output[fd]
        room = OUTPUT_BYTES_MAX - len(kept)
        self.truncated = self.truncated or len(data) > room
        kept += data[: max(0, room)]

    def process_exited(self) -> None:
        self.ended.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        self.closed.set()

    def text(self, fd: int) -> str:
        return self.output[fd].decode("utf-8", "replace")


def shell_tools(rooted: Rooted, *, allowed: bool) -> list[Tool]:
    """The shell.* tools."""

    @tool(name="shell.run", effect="effect", available=True if allowed else _OFF)
    async def run(
        command: Annotated[list[str], msgspec.Meta(min_length=1)],
        cwd: str = ".",
        input: str = "",  # noqa: A002 - the plan's word
        timeout_s: Annotated[float, msgspec.Meta(gt=0)] = 60.0,
        *,
        check: bool = True,
    ) -> Finished:
        """Run a program and wait for its end. No shell reads the command: each item is one word.

        command: the program and its arguments
        cwd: the folder to run it in, relative to the root
        input: what it reads from standard input
        timeout_s: kill it after this
        check: an exit code other than 0 is a failure
        """
        if not allowed:
            raise ToolError(_OFF, "permission")
        for word in command:
            if "\0" in word:
                raise ToolError(
                    f"the command has a word with a NUL character: {word[:80]!r}", "invalid_input"
                )
        folder = rooted.folder(cwd)
        finished = await _run(command, folder, input.encode(), timeout_s)
        if check and finished.exit_code != 0:
            raise ToolError(
                f"{command[0]!r} {_how(finished.exit_code)}" + _last_words(finished.stderr),
                "permanent",
                remedy="with check: false any exit code is a result",
            )
        return finished

    return [run]


async def _run(command: list[str], folder: Path, data: bytes, timeout_s: float) -> Finished:
    try:
        transport, child = await asyncio.get_running_loop().subprocess_exec(
            _Child,
            *command,
            stdin=asyncio.subprocess.PIPE if data else asyncio.subprocess.DEVNULL,
            cwd=folder,
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ToolError(f"{command[0]!r} cannot be started: {reason}", "invalid_input") from error
    try:
        async with asyncio.timeout(timeout_s):
            if data:
                stdin = transport.get_pipe_transport(_STDIN)
                if isinstance(stdin, asyncio.WriteTransport):
                    stdin.write(data)
                    stdin.close()  # after what is written has gone
            await child.ended.wait()
    except TimeoutError:
        raise ToolError(
            f"{command[0]!r} was killed: it took longer than {timeout_s:g} s", "timeout"
        ) from None
    finally:
        _kill_group(transport.get_pid())
        # The rest of the output; a program that left the group may hold the pipes for ever.
        try:
            with suppress(TimeoutError):
                await asyncio.wait_for(child.closed.wait(), _LINGER_S)
        finally:
            transport.close()
    code = transport.get_returncode()
    return Finished(0 if code is None else code, child.text(_STDOUT), child.text(_STDERR), child.truncated)


def _kill_group(leader: int | None) -> None:
    # The leader may be gone; its number stays taken as long as anything of its group lives.
    if leader is not None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)


def _how(exit_code: int) -> str:
    if exit_code < 0:
        return f"was killed by signal {-exit_code}"
    return f"ended with exit code {exit_code}"


def _last_words(stderr: str) -> str:
    end = stderr[-_STDERR_SHOWN:].strip()
    return f": {end}" if end else ""
