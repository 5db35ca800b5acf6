"""The clock, as a port: time is given to the core, never read there."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is written down, monotonic time for how long something takes."""

    def now_ms(self) -> int: ...
    def monotonic_s(self) -> float: ...


class SystemClock:
    """The machine's own clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    monotonic_s = staticmethod(time.perf_counter)  # `time.monotonic` moves in steps of 15 ms on Windows
