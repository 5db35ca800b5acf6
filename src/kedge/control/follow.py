"""Following a run: by cursor, from any event, live after catching up.

A follower reads the log's tail in memory where it reaches far enough back, else the store. It holds
no place in any queue of the run, so a slow or hanging one costs the run nothing and misses nothing.
It may be ahead of the disk, as the run itself may; but what somebody could take for a promise (the
end, a question, the end of a call with effects) it is told only once that is on disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable
from queue import Empty, SimpleQueue
from typing import Any, Literal, get_args

from kedge.base.errors import BadInput
from kedge.engine.driver import NEEDS_NO_DISK, Driver
from kedge.engine.ports import Journal
from kedge.engine.recovery import decode
from kedge.flow.events import Event, QuestionAsked, RunEnded, StepFailed, StepSucceeded
from kedge.journal.entry import Entry
from kedge.views.narrate import Narrator, RunEvent, wanted

Level = Literal["run", "group", "step", "all"]
LEVELS: tuple[Level, ...] = get_args(Level)
Callback = Callable[[RunEvent], Any]

CALLBACK_GRACE_S = 1.0
"""How long the end of a run waits for a callback to see it."""
LAST_WORD_S = 0.2
"""One that is too slow for that is told the end alone, if it takes it within this time."""
BATCH = 2_000
"""Events told between two looks at the loop."""
AHEAD = 256
"""Events on their way to a plain callback; a slower one is waited for, which costs nobody else anything."""

_PROMISES = (RunEnded, QuestionAsked, StepSucceeded, StepFailed)

_log = logging.getLogger("kedge.follow")


def check_level(level: object) -> None:
    """BadInput if there is no such level."""
    if level not in LEVELS:
        raise BadInput(f"there is no level {level!r}", code="level", allowed=LEVELS)


def check_callback(callback: object) -> None:
    """BadInput for what cannot be called: told before a run begins, not by its log."""
    if callback is not None and not callable(callback):
        raise BadInput(
            f"a callback is a function that takes an event, not {type(callback).__name__}",
            where="on_event",
            remedy="give one, as in on_event=kedge.print_progress",
        )


class Feed:
    """News of one run for all its followers: wakes them, and passes on what tools say meanwhile."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal
        self._news: set[asyncio.Event] = set()
        self._followers: dict[asyncio.Event, list[tuple[str, float | None, str]]] = {}
        driver.on_progress = self._progress

    @property
    def run_id(self) -> str:
        return self._driver.state.run_id

    def _wake(self) -> None:
        for news in self._followers:
            news.set()

    def _progress(self, path: str, fraction: float | None, message: str) -> None:
        for news, said in self._followers.items():
            if len(said) < BATCH:  # lossy by design
                said.append((path, fraction, message))
                news.set()

    async def moved(self, seq: int) -> None:
        """Until there is an event after `seq`, or the run is let go."""
        news, driver = asyncio.Event(), self._driver
        self._followers[news] = []
        driver.on_events = self._wake
        try:
            while driver.log.seq <= seq and not driver.stopped and not driver.state.ended:
                news.clear()
                await news.wait()
        finally:
            self._leave(news)

    def _leave(self, news: asyncio.Event) -> None:
        del self._followers[news]
        if not self._followers:
            self._driver.on_events = None

    def _after(self, seq: int) -> list[Entry]:
        log = self._driver.log
        last = log.seq if self._driver.lost is None else log.durable_seq
        if seq >= last:
            return []
        tail = log.tail
        if tail and tail[0].seq <= seq + 1:
            return tail[seq + 1 - tail[0].seq : last + 1 - tail[0].seq][:BATCH]
        return self._journal.read(log.lease.run_id, seq, BATCH)

    def _must_wait(self, seq: int, event: Event) -> bool:
        """The event is a promise, and not on disk yet."""
        if seq <= self._driver.log.durable_seq or type(event) not in _PROMISES:
            return False
        step = self._driver.state.steps.get(getattr(event, "path", ""))
        return step is None or isinstance(event, QuestionAsked) or step.node.effect not in NEEDS_NO_DISK

    async def events(self, after_seq: int, level: Level) -> AsyncIterator[RunEvent]:
        """Every event after `after_seq`, then live, until the run has ended or is let go."""
        driver = self._driver
        run_id = driver.state.run_id
        narrator = Narrator(run_id, driver.state.versions[0].plan)  # it changes as the events say
        news = asyncio.Event()
        said = self._followers.setdefault(news, [])
        driver.on_events = self._wake
        seq = 0  # from the first: percent and groups are a fold over all events
        try:
            while True:
                news.clear()
                ended = driver.stopped
                held = False
                while not held and (entries := self._after(seq)):
                    for entry in entries:
                        event = decode(run_id, entry)
                        held = self._must_wait(entry.seq, event)
                        if held:
                            break
                        seq = entry.seq
                        ended = isinstance(event, RunEnded)
                        for told in narrator.tell(seq, entry.at, event):
                            if seq > after_seq and wanted(told, level):
                                yield told
                    await asyncio.sleep(0)
                for path, fraction, message in said:
                    if level == "all" and not ended:
                        yield narrator.progress(path, fraction, message, driver.state.at)
                said.clear()
                if (ended and seq >= driver.log.seq) or (driver.stopped and not news.is_set()):
                    return
                await news.wait()
        finally:
            self._leave(news)


