"""A simulated disk that several processes share, and the journal that each of them opens on it.

A write is there for every process at once, and sure to be there after a power cut only once it is
synced; a cut takes back what was written since the last sync, newest first. When that happens, and what
goes wrong meanwhile, is not decided here: before and after each call the journal asks its `Trouble`.

Two things are left out. What a killed process had handed to the system counts as synced: the system writes
it, unless the power fails in the next seconds. And a disk that says that it has written and has not is
nowhere simulated: no promise outlives one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec.structs import replace

from kedge.base.errors import StoreDamaged
from kedge.base.ids import run_id as checked_run_id
from kedge.journal.command_table import CommandTable
from kedge.journal.entry import Append, Entry, Head, Lease, Posted, Sent, advance, verify
from kedge.journal.faults import checked_blob, closed, no_such_run, not_claimed
from kedge.journal.ownership import Owner, owned_by, this_process


class Trouble(Protocol):
    """What goes wrong with one process's calls to the store. Each may raise, and the call ends with it."""

    def before(self, call: str, patience_s: float) -> None: ...
    def written(self, call: str) -> None: ...
    def after(self, call: str) -> None: ...


class NoTrouble:
    """All is well."""

    def before(self, call: str, patience_s: float) -> None: ...
    def written(self, call: str) -> None: ...
    def after(self, call: str) -> None: ...


class Stored:
    """One run as it is stored."""

    __slots__ = ("blobs", "entries", "head")

    def __init__(self, head: Head) -> None:
        self.head = head
        self.entries: list[Entry] = []
        self.blobs: dict[str, None] = {}


class _Owned(NamedTuple):
    holder: SimulatedJournal
    owner: Owner


class Disk:
    """What outlives the processes."""

    def __init__(self) -> None:
        self.runs: dict[str, Stored] = {}
        self.blobs: dict[str, bytes] = {}
        self.owners: dict[str, _Owned] = {}
        self.commands = CommandTable()
        self.commits = 0
        self._unsynced: list[Callable[[], None]] = []
        """How to take back what is not synced, oldest first."""
        self.on_synced: Callable[[], None] = lambda: None

    def write(self, take_back: Callable[[], None]) -> None:
        """Something was written; `take_back` undoes it."""
        self.commits += 1
        self._unsynced.append(take_back)

    def sync(self) -> None:
        """All that is written stays."""
        self._unsynced.clear()
        self.on_synced()

    def power_cut(self, survive: int) -> None:
        """The machine stops. Of what is not synced, the oldest `survive` writes happen to stay."""
        lost = self._unsynced[survive:]
        self._unsynced.clear()
        for take_back in reversed(lost):
            take_back()
        self.on_synced()

    @property
    def unsynced(self) -> int:
        return len(self._unsynced)

    def forget(self, journal: SimulatedJournal) -> None:
        """That process is dead, or declared so: what it had is free."""
        for run_id in [run_id for run_id, owned in self.owners.items() if owned.holder is journal]:
            del self.owners[run_id]

    def entries(self, run_id: str) -> list[Entry]:
        """A run's entries; none if there is no such run."""
        run = self.runs.get(run_id)
        return run.entries if run else []


