"""A journal in one SQLite file: durable when `commit` returns, shared by any number of processes."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import starmap
from pathlib import Path
from typing import Any
from zlib import crc32

import apsw
import msgspec

from kedge.base.errors import StoreDamaged, StoreError
from kedge.base.failpoints import armed, reach
from kedge.base.ids import run_id as checked_run_id
from kedge.journal.db import UNREADABLE, Db
from kedge.journal.entry import Append, Entry, Head, Lease, advance, verify
from kedge.journal.faults import checked_blob, damaged, from_os, no_such_run, not_claimed, overtaken, replaced
from kedge.journal.ownership import Owner, RunLocks, is_another_live_process, owned_by, this_process
from kedge.journal.schema import SQL
from kedge.journal.sqlite_file import BUSY_S, SqliteFile

_SEQ_BITS = 32
_SEQ_MAX = 2**_SEQ_BITS - 1

_LOOKS = 5

_APPEND_EVENT, _MOVE_HEAD_FROM = SQL["append_event"], SQL["move_head_from"]

_row_numbers = struct.Struct(">QQQQQQ").pack


class _RunRow(msgspec.Struct, frozen=True, gc=False):
    """A run's row: its key in the other tables, and whether its own bytes are what was written."""

    key: int
    sound: bool
    head: Head


