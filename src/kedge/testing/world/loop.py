"""An event loop whose time is simulated: it never waits, and it does one thing at a time.

Each simulated process has a loop of its own, and all of them share one clock. Whoever holds them asks
for one step of one loop; when none has anything to do, the clock jumps to the next timer. So the order
of everything that happens is decided outside, by a seed, and a process can be stopped between any two
steps, for a while or for good.

Not a `SelectorEventLoop` with a selector that lies: that one runs until it is told to stop, and several
of them cannot take turns in one thread.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from contextvars import Context
from typing import Any, TypeVar

from kedge.testing.world.network import Network

T = TypeVar("T")

LAST_WORDS = 10
"""So often a coroutine of a dead process may wait for something more when it is told to end."""


class SimulatedClock:
    """The time of a world: how long it has lasted. It moves when somebody moves it."""

    def __init__(self) -> None:
        self.now_s = 1_000.0

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


class SimulatedLoop(asyncio.AbstractEventLoop):
    """What asyncio needs of a loop, and no more. Files, streams and threads are not there."""

    def __init__(self, clock: SimulatedClock, delay_s: Callable[[], float], network: Network) -> None:
        self._clock = clock
        self.network = network
        self._delay_s = delay_s
        """How long the next job for a thread takes to begin."""
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._order = 0
        self._tasks: list[asyncio.Task[Any]] = []
        self._dead = False
        self.faults: list[str] = []
        """What nobody caught."""
        self.process: Any = None
        """Whose loop it is."""

    # --- from outside

    @property
    def ready(self) -> bool:
        """There is something to do now."""
        if not self._ready and self._timers:
            self._take_due()
        return bool(self._ready)

    def next_at_s(self) -> float | None:
        """When its next timer goes off."""
        timers = self._timers
        while timers and timers[0][2].cancelled():
            heapq.heappop(timers)
        return timers[0][0] if timers else None

    def step(self) -> None:
        """Do one thing."""
        self._take_due()
        handle = self._ready.popleft()
        if not handle.cancelled():
            with self._running():
                handle._run()  # noqa: SLF001

    @contextmanager
    def _running(self) -> Generator[None]:
        # A loop says that it is the running one; there is no other way to be one.
        asyncio._set_running_loop(self)  # noqa: SLF001
        try:
            yield
        finally:
            asyncio._set_running_loop(None)  # noqa: SLF001

    def die(self) -> None:
        """The process is gone: nothing of it ever runs again."""
        self._dead = True
        self._ready.clear()
        self._timers.clear()

    def bury(self) -> None:
        """Let go of what a dead process left unfinished, without a word from it."""
        self.die()
        with self._running():
            while self._tasks:  # last words can make more of them
                task = self._tasks.pop()
                if not task.done():
                    self._close(task)

    def _close(self, task: asyncio.Task[Any]) -> None:
        chain: list[Any] = []
        waiting: Any = task.get_coro()
        while asyncio.iscoroutine(waiting):
            chain.append(waiting)
            waiting = getattr(waiting, "cr_await", None)
        for coroutine in reversed(chain):
            for _ in range(LAST_WORDS):
                try:
                    coroutine.close()
                except BaseException:  # noqa: S112 - its last words: the dead are not listened to
                    continue
                break
        task._log_destroy_pending = False  # type: ignore[attr-defined] # noqa: SLF001

    def _take_due(self) -> None:
        timers, now_s = self._timers, self._clock.now_s
        while timers and timers[0][0] <= now_s:
            self._ready.append(heapq.heappop(timers)[2])

    # --- what asyncio calls

    def time(self) -> float:
        return self._clock.now_s

    def call_soon(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._dead:
            self._ready.append(handle)
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        if self._dead:
            raise RuntimeError("Event loop is closed")
        return self.call_soon(callback, *args, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._clock.now_s + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._dead:
            self._order += 1
            heapq.heappush(self._timers, (when, self._order, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Its place in the heap is given up when it comes to the top."""

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        if len(self._tasks) > 200:
            self._tasks = [one for one in self._tasks if not one.done()]
        return task

    def run_in_executor(self, _: object, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """The job is done by the loop itself, after the delay that a thread might have."""
        future: asyncio.Future[T] = asyncio.Future(loop=self)

        def work() -> None:
            if future.cancelled():
                return
            try:
                value = func(*args)
            except Exception as error:
                future.set_exception(error)
            else:
                future.set_result(value)

        self.call_later(self._delay_s(), work)
        return future

    async def create_datagram_endpoint(  # type: ignore[override]
        self, protocol_factory: Callable[[], asyncio.DatagramProtocol], **_: Any
    ) -> tuple[asyncio.DatagramTransport, asyncio.DatagramProtocol]:
        protocol = protocol_factory()
        return self.network.hang(self, protocol), protocol

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._dead:
            self.faults.append(f"{context.get('message')}: {context.get('exception')!r}")

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._dead

    def is_closed(self) -> bool:
        return self._dead

    def close(self) -> None:
        raise RuntimeError("a simulated loop ends with its process")