class SimulatedJournal:
    """A process's way to the disk. Keeps the contracts of every journal as long as there is no trouble."""

    durable = True

    def __init__(self, disk: Disk, trouble: Trouble | None = None) -> None:
        self._disk = disk
        self._trouble: Trouble = trouble or NoTrouble()
        self._epochs: dict[str, int] = {}
        self._own_commits = 0
        self._closed = False

    # --- writing

    def claim(self, run_id: str, now_ms: int, port: int = 0) -> Lease:
        self._begin("claim")
        checked_run_id(run_id)
        disk = self._disk
        owned = disk.owners.get(run_id)
        if owned is not None:
            raise owned_by(run_id, owned.owner)
        run = disk.runs.get(run_id)
        if run is None:
            run = Stored(Head(run_id, epoch=1, created_at=now_ms, updated_at=now_ms))
            disk.runs[run_id] = run
            disk.write(lambda: disk.runs.pop(run_id, None) and None)
        else:
            before, stored = run.head, run
            run.head = replace(before, epoch=before.epoch + 1)
            disk.write(lambda: _put_head(stored, before))
        epoch = run.head.epoch
        disk.owners[run_id] = _Owned(self, this_process(now_ms)._replace(port=port))
        self._epochs[run_id] = epoch
        self._own_commits += 1
        try:
            self._end("claim")
        except BaseException:
            self._let_go(run_id)  # whoever asked does not know that it has the run
            raise
        return Lease(run_id, epoch)

    def release(self, lease: Lease) -> None:
        try:
            self._begin("release")
        finally:  # the lock is in the process, not on the disk
            if self._epochs.get(lease.run_id) == lease.epoch:
                self._let_go(lease.run_id)

    def _let_go(self, run_id: str) -> None:
        del self._epochs[run_id]
        owned = self._disk.owners.get(run_id)
        if owned is not None and owned.holder is self:
            del self._disk.owners[run_id]

    def commit(self, appends: Sequence[Append], patience_s: float = 60.0) -> None:
        self._begin("commit", patience_s)
        heads: dict[str, Head] = {}
        for append in appends:
            run_id = append.run_id
            run = self._disk.runs.get(run_id)
            if run is None or run_id not in self._epochs:
                raise not_claimed(run_id)
            heads[run_id] = advance(heads.get(run_id) or run.head, append)
        if not appends:
            return
        self._write(appends, heads)
        self._end("commit")

    def _write(self, appends: Sequence[Append], heads: dict[str, Head]) -> None:
        disk = self._disk
        before = {run_id: (disk.runs[run_id].head, len(disk.runs[run_id].entries)) for run_id in heads}
        refs: list[tuple[Stored, str]] = []
        for run_id, head in heads.items():
            disk.runs[run_id].head = head
        for append in appends:
            run = disk.runs[append.run_id]
            run.entries += append.entries
            for sha, content in append.blobs.items():
                disk.blobs.setdefault(sha, content)
                if sha not in run.blobs:
                    run.blobs[sha] = None
                    refs.append((run, sha))
                    run.head = replace(run.head, bytes=run.head.bytes + len(content))
        decided = [one for append in appends for one in disk.commands.decide(append.decisions)]

        def take_back() -> None:
            for one in decided:
                disk.commands.put(one)
            for run_id, (head, count) in before.items():
                run = disk.runs[run_id]
                run.head = head
                del run.entries[count:]
            for run, sha in refs:
                run.blobs.pop(sha, None)
            self._sweep({sha for _, sha in refs})

        self._own_commits += 1
        disk.write(take_back)

    def _sweep(self, shas: Iterable[str]) -> None:
        for sha in shas:
            if not any(sha in run.blobs for run in self._disk.runs.values()):
                self._disk.blobs.pop(sha, None)

    def delete(self, run_ids: Iterable[str]) -> None:
        self._begin("delete")
        wanted = list(dict.fromkeys(run_ids))
        for run_id in wanted:
            if run_id not in self._disk.runs:
                raise no_such_run(run_id)
            owned = self._disk.owners.get(run_id)
            if owned is not None:
                raise owned_by(run_id, owned.owner)
        for run_id in wanted:
            self._sweep(self._disk.runs.pop(run_id).blobs)
            self._disk.commands.forget(run_id)
        self._own_commits += 1
        self._disk.commits += 1
        self._end("delete")

    def vacuum(self) -> int:
        self._begin("vacuum")
        return 0

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            for run_id in list(self._epochs):
                self._let_go(run_id)

    # --- commands

    def post(self, sent: Sequence[Sent]) -> list[Posted]:
        self._begin("post")
        disk = self._disk
        for one in sent:
            self._existing(one.run_id)
        fresh = [one for one in sent if disk.commands.find(one.run_id, one.id) is None]
        made = [disk.commands.post(one) for one in sent]

        def take_back() -> None:
            for one in fresh:
                found = disk.commands.find(one.run_id, one.id)
                if found is not None:
                    disk.commands.take_out(found)

        disk.write(take_back)
        self._own_commits += 1
        self._end("post")
        return made

    def posted(self, run_id: str, after: int = 0, limit: int = 1_000) -> list[Posted]:
        self._begin("posted")
        self._existing(run_id)
        return self._disk.commands.posted(run_id, after, limit)

    def find_posted(self, run_id: str, id_: str) -> Posted | None:
        self._begin("find_posted")
        self._existing(run_id)
        return self._disk.commands.find(run_id, id_)

    def _existing(self, run_id: str) -> None:
        if run_id not in self._disk.runs:
            raise no_such_run(run_id)

    def decisions(self, positions: Iterable[int]) -> dict[int, bytes]:
        self._begin("decisions")
        return self._disk.commands.decisions(positions)

    def arrived(self, after: int) -> tuple[int, list[str]]:
        self._begin("arrived")
        return self._disk.commands.arrived(after)

    def undecided(self) -> list[str]:
        self._begin("undecided")
        return self._disk.commands.undecided()

    def port(self, run_id: str) -> int:
        self._begin("port")
        owned = self._disk.owners.get(run_id)
        return owned.owner.port if owned is not None else 0

    # --- reading

    def driven(self, run_id: str) -> bool:
        self._begin("driven")
        return run_id in self._disk.owners

    def head(self, run_id: str) -> Head | None:
        self._begin("head")
        run = self._disk.runs.get(run_id)
        return run and run.head

    def read(self, run_id: str, after_seq: int = 0, limit: int | None = None) -> list[Entry]:
        self._begin("read")
        run = self._disk.runs.get(run_id)
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
            return self._disk.entries(run_id)[: damage.seq - 1]

    def blob(self, sha: str) -> bytes:
        self._begin("blob")
        return checked_blob(sha, self._disk.blobs.get(sha))

    def has_blob(self, sha: str) -> bool:
        self._begin("has_blob")
        return sha in self._disk.blobs

    def runs(self, holding: bytes = b"", lacking: bytes = b"") -> list[Head]:
        self._begin("runs")
        heads = [run.head for run in reversed(self._disk.runs.values())]
        return [one for one in heads if holding in one.headline and not (lacking and lacking in one.headline)]

    def data_version(self) -> int:
        self._begin("data_version")
        return self._disk.commits - self._own_commits

    def stats(self) -> dict[str, Any]:
        self._begin("stats")
        return {"store": "simulated", "runs": len(self._disk.runs), "blobs": len(self._disk.blobs)}

    def epoch_of(self, run_id: str) -> int:
        """Of the lease that this process believes to have; 0 if it has none."""
        return self._epochs.get(run_id, 0)

    # --- trouble

    def _begin(self, call: str, patience_s: float = 60.0) -> None:
        if self._closed:
            raise closed("simulated")
        self._trouble.before(call, patience_s)

    def _end(self, call: str) -> None:
        self._trouble.written(call)
        self._disk.sync()
        self._trouble.after(call)


def _put_head(run: Stored, head: Head) -> None:
    run.head = head
