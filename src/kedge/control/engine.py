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
from kedge.base.errors import BadInput, KedgeError
from kedge.base.failpoints import armed, reach
from kedge.base.ids import new_run_id
from kedge.base.ids import run_id as checked_run_id
from kedge.base.limits import Limits
from kedge.control.changed import changed_tools
from kedge.control.driving import AT_ONCE, Drive, Driven
from kedge.control.follow import Callback, check_callback
from kedge.control.forking import Door, Fork, Wish, fork
from kedge.control.inputs import complete_inputs
from kedge.control.known import first_event, refuse_another
from kedge.control.listing import Line, info
from kedge.control.run import Run
from kedge.control.sending import Receipt, Sender, keyed, settled
from kedge.control.shelf import Shelf
from kedge.engine.attempts import Workshop
from kedge.engine.blobs import Blobs
from kedge.engine.driver import Driver
from kedge.engine.gates import Gates, checked_resources
from kedge.engine.log import RunLog
from kedge.engine.mailbox import Mailbox
from kedge.engine.ports import Agent, Journal, Planner
from kedge.engine.post import Post
from kedge.engine.recovery import fold
from kedge.engine.writer import Writer
from kedge.flow.commands import Command, Compensate
from kedge.flow.events import Raw, RunStarted, ToolMark
from kedge.flow.input_question import begin
from kedge.flow.inputs import Resumed, Ticked
from kedge.flow.program import Program, compile_plan
from kedge.flow.settings import Ask, RunSettings
from kedge.flow.state import RunState
from kedge.flow.turn import Turn
from kedge.flow.undoing import compensate, refuse_redoing
from kedge.flow.words import RunStatus
from kedge.journal.entry import Lease
from kedge.journal.opening import open_journal
from kedge.plan.model import Plan
from kedge.plan.patch import Patch
from kedge.tools.registry import Registry
from kedge.tools.tool import Tool

_log = logging.getLogger("kedge.engine")

SHUTDOWN_GRACE_S = 5.0

_encode_plan = msgspec.json.Encoder(order="deterministic").encode


