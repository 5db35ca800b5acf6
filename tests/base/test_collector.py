"""The collector rests while much is made, and is itself again afterwards."""

from __future__ import annotations

import gc
import weakref

from kedge.base.collector import collector_paused


class Ring:
    def __init__(self) -> None:
        self.me = self


def test_it_rests_and_goes_on():
    assert gc.isenabled()
    with collector_paused():
        assert not gc.isenabled()
        with collector_paused():
            pass
        assert not gc.isenabled(), "the outer pause ends it"
    assert gc.isenabled()


def test_short_pauses_do_not_keep_it_from_ever_looking():
    """Each pause once made everything long-lived and the count zero: rings of others were kept for ever."""
    gc.collect()
    left = [weakref.ref(Ring())]
    for _ in range(2_000):
        with collector_paused():
            Ring()
    assert left[0]() is None


def test_what_was_made_in_a_long_pause_is_not_looked_at_again():
    gc.collect()
    with collector_paused():
        made = [[] for _ in range(20_000)]
    assert gc.get_count()[0] < 5_000
    assert len(made) == 20_000
