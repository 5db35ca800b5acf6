"""The garbage collector, held still while many objects that hold no cycles are made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_MANY = 10_000
"""Objects: a look at them takes a millisecond."""


@contextmanager
def collector_paused() -> Generator[None]:
    """Looking for cycles again and again takes longer than making a hundred thousand objects.

    What was made meanwhile, if it is much, is taken for long-lived: else the first look after the pause
    goes through all of it, twice, and a run of ten thousand short steps spent half of its time on that.
    If it is little, the collector goes on by its own count: a program that reads small plans again and
    again would never come to a look, and keep all the rings that anybody leaves behind.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            many = gc.get_count()[0] > _MANY
            if many and not gc.get_freeze_count():  # objects that the program itself froze must stay so
                gc.freeze()
                gc.unfreeze()  # puts all there is into the oldest generation, without a look at any
            gc.enable()
