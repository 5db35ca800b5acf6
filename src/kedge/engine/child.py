"""One process that runs tools, as its engine sees it: started, given calls, ended with its group."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import IO, NamedTuple, cast

from kedge.base.errors import KedgeError, NotDone
from kedge.base.failpoints import armed, reach
from kedge.engine.frames import Call, Deframer, Ended, Message, Report, Started, frame
from kedge.tools.context import Sink

GRACE_S = 0.5
"""From SIGTERM to SIGKILL."""
REAP_S = 5.0
"""The kernel may take its time to end a process, but not for ever."""
LINGER_S = 1.0
"""For the last words of a process that has ended: others may hold its pipes."""
LAST_WORDS_BYTES = 4_000
_STDIN, _STDOUT, _STDERR = 0, 1, 2
# Nothing is imported before the path is right: in the current folder may lie a `json.py`.
_BOOT = (
    "import sys; sys.path[:] = sys.argv[2:]; del sys.argv[2:]; "
    "from kedge.engine.process_child import main; main()"
)


class ProcessDied(ConnectionError):
    """A tool's process ended in the middle of a call. What the call did, nobody knows."""


class Setting(NamedTuple):
    """What a process was started with. One with the same may serve the next call."""

    module: str
    file: str
    path: tuple[str, ...]
    environment: frozenset[tuple[str, str]]


class Child(asyncio.SubprocessProtocol):
    """A process for one call at a time. Whatever else is in its group ends when it does."""

    def __init__(
        self, setting: Setting, result_bytes: int, lifeline: IO[bytes], on_ended: Callable[[Child], None]
    ) -> None:
        self.setting = setting
        self._result_bytes = result_bytes
        self._lifeline = lifeline
        self._on_ended = on_ended
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.SubprocessTransport  # from connection_made on, before anything else
        self._deframer = Deframer(result_bytes)
        self._last_words = bytearray()
        self._exited = asyncio.Event()
        self._closed = asyncio.Event()
        self._ending: asyncio.Task[None] | None = None
        self._answer: asyncio.Future[tuple[Ended, bytes]] | None = None
        self._sink: Sink | None = None
        self._tool = ""
        self.started = False
        """The function of the last call was called."""
        self.idle_timer: asyncio.TimerHandle | None = None

    # --- calls

    async def run(self, call: Call, args: bytes, sink: Sink) -> tuple[Ended, bytes]:
        """Run one call: how it ended, and its result. If this raises, `end` must follow."""
        self._tool, self._sink, self.started = call.tool, sink, False
        self._last_words.clear()
        self._answer = self._loop.create_future()
        stdin = self._transport.get_pipe_transport(_STDIN)
        if isinstance(stdin, asyncio.WriteTransport):
            stdin.write(frame(call, len(args)))
            stdin.write(args)
            if armed:
                reach("processes.sent")
        if self._exited.is_set():
            self._fail()
        try:
            return await self._answer
        finally:
            self._answer = self._sink = None

    def _take(self, message: Message, payload: bytes) -> None:
        answer = self._answer
        if answer is None or answer.done():
            return  # late news of a call that is over
        if isinstance(message, Report) and self._sink is not None:
            self._sink.report(message.kind, message.data)
        elif isinstance(message, Started):
            self.started = True
            if armed:
                reach("processes.started")
        elif isinstance(message, Ended):
            answer.set_result((message, payload))

    def _fail(self, why: str = "") -> None:
        """No answer will come any more."""
        if self._answer is None or self._answer.done():
            return
        why = why or self._how_it_ended()
        if not self.started:
            self._answer.set_exception(NotDone(f"the process for tool {self._tool!r} {why}, before the call"))
        else:
            self._answer.set_exception(ProcessDied(f"the process of tool {self._tool!r} {why}"))

    def _how_it_ended(self) -> str:
        code = self._transport.get_returncode()
        if code is None:
            how = "closed its pipes"
        elif code >= 0:
            how = f"ended with exit code {code}"
        else:
            how = f"was ended by {_signal_name(-code)}"
        words = self._last_words.decode("utf-8", "replace").strip()
        return f"{how}; its last words: {words}" if words else how

    # --- what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == _STDERR:
            self._last_words += data
            del self._last_words[:-LAST_WORDS_BYTES]
            return
        try:
            for message, payload in self._deframer.feed(data):
                self._take(message, payload)
        except KedgeError as error:
            self._fail(f"broke its pipe: {error}")
            self.end_soon()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        if fd == _STDOUT:  # most often because it has ended: give that news the time to come
            self._loop.call_later(LINGER_S, self._fail)

    def process_exited(self) -> None:
        # Its number stays taken as long as anything of its group lives.
        self._end_group()
        self._exited.set()
        self._loop.call_later(LINGER_S, self._fail)
        if self._answer is None:
            self.end_soon()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's signature
        self._closed.set()
        self._fail()

    # --- the end

    @property
    def usable(self) -> bool:
        return self._ending is None and not self._exited.is_set()

    def end_soon(self) -> asyncio.Task[None]:
        """End it and its group, without waiting for it."""
        if self._ending is None:
            self._ending = self._loop.create_task(self._end())
        return self._ending

    async def end(self) -> None:
        """End it and its group: SIGTERM, a moment, SIGKILL; until it is reaped, cancelled or not."""
        await asyncio.shield(self.end_soon())

    async def _end(self) -> None:
        if self.idle_timer is not None:
            self.idle_timer.cancel()
        try:
            self._end_group(gently=True)
            if armed:
                reach("processes.told_to_end")
            if not await _within(GRACE_S, self._exited):
                self._end_group()
                await _within(REAP_S, self._exited)
        finally:
            self._transport.close()
            self._lifeline.close()
            if armed:
                reach("processes.ended")
        await _within(LINGER_S, self._closed)
        self._on_ended(self)

    def _end_group(self, *, gently: bool = False) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()  # there are no groups to signal
            else:
                group = self._transport.get_pid()
                os.killpg(group, signal.SIGTERM if gently else signal.SIGKILL)


async def spawn(setting: Setting, result_bytes: int, on_ended: Callable[[Child], None]) -> Child:
    """Start a process. NotDone where the machine has no room for one."""
    try:
        far_end, near_end = os.pipe()
    except OSError as error:
        raise _no_room(error) from error
    try:
        lifeline = os.fdopen(near_end, "wb", buffering=0)  # the child closes it when it has ended
    except BaseException:
        os.close(near_end)
        os.close(far_end)
        raise
    try:
        _, child = await asyncio.get_running_loop().subprocess_exec(
            lambda: Child(setting, result_bytes, lifeline, on_ended),
            sys.executable,
            "-u",  # what is printed before a crash is not lost in a buffer
            "-c",
            _BOOT,
            str(far_end),
            *setting.path,
            start_new_session=True,
            pass_fds=() if sys.platform == "win32" else (far_end,),
        )
    except BaseException as error:
        lifeline.close()
        if isinstance(error, OSError):
            raise _no_room(error) from error
        raise
    finally:
        with suppress(OSError):  # it is closed all the same, and there may be a process to look after
            os.close(far_end)
    return child


def _no_room(error: OSError) -> NotDone:
    return NotDone(f"no process could be started for the tool: {error}")


async def _within(seconds: float, event: asyncio.Event) -> bool:
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
