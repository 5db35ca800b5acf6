"""What is on disk after a kill, read by other code than kedge's: the standard library's SQLite, JSON and CRC.

A copy is read, so that the next driver finds the store as the kill left it.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import struct
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

from crash_life import STORE
from crash_tools import LEDGER


class Told(NamedTuple):
    """One line of the ledger: something happened outside."""

    effect: str
    path: str
    key: str
    pid: int
    attempt: int


class Stored(NamedTuple):
    """One event as it is on disk."""

    seq: int
    epoch: int
    at: int
    raw: bytes
    chain: int

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @property
    def kind(self) -> str:
        return self.event["kind"]


@dataclass
class Disk:
    """The store."""

    events: dict[str, list[Stored]] = field(default_factory=dict[str, list[Stored]])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])
    faults: list[str] = field(default_factory=list[str])
    """What is wrong with it."""


def read_disk(folder: Path, spoiled: set[str]) -> Disk:
    """The store in `folder`, checked; of the runs in `spoiled` nothing is expected."""
    copy = folder / "copy"
    copy.mkdir(exist_ok=True)
    for name in (STORE, f"{STORE}-wal", f"{STORE}-journal"):
        (copy / name).unlink(missing_ok=True)
        if (folder / name).exists():
            shutil.copyfile(folder / name, copy / name)
    disk = Disk()
    if not (copy / STORE).exists():
        return disk
    with closing(sqlite3.connect(copy / STORE)) as db:
        (said,) = db.execute("pragma integrity_check").fetchone()
        if said != "ok":
            disk.faults.append(f"integrity_check: {said}")
        if db.execute("select 1 from sqlite_master where name = 'run'").fetchone():
            _read(db, disk, spoiled)
    return disk


def _read(db: sqlite3.Connection, disk: Disk, spoiled: set[str]) -> None:
    for sha, data in db.execute("select sha, data from blob"):
        disk.blobs[sha.hex()] = data
        if hashlib.sha256(data).hexdigest() != sha.hex():
            disk.faults.append(f"blob {sha.hex()} is not what its name says")
    for key, run_id, seq, chain, epoch, line in db.execute(
        "select key, run_id, seq, chain, epoch, headline from run"
    ):
        low, high = key << 32, (key + 1) << 32
        rows = db.execute(
            "select id & 4294967295, epoch, at, data, chain from event where id > ? and id < ? order by id",
            (low, high),
        )
        disk.events[run_id] = stored = [Stored(*row) for row in rows]
        if run_id not in spoiled:
            last = (stored[-1].seq, stored[-1].chain) if stored else (0, 0)
            found = list(_faults(stored, disk.blobs))
            if last != (seq, chain):
                found.append(f"its row says that it stands at {(seq, chain)}, its events end at {last}")
            if stored and stored[-1].epoch > epoch:
                found.append(f"its last event is of epoch {stored[-1].epoch}, its row of {epoch}")
            if stored and (fault := _wrong_line(stored, json.loads(line))):
                found.append(fault)
            disk.faults += [f"run {run_id}: {fault}" for fault in found]
    for what, sql in _STRAYS.items():
        (count,) = db.execute(sql).fetchone()
        if count and not spoiled:
            disk.faults.append(f"{count} {what}")


_STRAYS = {
    "large values of nobody": "select count(*) from blob where key not in (select blob from blob_ref)",
    "events of no run": "select count(*) from event where id >> 32 not in (select key from run)",
    "owners of no run": "select count(*) from lease where run not in (select key from run)",
    "references of no run": "select count(*) from blob_ref where run not in (select key from run)",
    "references to no blob": "select count(*) from blob_ref where blob not in (select key from blob)",
}


def _wrong_line(stored: list[Stored], line: dict[str, Any]) -> str:
    """Lists tell of each run whether it has ended, and how."""
    last, told = stored[-1].event, line.get("status", "running")
    if last["kind"] == "RunEnded" and told != last["status"]:
        return f"it ended {last['status']}, and lists tell that it is {told}"
    if last["kind"] != "RunEnded" and told in ("done", "failed", "cancelled", "empty"):
        return f"lists tell that it is {told}, and it has not ended"
    return ""


def _faults(stored: list[Stored], blobs: dict[str, bytes]) -> Iterator[str]:
    before, epoch, taken_up = 0, 0, 0
    forked = max((entry.seq for entry in stored if entry.kind == "Forked"), default=0)
    for due, entry in enumerate(stored, start=1):
        if entry.seq != due:
            yield f"event {due} is missing"
            return
        before = crc32(entry.raw, crc32(struct.pack(">QQQ", due, entry.epoch, entry.at), before))
        if before != entry.chain:
            yield f"event {due} does not fit the chain"
            return
        event = entry.event
        resumed = event["kind"] == "RunResumed"
        first = resumed and taken_up < forked  # whoever wrote a fork drives it
        taken_up = due if resumed else taken_up
        if due > forked and entry.epoch < epoch + (resumed and not first):
            yield f"I5: event {due}, {event['kind']}, is of epoch {entry.epoch}, after one of {epoch}"
        epoch = entry.epoch
        named = [None if "patch" in event else event.get("plan"), (event.get("blob") or {}).get("sha")]
        yield from (
            f"event {due} names blob {sha}, which is not there" for sha in named if sha and sha not in blobs
        )


def read_ledger(folder: Path) -> list[Told]:
    """All that happened outside, in order."""
    path = folder / LEDGER
    if not path.exists():
        return []
    found: list[Told] = []
    for line in path.read_text().splitlines():
        effect, step, key, pid, attempt = line.split()
        found.append(Told(effect, step, key, int(pid), int(attempt)))
    return found


def key_of(run_id: str, event: dict[str, Any]) -> str:
    """The key under which the call that an event announces is made."""
    path, generation, iteration = event["path"], event.get("generation", 0), event.get("iteration", 0)
    args = json.dumps(event.get("args"), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    given = event.get("args_hash") or hashlib.sha256(args.encode()).hexdigest()
    text = f"{run_id}\n{path}\n{generation}\n{iteration}\n{given}"
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


class Calls:
    """What a run's log says of its calls."""

    def __init__(self, run_id: str, stored: list[Stored]) -> None:
        self.started: set[str] = set()
        """Keys of all calls that were announced."""
        self.finished: dict[str, str] = {}
        """Keys of calls that are done for good, and their paths."""
        self.allowed: Counter[str] = Counter()
        """How often a person let a call be made again, by path."""
        self.taken_as_done: set[str] = set()
        """Paths of calls of which a person said that they are done."""
        self.made: set[str] = set()
        """Keys of calls of tools that keep a ledger."""
        last: dict[str, str] = {}
        keeps = bool(stored) and not any(
            name.startswith("files.") for name in stored[0].event.get("tools", {})
        )
        asked: dict[str, str] = {}
        for entry in stored:
            event = entry.event
            path = event.get("path", "")
            match event["kind"]:
                case "Forked":  # so far it is the log of another run, and so are its calls
                    self.started.clear()
                    self.finished.clear()
                    self.made.clear()
                    self.allowed.clear()
                    last.clear()
                case "StepStarted":
                    last[path] = key_of(run_id, event)
                    self.started.add(last[path])
                    if keeps and ("args" in event or "args_hash" in event):
                        self.made.add(last[path])
                case "StepSucceeded" | "RoundEnded" if path in last:
                    self.finished[last[path]] = path
                case "QuestionAsked":
                    asked[event["question"]] = path
                case "QuestionAnswered" if event["answer"] == "retry":
                    self.allowed[asked[event["question"]]] += 1
                case "QuestionAnswered" if event["answer"] == "done":
                    self.taken_as_done.add(asked[event["question"]])
                case _:
                    pass
