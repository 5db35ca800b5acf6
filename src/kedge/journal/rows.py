"""Rows of runs in the SQLite file: how they are found, checked, written and deleted.

Functions over an open connection, inside somebody else's transaction.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from itertools import starmap
from typing import Any
from zlib import crc32

import apsw
import msgspec

from kedge.base.errors import StoreDamaged, StoreError
from kedge.base.failpoints import armed, reach
from kedge.journal.command_rows import decide_commands
from kedge.journal.db import UNREADABLE, Db
from kedge.journal.entry import Append, Entry, Head, advance
from kedge.journal.faults import damaged, no_such_run, not_claimed, overtaken, replaced
from kedge.journal.ownership import Owner, is_another_live_process, owned_by, this_process
from kedge.journal.schema import SQL

SEQ_BITS = 32
SEQ_MAX = 2**SEQ_BITS - 1

_APPEND_EVENT, _MOVE_HEAD_FROM = SQL["append_event"], SQL["move_head_from"]

_row_numbers = struct.Struct(">QQQQQQ").pack


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """A run's row: its key in the other tables, and whether its own bytes are what was written."""

    key: int
    sound: bool
    head: Head


def take_over(db: Db, run_id: str, now_ms: int, port: int) -> int:
    """Write down that this process has the run, and listens there; its new epoch."""
    refuse_if_alive(db, run_id)
    row = find_run(db, run_id)
    if row is None:
        head = Head(run_id, epoch=1, created_at=now_ms, updated_at=now_ms)
        key = _add_run(db, head)
    else:
        head = msgspec.structs.replace(_sound(row), epoch=row.head.epoch + 1)
        key = row.key
        _move_head(db, key, head)
    db.execute(SQL["put_owner"], (key, *this_process(now_ms)._replace(port=port)))
    if armed:
        reach("journal.claim.written")
    return head.epoch


def append_all(db: Db, appends: Sequence[Append], known: Mapping[str, RunRow]) -> dict[str, RunRow]:
    """Write the appends; the rows of their runs as they are then."""
    rows: dict[str, RunRow] = {}
    for append in appends:
        run_id = append.run_id
        row = rows.get(run_id) or known.get(run_id) or find_run(db, run_id)
        if row is None:
            raise not_claimed(run_id)
        rows[run_id] = _append(db, row, append)
    for run_id, row in rows.items():
        _move_on(db, row, known.get(run_id))
    if armed:
        reach("journal.append.heads")
    return rows


def find_run(db: Db, run_id: str) -> RunRow | None:
    """The row of a run; None if there is no such run."""
    try:
        found = db.execute(SQL["find_run"], (run_id,)).fetchall()
    except UNREADABLE as error:
        return find_in_table(db, run_id, error)
    row = run_row(found[0]) if found else None
    if row is None:
        if db.execute(SQL["find_key"], (run_id,)).fetchall():
            raise damaged(run_id, 0, "its row is missing")
        return None
    if row.head.run_id == run_id and row.sound:
        return row
    by_name = find_in_table(db, run_id, None)
    if by_name is not None:
        return by_name
    if row.sound:
        raise damaged(run_id, 0, f"its row is missing: run {row.head.run_id} is in its place")
    return RunRow(row.key, sound=False, head=Head(run_id, damaged=row.head.damaged))


def existing(db: Db, run_id: str) -> RunRow:
    """The row of a run that must be there."""
    row = find_run(db, run_id)
    if row is None:
        raise no_such_run(run_id)
    return row


def find_in_table(db: Db, run_id: str, cause: Exception | None) -> RunRow | None:
    """Slow, and right where the index of names is what is damaged."""
    try:
        found = db.execute(SQL["find_run_in_table"], (run_id,)).fetchall()
    except UNREADABLE as error:
        cause, found = error, []
    if found:
        return min(map(run_row, found), key=lambda row: not row.sound)
    if cause is None:
        return None
    raise damaged(run_id, 0, f"its row cannot be read: {cause}") from cause


def find_run_anyhow(db: Db, run_id: str) -> RunRow | None:
    """For reading: by the index, in the table, and at last by the key alone, which is what events go by."""
    try:
        return find_run(db, run_id) or find_in_table(db, run_id, None)
    except StoreDamaged as damage:
        key = _key_alone(db, run_id)
        if key is None:
            raise
        return RunRow(key, sound=False, head=Head(run_id, damaged=damage.message))


def _key_alone(db: Db, run_id: str) -> int | None:
    """By the index, if no other run has its events there."""
    keys: list[tuple[int]] = []
    try:
        keys = db.execute(SQL["find_key"], (run_id,)).fetchall()
        rows = [run_row(fields) for key in keys for fields in db.execute(SQL["find_by_key"], key).fetchall()]
    except UNREADABLE:
        rows = []
    return None if not keys or any(row.sound for row in rows) else keys[0][0]


def run_row(fields: tuple[Any, ...]) -> RunRow:
    """The row that these columns are, and whether they are what was written."""
    key, crc, *values = fields
    head = Head(*values)
    try:
        sound = crc == _crc(head)
    except (TypeError, AttributeError, struct.error):  # a flipped byte can change a value's type
        sound = False
    if sound:
        return RunRow(key, sound, head)
    return RunRow(key, sound, Head(str(head.run_id), damaged="its row is not what was written"))


def _crc(head: Head) -> int:
    numbers = _row_numbers(head.seq, head.chain, head.epoch, head.created_at, head.updated_at, head.bytes)
    return crc32(head.headline, crc32(numbers, crc32(head.run_id.encode())))


def _sound(row: RunRow) -> Head:
    if not row.sound:
        raise damaged(row.head.run_id, 0, row.head.damaged)
    return row.head


