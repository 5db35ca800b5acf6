"""What goes into a journal, what comes out, and the chain that shows if a byte has changed.

Each entry carries a CRC over the chain value before it, its own header and its exact bytes. A
database's own checks find a broken page; they call a flipped byte inside a value fine. CRC-32 and
not a cryptographic hash: this guards against faults, not against forgers who could rewrite the
whole chain anyway, and it is computed for every event on the hot path (0.3 µs).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple
from zlib import crc32

import msgspec

from kedge.base.errors import InternalError
from kedge.journal.faults import damaged, overtaken, replaced

_header = struct.Struct(">QQQ").pack


class Entry(msgspec.Struct, frozen=True, gc=False):
    """One event as it is stored.

    Not a tuple: the garbage collector would go through a million of them again and again, which
    took ten times as long as making them.
    """

    seq: int
    """1, 2, 3 … without gaps."""
    epoch: int
    """Of the lease it was written under."""
    at: int
    """Wall time in ms."""
    data: bytes
    chain: int


class Append(NamedTuple):
    """Events of one run that become durable together."""

    run_id: str
    epoch: int
    after_seq: int
    entries: list[Entry]
    blobs: dict[str, bytes]
    """Content by SHA-256 (hex): everything the entries refer to."""
    headline: bytes | None
    """What lists show of the run, opaque here; None leaves it as it is."""
    decisions: tuple[tuple[int, bytes], ...] = ()
    """Commands by position, and what the entries make of each, opaque here."""


class Sent(NamedTuple):
    """A command for a run, from whoever does not drive it."""

    run_id: str
    id: str
    """The same id again is the same command again."""
    port: int
    """Where its sender listens; 0: nowhere."""
    at: int
    """When it was sent, in ms."""
    data: bytes


class Posted(msgspec.Struct, frozen=True, gc=False):
    """A command as it is stored."""

    position: int
    """Grows with each command of the store."""
    run_id: str
    id: str
    port: int
    at: int
    data: bytes
    decision: bytes | None = None
    """None: nobody has decided on it."""
    damaged: bool = False
    """Its bytes are not what was written."""


class Lease(NamedTuple):
    """The right to append to a run."""

    run_id: str
    epoch: int


class Head(msgspec.Struct, frozen=True, gc=False):
    """Where a run stands."""

    run_id: str
    seq: int = 0
    """Of its last entry; 0 is an empty run."""
    chain: int = 0
    epoch: int = 0
    headline: bytes = b""
    created_at: int = 0
    updated_at: int = 0
    bytes: int = 0
    """What the run has written: events, and blobs when it first refers to them."""
    damaged: str = ""
    """What is wrong with the run, empty if nothing is known to be."""


def chain(prev: int, seq: int, epoch: int, at: int, data: bytes) -> int:
    """The chain value of an entry that follows one with chain value `prev` (0 for the first)."""
    return crc32(data, crc32(_header(seq, epoch, at), prev))


def verify(entries: Sequence[Entry], prev_chain: int, first_seq: int, run_id: str) -> int:
    """The last chain value of `entries`, or StoreDamaged with the first bad seq."""
    crc, header = crc32, _header  # a million of them are checked on a long resume: locals are a fifth faster
    previous, due = prev_chain, first_seq
    try:
        for entry in entries:
            if entry.seq != due:
                raise damaged(run_id, due, "the event is missing")
            previous = crc(entry.data, crc(header(due, entry.epoch, entry.at), previous))
            if previous != entry.chain:
                raise damaged(run_id, due, "its bytes are not what was written")
            due += 1
    except (TypeError, struct.error) as error:  # a flipped bit makes a text of bytes, or nothing of a number
        raise damaged(run_id, due, "its bytes are not what was written") from error
    return previous


def advance(head: Head, append: Append) -> Head:
    """`head` after `append`, or NotOwner if the append does not belong at this place.

    Sizes of blobs are left to the store: only it knows which of them are new to the run.
    """
    if append.epoch != head.epoch:
        raise replaced(head.run_id, append.epoch, head.epoch)
    if append.after_seq != head.seq:
        raise overtaken(head.run_id, append.after_seq, head.seq)
    entries = append.entries
    headline = head.headline if append.headline is None else append.headline
    if not entries:
        return msgspec.structs.replace(head, headline=headline)
    first, last = entries[0], entries[-1]
    # The ends only: checking every link again would cost as much as making it.
    if (
        first.seq != head.seq + 1
        or last.seq != head.seq + len(entries)
        or first.epoch != head.epoch
        or first.chain != chain(head.chain, first.seq, first.epoch, first.at, first.data)
    ):
        raise InternalError(f"run {head.run_id}: events to append do not continue its chain at {head.seq}")
    size = head.bytes
    for entry in entries:
        size += len(entry.data)
    return Head(
        head.run_id, last.seq, last.chain, head.epoch, headline, head.created_at, last.at, size, head.damaged
    )