class SqliteJournal:
    """The runs in one file. `wal=False` is for file systems without shared memory: one process only."""

    durable = True

    def __init__(self, path: str | Path, *, wal: bool = True) -> None:
        self._file = SqliteFile(Path(path), wal=wal)
        self._locks = RunLocks(Path(f"{self._file.path}.locks"))
        self._epochs: dict[str, int] = {}
        """Of the leases held here, by run."""
        self._rows: dict[str, _RunRow] = {}
        """Rows of those runs as the last commit left them. Nobody else may have moved them since: the
        update that moves one on says from where, and without a row there the commit fails."""

    def claim(self, run_id: str, now_ms: int) -> Lease:
        """The run is ours, with a new epoch; NotOwner names the process that has it."""
        checked_run_id(run_id)
        if armed:
            reach("journal.claim.before")
        try:
            self._take_lock(run_id)
        except OSError as error:
            raise from_os(error, f"{self._file.path}.locks") from error
        try:
            if armed:
                reach("journal.claim.locked")
            epoch = self._file.write(lambda db: _own(db, run_id, now_ms))
            if armed:
                reach("journal.claim.owned")
        except BaseException:
            self._locks.drop(run_id)
            raise
        self._epochs[run_id] = epoch
        return Lease(run_id, epoch)

    def _take_lock(self, run_id: str) -> None:
        """Whoever only looks whether a run is driven holds its lock for a moment: that is waited for."""
        for _ in range(_LOOKS):
            if self._locks.take(run_id):
                return
            owner = self._owner(run_id)
            if owner is not None:
                break
            time.sleep(0.001)
        raise owned_by(run_id, self._owner(run_id))

    def driven(self, run_id: str) -> bool:
        """Whether a process, this one included, drives the run at this moment."""
        try:
            return self._locks.is_taken(run_id)
        except OSError as error:
            raise from_os(error, f"{self._file.path}.locks") from error

    def release(self, lease: Lease) -> None:
        """The run is free; nothing happens if the lease is not held here any more."""
        if self._epochs.get(lease.run_id) == lease.epoch:
            self._release([lease.run_id])

    def commit(self, appends: Sequence[Append], patience_s: float = BUSY_S) -> None:
        """One transaction for all of them: when it returns they are on disk.

        Another process that writes is waited for as long as `patience_s`.
        """
        for append in appends:
            if append.run_id not in self._epochs:
                raise not_claimed(append.run_id)
        if not appends:
            return
        known = self._rows
        if armed:
            reach("journal.commit.before")
        try:
            rows = self._file.write(
                lambda db: _append_all(db, appends, known), lambda db: _landed(db, appends), patience_s
            )
        except BaseException:
            known.clear()  # where they stand now, the file must tell
            raise
        if armed:
            reach("journal.commit.after")
        known.update(rows)

    def head(self, run_id: str) -> Head | None:
        """Where the run stands; None if there is no such run."""
        with self._file.reading() as db:
            row = _find_run(db, run_id)
            if row is None and _find_in_table(db, run_id, None) is not None:
                # Whoever took it for a new one would do everything again.
                raise damaged(run_id, 0, "the index of names has lost it")
        return row and row.head

    def read(self, run_id: str, after_seq: int = 0, limit: int | None = None) -> list[Entry]:
        """The run's entries after a position, each checked."""
        entries, damage, mark = self._scan(run_id, after_seq, limit)
        if damage is not None:
            self._mark(run_id, damage.message)
            raise damage
        if mark and after_seq == 0 and limit is None:
            self._mark(run_id, "")
        return entries

    def good_prefix(self, run_id: str) -> list[Entry]:
        """The entries before the first damage: all of them, if there is none."""
        return self._scan(run_id, 0, None)[0]

    def blob(self, sha: str) -> bytes:
        """A large value by its SHA-256."""
        with self._file.reading() as db:
            found = db.execute(SQL["find_blob"], (_sha_bytes(sha),)).fetchall()
        return checked_blob(sha, found[0][0] if found else None)

    def has_blob(self, sha: str) -> bool:
        with self._file.reading() as db:
            return bool(db.execute(SQL["has_blob"], (_sha_bytes(sha),)).fetchall())

    def runs(self) -> list[Head]:
        """Every run, newest first."""
        with self._file.reading() as db:
            try:
                return [_row(fields).head for fields in db.execute(SQL["list_runs"]).fetchall()]
            except UNREADABLE:
                return _runs_one_by_one(db)

    def delete(self, run_ids: Iterable[str]) -> None:
        """Forget runs with their events, and the blobs that nobody refers to any more."""
        self._file.write(lambda db: self._delete_all(db, dict.fromkeys(run_ids)))
        if armed:
            reach("journal.delete.after")

    def _delete_all(self, db: Db, run_ids: Iterable[str]) -> None:
        # Inside the transaction: who takes a lock from here on waits for us to be done, and then
        # finds no such run.
        for run_id in run_ids:
            row = _existing(db, run_id)
            if self._locks.is_taken(run_id):
                raise owned_by(run_id, _find_owner(db, run_id))
            _refuse_if_alive(db, run_id)
            _delete(db, run_id, row.key)
            if armed:
                reach("journal.delete.gone")

    def vacuum(self) -> int:
        """Sweep blobs without a run and give free pages back; the bytes that were freed."""
        self._file.write(lambda db: db.execute(SQL["delete_orphan_blobs"]))
        if armed:
            reach("journal.vacuum.swept")
        return self._file.compact()

    def data_version(self) -> int:
        """Changes when another process has committed."""
        return self._file.data_version()

    def stats(self) -> dict[str, Any]:
        """Facts for a health report."""
        with self._file.reading() as db:
            runs, blobs, size = db.execute(SQL["count_rows"]).fetchall()[0]
        return {"store": "sqlite", "runs": runs, "blobs": blobs, "bytes": size, **self._file.facts()}

    def close(self) -> None:
        """Release every lease and let go of the file."""
        try:
            if self._epochs:
                self._release(list(self._epochs))
            self._locks.sweep()
        finally:
            self._file.close()

    def _release(self, run_ids: list[str]) -> None:
        if armed:
            reach("journal.release.before")
        try:
            self._file.write(lambda db: db.executemany(SQL["drop_owner"], [(run_id,) for run_id in run_ids]))
            if armed:
                reach("journal.release.unowned")
        finally:  # the lock decides: a row left behind only names a process that has none
            for run_id in run_ids:
                del self._epochs[run_id]
                self._rows.pop(run_id, None)
                self._locks.drop(run_id)
        if armed:
            reach("journal.release.after")

    def _owner(self, run_id: str) -> Owner | None:
        with self._file.reading() as db:
            return _find_owner(db, run_id)

    def _scan(
        self, run_id: str, after_seq: int, limit: int | None
    ) -> tuple[list[Entry], StoreDamaged | None, str]:
        """What can be read and is sound, the damage that ended it, and the mark the run bears."""
        if armed:
            reach("journal.read")
        with self._file.reading() as db:
            row = _find_run_anyhow(db, run_id)
            if row is None:
                raise no_such_run(run_id)
            last_seq = row.head.seq if row.sound else _SEQ_MAX
            stop = last_seq if limit is None else min(last_seq, after_seq + limit)
            if after_seq >= stop and row.sound:
                return [], None, row.head.damaged
            entries, fault = _fetch(db, row.key, max(after_seq, 1), stop)
        previous = 0
        if after_seq > 0:  # the entry before the first wanted one has the chain value to go on from
            if not entries or entries[0].seq != after_seq:
                return [], damaged(run_id, after_seq, fault or "the event is missing"), ""
            previous = entries.pop(0).chain
        try:
            last_chain = verify(entries, previous, after_seq + 1, run_id)
        except StoreDamaged as damage:
            return entries[: damage.seq - after_seq - 1], damage, ""
        reached = after_seq + len(entries)
        if not row.sound:
            return entries, damaged(run_id, 0, row.head.damaged), ""
        if reached < stop:
            return entries, damaged(run_id, reached + 1, fault or "the event is missing"), ""
        if reached == last_seq and last_chain != row.head.chain:
            return entries[:-1], damaged(run_id, reached, "it is not the event that was written last"), ""
        return entries, None, row.head.damaged

    def _mark(self, run_id: str, what: str) -> None:
        # Only for lists, and the damage itself is being reported: a store that cannot take it may fail.
        with suppress(StoreError):
            if armed:
                reach("journal.mark.before")
            self._file.write(lambda db: db.execute(SQL["mark_damaged"], (what, run_id)))
            if armed:
                reach("journal.mark.after")


