"""Small stores to damage, and the judge of what a damaged one says.

The truth is what was written. A store may refuse, and a run may be damaged; what it may not do is tell
anything else than the truth, or fail in a way that has no name.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import apsw

from kedge.base.codec import digest
from kedge.base.errors import InternalError, KedgeError, NotFound, StoreDamaged, StoreError
from kedge.journal.entry import Entry, chain
from kedge.journal.schema import SQL
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver

RUNS = ("before", "hurt", "after")
EVENTS = 12


@dataclass
class Truth:
    """What was written: events by run, large values by hash."""

    events: dict[str, list[Entry]] = field(default_factory=dict[str, list[Entry]])
    blobs: dict[str, bytes] = field(default_factory=dict[str, bytes])


def make(path: Path, runs: tuple[str, ...] = RUNS, events: int = EVENTS, bytes_each: int = 300) -> Truth:
    """Runs one after the other in a file, and nothing left in its log."""
    truth = Truth()
    journal = SqliteJournal(path)
    for run_id in runs:
        driver = Driver(journal, run_id)
        large = f"large value of {run_id} ".encode() * 20
        truth.events[run_id] = []
        truth.blobs[digest(large)] = large
        for n in range(events):
            content = f"{run_id} {n} ".encode().ljust(bytes_each, b".")
            blobs = {digest(large): large} if n == 1 else {}
            append = driver.next(content, blobs=blobs, headline=b"{}")
            journal.commit([append])
            truth.events[run_id] += append.entries
    journal.close()
    return truth


@dataclass
class Verdict:
    """What a damaged store said."""

    refused: str = ""
    """The code with which all of it was refused."""
    damaged: dict[str, int] = field(default_factory=dict[str, int])
    """Runs that it called damaged, and where."""
    intact: set[str] = field(default_factory=set[str])
    older: set[str] = field(default_factory=set[str])
    """Runs that it gave whole and shorter than they were."""
    wrong: list[str] = field(default_factory=list[str])
    """What must not be."""


def judge(
    path: Path, truth: Truth, *, may_be_older: bool = False, at_least: int = 0, wal: bool = True
) -> Verdict:
    """Ask a store everything, and compare. Of a run that may be older, so many events must be there."""
    verdict = Verdict()
    with _named(verdict, "open") as went:
        journal = SqliteJournal(path, wal=wal)
        went.append(True)
    if not went:
        return verdict
    try:
        for run_id, events in truth.events.items():
            least = at_least if may_be_older else len(events)
            _judge_run(journal, run_id, events, verdict, least)
        _judge_list(journal, path, truth, verdict)
        _judge_blobs(journal, truth.blobs, verdict)
        _judge_writing(journal, truth, verdict)
    finally:
        with _named(verdict, "close"):
            journal.close()
    return verdict


@contextmanager
def _named(verdict: Verdict, what: str) -> Generator[list[bool]]:
    """An error has to be one of ours, with a code that says more than `error`."""
    went: list[bool] = []
    try:
        yield went
    except InternalError as error:
        verdict.wrong.append(f"{what}: called a bug: {error}")
    except KedgeError as error:
        if what == "open":
            verdict.refused = error.code
        elif isinstance(error, StoreError) and error.code == "store":
            verdict.wrong.append(f"{what}: an error without a name: {error}")
    except Exception as error:
        verdict.wrong.append(f"{what}: {type(error).__name__}: {error}")


def _judge_run(
    journal: SqliteJournal, run_id: str, events: list[Entry], verdict: Verdict, least: int
) -> None:
    with _named(verdict, f"read {run_id}"):
        try:
            found = journal.read(run_id)
        except StoreDamaged as error:
            if error.run_id not in ("", run_id):
                verdict.wrong.append(f"read {run_id}: blames {error.run_id}")
            verdict.damaged[run_id] = error.seq
            prefix = journal.good_prefix(run_id) if error.run_id else []
            if prefix != events[: len(prefix)]:
                verdict.wrong.append(f"{run_id}: its good part is not what was written")
            return
        except StoreError as error:
            verdict.damaged[run_id] = 0
            if error.code == "store":
                raise
            return
        except NotFound:
            verdict.wrong.append(f"{run_id}: not found, without a word of damage")
            return
        if found == events:
            verdict.intact.add(run_id)
        elif len(found) >= least and found == events[: len(found)]:
            verdict.older.add(run_id)
        else:
            verdict.wrong.append(f"{run_id}: {len(found)} events are given as the run, and are not")


def _judge_list(journal: SqliteJournal, path: Path, truth: Truth, verdict: Verdict) -> None:
    with _named(verdict, "list"):
        heads = {head.run_id: head for head in journal.runs()}
        for run_id in truth.events:
            head = heads.get(run_id)
            if head is None:
                renamed = any(other not in truth.events and heads[other].damaged for other in heads)
                if not renamed:  # the name itself was hit: the list has it, damaged, under another
                    verdict.wrong.append(f"{run_id} is not in the list")
                continue
            if run_id in verdict.damaged and not head.damaged and _takes_marks(journal, path, run_id):
                verdict.wrong.append(f"{run_id} is damaged, and the list does not say so")


def _takes_marks(journal: SqliteJournal, path: Path, run_id: str) -> bool:
    """Whether it can be noted in the store that a run is damaged."""
    try:
        with closing(apsw.Connection(str(path))) as db:
            db.execute(SQL["mark_damaged"], ("damaged", run_id))
        head = next((head for head in journal.runs() if head.run_id == run_id), None)
    except (StoreError, apsw.Error):
        return False
    return head is not None and bool(head.damaged)


def _judge_blobs(journal: SqliteJournal, blobs: Mapping[str, bytes], verdict: Verdict) -> None:
    for sha, content in blobs.items():
        with _named(verdict, "blob"):
            if journal.blob(sha) != content:
                verdict.wrong.append(f"blob {sha} is not what was written")


def _judge_writing(journal: SqliteJournal, truth: Truth, verdict: Verdict) -> None:
    for run_id in verdict.intact:
        with _named(verdict, f"write {run_id}"):
            if journal.head(run_id) is None:  # as an engine does, before it takes a name for a new one
                verdict.wrong.append(f"{run_id}: is there, and would be begun anew")
                continue
            driver = Driver(journal, run_id)
            more = driver.write(1)
            if journal.read(run_id) != [*truth.events[run_id], *more]:
                verdict.wrong.append(f"{run_id}: what was written into the damaged store is not what is read")


def chained(entries: list[Entry]) -> bool:
    """The chain holds from the first on."""
    link = 0
    for entry in entries:
        link = chain(link, entry.seq, entry.epoch, entry.at, entry.data)
        if link != entry.chain:
            return False
    return True
