"""What is left of a damaged run, and how it goes on from there.

The good part is everything before the first event that is not what was written, or whose large values are
not. It goes into another store under the same id, so that the keys of calls stay the same, with one question
more: what came after the cut is lost, and steps with effects may have had them there. Mending the log where
it is was the other way; but a store that has lost bytes is not to be trusted with new ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from kedge.base.errors import BadInput, NotFound, RunConflict, StoreDamaged, StoreError
from kedge.base.limits import Limits
from kedge.control.listing import headline, moment
from kedge.engine.ports import Journal
from kedge.engine.recovery import Folded, decode, fold
from kedge.flow.decide import decide
from kedge.flow.events import (
    Event,
    RunStarted,
    StepFailed,
    StepInDoubt,
    StepStarted,
    StepSucceeded,
    encode_event,
    kind_of,
)
from kedge.flow.inputs import Salvaged
from kedge.flow.turn import Turn
from kedge.journal.entry import Append, Entry, Lease, chain
from kedge.journal.opening import open_journal
from kedge.plan.tools import Catalog
from kedge.views.narrate import Narrator

_TOLD = (StepStarted, StepSucceeded, StepFailed, StepInDoubt)


class Salvage(msgspec.Struct, frozen=True, kw_only=True):
    """What is intact of a run, and what is lost."""

    id: str
    """Its name in the store."""
    goal: str
    """The plan's goal."""
    status: str
    """As of the last intact event."""
    intact: int
    """Events from the first one on that are what was written."""
    lost: int | None
    """Events that are known to have followed; None: nobody can tell."""
    damage: str
    """What is wrong with it; empty: nothing that can be seen."""
    last: str
    """The last thing that is known to have happened."""
    last_at: datetime | None
    """When that was."""
    done: int
    """Steps that are known to have succeeded."""
    total: int
    """Steps there are."""
    behind: dict[str, str]
    """Of what can still be read behind the damage: the last word on each step, by its path."""
    store: str = ""
    """Where the intact part was written to; empty: nowhere."""


class Intact(NamedTuple):
    """A run's log as far as it can be trusted."""

    entries: list[Entry]
    blobs: dict[str, bytes]
    damage: StoreDamaged | None
    """What is wrong behind that."""


class Found(NamedTuple):
    """The intact part of a run."""

    entries: list[Entry]
    blobs: dict[str, bytes]
    folded: Folded
    facts: Salvage


def hold(journal: Journal, run_id: str, now_ms: int) -> Lease | None:
    """Nobody else may drive it meanwhile. None: the store takes no writes, so nobody can."""
    try:
        journal.head(run_id)  # a claim of a run that it cannot find would make a new one
        return journal.claim(run_id, now_ms)
    except StoreError:
        return None


def examine(journal: Journal, run_id: str, catalog: Catalog, limits: Limits) -> Found:
    """Read what is intact. StoreDamaged if that is not even the beginning."""
    entries, blobs, damage = intact(journal, run_id)
    folded = fold(run_id, entries, blobs.__getitem__, catalog, limits)
    return Found(entries, blobs, folded, _facts(journal, entries, folded, damage))


def intact(journal: Journal, run_id: str) -> Intact:
    """The events before the first that is not what was written, and the large values that they name."""
    damage: StoreDamaged | None = None
    try:
        readable = journal.read(run_id)
    except StoreDamaged as error:
        damage, readable = error, journal.good_prefix(run_id)
    entries: list[Entry] = []
    blobs: dict[str, bytes] = {}
    for entry in readable:
        missing = _fetch(journal, decode(run_id, entry), blobs)
        if missing is not None:
            damage = StoreDamaged(missing, run_id=run_id, seq=entry.seq)
            break
        entries.append(entry)
    if len(entries) < 2:  # the plan is adopted by the second
        raise StoreDamaged(
            f"nothing of it can be salvaged: {damage or 'it had hardly begun'}",
            run_id=run_id,
            remedy="restore the store from a copy, or delete the run and start it anew",
        )
    return Intact(entries, blobs, damage)


def _fetch(journal: Journal, event: Event, blobs: dict[str, bytes]) -> str | None:
    """Take the large values of an event along; what is wrong with one."""
    for sha in blobs_of(event):
        if sha not in blobs:
            try:
                blobs[sha] = journal.blob(sha)
            except NotFound:
                return f"a large value of it is missing: blob {sha}"
            except StoreDamaged as error:
                return error.message
    return None


def blobs_of(event: Event) -> Iterator[str]:
    """The hashes of the large values that an event names."""
    blob = getattr(event, "blob", None)
    if isinstance(event, RunStarted):  # of later versions the patch is stored, not the plan
        yield event.plan
    if blob is not None:
        yield blob.sha


