"""Whether this version still reads what others wrote, and comes to the same.

    assert_replays("copies/production.db")

Put it into CI and run it before an upgrade. Nothing is called and nothing is written to a run: each log is
read with its checksums, every event decoded and folded, the laws of `laws` checked on the way, and the state
at the end compared with what the store's list says of the run.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from kedge.base.errors import BadInput, KedgeError, NotFound
from kedge.control.listing import info
from kedge.engine.blobs import Blobs
from kedge.engine.ports import Journal
from kedge.engine.recovery import decode, fold
from kedge.flow.events import AnyEvent, StepInterrupted
from kedge.flow.evolve import evolve
from kedge.flow.state import RunState
from kedge.journal.entry import Entry, Head
from kedge.journal.opening import MEMORY, open_journal
from kedge.plan.tools import Catalog
from kedge.testing.laws import check_event, check_laws

RECOUNTS = 2_000_000
"""Steps that may be recounted for one run. A long log of a large plan is checked at fewer of its prefixes,
evenly spread: recounting all steps after each of a million events would take days."""


class Replayed(NamedTuple):
    """One run that was read."""

    run_id: str
    status: str
    events: int
    checked: int
    """Prefixes after which all laws were checked: each one, unless the log is very long."""


def assert_replays(store: str | Path | Journal, run_id: str | None = None) -> list[Replayed]:
    """Read every run of a store, or the one of that id, and return what was read.

    AssertionError lists every run that cannot be read whole, breaks a law, or is not what its line says.
    `store` is a file's path or a journal. Give it a copy: opening a store may bring its form up to date.
    """
    replayed: list[Replayed] = []
    wrong: list[str] = []
    with _opened(store) as journal:
        for head in _heads(journal, run_id):
            try:
                replayed.append(_replay(journal, head))
            except (AssertionError, KedgeError) as error:
                told = str(error)
                wrong.append(told if told.startswith(f"run {head.run_id}") else f"run {head.run_id}: {told}")
    if wrong:
        raise AssertionError("\n  ".join([f"{len(wrong)} of {len(wrong) + len(replayed)} runs:", *wrong]))
    return replayed


@contextmanager
def _opened(store: str | Path | Journal) -> Generator[Journal]:
    if not isinstance(store, str | Path):
        yield store
        return
    if str(store) == MEMORY or not Path(store).is_file():
        raise BadInput("there is no such store", code="no_store", where=str(store), remedy="name its file")
    journal = open_journal(store)
    try:
        yield journal
    finally:
        journal.close()


def _heads(journal: Journal, run_id: str | None) -> list[Head]:
    if run_id is None:
        return [head for head in journal.runs() if head.seq or head.damaged]
    head = journal.head(run_id)
    if head is None:
        raise NotFound("no such run in this store", where=f"run {run_id}")
    return [head]


def _replay(journal: Journal, head: Head) -> Replayed:
    if head.damaged:
        raise AssertionError(head.damaged)
    entries = journal.read(head.run_id)
    if len(entries) != head.seq:
        raise AssertionError(f"the store counts {head.seq} events and holds {len(entries)}")
    fetch = Blobs(journal).fetch
    state = fold(head.run_id, entries[:1], fetch, Catalog()).state
    checked = sum(_step(state, entry, head.seq) for entry in entries[1:])
    claimed = info(head, journal.driven).status
    if claimed != state.status:
        raise AssertionError(f"its events come to {state.status}, and the store's list says {claimed}")
    return Replayed(head.run_id, str(state.status), len(entries), checked)


def _step(state: RunState, entry: Entry, events: int) -> bool:
    """Fold one event, and say whether the laws were recounted after it."""
    event: AnyEvent = decode(state.run_id, entry)  # type: ignore[assignment]
    each = max(1, events * len(state.steps) // RECOUNTS)
    recount = entry.seq % each == 0 or entry.seq == events
    try:
        # An engine that closes takes back what it announced and never called, with effects or not. From the
        # log alone nobody can tell that from a call that was lost.
        if not isinstance(event, StepInterrupted):
            check_event(state, event)
        evolve(state, event, entry.at)
        if recount:
            check_laws(state)
    except (AssertionError, KedgeError, LookupError) as error:
        raise AssertionError(f"event {entry.seq} ({type(event).__name__}): {error}") from error
    return recount
