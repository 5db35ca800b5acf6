"""The promise, checked from outside after each kill: by the ledger, the acknowledgements and the store."""

from __future__ import annotations

import fcntl
import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
from crash_disk import Calls, Disk, Stored, Told, read_disk, read_ledger
from crash_life import read_acks

GONE_S = 5.0
"""Processes of a killed engine end by themselves; so long is waited for it."""
_PROCESSES = Path("/proc")
_PROMISED = {"run_ended", "question_asked"}
"""What followers are told of only when it is on disk; and the success of a call with effects."""


class Witness:
    """Looks at a case after each of its lives, and remembers what must stay."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._before: dict[str, list[Stored]] = {}
        self._finished: dict[str, str] = {}
        """Keys of calls that were done when a life ended."""
        self._seen = 0
        """Lines of the ledger that were written by then."""
        self.disk = Disk()

    def look(self) -> list[str]:
        """What is wrong."""
        left = _processes_in(self._folder)
        acks = read_acks(self._folder)
        spoiled = {ack["run"] for ack in acks if ack["kind"] in ("spoiled", "robbed")}
        gone = {ack["run"] for ack in acks if ack["kind"] == "deleting"}
        self.disk = read_disk(self._folder, spoiled)
        ledger = read_ledger(self._folder)
        wrong = [f"processes are left over: {left}"] if left else []
        wrong += self.disk.faults
        for run_id in spoiled | gone:
            self._before.pop(run_id, None)
        wrong += _half_written(self._folder)
        wrong += self._lost()
        wrong += _broken_promises(acks, self.disk, {told.path: told.effect for told in ledger})
        wrong += self._calls(ledger, spoiled)
        self._before = {run: stored for run, stored in self.disk.events.items() if run not in spoiled | gone}
        self._seen = len(ledger)
        return wrong

    def _lost(self) -> Iterator[str]:
        """What was on disk stays there."""
        for run_id, before in self._before.items():
            now = self.disk.events.get(run_id)
            if now is None:
                yield f"I1: run {run_id} is gone"
            elif now[: len(before)] != before:
                yield f"I1: run {run_id} had {len(before)} events, and they are not what they were"

    def _calls(self, ledger: list[Told], spoiled: set[str]) -> Iterator[str]:
        for told in ledger[self._seen :]:
            if told.key in self._finished:
                yield f"I2: {told.path} was finished and ran again"
        events = self.disk.events.items()
        calls = [Calls(run_id, stored) for run_id, stored in events if run_id not in spoiled]
        started = set[str]().union(*(known.started for known in calls))
        times = Counter(told.key for told in ledger if told.effect == "effect")
        for told in ledger[self._seen :]:
            if told.effect in ("effect", "idempotent") and told.key not in started | self._finished.keys():
                if told.path == "big" or any(run == "other" for run in self.disk.events):
                    continue  # of a run that was deleted or robbed
                yield f"I3: {told.path} was called before its start was on disk"
            if times[told.key] > 1:
                allowed = sum(known.allowed[told.path] for known in calls)
                if times[told.key] > 1 + allowed:
                    yield f"I3: {told.path} had its effect {times[told.key]} times, {allowed} were allowed"
        done = {told.key for told in ledger}
        for known in calls:
            self._finished |= known.finished
            for key, path in known.finished.items():
                if key in known.made and key not in done and path not in known.taken_as_done:
                    yield f"I2: {path} counts as done and never was"


def _broken_promises(acks: list[dict[str, Any]], disk: Disk, effects: dict[str, str]) -> Iterator[str]:
    """I1: what was acknowledged is in the journal."""
    gone = {ack["run"] for ack in acks if ack["kind"] in ("deleting", "robbed", "spoiled")}
    count = Counter(ack["kind"] for ack in acks)
    for ack in acks:
        kind, run_id = ack["kind"], ack.get("run", "r")
        if kind == "deleted" and run_id in disk.events:
            yield f"I1: run {run_id} was deleted and is there"
        if run_id in gone:
            continue
        events = [stored.event for stored in disk.events.get(run_id, [])]
        kinds = [event["kind"] for event in events]
        good = True
        match kind:
            case "started":
                good = kinds[:1] == ["RunStarted"]
            case "answered":
                good = any(
                    e["kind"] == "QuestionAnswered" and e["question"] == ack["question"] for e in events
                )
            case "ended":
                good = any(e["kind"] == "RunEnded" and e["status"] == ack["status"] for e in events)
            case "sent":
                decided = "CommandTaken" if ack["taken"] else "CommandRefused"
                good = [e["kind"] for e in events if e.get("key") == ack["key"]] == [decided]
            case "paused":
                good = kinds.count("RunPaused") >= count["paused"]
            case "unpaused":
                good = kinds.count("RunUnpaused") >= count["unpaused"]
            case "cancelled":
                good = "RunCancelling" in kinds
            case "told" if ack["event"] in _PROMISED or effects.get(ack["path"]) == "effect":
                seq = ack["seq"]
                good = seq <= len(kinds) and _snake(kinds[seq - 1]) == ack["event"]
            case _:
                pass
        if not good:
            yield f"I1: acknowledged and not in the journal: {ack}"


def _snake(kind: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", kind).lower()


def _half_written(folder: Path) -> Iterator[str]:
    """What `files.write` wrote is there whole or not at all."""
    path = folder / "out" / "a.txt"
    if path.exists() and path.read_text() not in ("one", "two"):
        yield f"files.write left {path.read_text()!r}"


def check_end(folder: Path, disk: Disk) -> Iterator[str]:
    """After the last life, which nobody killed."""
    written = folder / "out" / "a.txt"
    if written.exists() and written.read_text() != "two":
        yield f"files.write left {written.read_text()!r}"
    acks = read_acks(folder)
    spoiled = {ack["run"] for ack in acks if ack["kind"] in ("spoiled", "robbed")}
    for run_id, stored in disk.events.items():
        if run_id not in spoiled and stored[-1].kind != "RunEnded":
            yield f"I10: run {run_id} has not ended: its last event is {stored[-1].kind}"
    if "r" not in disk.events:
        yield "I10: there is no run"
    for path in folder.glob(
        "k.db.locks/*"
    ):  # one that was left by a kill stays until somebody looks at its run
        with path.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield f"somebody holds {path.name}"
    for ack in acks:
        if ack["kind"] == "spoiled" and not any(a["kind"] == "refused" for a in acks):
            yield "a damaged run was read as if it were sound"
    # A key that the log has is decided on already: nothing is posted for it a second time.
    logged = {stored.event.get("key") for stored in disk.events.get("r", ())}
    posted = {ack["key"] for ack in acks if ack["kind"] == "posted"}
    yield from _undecided(folder, posted - logged)


def _undecided(folder: Path, posted: set[str]) -> Iterator[str]:
    """I7: what was sent by the store is there, and somebody has decided on it."""
    if not posted:
        return
    db = apsw.Connection(str(folder / "k.db"))
    decided = {key for (key,) in db.execute("select id from command where decision is not null")}
    db.close()
    for key in sorted(posted - decided):
        yield f"I7: command {key} was acknowledged, and nobody has decided on it"


def _processes_in(folder: Path) -> list[int]:
    """Processes that work in that folder, once they had time to end."""
    if not _PROCESSES.is_dir():
        return []  # this system does not tell
    deadline_s = time.monotonic() + GONE_S
    while True:
        found = [int(path.name) for path in _PROCESSES.iterdir() if _works_in(path, folder)]
        if not found or time.monotonic() > deadline_s:
            return found
        time.sleep(0.002)


def _works_in(process: Path, folder: Path) -> bool:
    try:
        return process.name.isdecimal() and (process / "cwd").readlink() == folder
    except OSError:
        return False