def _facts(journal: Journal, entries: list[Entry], folded: Folded, damage: StoreDamaged | None) -> Salvage:
    state, last = folded.state, entries[-1]
    narrator, sentence = Narrator(state.run_id, state.versions[0].plan), ""
    for entry in entries:
        told = narrator.tell(entry.seq, entry.at, decode(state.run_id, entry))
        sentence = next((event.message for event in told if not event.kind.startswith("group_")), sentence)
    known = _last_known(journal, state.run_id)
    return Salvage(
        id=state.run_id,
        goal=state.plan.goal,
        status=str(state.status),
        intact=last.seq,
        lost=known - last.seq if known >= last.seq else None,
        damage=str(damage or ""),
        last=sentence,
        last_at=moment(last.at),
        done=state.done,
        total=state.total,
        behind=_behind(journal, state.run_id, last.seq + 1) if damage is not None else {},
    )


def _last_known(journal: Journal, run_id: str) -> int:
    try:
        head = journal.head(run_id)
    except StoreDamaged:
        return 0
    return head.seq if head is not None else 0


def _behind(journal: Journal, run_id: str, bad_seq: int) -> dict[str, str]:
    """Not used to go on from: what it builds on is not known. But it tells people what was done."""
    words: dict[str, str] = {}
    try:
        for entry in journal.read(run_id, bad_seq):
            event = decode(run_id, entry)
            if isinstance(event, _TOLD):
                words[event.path] = kind_of(event).removeprefix("Step").lower()
    except StoreDamaged:
        pass  # damaged there as well: what was read of it is still true
    return words


def salvaged(
    journal: Journal, run_id: str, to: str | Path | None, catalog: Catalog, limits: Limits, now_ms: int
) -> Salvage:
    """What is intact of the run; written into the store `to`, if one is named."""
    if to is None:
        return examine(journal, run_id, catalog, limits).facts
    lease = hold(journal, run_id, now_ms)
    try:
        found = examine(journal, run_id, catalog, limits)
        if lease is not None:
            refuse_whole(found.facts)
        return _write_into(found, to, now_ms)
    finally:
        if lease is not None:
            journal.release(lease)


def _write_into(found: Found, to: str | Path, now_ms: int) -> Salvage:
    target = open_journal(to)
    try:
        if not target.durable:
            raise BadInput(
                "what is salvaged must not end with the process", where=str(to), remedy="name a file"
            )
        return write(found, target, str(to), now_ms)
    finally:
        target.close()


def write(found: Found, target: Journal, where: str, now_ms: int) -> Salvage:
    """The intact part as a run of another store, in one commit; it asks before it does anything harmful."""
    run_id = found.facts.id
    there = target.head(run_id)
    if there is not None and there.seq:
        raise RunConflict(
            "that store has a run of this id", where=f"run {run_id}", remedy="name another store"
        )
    turn = Turn(found.folded.state, now_ms)
    decide(turn, Salvaged(_sentence(found.facts)))
    lease = target.claim(run_id, now_ms)
    try:
        target.commit([_append(found, lease, turn)])
    finally:
        target.release(lease)
    return msgspec.structs.replace(found.facts, store=where)


def _sentence(facts: Salvage) -> str:
    if not facts.damage:
        return f"The store was damaged: if anything came after event {facts.intact}, it is lost."
    lost = f"{facts.lost} events" if facts.lost else "what came"
    known = ", ".join(f"{path} {word}" for path, word in list(facts.behind.items())[:20])
    return f"The log was damaged: {lost} after event {facts.intact} are lost." + (
        f" What can be read behind that says: {known}." if known else ""
    )


def _append(found: Found, lease: Lease, turn: Turn) -> Append:
    kept = [(entry.at, entry.data) for entry in found.entries]
    told = [*kept, *((turn.now, encode_event(event)) for event in turn.events)]
    entries: list[Entry] = []
    link = 0
    for seq, (at, data) in enumerate(told, 1):
        link = chain(link, seq, lease.epoch, at, data)
        entries.append(Entry(seq, lease.epoch, at, data, link))
    line = headline(turn.state, found.folded.started.plan)
    return Append(lease.run_id, lease.epoch, 0, entries, found.blobs, line)


def refuse_whole(facts: Salvage) -> None:
    """BadInput if it can go on where it is: two copies of one run would do everything twice."""
    if not facts.damage:
        raise BadInput(
            "the run is intact, and its store takes writes: it can be resumed where it is",
            code="not_damaged",
            where=f"run {facts.id}",
            remedy="to have the runs elsewhere, copy the store's file",
        )
