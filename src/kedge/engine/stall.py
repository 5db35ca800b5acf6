"""Says which async tool holds up the event loop, while it does.

One blocking call in an `async def` stops every run of the engine, and their timeouts with it: the
loop that would notice is the one that stands still. So a thread watches the loop, and looks at what
its thread is executing. The loop gives a sign of life four times a second, only as long as a call
is in flight; without one there is neither timer nor thread.
"""

from __future__ import annotations

import asyncio
import logging
import selectors
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType

from kedge.tools.annotations import plain_function
from kedge.tools.tool import Tool

BEAT_S = 0.25
PATHS_SHOWN = 3
_LOOP_FILES = (str(Path(asyncio.__file__).parent), selectors.__file__)

_log = logging.getLogger("kedge.stall")


class StallWatch:
    """Watches one event loop. `in_flight` gives path and tool of the calls that run in the loop now."""

    def __init__(self, in_flight: Callable[[], Iterable[tuple[str, Tool]]], warn_s: float = 1.0) -> None:
        self._in_flight = in_flight
        self._warn_s = warn_s
        self._timer: asyncio.TimerHandle | None = None
        self._stopped = threading.Event()
        self._beat_s = 0.0
        self.off = False
        """For a loop whose time is not that of the wall: silence means nothing there."""

    @property
    def watching(self) -> bool:
        """Nobody needs to start it."""
        return self._timer is not None or self.off

    def start(self) -> None:
        """A call starts in this loop: watch until none is in flight any more."""
        if self.watching:
            return
        loop = asyncio.get_running_loop()
        self._beat_s = time.monotonic()
        self._timer = loop.call_later(BEAT_S, self._beat, loop)
        self._stopped = threading.Event()
        arguments = (self._stopped, threading.get_ident())
        threading.Thread(target=self._watch, args=arguments, name="kedge-stall", daemon=True).start()

    def close(self) -> None:
        """Stop watching."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._stopped.set()

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        self._beat_s = time.monotonic()
        if any(True for _ in self._in_flight()):
            self._timer = loop.call_later(BEAT_S, self._beat, loop)
        else:
            self.close()

    # --- in the thread

    def _watch(self, stopped: threading.Event, thread_id: int) -> None:
        warned_of = 0.0
        """The last sign of life before the stall that was told."""
        wait_s = self._warn_s
        while not stopped.wait(wait_s):
            beat_s = self._beat_s
            silent_s = time.monotonic() - beat_s
            if beat_s == warned_of:
                wait_s = BEAT_S
            elif silent_s < self._warn_s:
                wait_s = self._warn_s - silent_s
            else:
                warned_of, wait_s = beat_s, BEAT_S
                self._warn(silent_s, thread_id)

    def _warn(self, silent_s: float, thread_id: int) -> None:
        stack = list(_frames(thread_id))
        paths, tool, frame = self._culprit(stack)
        if frame is None:
            return  # the loop waits: the process as a whole was stopped or starved, and goes on
        if tool is not None:
            name = tool.spec.name
            what = f"tool {name!r} ({_listed(paths)}) at"
            remedy = "make it a plain `def`, which runs in a thread, or give it isolation='process'"
        else:
            name, what, remedy = "", "no tool, but", "if that is yours, do it in a thread"
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        _log.warning(
            "nothing has run for %.1f s: what holds up the event loop is %s %s; %s",
            silent_s, what, place, remedy,
            extra={"action": "loop_stalled", "tool": name, "paths": paths, "place": place},
        )  # fmt: skip

    def _culprit(self, stack: list[FrameType]) -> tuple[list[str], Tool | None, FrameType | None]:
        """The steps it may be working for, the innermost tool on the stack, and the line it is at."""
        try:
            running = list(self._in_flight())
        except RuntimeError:  # the loop went on just now and changed what was read
            running = []
        by_code: dict[CodeType | None, list[tuple[str, Tool]]] = {}
        for path, tool in running:
            code = getattr(plain_function(tool.function), "__code__", None)
            by_code.setdefault(code, []).append((path, tool))
        for frame in stack:
            if found := by_code.get(frame.f_code):
                return [path for path, _ in found], found[0][1], frame
        if not stack or stack[0].f_code.co_filename.startswith(_LOOP_FILES):
            return [], None, None
        return [], None, stack[0]


def _frames(thread_id: int) -> Iterator[FrameType]:
    """What a thread is executing, innermost first."""
    # Underscore or not, it is the documented way to look at another thread.
    frame = sys._current_frames().get(thread_id)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        yield frame
        frame = frame.f_back


def _listed(paths: list[str]) -> str:
    shown = ", ".join(paths[:PATHS_SHOWN])
    if len(paths) == 1:
        return f"step {shown}"
    return f"one of the steps {shown}" + (", …" if len(paths) > PATHS_SHOWN else "")
