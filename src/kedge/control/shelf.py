"""What an engine knows of its store: the runs there, whoever drives them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from kedge.base.clock import Clock
from kedge.base.collector import collector_paused
from kedge.base.errors import BadInput, KedgeError, NotFound, StoreError
from kedge.base.ids import run_id as checked_run_id
from kedge.base.limits import Limits
from kedge.control.driving import Judge, Movable
from kedge.control.inbox import Waiting, unreadable, waiting_in
from kedge.control.listing import ASKS, OVER, RunInfo, headline, info
from kedge.control.numbers import By, Numbers, numbers
from kedge.control.reading import Reader
from kedge.control.retention import Pruned, Retention, prune
from kedge.control.run import Run
from kedge.control.salvage import Salvage, salvaged
from kedge.control.watching import Watched
from kedge.engine.blobs import Blobs
from kedge.engine.driver import Driver
from kedge.engine.ports import Journal
from kedge.engine.recovery import fold
from kedge.flow.result import RunResult
from kedge.journal.entry import Head
from kedge.tools.registry import Registry


class Shelf:
    """The runs of a store, to look at."""

    def __init__(self, registry: Registry, limits: Limits, clock: Clock) -> None:
        self.registry = registry
        """Its tools by name."""
        self.limits = limits
        """What plans may ask for and runs may use."""
        self._clock = clock
        self._journal: Journal | None = None
        self._runs: dict[str, Run] = {}
        self._drivers: dict[str, Driver] = {}
        self._judge = Judge(lambda run_id: self.look(run_id).state)

    def _opened(self) -> Journal:
        if self._journal is None:
            raise KedgeError(
                "the engine is not open",
                code="not_open",
                remedy="use `async with kedge.Engine(…) as engine:`",
            )
        return self._journal

    def runs(self) -> list[RunInfo]:
        """All runs of the store, newest first. Damaged ones are flagged, never hidden."""
        journal = self._opened()
        heads = [self._as_it_is(head) for head in journal.runs()]
        return [info(head, journal.driven) for head in heads if head.seq or head.damaged]

    def _as_it_is(self, head: Head) -> Head:
        """A run that is driven here may be ahead of the store."""
        driver = self._drivers.get(head.run_id)
        if driver is None or driver.lost is not None:
            return head
        log, state = driver.log, driver.state
        return msgspec.structs.replace(
            head,
            seq=log.seq,
            headline=headline(state, self._runs[head.run_id].plan_id),
            updated_at=state.at,
            bytes=log.size,
        )

    def now_ms(self) -> int:
        """The time, in ms."""
        return self._clock.now_ms()

    def driven(self, run_id: str) -> bool:
        """Whether anybody drives the run at this moment."""
        return self._opened().driven(checked_run_id(run_id))

    def inbox(self) -> list[Waiting]:
        """What people are asked, by all runs of the store; what has waited longest comes first."""
        journal, now_ms, found = self._opened(), self.now_ms(), list[Waiting]()
        for head in map(self._as_it_is, journal.runs(holding=ASKS)):
            run = info(head, journal.driven)
            if run.ended or not (run.questions or run.damaged):
                continue
            try:
                found += waiting_in(self.look(run.id).state, now_ms, driven=run.driven)
            except StoreError as error:
                found.append(unreadable(run.id, run.goal, str(error)))
        return sorted(found, key=lambda one: -one.age_s)

    def drivable(self) -> list[Movable]:
        """Runs that nobody drives and that can move: now, or when their time has come."""
        journal = self._opened()
        commanded = set(journal.undecided())
        heads = {head.run_id: head for head in journal.runs(lacking=OVER) if head.seq or head.damaged}
        for run_id in commanded - heads.keys():
            head = journal.head(run_id)
            if head is not None:
                heads[run_id] = head
        free = [
            head for run_id, head in heads.items() if run_id not in self._runs and not journal.driven(run_id)
        ]
        return self._judge.movable(free, commanded)

    def look(self, run_id: str) -> RunResult:
        """A run as its log has it, without driving it."""
        journal = self._opened()
        id_ = checked_run_id(run_id)
        live = self._runs.get(id_)
        if live is not None and self._drivers[id_].lost is None:
            return RunResult(live.state, live.plan_id)
        self._head(id_)
        with collector_paused():
            entries = journal.read(id_)
            folded = fold(id_, entries, Blobs(journal).fetch, self.registry.catalog, self.limits)
        return RunResult(folded.state, folded.started.plan)

    def _head(self, run_id: str) -> Head:
        """Where a run of the store stands. One that was claimed and never begun counts as none."""
        head = self._opened().head(run_id)
        if head is None or not (head.seq or head.damaged or run_id in self._runs):
            raise self._unknown(run_id)
        return head

    def _unknown(self, run_id: str) -> NotFound:
        return NotFound(
            f"no run has the id {run_id!r}", code="unknown_run", allowed=[run.id for run in self.runs()[:5]]
        )

    def reader(self, run_id: str) -> Reader:
        """A run's events from the store, whoever drives it."""
        id_ = checked_run_id(run_id)
        self._head(id_)
        return Reader(self._opened(), id_)

    def watch(self, run_id: str) -> Watched:
        """A run as it goes on, whoever drives it."""
        id_ = checked_run_id(run_id)
        self._head(id_)
        return Watched(self._opened(), id_, self.registry.catalog, self.limits)

    def salvage(self, run_id: str, to: str | Path | None = None) -> Salvage:
        """What is intact of a damaged run; with `to` it is written into that store, to be resumed there.

        What came after the damage is lost, and steps with effects may have had them there: the salvaged run
        asks about that before anything starts.
        """
        journal, id_ = self._opened(), checked_run_id(run_id)
        if id_ not in {run.id for run in self.runs()}:
            raise self._unknown(id_)
        if to is not None:
            self._refuse_live(id_)
        return salvaged(journal, id_, to, self.registry.catalog, self.limits, self._clock.now_ms())

    def prune(self, policy: Retention, *, dry_run: bool = False) -> Pruned:
        """Forget the runs that the policy gives up. One that is driven stays, whatever the policy says."""
        return prune(self._opened(), self.runs(), self._runs, policy, self._clock.now_ms(), dry_run=dry_run)

    def stats(self) -> dict[str, Any]:
        """Facts on the store, for a health report."""
        return self._opened().stats()

    def numbers(self, by: By = "tool", since_s: float | None = None, last: int | None = None) -> Numbers:
        """How well runs went, by tool, plan, day or week. By tool, the logs of the newest 1,000 are read."""
        return numbers(self._opened(), self.runs(), by, self._clock.now_ms(), since_s=since_s, last=last)

    def _refuse_live(self, run_id: str) -> None:
        if run_id in self._runs and self._drivers[run_id].lost is None:
            raise BadInput(
                "the run is being driven",
                code="run_is_live",
                where=f"run {run_id}",
                remedy="cancel it if it is to stop, and wait for its result, first",
            )
