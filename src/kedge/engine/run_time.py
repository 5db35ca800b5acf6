"""How long a run is driven, and the alarm of its limit. While only people can move it, no time is used up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class RunTime:
    """Watches the time of one run."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        driven_s: float,
        limit_s: Callable[[], float],
        exhaust: Callable[[str, float], None],
    ) -> None:
        self._loop = loop
        self._limit_s = limit_s
        self._exhaust = exhaust
        self._driven_since_s = loop.time() - driven_s
        """As if it had been driven without a break for as long as it was in all."""
        self._resting_since_s: float | None = None
        """Since when only people can move it."""
        # Not at once: what the run was taken up with comes first, also if its time is used up already.
        self._alarm: asyncio.Handle = loop.call_soon(self._watch)

    @property
    def rests(self) -> bool:
        """Only people can move it."""
        return self._resting_since_s is not None

    def account(self, rests: bool) -> None:  # noqa: FBT001
        """From now on only people can move it, or not."""
        now_s = self._loop.time()
        if rests and self._resting_since_s is None:
            self._resting_since_s = now_s
        elif not rests and self._resting_since_s is not None:
            self._driven_since_s += now_s - self._resting_since_s
            self._resting_since_s = None

    def _watch(self) -> None:
        until_s = self._loop.time() if self._resting_since_s is None else self._resting_since_s
        driven_s = until_s - self._driven_since_s
        left_s = self._limit_s() - driven_s
        if left_s <= 0:
            self._exhaust("run_s", driven_s)
            left_s = 1.0  # look again: the limit may be raised
        elif self._resting_since_s is not None:
            left_s = max(left_s, 1.0)
        # A rest smaller than the clock can tell would bring it back at the same moment, again and again.
        self._alarm = self._loop.call_later(max(left_s, 0.01), self._watch)

    def stop(self) -> None:
        """Watch no more."""
        self._alarm.cancel()
