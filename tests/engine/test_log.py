"""What a run's log gives to be written, when something fails on the way."""

import pytest

from kedge.base.clock import SystemClock
from kedge.base.codec import digest
from kedge.engine.log import RunLog
from kedge.flow.events import PlanAdopted
from kedge.journal.entry import Lease, verify


@pytest.fixture
def log():
    return RunLog(Lease("r", 1), 0, 0, 0, SystemClock())


def event(version):
    return PlanAdopted(version=version, plan="p")


def blobs(text):
    return {digest(text): text}


def test_what_an_append_carried_goes_with_the_next_if_nobody_says_that_it_was_written(log):
    lines = [None, b"second", b"first"]
    log.headline = lines.pop
    log.append([event(1)], 1, blobs(b"one"))
    first = log.pending()
    assert (first.headline, first.blobs, len(first.entries)) == (b"first", blobs(b"one"), 1)
    log.append([event(2)], 2, blobs(b"two"))
    second = log.pending()
    assert (second.headline, second.blobs) == (b"second", blobs(b"one") | blobs(b"two"))
    third = log.pending()
    assert (third.headline, third.blobs, len(third.entries)) == (b"second", second.blobs, 2)
    log.written(third)
    lines.append(None)
    assert log.pending()[3:] == ([], {}, None, ())


def test_an_append_that_fails_half_way_leaves_the_log_as_it_was(log):
    log.append([event(1)], 1, {})

    def events():
        yield event(2)
        raise MemoryError

    with pytest.raises(MemoryError):
        log.append(events(), 2, blobs(b"large"))
    assert (log.seq, len(log.tail)) == (1, 1)
    log.append([event(3)], 3, {})
    append = log.pending()
    assert verify(append.entries, 0, 1, "r") == log.chain
    assert [entry.at for entry in append.entries] == [1, 3]


def test_large_values_are_there_before_the_events_that_name_them(log):
    class Full(dict):
        def update(self, *more, **named):
            raise MemoryError

    log.blobs = Full()
    with pytest.raises(MemoryError):
        log.append([event(1)], 1, blobs(b"large"))
    assert (log.seq, log.tail) == (0, [])


def test_what_became_of_commands_goes_with_the_next_append_until_it_is_written(log):
    told = []
    log.on_decided = told.append
    log.decided += [(1, b"a")]
    assert log.pending().decisions == ((1, b"a"),)
    log.decided += [(2, b"b")]
    append = log.pending()
    assert append.decisions == ((1, b"a"), (2, b"b"))
    log.written(append)
    assert told == [append.decisions]
    assert log.pending().decisions == ()