class Subscription:
    """A callback that is told every event, in order, and that cannot harm the run."""

    def __init__(self, feed: Feed, callback: Callback, level: Level) -> None:
        # An object may be called like an async function, too.
        called = getattr(callback, "__call__", None)  # noqa: B004
        is_async = inspect.iscoroutinefunction(callback) or inspect.iscoroutinefunction(called)
        self._teller = _Loop(callback) if is_async else _Thread(callback)
        self._run_id = feed.run_id
        self._closing = False
        self._hurry = False
        """Only the end is told any more."""
        self._left_out = 0
        self._task = asyncio.create_task(self._follow(feed, level))

    @property
    def busy(self) -> bool:
        """Its callback is at work in a thread."""
        return self._teller.busy

    async def _follow(self, feed: Feed, level: Level) -> None:
        try:
            async for event in feed.events(0, level):
                if self._hurry and event.kind != "run_ended":
                    self._left_out += 1
                else:
                    await self._teller.tell(event)
            await self._teller.all_told()
        except BaseException as error:  # also SystemExit: a callback ends itself, not the program
            if self._closing or isinstance(error, GeneratorExit):
                raise
            _log.error(
                "a callback of run %s raised and is switched off", self._run_id,
                extra={"action": "callback_off", "run": self._run_id}, exc_info=error,
            )  # fmt: skip

    async def finish(self) -> None:
        """Let it see the end, but wait for it only so long."""
        await asyncio.wait([self._task], timeout=CALLBACK_GRACE_S)

    async def close(self) -> None:
        """Tell it the end, if it has not come to it yet, and nothing more."""
        if not self._task.done():
            self._hurry = True
            self._left_out += self._teller.skip()
            await asyncio.wait([self._task], timeout=LAST_WORD_S)
            _log.warning(
                "a callback was too slow: %d events were not told to it", self._left_out,
                extra={"action": "callback_behind", "run": self._run_id},
            )  # fmt: skip
        self._closing = True
        self._task.cancel()
        self._teller.close()
        await asyncio.wait([self._task], timeout=CALLBACK_GRACE_S)


class _Loop:
    """Calls an async callback."""

    busy = False
    """In a thread."""

    def __init__(self, callback: Callback) -> None:
        self.tell = callback

    async def all_told(self) -> None:
        """Every call was waited for."""

    def skip(self) -> int:
        """Nothing waits to be told."""
        return 0

    def close(self) -> None:
        """Nothing is kept."""


class _Thread:
    """Calls a plain callback, which may block: then it blocks a thread of its own, not the loop."""

    def __init__(self, callback: Callback) -> None:
        self._callback = callback
        self._loop = asyncio.get_running_loop()
        self._events: SimpleQueue[RunEvent | None] = SimpleQueue()
        self._given = 0
        self._told = 0
        """Counted by the thread."""
        self._skipped = 0
        """Counted by the loop."""
        self._wanted = 0
        """Wake the loop when so many are told."""
        self._news = asyncio.Event()
        self._error: BaseException | None = None
        threading.Thread(target=self._work, name="kedge-callback", daemon=True).start()

    async def tell(self, event: RunEvent) -> None:
        """Hand over an event; waits only if the callback is far behind."""
        self._given += 1
        self._events.put(event)
        if self._given - self._told - self._skipped > AHEAD:
            await self._until(self._given - AHEAD // 2)
        if self._error is not None:
            raise self._error

    async def all_told(self) -> None:
        """Until the callback has seen all events."""
        await self._until(self._given)

    def skip(self) -> int:
        """Tell nothing of what waits; how much that is."""
        before = self._skipped
        with contextlib.suppress(Empty):
            while True:
                self._events.get_nowait()
                self._skipped += 1
        self._news.set()
        return self._skipped - before

    async def _until(self, told: int) -> None:
        while self._behind(told):
            self._news.clear()
            self._wanted = told - self._skipped
            if self._behind(told):
                await self._news.wait()
        if self._error is not None:
            raise self._error

    @property
    def busy(self) -> bool:
        """Something given is not told yet."""
        return self._behind(self._given)

    def _behind(self, told: int) -> bool:
        return self._told + self._skipped < told and self._error is None

    def close(self) -> None:
        """Let the thread end, once its callback lets it."""
        self._events.put(None)

    def _work(self) -> None:
        while (event := self._events.get()) is not None:
            try:
                self._callback(event)
            except BaseException as error:  # told to the loop, which logs it
                self._error = error
            self._told += 1
            if self._error is not None or self._told == self._wanted:
                try:
                    self._loop.call_soon_threadsafe(self._news.set)
                except RuntimeError:
                    return  # the loop has ended; so has whoever waits
            if self._error is not None:
                return
