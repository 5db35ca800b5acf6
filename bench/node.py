"""The step that every engine runs: the least it can be. It counts its calls, and can kill its process."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

calls = 0
first_call_s = 0.0
"""Wall clock of the first call in this process."""
die_at_call = 0
last_words: Callable[[], None] | None = None
"""Called right before the process is killed."""


async def work(inputs: list[int], sleep_s: float | None = None) -> int:
    """1 + the largest input, after a sleep."""
    global calls, first_call_s  # noqa: PLW0603
    calls += 1
    if calls == 1:
        first_call_s = time.time()
    if calls == die_at_call:
        if last_words is not None:
            last_words()
        os.kill(os.getpid(), signal.SIGKILL)
    if sleep_s is not None:
        await asyncio.sleep(sleep_s)
    return 1 + max(inputs, default=0)
