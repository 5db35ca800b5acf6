"""When to commit: one group commit for all runs of this process.

A commit happens at the latest 20 ms or 1,000 events after the first event that waits for it, at
once if a promise waits, and always for all runs together. Where the disk answers within a
millisecond it is done in the loop itself: handing over to a thread and back costs more than the
sync, and a busy asyncio loop was seen to starve a writer thread for 0.3 s. A slower disk is waited
for in a thread, and drivers that are too far ahead hold their next turn until it is done.

A store without room keeps everything waiting and is tried again each second: nothing is lost, no
run fails, and the runs go on when there is room.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from kedge.base.clock import Clock
from kedge.base.errors import InternalError, NotOwner, StoreDamaged, StoreError, StoreFull
from kedge.base.failpoints import armed, reach
from kedge.engine.log import RunLog
from kedge.engine.ports import Journal
from kedge.journal.entry import Append

MAX_BEHIND_EVENTS = 1_000
MAX_BEHIND_S = 0.020
INLINE_SYNC_S = 0.001
INLINE_BUSY_S = 0.002
"""Another process that writes is waited for so long in the loop, then in the thread."""
BUSY_S = 60.0
FULL_RETRY_S = 1.0
PROBE_AFTER = 20
"""Commits in the thread before one in the loop measures the disk again."""

_log = logging.getLogger("kedge.writer")


class Writer:
    """Commits what the logs of this process hold back."""

    def __init__(self, journal: Journal, clock: Clock) -> None:
        self._journal = journal
        self._now_s = clock.monotonic_s
        self._loop = asyncio.get_running_loop()
        self._dirty: dict[str, RunLog] = {}
        self._thread: ThreadPoolExecutor | None = None
        self._busy = False
        self._in_thread = 0
        self._soon = False
        self._alarm: asyncio.TimerHandle | None = None
        """Set whenever something waits. Not taken back by a commit: a timer for each would cost more than
        one that comes too early for what was added meanwhile."""
        self._sync_s = INLINE_SYNC_S
        """How long the disk takes: the least of the last commits, grown by a quarter for each since.

        A mean takes one hiccup for a slow disk, and then pays for the thread where there is no need.
        """
        self._waiting: list[Callable[[], object]] = []
        self._retry: asyncio.TimerHandle | None = None
        self._closed = False
        self._said_full = False
        self.full = ""
        """Why nothing can be written at the moment; empty: it can."""

    def dirty(self, log: RunLog) -> None:
        """`log` has events that are not on disk."""
        self._dirty[log.lease.run_id] = log
        log.queued = True
        if log.seq - log.durable_seq >= MAX_BEHIND_EVENTS:
            self.flush()
        elif self._alarm is None:
            self._alarm = self._loop.call_later(MAX_BEHIND_S, self._on_alarm)

    def forget(self, log: RunLog) -> None:
        """Its run is given back: whatever it still says is refused from here on."""
        if self._dirty.get(log.lease.run_id) is log:
            del self._dirty[log.lease.run_id]

    def must_wait(self, log: RunLog) -> bool:
        """The log is as far ahead of the disk as it may be."""
        if log.seq - log.durable_seq < MAX_BEHIND_EVENTS and not self._is_late(log):
            return False
        self.flush()
        return log.seq != log.durable_seq

    def _is_late(self, log: RunLog) -> bool:
        """Where commits are made in the loop, the alarm sees to it that none is."""
        if not (self._busy or self.full) or log.seq == log.durable_seq:
            return False
        return self._now_s() - log.oldest_s >= MAX_BEHIND_S

    def when_written(self, callback: Callable[[], object]) -> None:
        """Call back once after the next commit."""
        self._waiting.append(callback)

    def flush_soon(self) -> None:
        """Commit at the end of this tick, so that all runs that need it share one sync."""
        if not self._soon:
            self._soon = True
            self._loop.call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._soon = False
        self.flush()

    def _on_alarm(self) -> None:
        self._alarm = None
        self.flush()

    def flush(self) -> None:
        """Commit everything that waits, here or in the thread."""
        if self._busy or not self._dirty or self.full:
            return
        batch = [(log, log.pending()) for log in self._dirty.values()]
        self._dirty = {}
        if armed:
            reach("writer.flush")
        if self._is_quick():
            try:
                self._commit(batch, INLINE_BUSY_S)
            except Exception as error:
                if getattr(error, "code", "") != "store_busy":
                    self._failed(batch, error)
                    return
            except BaseException:
                self._interrupted(batch)
                raise
            else:
                self._written(batch)
                return
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "kedge-writer")
        self._busy = True
        if armed:
            reach("writer.thread.handed")
        future = self._loop.run_in_executor(self._thread, self._commit, batch, BUSY_S)
        future.add_done_callback(lambda done: self._thread_done(batch, done.exception()))

    def _is_quick(self) -> bool:
        """Whether to commit in the loop.

        Now and then a slow disk is tried there again: what a thread measures beside a busy loop is
        mostly its wait for the interpreter.
        """
        quick = self._sync_s <= INLINE_SYNC_S or self._in_thread >= PROBE_AFTER
        self._in_thread = 0 if quick else self._in_thread + 1
        return quick

    def _commit(self, batch: list[tuple[RunLog, Append]], patience_s: float) -> None:
        started = self._now_s()
        self._journal.commit([append for _, append in batch], patience_s)
        took = self._now_s() - started
        for _, append in batch:  # many rows take time without being the disk's doing: about 2 µs each
            took -= len(append.entries) * 2e-6
        self._sync_s = min(max(1e-6, took), self._sync_s * 1.25)

    def _thread_done(self, batch: list[tuple[RunLog, Append]], error: BaseException | None) -> None:
        self._busy = False
        if armed:
            reach("writer.thread.back")
        if error is None:
            self._written(batch)
        elif isinstance(error, Exception):
            self._failed(batch, error)
        else:
            raise error
        if self._dirty:
            self.flush_soon()

    def _written(self, batch: list[tuple[RunLog, Append]]) -> None:
        if armed:
            reach("writer.committed")
        if self._said_full:
            self._said_full = False
            _log.warning("the store has room again, runs go on", extra={"action": "store_has_room"})
        for log, append in batch:
            log.written(append)
        waiting, self._waiting = self._waiting, []
        for callback in waiting:
            callback()
        if armed:
            reach("writer.told")

    def _failed(self, batch: list[tuple[RunLog, Append]], error: Exception) -> None:
        if isinstance(error, StoreFull):
            self._hold(batch, error)
            return
        if isinstance(error, NotOwner | StoreDamaged | InternalError) and len(batch) > 1:
            self._one_by_one(batch)
            return
        for log, _ in batch:
            log.on_lost(error)

    def _one_by_one(self, batch: list[tuple[RunLog, Append]]) -> None:
        """One of the runs has another owner, or is damaged: the others must not suffer for it."""
        for pair in batch:
            if armed:
                reach("writer.one_by_one")
            try:
                self._commit([pair], BUSY_S)
            except Exception as error:
                self._failed([pair], error)
            else:
                self._written([pair])

    def _hold(self, batch: list[tuple[RunLog, Append]], error: StoreFull) -> None:
        if not self._said_full:
            self._said_full = True
            _log.warning("store full, runs wait: %s", error, extra={"action": "store_full"})
        if armed:
            reach("writer.full.held")
        self.full = str(error)
        self._put_back([log for log, _ in batch])
        if self._retry is None and not self._closed:
            self._retry = self._loop.call_later(FULL_RETRY_S, self._try_again)

    def _put_back(self, logs: list[RunLog]) -> None:
        """They have something to write, as before."""
        for log in logs:
            self._dirty[log.lease.run_id] = log
            log.queued = True

    def _interrupted(self, batch: list[tuple[RunLog, Append]]) -> None:
        """Ctrl-C in the middle of a commit. It comes when the disk has answered, so most often it is done."""
        for log, append in batch:
            try:
                head = self._journal.head(append.run_id)
            except StoreError:
                head = None
            if append.entries and head is not None and head.seq == append.entries[-1].seq:
                log.written(append)
            else:
                self._put_back([log])

    def _try_again(self) -> None:
        if armed:
            reach("writer.full.retry")
        self._retry = None
        self.full = ""
        self.flush()

    async def close(self) -> None:
        """Write what is left, then stop."""
        if armed:
            reach("writer.close")
        self._closed = True
        if self._retry is not None:
            self._retry.cancel()
            self._try_again()
        while self._busy or (self._dirty and not self.full):
            self.flush()
            await asyncio.sleep(0.001 if self._busy else 0)
        if self._alarm is not None:
            self._alarm.cancel()
        if self._thread is not None:
            self._thread.shutdown()