def _add_run(db: Db, head: Head) -> int:
    db.execute(
        SQL["add_run"],
        (
            _crc(head), head.run_id, head.seq, head.chain, head.epoch,
            head.headline, head.created_at, head.updated_at, head.bytes,
        ),
    )  # fmt: skip
    return db.last_insert_rowid()


def _standing(head: Head) -> tuple[Any, ...]:
    """What of its row moves on with a run."""
    return (_crc(head), head.seq, head.chain, head.epoch, head.headline, head.updated_at, head.bytes)


def _move_head(db: Db, key: int, head: Head) -> None:
    db.execute(SQL["move_head"], (*_standing(head), key))


def _move_on(db: Db, row: RunRow, known: RunRow | None) -> None:
    """Write where the run stands now, if it still stands where it was known to."""
    if known is None:  # its row was read in this transaction
        _move_head(db, row.key, row.head)
        return
    was = known.head
    db.execute(_MOVE_HEAD_FROM, (*_standing(row.head), row.key, was.epoch, was.seq, was.chain))
    if db.changes() == 1:
        return
    found = find_run(db, was.run_id)
    if found is None:
        raise not_claimed(was.run_id)
    now = _sound(found)
    if now.epoch != was.epoch:
        raise replaced(was.run_id, was.epoch, now.epoch)
    raise overtaken(was.run_id, was.seq, now.seq)


def _append(db: Db, row: RunRow, append: Append) -> RunRow:
    head = advance(_sound(row), append)
    if head.seq > SEQ_MAX:
        raise StoreError(
            f"a run has at most {SEQ_MAX:,} events", code="store_too_big", where=f"run {head.run_id}"
        )
    base = row.key << SEQ_BITS
    try:
        rows = [(base + e.seq, e.epoch, e.at, e.data, e.chain) for e in append.entries]
        db.executemany(_APPEND_EVENT, _told(rows) if armed else rows)
        size = 0
        for sha, content in append.blobs.items():
            size += _add_blob(db, row.key, sha, content)
            if armed:
                reach("journal.append.blob")
        if append.decisions:
            decide_commands(db, row.key, append.decisions)
    except apsw.ConstraintError as error:
        raise damaged(head.run_id, row.head.seq + 1, "there is an event after the run's last one") from error
    except UNREADABLE as error:
        raise damaged(head.run_id, row.head.seq + 1, f"no event can be added: {error}") from error
    if size:
        head = msgspec.structs.replace(head, bytes=head.bytes + size)
    return RunRow(row.key, row.sound, head)


def _told(rows: list[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The rows of events, with a place after each that was inserted."""
    for row in rows:
        yield row
        reach("journal.append.event")


def _add_blob(db: Db, key: int, sha: str, content: bytes) -> int:
    """Store and refer to a blob; its size if it is new to the run."""
    name = bytes.fromhex(sha)
    db.execute(SQL["add_blob"], (name, content))
    db.execute(SQL["refer_to_blob"], (key, name))
    return len(content) if db.changes() else 0


def have_landed(db: Db, appends: Sequence[Append]) -> bool:
    """Whether a transaction of unknown outcome happened: its events say so, each has only one place."""
    told = [append for append in appends if append.entries]
    return bool(told) and all(_has_last(db, append) for append in told)


def _has_last(db: Db, append: Append) -> bool:
    row, last = find_run(db, append.run_id), append.entries[-1]
    if row is None:
        return False
    found = db.execute(SQL["event_link"], ((row.key << SEQ_BITS) | last.seq,)).fetchall()
    return found == [(last.epoch, last.chain)]


def fetch_entries(db: Db, key: int, first: int, last: int) -> tuple[list[Entry], str]:
    """Entries from the file, as far as it can be read, and what stopped it."""
    entries: list[Entry] = []
    base = key << SEQ_BITS
    try:
        entries.extend(starmap(Entry, db.execute(SQL["read_events"], (base + first, base + last))))
    except UNREADABLE as error:
        return entries, str(error)
    return entries, ""


def runs_one_by_one(db: Db) -> list[Head]:
    """The list when the table cannot be read in one go: ids from its index, then each row by itself."""
    heads: list[Head] = []
    for (run_id,) in db.execute(SQL["list_run_ids"]).fetchall():
        try:
            heads.append(existing(db, run_id).head)
        except StoreDamaged as damage:
            heads.append(Head(run_id, damaged=damage.message))
    return sorted(heads, key=lambda head: head.created_at, reverse=True)


def find_owner(db: Db, run_id: str) -> Owner | None:
    """Who has claimed the run, as far as is written down."""
    found = db.execute(SQL["find_owner"], (run_id,)).fetchall()
    return Owner(*found[0]) if found else None


def refuse_if_alive(db: Db, run_id: str) -> None:
    """NotOwner if another process that is still there has the run."""
    owner = find_owner(db, run_id)
    if owner is not None and is_another_live_process(owner):
        raise owned_by(run_id, owner)


def delete_run(db: Db, run_id: str, key: int) -> None:
    """Take out all that the run wrote."""
    base = key << SEQ_BITS
    db.execute(SQL["drop_owner"], (run_id,))
    db.execute(SQL["delete_events"], (base, base + SEQ_MAX))
    db.execute(SQL["delete_commands"], (key,))
    db.execute(SQL["delete_blobs_of_run"], (key,))
    db.execute(SQL["delete_refs"], (key,))
    db.execute(SQL["delete_run"], (key,))


def sha_bytes(sha: str) -> bytes:
    """The name of a blob as it is stored."""
    try:
        return bytes.fromhex(sha)
    except ValueError:
        return b""  # no blob has that name
