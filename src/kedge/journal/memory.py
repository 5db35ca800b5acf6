"""A journal in memory: the whole shape, without a disk. What it holds dies with it."""

from __future__ import annotations

import threading
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from kedge.base.errors import StoreDamaged
from kedge.base.ids import run_id as checked_run_id
from kedge.journal.command_table import CommandTable
from kedge.journal.entry import Append, Entry, Head, Lease, Posted, Sent, advance, verify
from kedge.journal.faults import checked_blob, closed, no_such_run, not_claimed
from kedge.journal.ownership import Owner, owned_by, this_process


class _Run:
    __slots__ = ("blobs", "entries", "head")

    def __init__(self, head: Head) -> None:
        self.head = head
        self.entries: list[Entry] = []
        self.blobs: set[str] = set()


class MemoryJournal:
    """Every event in a list. Drivers of one process share the object; two of one run exclude each other."""

    durable = False

    def __init__(self) -> None:
        self._lock = threading.Lock()  # the writing thread beside readers
        self._runs: dict[str, _Run] = {}
        self._blobs: dict[str, bytes] = {}
        self._owners: dict[str, Owner] = {}
        self._commits = 0
        self._commands = CommandTable()
        self._closed = False

    def claim(self, run_id: str, now_ms: int, port: int = 0) -> Lease:
        checked_run_id(run_id)
        with self._open():
            if run_id in self._owners:
                raise owned_by(run_id, self._owners[run_id])
            run = self._runs.get(run_id)
            if run is None:
                run = self._runs[run_id] = _Run(Head(run_id, created_at=now_ms, updated_at=now_ms))
            run.head = msgspec.structs.replace(run.head, epoch=run.head.epoch + 1)
            self._owners[run_id] = this_process(now_ms)._replace(port=port)
            return Lease(run_id, run.head.epoch)

    def driven(self, run_id: str) -> bool:
        with self._open():
            return run_id in self._owners

    def release(self, lease: Lease) -> None:
        with self._open():
            if self._holds(lease.run_id, lease.epoch):
                del self._owners[lease.run_id]

    def commit(self, appends: Sequence[Append], patience_s: float = 0.0) -> None:  # noqa: ARG002 - nobody else writes here
        with self._open():
            heads: dict[str, Head] = {}
            for append in appends:
                heads[append.run_id] = self._next(append, heads)
            for run_id, head in heads.items():
                self._runs[run_id].head = head
            for append in appends:
                self._write(append)
            self._commits += 1

    def head(self, run_id: str) -> Head | None:
        with self._open():
            run = self._runs.get(run_id)
            return run and run.head

    def read(self, run_id: str, after_seq: int = 0, limit: int | None = None) -> list[Entry]:
        with self._open():
            run = self._runs.get(run_id)
            if run is None:
                raise no_such_run(run_id)
            entries = run.entries[after_seq : None if limit is None else after_seq + limit]
            previous = run.entries[after_seq - 1].chain if 0 < after_seq <= len(run.entries) else 0
        verify(entries, previous, after_seq + 1, run_id)
        return entries

    def good_prefix(self, run_id: str) -> list[Entry]:
        try:
            return self.read(run_id)
        except StoreDamaged as damage:
            with self._open():
                return self._runs[run_id].entries[: damage.seq - 1]

    def blob(self, sha: str) -> bytes:
        with self._open():
            content = self._blobs.get(sha)
        return checked_blob(sha, content)

    def has_blob(self, sha: str) -> bool:
        with self._open():
            return sha in self._blobs

    def runs(self, holding: bytes = b"", lacking: bytes = b"") -> list[Head]:
        with self._open():
            heads = [run.head for run in reversed(self._runs.values())]
        return [
            head for head in heads if holding in head.headline and not (lacking and lacking in head.headline)
        ]

    def post(self, sent: Sequence[Sent]) -> list[Posted]:
        with self._open():
            for one in sent:
                if one.run_id not in self._runs:
                    raise no_such_run(one.run_id)
            self._commits += 1
            return [self._commands.post(one) for one in sent]

    def posted(self, run_id: str, after: int = 0, limit: int = 1_000) -> list[Posted]:
        with self._of(run_id) as commands:
            return commands.posted(run_id, after, limit)

    def find_posted(self, run_id: str, id_: str) -> Posted | None:
        with self._of(run_id) as commands:
            return commands.find(run_id, id_)

    @contextmanager
    def _of(self, run_id: str) -> Generator[CommandTable]:
        with self._open():
            if run_id not in self._runs:
                raise no_such_run(run_id)
            yield self._commands

    def decisions(self, positions: Iterable[int]) -> dict[int, bytes]:
        with self._open():
            return self._commands.decisions(positions)

    def arrived(self, after: int) -> tuple[int, list[str]]:
        with self._open():
            return self._commands.arrived(after)

    def undecided(self) -> list[str]:
        with self._open():
            return self._commands.undecided()

    def port(self, run_id: str) -> int:
        with self._open():
            return self._owners[run_id].port if run_id in self._owners else 0

    def delete(self, run_ids: Iterable[str]) -> None:
        wanted = list(dict.fromkeys(run_ids))
        with self._open():
            for run_id in wanted:
                if run_id not in self._runs:
                    raise no_such_run(run_id)
                if run_id in self._owners:
                    raise owned_by(run_id, self._owners[run_id])
            dropped: set[str] = set()
            for run_id in wanted:
                dropped |= self._runs.pop(run_id).blobs
                self._commands.forget(run_id)
            for run in self._runs.values():
                dropped -= run.blobs
            for sha in dropped:
                del self._blobs[sha]
            self._commits += 1

    def vacuum(self) -> int:
        """Nothing to give back: what is deleted is gone at once."""
        return 0

    def data_version(self) -> int:
        with self._open():
            return self._commits

    def stats(self) -> dict[str, Any]:
        with self._open():
            return {
                "store": "memory",
                "runs": len(self._runs),
                "blobs": len(self._blobs),
                "bytes": sum(run.head.bytes for run in self._runs.values()),
            }

    def close(self) -> None:
        with self._lock:
            self._closed = True
            self._owners.clear()

    def _open(self) -> threading.Lock:
        if self._closed:
            raise closed(":memory:")
        return self._lock

    def _holds(self, run_id: str, epoch: int) -> bool:
        return run_id in self._owners and self._runs[run_id].head.epoch == epoch

    def _next(self, append: Append, heads: dict[str, Head]) -> Head:
        run_id = append.run_id
        run = self._runs.get(run_id)
        if run is None or run_id not in self._owners:
            raise not_claimed(run_id)
        return advance(heads.get(run_id) or run.head, append)

    def _write(self, append: Append) -> None:
        run = self._runs[append.run_id]
        run.entries += append.entries
        self._commands.decide(append.decisions)
        for sha, content in append.blobs.items():
            self._blobs.setdefault(sha, content)
            if sha not in run.blobs:
                run.blobs.add(sha)
                run.head = msgspec.structs.replace(run.head, bytes=run.head.bytes + len(content))
