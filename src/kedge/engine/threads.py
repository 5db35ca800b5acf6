"""Threads for tools that are plain functions.

Daemon threads of our own, not `concurrent.futures`: its threads are joined at interpreter exit, so
one function that never returns would keep the whole process from ending. A thread whose call was
given up is not counted any more, so hanging functions cannot use the pool up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue

MAX_THREADS = 64


class Threads:
    """A pool that grows when all are busy and never waits for anybody."""

    def __init__(self) -> None:
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._jobs = 0
        self._closed = False

    def submit(self, job: Callable[[], None]) -> None:
        """Run `job` in some thread. It must not raise. RuntimeError: the system has no thread left."""
        with self._lock:
            if self._jobs >= self._threads and self._threads < MAX_THREADS:
                self._add_thread()
            self._jobs += 1
        self._queue.put(job)

    def _add_thread(self) -> None:
        name = f"kedge-tool-{self._threads + 1}"
        try:
            threading.Thread(target=self._work, name=name, daemon=True).start()
        except RuntimeError:
            if not self._threads:
                raise
        else:
            self._threads += 1

    def give_up(self) -> None:
        """One call will not come back in time: do not count its thread."""
        with self._lock:
            self._threads -= 1
            self._jobs -= 1

    def came_back(self) -> None:
        """A call that was given up has come back after all."""
        with self._lock:
            self._threads += 1
            self._jobs += 1

    def _work(self) -> None:
        while (job := self._queue.get()) is not None:
            job()
            del job  # or it keeps what the call returned alive until the next one
            with self._lock:
                self._jobs -= 1
                if self._closed:
                    return

    def close(self) -> None:
        """Let idle threads end. Busy ones are daemons and hold nobody up."""
        with self._lock:
            self._closed = True
            for _ in range(max(0, self._threads)):
                self._queue.put(None)
