"""The engine: tools, a store and limits, and the runs that it drives."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping
from pathlib import Path
from typing import Any, Self

import msgspec

from kedge._version import __version__
from kedge.base.clock import Clock, SystemClock
from kedge.base.codec import digest
from kedge.base.collector import collector_paused
from kedge.base.errors import BadInput, KedgeError, NotFound
from kedge.base.failpoints import armed, reach
from kedge.base.ids import new_run_id
from kedge.base.ids import run_id as checked_run_id
from kedge.base.limits import Limits
from kedge.control.changed import changed_tools
from kedge.control.follow import Callback, check_callback
from kedge.control.inputs import complete_inputs
from kedge.control.known import first_event, refuse_another
from kedge.control.listing import Line, RunInfo, headline, info
from kedge.control.numbers import By, Numbers, numbers
from kedge.control.reading import Reader
from kedge.control.retention import Pruned, Retention, prune
from kedge.control.run import Run
from kedge.control.salvage import Salvage, examine, hold, refuse_whole, write_to
from kedge.engine.attempts import Workshop
from kedge.engine.blobs import Blobs
from kedge.engine.driver import Driver
from kedge.engine.gates import Gates, checked_resources
from kedge.engine.log import RunLog
from kedge.engine.ports import Agent, Journal, Planner
from kedge.engine.recovery import fold
from kedge.engine.writer import Writer
from kedge.flow.commands import Compensate
from kedge.flow.events import PlanAdopted, Raw, RunStarted, ToolMark
from kedge.flow.inputs import Resumed, Ticked
from kedge.flow.program import Program, compile_plan
from kedge.flow.result import RunResult
from kedge.flow.settings import Ask, RunSettings
from kedge.flow.state import RunState
from kedge.flow.turn import Turn
from kedge.flow.undoing import compensate, refuse_redoing
from kedge.flow.words import RunStatus
from kedge.journal.entry import Head, Lease
from kedge.journal.opening import open_journal
from kedge.plan.model import Plan
from kedge.tools.registry import Registry
from kedge.tools.tool import Tool

_log = logging.getLogger("kedge.engine")

SHUTDOWN_GRACE_S = 5.0

_encode_plan = msgspec.json.Encoder(order="deterministic").encode


class Engine:
    """Runs plans. Use it as `async with kedge.Engine(tools=[…]) as engine:`."""

    def __init__(
        self,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        store: str | Path | Journal = ":memory:",
        *,
        limits: Limits | None = None,
        resources: Mapping[str, int] | None = None,
        clock: Clock | None = None,
        planner: Planner | None = None,
        agent: Agent | None = None,
    ) -> None:
        self.registry = tools if isinstance(tools, Registry) else Registry(tools)
        """Its tools by name."""
        if not isinstance(limits, Limits | None):
            raise BadInput(
                f"Limits are needed, not {type(limits).__name__}",
                code="limit_value", where="limits", remedy="write limits=kedge.Limits(parallel=8)",
            )  # fmt: skip
        self.limits = limits or Limits()
        """What plans may ask for and runs may use."""
        self._store = store
        self._resources = checked_resources(resources or {})
        self._planner, self._agent = planner, agent
        self._clock = clock or SystemClock()
        self._journal: Journal | None = None
        self._runs: dict[str, Run] = {}
        self._drivers: dict[str, Driver] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        """Callbacks of ended runs that are still to see the end."""

    # --- open and close

    async def __aenter__(self) -> Self:
        if self._journal is not None:
            raise KedgeError("the engine is open already", code="open", remedy="make one Engine for each")
        gates = Gates(self._resources, int(self.limits.parallel_total))
        self._workshop = Workshop(self.registry, gates, self.limits)
        self._workshop.planner, self._workshop.agent = self._planner, self._agent
        self._workshop.stall.off = not isinstance(self._clock, SystemClock)
        self._owns_journal = isinstance(self._store, str | Path)
        self._journal = open_journal(self._store) if isinstance(self._store, str | Path) else self._store
        self._writer = Writer(self._journal, self._clock)
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Let go of all runs and the store. Runs that had not ended can be resumed."""
        journal = self._journal
        if journal is None:
            return
        try:
            await asyncio.gather(*(run.close() for run in self._runs.values()))
            if armed:
                reach("control.close.released")
            await self._writer.close()
            if armed:
                reach("control.close.written")
            await asyncio.gather(*self._leaving)
            await self._workshop.close()
        finally:
            for driver in () if self._owns_journal else self._drivers.values():
                with contextlib.suppress(KedgeError):
                    journal.release(driver.log.lease)
            self._runs.clear()
            self._drivers.clear()
            self._journal = None
            if self._owns_journal:
                _close(journal)

    def _opened(self) -> Journal:
        if self._journal is None:
            raise KedgeError(
                "the engine is not open",
                code="not_open",
                remedy="use `async with kedge.Engine(…) as engine:`",
            )
        return self._journal

    # --- runs

    async def start(
        self,
        plan: Plan,
        inputs: Mapping[str, Any] | None = None,
        run_id: str | None = None,
        on_event: Callback | None = None,
        ask: Ask | None = None,
        settings: RunSettings | None = None,
    ) -> Run:
        """Run `plan`. With the id of a run of the same plan and inputs: that run, driven on."""
        journal = self._opened()
        check_callback(on_event)
        if not isinstance(plan, Plan):
            raise BadInput(
                f"a Plan is needed, not {type(plan).__name__}",
                remedy="make one with kedge.load(path) or kedge.Plan.parse(text)",
            )
        with collector_paused():
            self._refuse_faults(plan)
            given = complete_inputs(plan, inputs or {})
            program = compile_plan(plan, self.registry.catalog)  # refuses values that have no JSON form, too
            document = _encode_plan(plan)
        chosen = (settings or RunSettings()).completed(ask, repair=self._planner is not None)
        id_ = checked_run_id(run_id) if run_id is not None else new_run_id()
        run = await self._known(id_, digest(document), given) if run_id is not None else None
        if run is not None:
            if on_event is not None:
                run.subscribe(on_event)
            return run
        if armed:
            reach("control.start.checked")
        with collector_paused():
            run = self._begin(id_, program, given, document, chosen)
        if on_event is not None:
            run.subscribe(on_event)
        driver = self._drivers[id_]
        driver.put(Ticked())
        if armed:
            reach("control.start.begun")
        if journal.durable:
            try:
                await driver.durable()
            except BaseException:
                await self._let_go(run)  # nobody has a handle on it
                raise
            if armed:
                reach("control.start.durable")
        return run

    def _begin(
        self, run_id: str, program: Program, inputs: bytes, document: bytes, settings: RunSettings
    ) -> Run:
        """A new run and its first events."""
        journal, plan_id = self._opened(), digest(document)
        lease = journal.claim(run_id, self._clock.now_ms())
        state = RunState(run_id, program, inputs, self.limits)
        log = RunLog(lease, 0, 0, 0, self._clock)
        run = self._drive(state, log, Blobs(journal), plan_id)
        turn = Turn(state, self._clock.now_ms())
        goal, tools = program.plan.goal, self._marks(program)
        turn.emit(
            RunStarted(
                plan=plan_id, goal=goal, inputs=Raw(inputs), tools=tools, kedge=__version__, settings=settings
            )
        )
        turn.emit(PlanAdopted(version=1, plan=plan_id, cause="start"))
        log.append(turn.events, turn.now, {plan_id: document})
        self._writer.dirty(log)
        return run

    def _refuse_faults(self, plan: Plan) -> None:
        # Not needed to resume a run, and a third of the import.
        from kedge.checks import check, insist, unsupported

        findings = check(plan, self.registry.catalog, limits=self.limits)
        insist(findings if not findings.ok else unsupported(plan))

    async def _known(self, run_id: str, plan_id: str, inputs: bytes) -> Run | None:
        """The run of that id, if there is one and it is of the same plan and inputs."""
        journal = self._opened()
        run = self._runs.get(run_id)
        if run is not None:
            its_plan, its_inputs = run.plan_id, run.state.inputs
        else:
            first = first_event(journal, run_id)
            if first is None:
                return None
            its_plan, its_inputs = first.plan, bytes(first.inputs)
        refuse_another(run_id, (its_plan, its_inputs), (plan_id, inputs))
        run = await self.resume(run_id)
        if run_id in self._drivers:
            await self._drivers[run_id].durable()
        return run

    async def resume(
        self,
        run_id: str,
        retry_failed: bool = False,  # noqa: FBT001, FBT002
        on_event: Callback | None = None,
    ) -> Run:
        """Drive a run of the store on: what is done stays done, what was in flight is taken up.

        `retry_failed` takes a failed run up again: its failed steps, and those skipped because of them.
        """
        journal = self._opened()
        check_callback(on_event)
        id_ = checked_run_id(run_id)
        known = self._runs.get(id_)
        if known is not None and self._drivers[id_].lost is None and not (retry_failed and known.state.ended):
            if on_event is not None:
                known.subscribe(on_event)
            return known
        if known is not None:
            await self._let_go(known)
        head = self._head(id_)
        line = info(head, journal.driven)
        over = line.ended and not (retry_failed and line.status != RunStatus.DONE)
        # A run that has ended needs no driver, and whoever looks at it must not lock others out.
        lease = Lease(id_, head.epoch) if over else journal.claim(id_, self._clock.now_ms())
        run = self._taken_up(id_, lease, retry_failed=retry_failed)
        if on_event is not None:
            run.subscribe(on_event)
        return run

    async def compensate(self, run_id: str, step: str = "", reason: str = "", by: str = "") -> Run:
        """Undo a finished step of a run and all that used it; without a step, all that it did.

        Also long after its end: the run is driven until that is undone. What refuses it is raised.
        """
        journal, id_ = self._opened(), checked_run_id(run_id)
        command = Compensate(step=step, reason=reason, by=by)
        if not info(self._as_it_is(self._head(id_)), journal.driven).ended:
            run = await self.resume(id_)
            await self._drivers[id_].send(command)
            return run
        if (known := self._runs.get(id_)) is not None:
            await self._let_go(known)
        lease = journal.claim(id_, self._clock.now_ms())
        run = self._taken_up(id_, lease, retry_failed=False, undo=command)
        await self._drivers[id_].send(command)
        return run

    def _taken_up(
        self, run_id: str, lease: Lease, *, retry_failed: bool, undo: Compensate | None = None
    ) -> Run:
        if armed:
            reach("control.resume.claimed")
        try:
            with collector_paused():
                return self._take_up(run_id, lease, retry_failed, undo)
        except BaseException:
            self._opened().release(lease)
            raise

    def _take_up(self, run_id: str, lease: Lease, retry_failed: bool, undo: Compensate | None) -> Run:  # noqa: FBT001
        journal = self._opened()
        blobs = Blobs(journal)
        entries = journal.read(run_id)
        if armed:
            reach("control.resume.read")
        state, started, driven_s = fold(run_id, entries, blobs.fetch, self.registry.catalog, self.limits)
        if retry_failed:
            refuse_redoing(state)
        elif undo is not None:
            compensate(state, undo)  # what refuses it leaves the run as it was
        if armed:
            reach("control.resume.folded")
        head = journal.head(run_id)
        size = head.bytes if head else 0
        log = RunLog(lease, entries[-1].seq, entries[-1].chain, size, self._clock)
        run = self._drive(state, log, blobs, started.plan, driven_s)
        if state.ended and undo is None and not (retry_failed and state.end is not RunStatus.DONE):
            self._retire(run)
            return run
        marks = self._marks(state.program)
        changed = changed_tools(state, marks, retry_failed=retry_failed, undo=undo is not None)
        self._drivers[run_id].put(Resumed(retry_failed, changed, undo is not None))
        if armed:
            reach("control.resume.put")
        return run

    def _marks(self, program: Program) -> dict[str, ToolMark]:
        catalog = self.registry.catalog
        specs = [spec for name in program.tools if (spec := catalog.get(name)) is not None]
        return {spec.name: ToolMark(spec.definition_hash, spec.effect) for spec in specs}

    def _drive(self, state: RunState, log: RunLog, blobs: Blobs, plan_id: str, driven_s: float = 0.0) -> Run:
        journal = self._opened()
        state.fetch = blobs.fetch
        blobs.log = log
        log.headline = Line(state, plan_id)
        driver = Driver(
            state, log, self._writer, self._workshop, self._clock, durable=journal.durable, driven_s=driven_s
        )
        run = self._runs[state.run_id] = Run(driver, journal, plan_id, self._clock)
        driver.on_ended = lambda: self._retire(run)
        driver.on_given_up = lambda: self._leave(self._let_go(run))
        self._drivers[state.run_id] = driver
        return run

    async def _let_go(self, run: Run) -> None:
        """Give it up here. What it leaves is on disk first: who takes it up need not ask what is known."""
        driver = self._drivers.get(run.id)
        try:
            await run.close()
            if driver is not None and driver.lost is None and driver.log.behind:
                self._writer.dirty(driver.log)  # Ctrl-C may have come before the writer put it back
                with contextlib.suppress(KedgeError, TimeoutError):
                    await asyncio.wait_for(driver.durable(), SHUTDOWN_GRACE_S)
        finally:
            self._retire(run)

    def _retire(self, run: Run) -> None:
        """Keep nothing of a run that needs no driver any more: an engine may see many in its life."""
        if self._runs.get(run.id) is not run:
            return  # done already; it may have been taken up anew since
        del self._runs[run.id]
        driver = self._drivers.pop(run.id)
        driver.leave()
        with contextlib.suppress(KedgeError):  # a lock left behind goes with the process
            self._opened().release(driver.log.lease)
        if armed:
            reach("control.retired")
        self._leave(run.see_off())

    def _leave(self, ending: Coroutine[Any, Any, None]) -> None:
        """Let it end by itself; closing waits for it."""
        task = asyncio.get_running_loop().create_task(ending)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def drain(self, grace_s: float = SHUTDOWN_GRACE_S) -> None:
        """Start nothing more in any run, and give what runs some time to end."""
        await asyncio.gather(*(run.drain(grace_s) for run in self._runs.values()))

    # --- lists

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

    def salvage(self, run_id: str, to: str | Path | None = None) -> Salvage:
        """What is intact of a damaged run; with `to` it is written into that store, to be resumed there.

        What came after the damage is lost, and steps with effects may have had them there: the salvaged run
        asks about that before anything starts.
        """
        journal, id_ = self._opened(), checked_run_id(run_id)
        if id_ not in {run.id for run in self.runs()}:
            raise self._unknown(id_)
        if to is None:
            return examine(journal, id_, self.registry.catalog, self.limits).facts
        self._refuse_live(id_)
        lease = hold(journal, id_, self._clock.now_ms())
        try:
            found = examine(journal, id_, self.registry.catalog, self.limits)
            if lease is not None:
                refuse_whole(found.facts)
            return write_to(found, to, self._clock.now_ms())
        finally:
            if lease is not None:
                journal.release(lease)

    def prune(self, policy: Retention, *, dry_run: bool = False) -> Pruned:
        """Forget the runs that the policy gives up. One that is driven stays, whatever the policy says."""
        return prune(self._opened(), self.runs(), self._runs, policy, self._clock.now_ms(), dry_run=dry_run)

    def stats(self) -> dict[str, Any]:
        """Facts on the store, for a health report."""
        return self._opened().stats()

    def numbers(self, by: By = "tool", since_s: float | None = None, last: int | None = None) -> Numbers:
        """How well runs went, by tool, plan, day or week. By tool, the logs of the newest 1,000 are read."""
        return numbers(self._opened(), self.runs(), by, self._clock.now_ms(), since_s=since_s, last=last)

    def delete(self, run_id: str) -> None:
        """Remove a run and everything it wrote. A run that is driven cannot be deleted."""
        id_ = checked_run_id(run_id)
        self._refuse_live(id_)
        run = self._runs.get(id_)
        if run is not None:
            self._retire(run)
        if self._opened().head(id_) is None:
            raise self._unknown(id_)
        if armed:
            reach("control.delete.before")
        self._opened().delete([id_])

    def _refuse_live(self, run_id: str) -> None:
        if run_id in self._runs and self._drivers[run_id].lost is None:
            raise BadInput(
                "the run is being driven",
                code="run_is_live",
                where=f"run {run_id}",
                remedy="cancel it if it is to stop, and wait for its result, first",
            )


def _close(journal: Journal) -> None:
    try:
        journal.close()
    except KedgeError as error:  # what was acknowledged is on disk; an error of the user's own comes first
        _log.warning("the store did not close well: %s", error, extra={"action": "store_close"})
