"""The garbage collector, held still while many objects that hold no cycles are made."""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Generator[None]:
    """Looking for cycles again and again takes longer than making a hundred thousand objects.

    What was made meanwhile is taken for long-lived: else the first look after the pause goes through
    all of it, twice, and a run of ten thousand short steps spent half of its time on that.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            if not gc.get_freeze_count():  # objects that the program itself froze must stay so
                gc.freeze()
                gc.unfreeze()  # puts all there is into the oldest generation, without a look at any
            gc.enable()
