"""Following a run: by cursor, from any event, live after catching up.

A follower reads the log's tail in memory where it reaches far enough back, else the store. It holds
no place in any queue of the run, so a slow or hanging one costs the run nothing and misses nothing.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any, Literal

from kedge.engine.driver import Driver
from kedge.engine.ports import Journal
from kedge.engine.recovery import decode
from kedge.flow.events import RunEnded
from kedge.journal.entry import Entry
from kedge.views.narrate import Narrator, RunEvent, wanted

Level = Literal["run", "group", "step", "all"]
Callback = Callable[[RunEvent], Any]

CALLBACK_GRACE_S = 1.0
"""How long the end of a run waits for a callback to see it."""
BATCH = 2_000
"""Events told between two looks at the loop."""

_log = logging.getLogger("kedge.follow")


class Feed:
    """News of one run for all its followers: wakes them, and passes on what tools say meanwhile."""

    def __init__(self, driver: Driver, journal: Journal) -> None:
        self._driver = driver
        self._journal = journal
        self._news: set[asyncio.Event] = set()
        self._followers: dict[asyncio.Event, list[tuple[str, float | None, str]]] = {}
        driver.on_events = self._wake
        driver.on_progress = self._progress

    def _wake(self) -> None:
        if not self._followers:
            # Nobody reads along: what is on disk need not stay in memory.
            if len(self._driver.log.tail) > 2 * BATCH:
                self._driver.log.trim(self._driver.log.durable_seq)
            return
        for news in self._followers:
            news.set()

    def _progress(self, path: str, fraction: float | None, message: str) -> None:
        for news, said in self._followers.items():
            if len(said) < BATCH:  # lossy by design
                said.append((path, fraction, message))
                news.set()

    def _after(self, seq: int) -> list[Entry]:
        log = self._driver.log
        if seq >= log.seq:
            return []
        tail = log.tail
        if tail and tail[0].seq <= seq + 1:
            return tail[seq + 1 - tail[0].seq :][:BATCH]
        return self._journal.read(log.lease.run_id, seq, BATCH)

    async def events(self, after_seq: int, level: Level) -> AsyncIterator[RunEvent]:
        """Every event after `after_seq`, then live, until the run has ended or is let go."""
        driver = self._driver
        run_id = driver.state.run_id
        narrator = Narrator(run_id, driver.state.program)
        news = asyncio.Event()
        said = self._followers.setdefault(news, [])
        seq = 0  # from the first: percent and groups are a fold over all events
        try:
            while True:
                news.clear()
                ended = driver.stopped
                while entries := self._after(seq):
                    for entry in entries:
                        event = decode(run_id, entry)
                        ended = isinstance(event, RunEnded)
                        for told in narrator.tell(entry.seq, entry.at, event):
                            if entry.seq > after_seq and wanted(told, level):
                                yield told
                    seq = entries[-1].seq
                    await asyncio.sleep(0)
                for path, fraction, message in said:
                    if level == "all":
                        yield narrator.progress(path, fraction, message, driver.state.at)
                said.clear()
                if (ended and seq >= driver.log.seq) or (driver.stopped and not news.is_set()):
                    return
                await news.wait()
        finally:
            del self._followers[news]


class Subscription:
    """A callback that is told every event, in order, and that cannot harm the run."""

    def __init__(self, feed: Feed, callback: Callback, level: Level) -> None:
        self._callback = callback
        self._task = asyncio.create_task(self._follow(feed, level))

    async def _follow(self, feed: Feed, level: Level) -> None:
        call = self._call_async if inspect.iscoroutinefunction(self._callback) else self._call_in_thread
        async for event in feed.events(0, level):
            try:
                await call(event)
            except Exception:
                _log.exception(
                    "a callback of run %s raised and is switched off", event.run_id,
                    extra={"action": "callback_off", "run": event.run_id},
                )  # fmt: skip
                return

    async def _call_async(self, event: RunEvent) -> None:
        await self._callback(event)

    async def _call_in_thread(self, event: RunEvent) -> None:
        """A plain function may block: then it blocks a thread of its own, not the loop."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        def work() -> None:
            error: Exception | None = None
            try:
                self._callback(event)
            except Exception as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_resolve, done, error)
            except RuntimeError:
                pass  # the loop has ended; so has whoever waits

        threading.Thread(target=work, name="kedge-callback", daemon=True).start()
        await done

    async def finish(self) -> None:
        """Let it see the end, but wait for it only so long."""
        await asyncio.wait([self._task], timeout=CALLBACK_GRACE_S)

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.wait([self._task], timeout=CALLBACK_GRACE_S)


def _resolve(future: asyncio.Future[None], error: Exception | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
