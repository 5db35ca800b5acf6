"""One run's log while it is driven: numbers and chains events, and remembers what is not on disk yet.

The state runs ahead of the disk; promises do not. `seq` is the last event there is, `durable_seq`
the last one on disk; the writer moves the second after the first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct
from zlib import crc32

from kedge.base.clock import Clock
from kedge.flow.events import Event, encode_event
from kedge.journal.entry import Append, Entry, Lease, chain

TAIL_EVENTS = 2_000
"""Kept in memory though they are on disk: who is further behind reads them there."""

_header = Struct(">QQQ").pack


class RunLog:
    """The tail of one run's log."""

    def __init__(self, lease: Lease, seq: int, link: int, size: int, clock: Clock) -> None:
        self._now_s = clock.monotonic_s
        self.lease = lease
        self.seq = seq
        self.durable_seq = seq
        self.chain = link
        self.size = size
        """Bytes of all events of the run, blobs included."""
        self.tail: list[Entry] = []
        """The newest events: those not on disk yet, and some that are, for followers close behind."""
        self.queued = False
        """The writer knows that there is something to write."""
        self.blobs: dict[str, bytes] = {}
        """What the next append carries."""
        self.writing: dict[str, bytes] = {}
        """What an append that is on its way to the disk carries; if it comes to nothing, so does the next."""
        self.decided: list[tuple[int, bytes]] = []
        """Commands of the store, by position, and what became of each: what the next append says of them."""
        self.telling: tuple[tuple[int, bytes], ...] = ()
        """What an append that is on its way to the disk says of them."""
        self.oldest_s = 0.0
        """Monotonic time of the first event that is not on disk yet."""
        self._untold: bytes | None = None
        """The line of an append that is on its way to the disk."""
        self.headline: Callable[[], bytes | None] = _nothing
        """Makes the run's line in lists; None: the one before will do."""
        self.on_durable: Callable[[], None] = _nothing
        self.on_decided: Callable[[Sequence[tuple[int, bytes]]], None] = _ignore
        """Called with what became of commands of the store, once that is on disk."""
        self.on_lost: Callable[[Exception], None] = _ignore

    @property
    def behind(self) -> int:
        """Events not on disk yet."""
        return self.seq - self.durable_seq

    def append(self, events: Sequence[Event], at: int, blobs: dict[str, bytes]) -> None:
        """Number and chain `events`. They are not on disk before the writer says so."""
        if self.seq == self.durable_seq:
            self.oldest_s = self._now_s()
        seq, link, size = self.seq, self.chain, self.size
        if blobs:  # before the events that name them: no commit must find those alone
            self.blobs.update(blobs)
            size += sum(map(len, blobs.values()))
        epoch, before = self.lease.epoch, len(self.tail)
        add = self.tail.append
        try:
            for event in events:
                data = encode_event(event)
                seq += 1
                # The journal's `chain`, spelled out: this is the hottest line of the engine.
                link = crc32(data, crc32(_header(seq, epoch, at), link))
                add(Entry(seq, epoch, at, data, link))
                size += len(data)
        except BaseException:  # no memory, for one
            del self.tail[before:]
            raise
        self.seq, self.chain, self.size = seq, link, size

    def copy(self, told: Sequence[tuple[int, bytes]], blobs: dict[str, bytes]) -> None:
        """Number and chain events that another log has, each with its time and its very bytes."""
        self.oldest_s = self._now_s()
        self.blobs.update(blobs)
        self.size += sum(map(len, blobs.values()))
        epoch = self.lease.epoch
        for at, data in told:
            self.seq += 1
            self.chain = chain(self.chain, self.seq, epoch, at, data)
            self.tail.append(Entry(self.seq, epoch, at, data, self.chain))
            self.size += len(data)

    def pending(self) -> Append:
        """What is to be written now, with all that the append before carried if that came to nothing."""
        self.queued = False
        entries = self.tail[self.durable_seq - self.seq :] if self.seq != self.durable_seq else []
        blobs = {**self.writing, **self.blobs} if self.writing else self.blobs
        self._untold = self.headline() or self._untold
        if self.decided:
            self.telling, self.decided = (*self.telling, *self.decided), []
        lease, line = self.lease, self._untold
        append = Append(lease.run_id, lease.epoch, self.durable_seq, entries, blobs, line, self.telling)
        self.writing, self.blobs = blobs, {}
        return append

    def written(self, append: Append) -> None:
        """`append` is on disk."""
        self.writing = {}
        self.telling = ()
        self._untold = None
        if append.entries:
            self.durable_seq = append.entries[-1].seq
            if self.durable_seq < self.seq:
                self.oldest_s = self._now_s()
            if len(self.tail) > 2 * TAIL_EVENTS + self.behind:
                self.tail = self.tail[-TAIL_EVENTS - self.behind :]
        if append.decisions:
            self.on_decided(append.decisions)
        self.on_durable()


def _nothing() -> None:
    return None


def _ignore(_: object) -> None:
    return None
