"""One run, driven: the intake, the turn, and what follows from it.

    input ─> intake ─> decide ─> evolve ─> due ─> append ─> perform ─> (tool results come back as inputs)

Nobody else touches the run. A turn drains the intake, so many results that arrive together are one
append. The end of a run and answers to commands wait for the disk; calls of tools with effects do
too, those of others do not.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextvars import copy_context

from kedge.base.clock import Clock
from kedge.base.errors import InternalError, KedgeError
from kedge.base.failpoints import armed, reach
from kedge.engine.advice import Advice
from kedge.engine.attempts import Attempts, Workshop
from kedge.engine.deliveries import Delivery, deliver
from kedge.engine.log import RunLog
from kedge.engine.passing import PassingTime
from kedge.engine.receipts import Receipt, refuse, settle
from kedge.engine.run_time import RunTime
from kedge.engine.writer import MAX_BEHIND_EVENTS, Writer
from kedge.flow.commands import Cancel, Command
from kedge.flow.decide import decide
from kedge.flow.due import due, next_wake
from kedge.flow.events import RunCancelling, StepInterrupted
from kedge.flow.inputs import Exhausted, Input, Raised, Ticked
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Launch, Turn
from kedge.flow.words import Failure, RunStatus, StepStatus

_log = logging.getLogger("kedge.driver")

NEEDS_NO_DISK = frozenset({"pure", "read"})


class Driver:
    """Makes one run move."""

    def __init__(
        self,
        state: RunState,
        log: RunLog,
        writer: Writer,
        workshop: Workshop,
        clock: Clock,
        *,
        durable: bool,
        driven_s: float,
    ) -> None:
        self.state = state
        self.log = log
        self._writer = writer
        self._workshop = workshop
        self._gates = workshop.gates
        self._durable = durable
        self._loop = workshop.loop
        self._context = copy_context()
        """Turns run in the context of whoever started the run, not of whichever tool ended last."""
        self.attempts = Attempts(workshop, self, state.run_id)
        self._advice = Advice(state, self, workshop.planner, workshop.agent)
        self._intake: deque[Input | Receipt | Delivery] = deque()
        self._scheduled = False
        self._in_turn = False
        self._decided: list[Receipt] = []
        """Commands that the turn under way has taken."""
        self._delivered: list[tuple[int, bytes]] = []
        """What the turn under way has made of commands of the store."""
        self.catching_up: asyncio.Future[None] | None = None
        """Set while it is to decide on what came before it was taken up, and starts nothing."""
        self._held: deque[Launch] = deque()
        """Calls that wait for the disk."""
        self._promised: deque[tuple[int, asyncio.Future[None]]] = deque()
        """Who is to be told once an event is on disk."""
        self._timer: asyncio.TimerHandle | None = None
        self._wake_at: int | None = None
        self._now_ms = PassingTime(clock, self._loop, state.at).now_ms
        self._run_time = RunTime(self._loop, driven_s, lambda: state.limit("run_s"), self._exhaust)
        self._version = state.version
        self.lost: Exception | None = None
        """Why this driver can go on no more."""
        self.stopped = False
        self.draining = False
        """Takes in what comes and starts nothing more."""
        self._idle: list[asyncio.Future[None]] = []
        self.on_events: Callable[[], None] | None = None
        """Called after each append, if anybody follows."""
        self.on_progress: Callable[[str, float | None, str], None] = _no_progress
        self.on_ended: Callable[[], None] = lambda: None
        """Called once the end is on disk."""
        self.on_given_up: Callable[[], None] = lambda: None
        """Called once this driver can go on no more."""
        log.on_durable = self._on_durable
        log.on_lost = self._on_lost

    # --- in

    def put(self, given: Input | Receipt | Delivery) -> None:
        """Something happened: it will be looked at in the next turn."""
        self._intake.append(given)
        if not self._scheduled:
            if armed:
                reach("driver.input")
            self._scheduled = True
            self._loop.call_soon(self._turn, context=self._context)

    def put_now(self, given: Input) -> None:
        """Like `put`, from a call that was the only one in flight.

        There is nothing to wait for that could share its turn, so the turn is taken at once: a chain
        of short steps spends a third of its time in the loop's round trips otherwise.
        """
        if self._scheduled or self._in_turn:  # in a turn: a task that was started there may end at once
            self.put(given)
        else:
            self._intake.append(given)
            self._scheduled = True
            self._context.run(self._turn)

    def progress(self, path: str, fraction: float | None, message: str) -> None:
        """A tool said how far it is. Not journalled: followers may miss it."""
        self.on_progress(path, fraction, message)

    async def send(self, command: Command) -> None:
        """Give the run a command; returns when it is applied and durable, raises when it is refused."""
        if self.catching_up is not None:  # what came first is decided on first
            await asyncio.wait([self.catching_up])
        self._check()
        receipt = Receipt(command, self._loop.create_future())
        self.put(receipt)
        if isinstance(command, Cancel) and self._writer.full:
            # Its turn comes when there is room. What runs is to stop now; it will find the command before it.
            self.attempts.cancel("the run was cancelled")
        await receipt.decided
        if armed:
            reach("driver.command.durable")

    # --- the turn

    def _turn(self) -> None:
        if self.stopped:
            self._scheduled = False
            return
        if self._writer.must_wait(self.log):
            self._writer.when_written(lambda: self._loop.call_soon(self._turn, context=self._context))
            return
        self._turn_now()

    def _turn_now(self) -> None:
        self._scheduled = False
        self._in_turn = True
        try:
            self._take_turn()
        except Exception as error:
            self._on_lost(error)
            decided, self._decided = self._decided, []
            refuse(decided, error)
        finally:
            self._in_turn = False
        if self._held or self.state.end is not None:
            self._flush()

    def _flush(self) -> None:
        """Commit for what waits for the disk: at once if nobody could share the sync.

        Nobody can if this is the only run and no call of it is in flight; a round trip through the loop
        would only be added to each step of a chain.
        """
        if self._workshop.alone and not self.attempts:
            self._writer.flush()
        else:
            self._writer.flush_soon()

    def _take_turn(self) -> None:
        state, intake = self.state, self._intake
        turn = Turn(state, self._now_ms())
        try:
            while intake:
                given = intake.popleft()
                kind = type(given)
                if kind is Receipt:
                    self._decided.append(given)  # type: ignore[arg-type]
                    if not settle(turn, given):  # type: ignore[arg-type]
                        self._decided.pop()
                    if armed:
                        reach("driver.command.decided")
                elif kind is Delivery:
                    self._delivered.append(deliver(turn, given))  # type: ignore[arg-type]
                    if armed:
                        reach("driver.delivery.decided")
                else:
                    decide(turn, given)  # type: ignore[arg-type]
            if not self.draining and self.catching_up is None:
                due(turn, self._gates)
            if turn.events or self._delivered:
                self._append(turn)
        except BaseException:
            for step, _, _ in turn.launches:  # these calls are never made; other runs may have their places
                self._gates.give(step.node)
            raise
        if self._decided:
            decided, self._decided = self._decided, []
            for receipt in decided:
                self._promise(receipt.once_durable())
        if state.open_questions or state.paused or self._run_time.rests:
            self._run_time.account(state.end is None and not self._moves_by_itself)
        if state.repair is not None or state.decision is not None:
            self._advice.look()
        if state.parked:
            self._gates.when_given(self._poke)
        if state.timers or self._wake_at is not None:
            self._set_timer()
        if self._idle and not state.running and not self._moves_by_itself:
            self._tell_idle()

    def _append(self, turn: Turn) -> None:
        log, state = self.log, self.state
        log.append(turn.events, turn.now, turn.blobs)
        if armed:
            reach("driver.appended")
        start = self.attempts.start
        launches, turn.launches = turn.launches, []
        for launch in launches:
            if self._durable and launch[0].node.effect not in NEEDS_NO_DISK:
                self._held.append(launch)
            else:
                start(launch[0], launch[1])
        if state.cancelling and any(type(event) is RunCancelling for event in turn.events):
            if armed:
                reach("driver.cancel.calls")
            self._drop_held()
            self.attempts.cancel("the run was cancelled")
        if state.version != self._version:
            self._version = state.version
            self._stop_unwanted()
        if self._delivered:
            log.decided += self._delivered
            self._delivered = []
            self._writer.flush_soon()
        # Only now: the writer may commit at once, and what is held by then is what that commit lets go.
        if not log.queued or log.seq - log.durable_seq >= MAX_BEHIND_EVENTS:
            self._writer.dirty(log)
        if log.size >= state.max_journal_bytes:
            self._exhaust("journal_bytes", log.size)
        if self.on_events is not None:
            self.on_events()

    def _exhaust(self, limit: str, value: float) -> None:
        if self.state.end is None and not self.state.blocked_by:
            if armed:
                reach("driver.exhausted")
            self.put(Exhausted(limit, value))

    def _drop_held(self) -> None:
        """Calls that were announced and not made: they certainly did nothing."""
        while self._held:
            self._take_down(self._held.popleft()[0])

    def _take_down(self, step: StepState) -> None:
        self._gates.give(step.node)
        failure = Failure(category="cancelled", code="cancelled", message="cancelled", not_done=True)
        self.put(Raised(step.path, step.starts, failure))

    def _stop_unwanted(self) -> None:
        """The plan was changed: calls that it wants no more are told to stop."""
        held, self._held = self._held, deque()
        for launch in held:
            if launch[0].unwanted:
                self._take_down(launch[0])
            else:
                self._held.append(launch)
        steps = self.state.steps
        self.attempts.cancel("the plan was changed", lambda path: path in steps and steps[path].unwanted)

    def _poke(self) -> None:
        self.put(Ticked())

    # --- time

    def _set_timer(self) -> None:
        at = None if self._stands_still else next_wake(self.state)
        if at == self._wake_at:
            return
        self._wake_at = at
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if at is not None:
            wait_s = max(0.0, (at - self._now_ms()) / 1000)
            self._timer = self._loop.call_later(wait_s, self._on_timer)

    @property
    def _stands_still(self) -> bool:
        """No timer moves it: whatever lifts this is an input, and its turn looks at the timers again."""
        state = self.state
        return bool(self.draining or state.paused or state.blocked_by or state.cancelling or state.stopped_by)

    def _on_timer(self) -> None:
        if armed:
            reach("driver.timer")
        self._timer, self._wake_at = None, None
        self.put(Ticked())

    # --- the disk

    def _on_durable(self) -> None:
        try:
            self._keep_promises()
        except Exception as error:  # the writer serves other runs too
            self._on_lost(error)

    def _keep_promises(self) -> None:
        durable = self.log.durable_seq
        while self._held and self._held[0][2] <= durable:
            step, args, _ = self._held.popleft()
            if armed:
                reach("driver.held.released")
            self.attempts.start(step, args)
        while self._promised and self._promised[0][0] <= durable:
            future = self._promised.popleft()[1]
            if armed:
                reach("driver.promise.due")
            if not future.done():
                future.set_result(None)
        self._tell_followers()  # of what they are told only when it is on disk
        if self.state.end is not None and durable == self.log.seq:
            if armed:
                reach("driver.ended.durable")
            self.leave()
            self._tell_idle()
            self.on_ended()
            if armed:
                reach("driver.ended.told")

    def _tell_followers(self) -> None:
        if self.on_events is not None:
            self.on_events()

    def _promise(self, future: asyncio.Future[None]) -> None:
        """Resolve `future` once everything up to now is on disk."""
        if self.log.behind:
            self._promised.append((self.log.seq, future))
            self._writer.flush_soon()
        elif not future.done():
            future.set_result(None)

    def durable(self) -> asyncio.Future[None]:
        """A future that is done once everything up to now is on disk."""
        future: asyncio.Future[None] = self._loop.create_future()
        self._promise(future)
        return future

    def _on_lost(self, error: Exception) -> None:
        """The run cannot be driven on here: say so to everybody who waits."""
        if self.lost is not None:
            return
        if armed:
            reach("driver.lost")
        self.lost = error
        self.stopped = True
        _log.error(
            "run %s: driver stops: %s", self.state.run_id, error,
            extra={"action": "driver_stops", "run": self.state.run_id},
            exc_info=error if isinstance(error, InternalError) else None,
        )  # fmt: skip
        self.stop_alarms()
        self._drop_held()
        self.attempts.cancel("its driver stopped")
        refuse([r for r in self._intake if type(r) is Receipt], error)
        for _, future in self._promised:
            if not future.done():
                future.set_exception(error)
        self._promised.clear()
        self._intake.clear()
        self._tell_idle()
        self._tell_followers()
        self.on_given_up()

    def _check(self) -> None:
        if self.lost is not None:
            raise self.lost
        if self.stopped:
            raise KedgeError(f"run {self.state.run_id} is not driven here any more", code="stopped")

    # --- waiting for it

    @property
    def _moves_by_itself(self) -> bool:
        """Something other than a person will move it."""
        state = self.state
        if state.end is not None:
            return self.log.behind > 0
        return state.status not in (RunStatus.WAITING, RunStatus.PAUSED) or bool(
            state.running or self._intake or self.catching_up
        )

    async def settled(self) -> None:
        """Until the run has ended and that is on disk, or only people can move it."""
        while True:
            if self.lost is not None:
                raise self.lost
            if self.stopped or not (self._moves_by_itself or self._intake):
                if self.stopped or not self.log.behind:
                    return
                await self.durable()
                continue  # it may have been moved meanwhile: what it came to then need not be on disk
            future: asyncio.Future[None] = self._loop.create_future()
            self._idle.append(future)
            await future

    def _tell_idle(self) -> None:
        idle, self._idle = self._idle, []
        for future in idle:
            if not future.done():
                future.set_result(None)

    async def drain(self, grace_s: float) -> None:
        """Start nothing more, and give what runs some time to end."""
        if armed:
            reach("driver.drain")
        self.draining = True
        deadline = self._loop.time() + grace_s
        while (len(self.attempts) or self._held) and self._loop.time() < deadline:  # noqa: ASYNC110
            await asyncio.sleep(0.01)

    async def close(self) -> None:
        """Let go of the run. What is in flight is told apart when it is resumed."""
        self.draining = True
        self.stop_alarms()
        not_made = [step.path for step, _, _ in self._held]
        while self._held:
            self._gates.give(self._held.popleft()[0].node)
        await self.attempts.close()
        if armed:
            reach("driver.close.calls_ended")
        if not self.stopped and self._intake:
            self._turn_now()  # what came back in the meantime
        if self.lost is None:
            self._take_back(not_made + self.attempts.not_made)
        self.stopped = True
        self.stop_alarms()
        stopped = KedgeError(f"run {self.state.run_id} is not driven here any more", code="stopped")
        refuse([r for r in self._intake if type(r) is Receipt], stopped)
        self._intake.clear()
        self._tell_idle()
        self._tell_followers()

    def _take_back(self, paths: list[str]) -> None:
        """Calls that were announced and not made: the next driver makes them, and nobody need be asked."""
        turn = Turn(self.state, self._now_ms())
        for path in paths:
            if self.state.call_at(path).status is StepStatus.RUNNING and self.state.end is None:
                turn.emit(StepInterrupted(path=path))
        if turn.events:
            self.log.append(turn.events, turn.now, turn.blobs)
            if armed:
                reach("driver.close.taken_back")
            self._writer.dirty(self.log)

    def leave(self) -> None:
        """The run needs no driver any more: nothing wakes it, and nobody need know of it."""
        self.stop_alarms()
        self.attempts.leave()

    def caught_up(self) -> None:
        """All that came before it was taken up lies in the intake, or nobody takes it any more."""
        if self.catching_up is not None:
            self.catching_up.set_result(None)
            self.catching_up = None

    def stop_alarms(self) -> None:
        """Nothing more is due at any time."""
        self.caught_up()
        self._run_time.stop()
        if self._timer is not None:
            self._timer.cancel()
        self._advice.stop()


def _no_progress(path: str, fraction: float | None, message: str) -> None:
    return None
