"""What a person sees while a run goes on: a repainted tree, or a line for each event.

The tree is painted with a few terminal commands and not with rich: importing rich takes as much
processor time as 500 steps do, a whole live view of ten thousand steps less than that. It follows the
state, not the events, so it costs the run nothing per step; and since a frame of a large run costs
more, the pause after a frame grows with what the frame took.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import logging
import time
from typing import Any

from kedge import Run
from kedge.control.watching import Watched
from kedge.surface.cli.screen import LINE_MAX, Screen
from kedge.views.progress import Gauge, Row, bar, tree_rows
from kedge.views.text import clean, columns, cut, duration, pad, to_ascii
from kedge.views.words import LOOKS

FRAME_S = 0.25
SHARE = 0.03
"""Of the time, at most so much goes into painting."""
FIRST_FRAME_S = 0.1
"""A run that is over sooner needs no picture."""
_HEAD_LINES = 3
_ROWS_MAX = 40


class Silent:
    """Shows nothing."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def begin(self, run: Run) -> None:
        """From now on show this run."""

    async def end(self) -> None:
        """Show the rest, and no more."""

    def note(self, text: str) -> None:
        """A remark in between."""
        self._screen.remark(clean(text, LINE_MAX))


class Lines(Silent):
    """A line for each event of a step, a question or the run, from the moment of the command on."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(screen)
        self._since_ms = int(time.time() * 1000)
        self._task: asyncio.Task[None] | None = None

    def begin(self, run: Run) -> None:
        self._run = run
        self._task = asyncio.create_task(self._follow(run))

    async def _follow(self, run: Run) -> None:
        async for event in run.events(level="step"):
            if event.at < self._since_ms or event.level == "group":
                continue  # told when it happened; and the lines of its steps tell as much as a group's
            try:
                self._screen.say(clean(str(event), LINE_MAX))
            except BrokenPipeError:
                return  # nobody reads; that is no reason to stop the run

    async def end(self) -> None:
        if self._task is not None:
            await self._run.close()  # it has settled: whoever follows it is told the rest, then let go
            await self._task


class Live(Silent):
    """A tree that is painted over itself."""

    def __init__(self, screen: Screen) -> None:
        super().__init__(screen)
        self._painted = 0
        """Lines of the frame that stands on the screen."""
        self._seen = False
        """There was a frame."""
        self._task: asyncio.Task[None] | None = None

    def begin(self, run: Run | Watched) -> None:
        self._run = run
        self._gauge = Gauge(run.state)
        self._task = asyncio.create_task(self._paint())

    async def _paint(self) -> None:
        await asyncio.sleep(FIRST_FRAME_S)
        while True:
            began = time.perf_counter()
            self._show(self._frame())
            took_s = time.perf_counter() - began
            await asyncio.sleep(max(FRAME_S, took_s / SHARE))

    async def end(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            if self._seen:
                self._show(self._frame())  # the last one stays
                self._painted = 0

    def note(self, text: str) -> None:
        """Printed above the tree, which moves down."""
        self._write(self._rewind() + self._screen.fit(clean(text, LINE_MAX)) + "\n")
        self._painted = 0

    def _show(self, lines: list[str]) -> None:
        self._write(self._rewind() + "".join(f"{line}\n" for line in lines))
        self._painted = len(lines)
        self._seen = True

    def _rewind(self) -> str:
        """To the frame's first line, with everything from there on cleared."""
        return f"\x1b[{self._painted}F\x1b[J" if self._painted else ""

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # the terminal is gone; the run need not be
            self._screen.raw(text)

    def _frame(self) -> list[str]:
        screen, state = self._screen, self._run.state
        width, height = screen.size
        now_ms = max(state.at, int(time.time() * 1000)) if not state.ended else state.at
        rows = tree_rows(
            state, now_ms, unicode=screen.unicode, rows_max=min(_ROWS_MAX, height - _HEAD_LINES - 2)
        )
        head = [
            screen.coloured(screen.fit(clean(state.plan.goal, width - 1)), "bold"),
            self._progress(now_ms, width - 1),
        ]
        return [*head, *(row_line(screen, row, width - 1) for row in rows)]

    def _progress(self, now_ms: int, width: int) -> str:
        state, screen = self._run.state, self._screen
        done = self._gauge.percent()
        left_s = self._gauge.seconds_left(now_ms)
        ended = state.ended_at if state.ended else now_ms
        words = [f"{int(done)} %", f"{state.settled:,} of {state.total:,}"]
        words.append(duration(max(0, ended - state.started_at) / 1000))
        words += [f"{duration(left_s)} left"] if left_s is not None else []
        words += [str(state.status)] if str(state.status) != "running" else []
        filled = bar(done, 20 if width >= 60 else 8, unicode=screen.unicode)
        return cut(f"{filled} {', '.join(words)}", width)


def row_line(screen: Screen, row: Row, width: int) -> str:
    """One row of the tree in at most `width` columns, its time at the right."""
    indent = "  " * min(row.depth, width // 8)
    spent = duration(row.seconds) if row.seconds is not None else ""
    room = max(1, width - len(indent) - 2 - (len(spent) + 1 if spent else 0))
    text = row.label
    if row.detail and room - columns(text) > 4:
        text = f"{text}  {row.detail}"
    text = pad(screen.fit(text), room) if spent else cut(screen.fit(text), room)
    if not screen.unicode:
        text = to_ascii(text)
    icon = screen.coloured(row.icon, LOOKS[row.status].colour) if row.status is not None else row.icon
    return f"{indent}{icon} {text}{' ' + spent if spent else ''}"


class Aside(io.TextIOBase):
    """Stands in for stdout while a tree is painted: what tools print appears above it."""

    def __init__(self, live: Silent, loop: asyncio.AbstractEventLoop) -> None:
        self._live = live
        self._loop = loop
        self._rest = ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            with contextlib.suppress(RuntimeError):  # the loop has ended: so has the tree
                self._loop.call_soon_threadsafe(self._live.note, line)
        return len(text)

    def finish(self) -> None:
        """What was printed without the end of a line."""
        if self._rest:
            self.write("\n")


class Warnings(logging.Handler):
    """Passes on what the engine warns of while it runs."""

    def __init__(self, live: Silent, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(logging.WARNING)
        self._live = live
        self._loop = loop

    def emit(self, record: logging.LogRecord) -> None:
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(
                self._live.note, f"{record.levelname.lower()}: {record.getMessage()}"
            )


def watcher(screen: Screen, *, no_live: bool) -> Silent:
    """The one that fits where the output goes."""
    if screen.as_json:
        return Silent(screen)
    return Live(screen) if screen.can_repaint and not no_live else Lines(screen)


@contextlib.contextmanager
def kept_apart(view: Silent) -> Any:
    """While a run is shown: warnings and what tools print go where they do not disturb."""
    loop = asyncio.get_running_loop()
    logger, handler = logging.getLogger("kedge"), Warnings(view, loop)
    logger.addHandler(handler)
    try:
        if isinstance(view, Live):
            aside = Aside(view, loop)
            with contextlib.redirect_stdout(aside):
                yield
            aside.finish()
        else:
            yield
    finally:
        logger.removeHandler(handler)
