"""The time of day for one run: as long as it passes no slower than time does."""

from __future__ import annotations

import asyncio

from kedge.base.clock import Clock


class PassingTime:
    """Never goes back, and never stands still.

    A clock that was ahead for a moment would otherwise hold every timer up until it gets there again.
    """

    __slots__ = ("_clock", "_looked_s", "_loop", "_ms")

    def __init__(self, clock: Clock, loop: asyncio.AbstractEventLoop, at_ms: int) -> None:
        self._clock = clock
        self._loop = loop
        self._ms: float = max(at_ms, clock.now_ms())
        self._looked_s = loop.time()

    def now_ms(self) -> int:
        """The time in ms."""
        now_s = self._loop.time()
        passed_ms = (now_s - self._looked_s) * 1000
        reckoned_ms = self._ms + passed_ms
        if passed_ms >= 1:
            self._looked_s = now_s
            self._ms = reckoned_ms = max(self._clock.now_ms(), reckoned_ms)
        return int(reckoned_ms)