def _own(db: Db, run_id: str, now_ms: int) -> int:
    """Write down that this process has the run; its new epoch."""
    _refuse_if_alive(db, run_id)
    row = _find_run(db, run_id)
    if row is None:
        head = Head(run_id, epoch=1, created_at=now_ms, updated_at=now_ms)
        key = _add_run(db, head)
    else:
        head = msgspec.structs.replace(_sound(row), epoch=row.head.epoch + 1)
        key = row.key
        _move_head(db, key, head)
    db.execute(SQL["put_owner"], (key, *this_process(now_ms)))
    if armed:
        reach("journal.claim.written")
    return head.epoch


def _append_all(db: Db, appends: Sequence[Append], known: Mapping[str, _RunRow]) -> dict[str, _RunRow]:
    """Write the appends; the rows of their runs as they are then."""
    rows: dict[str, _RunRow] = {}
    for append in appends:
        run_id = append.run_id
        row = rows.get(run_id) or known.get(run_id) or _find_run(db, run_id)
        if row is None:
            raise not_claimed(run_id)
        rows[run_id] = _append(db, row, append)
    for run_id, row in rows.items():
        _move_on(db, row, known.get(run_id))
    if armed:
        reach("journal.append.heads")
    return rows


def _find_run(db: Db, run_id: str) -> _RunRow | None:
    try:
        found = db.execute(SQL["find_run"], (run_id,)).fetchall()
    except UNREADABLE as error:
        return _find_in_table(db, run_id, error)
    row = _row(found[0]) if found else None
    if row is None:
        if db.execute(SQL["find_key"], (run_id,)).fetchall():
            raise damaged(run_id, 0, "its row is missing")
        return None
    if row.head.run_id == run_id and row.sound:
        return row
    by_name = _find_in_table(db, run_id, None)
    if by_name is not None:
        return by_name
    if row.sound:
        raise damaged(run_id, 0, f"its row is missing: run {row.head.run_id} is in its place")
    return _RunRow(row.key, sound=False, head=Head(run_id, damaged=row.head.damaged))


def _existing(db: Db, run_id: str) -> _RunRow:
    row = _find_run(db, run_id)
    if row is None:
        raise no_such_run(run_id)
    return row


def _find_in_table(db: Db, run_id: str, cause: Exception | None) -> _RunRow | None:
    """Slow, and right where the index of names is what is damaged."""
    try:
        found = db.execute(SQL["find_run_in_table"], (run_id,)).fetchall()
    except UNREADABLE as error:
        cause, found = error, []
    if found:
        return min(map(_row, found), key=lambda row: not row.sound)
    if cause is None:
        return None
    raise damaged(run_id, 0, f"its row cannot be read: {cause}") from cause


def _find_run_anyhow(db: Db, run_id: str) -> _RunRow | None:
    """For reading: by the index, in the table, and at last by the key alone, which is what events go by."""
    try:
        return _find_run(db, run_id) or _find_in_table(db, run_id, None)
    except StoreDamaged as damage:
        key = _key_alone(db, run_id)
        if key is None:
            raise
        return _RunRow(key, sound=False, head=Head(run_id, damaged=damage.message))


def _key_alone(db: Db, run_id: str) -> int | None:
    """By the index, if no other run has its events there."""
    keys: list[tuple[int]] = []
    try:
        keys = db.execute(SQL["find_key"], (run_id,)).fetchall()
        rows = [_row(fields) for key in keys for fields in db.execute(SQL["find_by_key"], key).fetchall()]
    except UNREADABLE:
        rows = []
    return None if not keys or any(row.sound for row in rows) else keys[0][0]


def _row(fields: tuple[Any, ...]) -> _RunRow:
    key, crc, *values = fields
    head = Head(*values)
    try:
        sound = crc == _crc(head)
    except (TypeError, AttributeError, struct.error):  # a flipped byte can change a value's type
        sound = False
    if sound:
        return _RunRow(key, sound, head)
    return _RunRow(key, sound, Head(str(head.run_id), damaged="its row is not what was written"))


