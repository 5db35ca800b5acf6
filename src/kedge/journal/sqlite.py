"""A journal in one SQLite file: durable when `commit` returns, shared by any number of processes."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from kedge.base.errors import StoreDamaged, StoreError
from kedge.base.failpoints import armed, reach
from kedge.base.ids import run_id as checked_run_id
from kedge.journal.command_rows import (
    find_command,
    find_decisions,
    have_arrived,
    post_commands,
    undecided_commands,
)
from kedge.journal.db import UNREADABLE, Db
from kedge.journal.entry import Append, Entry, Head, Lease, Posted, Sent, verify
from kedge.journal.faults import checked_blob, damaged, from_os, no_such_run, not_claimed
from kedge.journal.ownership import Owner, RunLocks, owned_by
from kedge.journal.rows import (
    SEQ_MAX,
    RunRow,
    append_all,
    delete_run,
    existing,
    fetch_entries,
    find_in_table,
    find_owner,
    find_run,
    find_run_anyhow,
    have_landed,
    refuse_if_alive,
    run_row,
    runs_one_by_one,
    sha_bytes,
    take_over,
)
from kedge.journal.schema import SQL
from kedge.journal.sqlite_file import BUSY_S, SqliteFile

_LOOKS = 5


class SqliteJournal:
    """The runs in one file. `wal=False` is for file systems without shared memory: one process only."""

    durable = True

    def __init__(self, path: str | Path, *, wal: bool = True) -> None:
        self._file = SqliteFile(Path(path), wal=wal)
        self._locks = RunLocks(Path(f"{self._file.path}.locks"))
        self._epochs: dict[str, int] = {}
        """Of the leases held here, by run."""
        self._rows: dict[str, RunRow] = {}
        """Rows of those runs as the last commit left them. Nobody else may have moved them since: the
        update that moves one on says from where, and without a row there the commit fails."""

    def claim(self, run_id: str, now_ms: int, port: int = 0) -> Lease:
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
            epoch = self._file.write(lambda db: take_over(db, run_id, now_ms, port))
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
                lambda db: append_all(db, appends, known), lambda db: have_landed(db, appends), patience_s
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
            row = find_run(db, run_id)
            if row is None and find_in_table(db, run_id, None) is not None:
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
            found = db.execute(SQL["find_blob"], (sha_bytes(sha),)).fetchall()
        return checked_blob(sha, found[0][0] if found else None)

    def has_blob(self, sha: str) -> bool:
        with self._file.reading() as db:
            return bool(db.execute(SQL["has_blob"], (sha_bytes(sha),)).fetchall())

    def runs(self, holding: bytes = b"", lacking: bytes = b"") -> list[Head]:
        """Every run, newest first; or those whose headline holds some bytes and lacks others."""
        with self._file.reading() as db:
            try:
                if holding or lacking:
                    rows = db.execute(SQL["list_runs_marked"], (holding, lacking))
                else:
                    rows = db.execute(SQL["list_runs"])
                return [run_row(fields).head for fields in rows.fetchall()]
            except UNREADABLE:
                return runs_one_by_one(db)

    # --- commands

    def post(self, sent: Sequence[Sent]) -> list[Posted]:
        """Keep commands for their runs: when it returns they are on disk. Of one id there is one."""
        if not sent:
            return []
        if armed:
            reach("journal.post.before")
        made: list[Posted] = []

        def work(db: Db) -> list[Posted]:
            keys = {run_id: existing(db, run_id).key for run_id in {one.run_id for one in sent}}
            made[:] = post_commands(db, [keys[one.run_id] for one in sent], sent)
            return made

        self._file.write(work, lambda db: have_arrived(db, made))
        if armed:
            reach("journal.post.after")
        return made

    def posted(self, run_id: str, after: int = 0, limit: int = 1_000) -> list[Posted]:
        """Commands for the run, after a position, that nobody has decided on; in the order of arrival."""
        with self._file.reading() as db:
            return undecided_commands(db, existing(db, run_id).key, run_id, after, limit)

    def find_posted(self, run_id: str, id_: str) -> Posted | None:
        """The run's command of that id."""
        with self._file.reading() as db:
            return find_command(db, existing(db, run_id).key, run_id, id_)

    def decisions(self, positions: Iterable[int]) -> dict[int, bytes]:
        """What became of those commands that are decided, by position."""
        with self._file.reading() as db:
            return find_decisions(db, positions)

    def arrived(self, after: int) -> tuple[int, list[str]]:
        """The newest command's position, and the runs for which one has come after `after`."""
        with self._file.reading() as db:
            last: int = db.execute(SQL["last_command"]).fetchall()[0][0]
            if last <= after:
                return last, []
            return last, [run_id for (run_id,) in db.execute(SQL["runs_commanded"], (after,)).fetchall()]

    def undecided(self) -> list[str]:
        """The runs with commands that nobody has decided on, oldest first."""
        with self._file.reading() as db:
            return [run_id for (run_id,) in db.execute(SQL["runs_undecided"]).fetchall()]

    def port(self, run_id: str) -> int:
        """Where whoever drives the run listens; 0 if nobody does."""
        owner = self._owner(run_id) if self.driven(run_id) else None
        return owner.port if owner is not None else 0

    # --- housekeeping

    def delete(self, run_ids: Iterable[str]) -> None:
        """Forget runs with their events, and the blobs that nobody refers to any more."""
        self._file.write(lambda db: self._delete_all(db, dict.fromkeys(run_ids)))
        if armed:
            reach("journal.delete.after")

    def _delete_all(self, db: Db, run_ids: Iterable[str]) -> None:
        # Inside the transaction: who takes a lock from here on waits for us to be done, and then
        # finds no such run.
        for run_id in run_ids:
            row = existing(db, run_id)
            if self._locks.is_taken(run_id):
                raise owned_by(run_id, find_owner(db, run_id))
            refuse_if_alive(db, run_id)
            delete_run(db, run_id, row.key)
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
            return find_owner(db, run_id)

    def _scan(
        self, run_id: str, after_seq: int, limit: int | None
    ) -> tuple[list[Entry], StoreDamaged | None, str]:
        """What can be read and is sound, the damage that ended it, and the mark the run bears."""
        if armed:
            reach("journal.read")
        with self._file.reading() as db:
            row = find_run_anyhow(db, run_id)
            if row is None:
                raise no_such_run(run_id)
            last_seq = row.head.seq if row.sound else SEQ_MAX
            stop = last_seq if limit is None else min(last_seq, after_seq + limit)
            if after_seq >= stop and row.sound:
                return [], None, row.head.damaged
            entries, fault = fetch_entries(db, row.key, max(after_seq, 1), stop)
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