class Engine(Shelf):
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
        if not isinstance(limits, Limits | None):
            raise BadInput(
                f"Limits are needed, not {type(limits).__name__}",
                code="limit_value", where="limits", remedy="write limits=kedge.Limits(parallel=8)",
            )  # fmt: skip
        registry = tools if isinstance(tools, Registry) else Registry(tools)
        super().__init__(registry, limits or Limits(), clock or SystemClock())
        self._store = store
        self._planner, self._agent = planner, agent
        self._resources = checked_resources(resources or {})
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
        listens = self._journal.durable and isinstance(self._clock, SystemClock)
        self._post = Post(self._journal, listens=listens)
        self._sender = Sender(self._journal, self._post, self._clock, self.limits)
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
            await self._post.close()
            for driver in () if self._owns_journal else self._drivers.values():
                with contextlib.suppress(KedgeError):
                    journal.release(driver.log.lease)
            self._runs.clear()
            self._drivers.clear()
            self._journal = None
            if self._owns_journal:
                _close(journal)

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
        """Run `plan`. With the id of a run of the same plan and inputs: that run, driven on.

        `ask` is short for that setting: what a person is asked before, besides what the plan says itself.
        """
        journal = self._opened()
        check_callback(on_event)
        if not isinstance(plan, Plan):
            raise BadInput(
                f"a Plan is needed, not {type(plan).__name__}",
                remedy="make one with kedge.load(path) or kedge.Plan.parse(text)",
            )
        chosen = (settings or RunSettings()).completed(ask, repair=self._planner is not None)
        with collector_paused():
            self._refuse_faults(plan)
            given = complete_inputs(plan, inputs or {}, may_ask=chosen.ask != "never")
            program = compile_plan(plan, self.registry.catalog)  # refuses values that have no JSON form, too
            document = _encode_plan(plan)
        if not self._post.opened:
            await self._post.open()
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
        lease = journal.claim(run_id, self._clock.now_ms(), self._post.bell.port)
        state = RunState(run_id, program, inputs, self.limits)
        log = RunLog(lease, 0, 0, 0, self._clock)
        run = self._drive(state, log, Blobs(journal), plan_id)
        turn = Turn(state, self._clock.now_ms())
        goal, tools = program.plan.goal, self._marks(program)
        started = RunStarted(
            plan=plan_id, goal=goal, inputs=Raw(inputs), tools=tools, kedge=__version__, settings=settings
        )
        begin(turn, started)
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
            its_plan, its_inputs = run.plan_id, run.state.inputs_at_start
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
        if not self._post.opened:  # now: nothing may be awaited between the look-up and the claim
            await self._post.open()
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
        lease = Lease(id_, head.epoch) if over else await self._claimed(id_)
        run = self._taken_up(id_, lease, retry_failed=retry_failed)
        if on_event is not None:
            run.subscribe(on_event)
        return run

    async def compensate(self, run_id: str, step: str = "", reason: str = "", by: str = "") -> Run:
        """Undo a finished step of a run and all that used it; without a step, all that it did.

        Also long after its end: the run is driven until that is undone. What refuses it is raised.
        """
        journal, id_ = self._opened(), checked_run_id(run_id)
        await self._post.open()
        command = Compensate(step=step, reason=reason, by=by)
        if not info(self._as_it_is(self._head(id_)), journal.driven).ended:
            run = await self.resume(id_)
            await self._drivers[id_].send(command)
            return run
        if (known := self._runs.get(id_)) is not None:
            await self._let_go(known)
        lease = await self._claimed(id_)
        run = self._taken_up(id_, lease, retry_failed=False, undo=command)
        await self._drivers[id_].send(command)
        return run

    def fork(
        self,
        run_id: str,
        at: int | None = None,
        patch: Patch | None = None,
        *,
        before: str = "",
        ask: Ask | None = None,
        anew: bool = False,
        by: str = "",
    ) -> Fork:
        """A run that branches off another after its event `at` (else the last), or before a step: not begun.

        What the other's calls came to after that is used where the same call is due; `anew` makes them all.
        """
        id_ = self._head(checked_run_id(run_id)).run_id
        door = Door(self._opened(), self._writer, self._clock, self._claimed, self.resume, self._taken_up)
        wish = Wish(at, before, patch, ask, anew, by)
        return fork(door, id_, wish, self.registry.catalog, self.limits)

    async def _claimed(self, run_id: str) -> Lease:
        """The run is ours, and whoever sends it something can wake us."""
        if not self._post.opened:
            await self._post.open()
        return self._opened().claim(run_id, self._clock.now_ms(), self._post.bell.port)

    def _taken_up(
        self, run_id: str, lease: Lease, *, retry_failed: bool = False, undo: Compensate | None = None
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
        self._post.take_up(run_id)
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
        self._post.add(state.run_id, Mailbox(driver, journal, self._post.tell))
        driver.on_ended = lambda: self._over(run)
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

    def _over(self, run: Run) -> None:
        """It has ended, and that is on disk: what came too late for it is refused while it is ours."""
        if self._runs.get(run.id) is run:
            self._sender.refuse_rest(run.id, self._drivers[run.id].log.lease.epoch, str(run.state.status))
        self._retire(run)

    def _retire(self, run: Run) -> None:
        """Keep nothing of a run that needs no driver any more: an engine may see many in its life."""
        if self._runs.get(run.id) is not run:
            return  # done already; it may have been taken up anew since
        del self._runs[run.id]
        driver = self._drivers.pop(run.id)
        self._post.remove(run.id)
        driver.leave()
        self._writer.forget(driver.log)
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

    async def send(self, run_id: str, command: Command) -> Receipt:
        """Ask something of a run, whoever drives it. It is on disk when this returns, and will be decided on.

        For a run that nobody drives it waits until somebody does.
        """
        self._opened()
        id_, command = checked_run_id(run_id), keyed(command)
        run = self._runs.get(id_)
        if run is not None and self._drivers[id_].lost is None and not self._post.behind(id_):
            return settled(id_, command.key, await run.send(command), driven=True)
        return await self._sender.send(self._head(id_), command, lambda: self.look(id_).state)

    async def drive_all(
        self,
        *,
        at_once: int = AT_ONCE,
        forever: bool = False,
        told: Callable[[Driven], object] | None = None,
    ) -> list[Driven]:
        """Drive every run of the store that can move, until none moves by itself any more; how each stands.

        `forever` goes on with whatever comes for any of them, until it is cancelled. `told` is told at once.
        """
        self._opened()
        await self._post.open()
        came_to: dict[str, Driven] = {}

        def keep(driven: Driven) -> None:
            came_to[driven.run_id] = driven
            if told is not None:
                told(driven)

        await Drive(self, self._post, self._sender, keep, at_once=at_once, keeps=forever).run()
        return list(came_to.values())

    async def let_go(self, run_id: str) -> None:
        """Drive a run no more. It stays in the store and can be taken up again, by anybody."""
        run = self._runs.get(checked_run_id(run_id))
        if run is not None:
            await self._let_go(run)

    async def drain(self, grace_s: float = SHUTDOWN_GRACE_S) -> None:
        """Start nothing more in any run, and give what runs some time to end."""
        await asyncio.gather(*(run.drain(grace_s) for run in self._runs.values()))

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


def _close(journal: Journal) -> None:
    try:
        journal.close()
    except KedgeError as error:  # what was acknowledged is on disk; an error of the user's own comes first
        _log.warning("the store did not close well: %s", error, extra={"action": "store_close"})