def _crc(head: Head) -> int:
    numbers = _row_numbers(head.seq, head.chain, head.epoch, head.created_at, head.updated_at, head.bytes)
    return crc32(head.headline, crc32(numbers, crc32(head.run_id.encode())))


def _sound(row: _RunRow) -> Head:
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


def _move_on(db: Db, row: _RunRow, known: _RunRow | None) -> None:
    """Write where the run stands now, if it still stands where it was known to."""
    if known is None:  # its row was read in this transaction
        _move_head(db, row.key, row.head)
        return
    was = known.head
    db.execute(_MOVE_HEAD_FROM, (*_standing(row.head), row.key, was.epoch, was.seq, was.chain))
    if db.changes() == 1:
        return
    found = _find_run(db, was.run_id)
    if found is None:
        raise not_claimed(was.run_id)
    now = _sound(found)
    if now.epoch != was.epoch:
        raise replaced(was.run_id, was.epoch, now.epoch)
    raise overtaken(was.run_id, was.seq, now.seq)


def _append(db: Db, row: _RunRow, append: Append) -> _RunRow:
    head = advance(_sound(row), append)
    if head.seq > _SEQ_MAX:
        raise StoreError(
            f"a run has at most {_SEQ_MAX:,} events", code="store_too_big", where=f"run {head.run_id}"
        )
    base = row.key << _SEQ_BITS
    try:
        rows = [(base + e.seq, e.epoch, e.at, e.data, e.chain) for e in append.entries]
        db.executemany(_APPEND_EVENT, _told(rows) if armed else rows)
        size = 0
        for sha, content in append.blobs.items():
            size += _add_blob(db, row.key, sha, content)
            if armed:
                reach("journal.append.blob")
    except apsw.ConstraintError as error:
        raise damaged(head.run_id, row.head.seq + 1, "there is an event after the run's last one") from error
    except UNREADABLE as error:
        raise damaged(head.run_id, row.head.seq + 1, f"no event can be added: {error}") from error
    if size:
        head = msgspec.structs.replace(head, bytes=head.bytes + size)
    return _RunRow(row.key, row.sound, head)


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


def _landed(db: Db, appends: Sequence[Append]) -> bool:
    """Whether a transaction of unknown outcome happened: its events say so, each has only one place."""
    told = [append for append in appends if append.entries]
    return bool(told) and all(_has_last(db, append) for append in told)


def _has_last(db: Db, append: Append) -> bool:
    row, last = _find_run(db, append.run_id), append.entries[-1]
    if row is None:
        return False
    found = db.execute(SQL["event_link"], ((row.key << _SEQ_BITS) | last.seq,)).fetchall()
    return found == [(last.epoch, last.chain)]


def _fetch(db: Db, key: int, first: int, last: int) -> tuple[list[Entry], str]:
    """Entries from the file, as far as it can be read, and what stopped it."""
    entries: list[Entry] = []
    base = key << _SEQ_BITS
    try:
        entries.extend(starmap(Entry, db.execute(SQL["read_events"], (base + first, base + last))))
    except UNREADABLE as error:
        return entries, str(error)
    return entries, ""


def _runs_one_by_one(db: Db) -> list[Head]:
    """The list when the table cannot be read in one go: ids from its index, then each row by itself."""
    heads: list[Head] = []
    for (run_id,) in db.execute(SQL["list_run_ids"]).fetchall():
        try:
            heads.append(_existing(db, run_id).head)
        except StoreDamaged as damage:
            heads.append(Head(run_id, damaged=damage.message))
    return sorted(heads, key=lambda head: head.created_at, reverse=True)


def _find_owner(db: Db, run_id: str) -> Owner | None:
    found = db.execute(SQL["find_owner"], (run_id,)).fetchall()
    return Owner(*found[0]) if found else None


def _refuse_if_alive(db: Db, run_id: str) -> None:
    owner = _find_owner(db, run_id)
    if owner is not None and is_another_live_process(owner):
        raise owned_by(run_id, owner)


def _delete(db: Db, run_id: str, key: int) -> None:
    base = key << _SEQ_BITS
    db.execute(SQL["drop_owner"], (run_id,))
    db.execute(SQL["delete_events"], (base, base + _SEQ_MAX))
    db.execute(SQL["delete_blobs_of_run"], (key,))
    db.execute(SQL["delete_refs"], (key,))
    db.execute(SQL["delete_run"], (key,))


def _sha_bytes(sha: str) -> bytes:
    try:
        return bytes.fromhex(sha)
    except ValueError:
        return b""  # no blob has that name
