"""Time that passes only when nothing else happens: three days of waiting take no time at all.

    @virtual
    async def test_it_is_tried_again_tomorrow():
        async with kedge.Engine(tools, clock=VirtualClock()) as engine:
            ...

`VirtualLoop` is asyncio's own event loop with another idea of time: where that would wait for the next
timer, this one sets its time to it. Nothing is patched; whoever asks the loop for the time (`sleep`,
`wait_for`, `call_later`, the engine) is told the virtual one. Time passes as outside while something
outside is waited for: an open socket or pipe, a process, and a thread if `outside` says so.

What is handed to an executor is done by the loop itself, in its turn: no thread runs beside it, so a
test takes the same course each time. The alternative, to patch `time` and `asyncio.sleep`, misses
whoever has imported them before, and every library that asks the loop.
"""

from __future__ import annotations

import asyncio
import functools
import math
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from typing import Any, ParamSpec, TypeVar

from kedge.base.errors import KedgeError

START_MS = 1_767_225_600_000
"""The first of January 2026, 0:00 UTC: every virtual time begins there."""
QUIET_S = 5.0
"""Real time without a sign from any thread, while there is no timer to wait for, that counts as for ever."""
LAST_S = 10 * 365.25 * 86_400.0
"""Who waits so long waits for something that will not happen."""
OUTSIDE_S = 0.01
"""Real time between two looks at whether anybody outside is still at work."""

P = ParamSpec("P")
T = TypeVar("T")


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time jumps to the next timer as soon as nothing else is to be done."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.outside: Callable[[], bool] = _nobody
        """Is a thread at work whose result is waited for? Then time passes as it does outside."""
        self._jumping = _JumpingSelector(self)
        super().__init__(self._jumping)
        # Timers within it are due. As fine as asyncio has it, it is lost in the rounding after some months.
        self._clock_resolution = 1e-6
        self._jumping.own_files = len(self._jumping.get_map())

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self.now_s

    def pass_time(self, seconds: float) -> None:
        """Let so much time pass, and at least the smallest step there is."""
        self.now_s = max(self.now_s + seconds, math.nextafter(self.now_s, math.inf))

    def run_in_executor(
        self,
        executor: Executor | None,  # noqa: ARG002 - the form is asyncio's
        func: Callable[..., Any],
        *args: Any,
    ) -> asyncio.Future[Any]:
        """Do it in the loop, in its turn."""
        future: asyncio.Future[Any] = self.create_future()
        self.call_soon(_do, future, func, args)
        return future


class VirtualClock:
    """The clock of a virtual loop, and a port of the engine: `Engine(…, clock=VirtualClock())`."""

    def __init__(self, loop: VirtualLoop | None = None, start_ms: int = START_MS) -> None:
        self._loop = loop or _running_loop()
        self._start_ms = start_ms

    def now_ms(self) -> int:
        # Sums of fractions end a hair below the millisecond that is meant.
        return self._start_ms + int(self._loop.now_s * 1000 + 1e-3)

    def monotonic_s(self) -> float:
        return self._loop.now_s


def run_virtually(main: Coroutine[Any, Any, T]) -> T:
    """`asyncio.run` in virtual time."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)


def virtual(test: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make an async test one that any test runner can call, and that runs in virtual time."""

    @functools.wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_virtually(test(*args, **kwargs))

    return run


class _JumpingSelector(selectors.DefaultSelector):
    """Never waits where it can let the loop's time jump."""

    def __init__(self, loop: VirtualLoop) -> None:
        super().__init__()
        self._loop = loop
        self.own_files = 0
        """Files that the loop itself has open, to be woken by threads."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._loop.outside() or len(self.get_map()) > self.own_files:
            waited_s = OUTSIDE_S if timeout is None else min(timeout, OUTSIDE_S)
            ready = super().select(waited_s)
            if not ready and timeout is not None:
                self._loop.pass_time(waited_s)
            return ready
        if timeout is None:
            return self._wait_for_a_thread()
        self._loop.pass_time(timeout)
        if self._loop.now_s > LAST_S:
            raise _stands_still("ten years have passed, and the test still waits")
        return ready

    def _wait_for_a_thread(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(QUIET_S)
        if not ready:
            raise _stands_still("every task waits, and there is no timer")
        return ready


def _do(future: asyncio.Future[Any], func: Callable[..., Any], args: tuple[Any, ...]) -> None:
    if future.cancelled():
        return
    try:
        result = func(*args)
    except Exception as error:  # as a thread would hand it over
        future.set_exception(error)
    else:
        future.set_result(result)


def _stands_still(what: str) -> KedgeError:
    return KedgeError(
        f"nothing can happen any more: {what}",
        code="test_stands_still",
        remedy="look at what the test awaits: nobody will ever do it",
    )


def _nobody() -> bool:
    return False


def _running_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    if not isinstance(loop, VirtualLoop):
        raise KedgeError(
            "virtual time needs a virtual loop, and this test runs in another",
            code="real_time",
            remedy="decorate the test with @kedge.testing.virtual",
        )
    return loop
