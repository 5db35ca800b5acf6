"""Calls in flight of one run: started, watched, stopped, and what became of them reported.

Every call ends in exactly one input to the driver, whatever the tool does: it returns, raises
anything at all, hangs, ignores being cancelled, returns late. A call that is to stop is cancelled
and given a moment; one that still does not end is given up, and its word is the failure's from
then on (if it comes back later, the core decides what that is worth).
"""

from __future__ import annotations

import asyncio
import hashlib
import inspect
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import copy_context
from typing import Any, Protocol, cast

import msgspec

from kedge.base.codec import digest, encode
from kedge.base.errors import NotDone
from kedge.base.failpoints import armed, reach
from kedge.base.limits import Limits
from kedge.engine.callee import Callee
from kedge.engine.failures import failure_of, not_begun, not_called, short, too_large
from kedge.engine.gates import Gates
from kedge.engine.ports import Agent, Planner
from kedge.engine.processes import Processes
from kedge.engine.stall import StallWatch
from kedge.engine.threads import Threads
from kedge.engine.usage import added
from kedge.flow.inputs import Input, Raised, Reported, Returned, Used
from kedge.flow.program import Node
from kedge.flow.state import StepState
from kedge.flow.usage import Usage
from kedge.flow.words import Failure
from kedge.tools.context import Context
from kedge.tools.registry import Registry
from kedge.tools.tool import Tool

GRACE_S = 2.0
"""Given to a cancelled call to end by itself."""
CLOSED_S = 0.1
"""Given to a call whose coroutine was closed under it."""
WATCH_S = 0.01
"""Deadlines are looked at no more often than this."""
STALL_S = 0.1
"""A look that comes so much too late was held up, and so were the calls: they are given that time back."""
MAX_DISCOVERIES = 100
"""Of one attempt. They are kept in the log for good, and a tool may talk without end."""
_NEVER = float("inf")

_log = logging.getLogger("kedge.attempts")


class Driver(Protocol):
    """Who gets the reports."""

    def put(self, given: Input) -> None: ...
    def put_now(self, given: Input) -> None: ...
    def progress(self, path: str, fraction: float | None, message: str) -> None: ...


class Workshop:
    """What the attempts of all runs of an engine share."""

    def __init__(self, registry: Registry, gates: Gates, limits: Limits) -> None:
        self.registry, self.gates, self.limits = registry, gates, limits
        self.planner: Planner | None = None
        self.agent: Agent | None = None
        self.threads = Threads()
        self.processes = Processes(limits.result_bytes)
        self.loop = asyncio.get_running_loop()
        self.thread_id = threading.get_ident()
        self.runs: set[Attempts] = set()
        self.stall = StallWatch(self._in_loop)

    @property
    def alone(self) -> bool:
        """No more than one run is driven."""
        return len(self.runs) < 2

    @property
    def outside(self) -> bool:
        """A call is at work where the loop does not see it: in a thread or a process."""
        return any(attempts.outside for attempts in self.runs)

    def _in_loop(self) -> Iterator[tuple[str, Tool]]:
        for attempts in self.runs:
            yield from attempts.in_loop()

    async def close(self) -> None:
        """Leave nothing running."""
        self.stall.close()
        self.threads.close()
        await self.processes.close()


class Attempt(msgspec.Struct, eq=False):
    """One call in flight. It is also the sink of its tool's reports."""

    owner: Attempts
    callee: Callee
    node: Node
    path: str
    starts: int
    timeout_s: float
    idle_s: float | None
    beat_s: float
    deadline_s: float
    began: bool
    """Somebody works at it: a call may have to wait for a thread or a process."""
    stop_s: float = _NEVER
    """When a cancelled call is given up."""
    verdict: Failure | None = None
    """Why it was cancelled, once it was."""
    task: asyncio.Task[None] | None = None
    context: Context | None = None
    abandoned: bool = False
    discoveries: int = 0
    usage: Usage | None = None
    """What it used so far, as far as anybody told."""
    said: Mapping[str, Any] | None = None
    """Progress that a thread reported and the loop has not seen yet."""

    def begin(self) -> None:
        """From now on its time counts. Called in whichever thread works at it."""
        self.beat_s = now_s = self.owner.workshop.loop.time()
        self.deadline_s = now_s + self.timeout_s
        self.began = True

    def report(self, kind: str, data: Mapping[str, Any]) -> None:
        if kind == "began":
            self.begin()
            return
        workshop = self.owner.workshop
        self.beat_s = workshop.loop.time()
        if threading.get_ident() == workshop.thread_id:
            self.owner.reported(self, kind, data)
        elif kind in ("discovery", "usage"):
            _call(workshop.loop, self.owner.reported, self, kind, data)
        elif kind == "progress":
            # Only the last word counts: a thread that never stops talking must not flood the loop.
            waits, self.said = self.said is not None, data
            if not waits:
                _call(workshop.loop, self._pass_on)

    def _pass_on(self) -> None:
        said, self.said = self.said, None
        if said is not None:
            self.owner.reported(self, "progress", said)


def _call(loop: asyncio.AbstractEventLoop, function: Callable[..., None], *args: object) -> None:
    with suppress(RuntimeError):  # the loop is closed: nobody is left who could want the news
        loop.call_soon_threadsafe(function, *args)


class Attempts:
    """The calls in flight of one run."""

    def __init__(self, workshop: Workshop, driver: Driver, run_id: str) -> None:
        self.workshop = workshop
        self._driver = driver
        self._put = driver.put
        self._put_now = driver.put_now
        self.run_id = run_id
        self._loop = workshop.loop
        self._stall = workshop.stall
        self._result_bytes = workshop.limits.result_bytes
        workshop.runs.add(self)
        self._give = workshop.gates.give
        self._live: dict[str, Attempt] = {}
        self._given_up: dict[asyncio.Task[None], None] = {}
        """Tasks that ignore being cancelled."""
        self._none_live: asyncio.Event | None = None
        self._callees: dict[str | None, Callee] = {}
        self._next_watch_s = _NEVER
        self._watched_from_s = 0.0
        self._alarm: asyncio.TimerHandle | None = None
        self.closed = False
        self.not_made: list[str] = []
        """Steps whose calls certainly did nothing when this was closed."""

    def __len__(self) -> int:
        return len(self._live)

    def in_loop(self) -> Iterator[tuple[str, Tool]]:
        """Calls in flight that run in the event loop itself."""
        return ((a.path, a.callee.tool) for a in self._live.values() if a.callee.is_async)

    @property
    def outside(self) -> bool:
        """One of them runs in a thread or a process."""
        return any(not attempt.callee.is_async for attempt in self._live.values())

    def start(self, step: StepState, args: bytes) -> None:
        """Make a call."""
        if armed:
            reach("attempts.start")
        name = step.node.step.tool
        callee = self._callees.get(name) or self._callee(name)
        if isinstance(callee, Failure):
            self._refuse(step, callee)
            return
        try:
            prepared = callee.decode(args)
        except BaseException as error:  # types of the tool's own read its arguments, and can raise anything
            self._refuse(step, not_called(error))
            return
        now_s = self._loop.time()
        path, node, is_async = step.path, step.node, callee.is_async
        timeout_s, idle_s = node.step.timeout_s or callee.timeout_s, node.step.idle_timeout_s
        soonest_s = deadline_s = now_s + timeout_s
        attempt = Attempt(
            self, callee, node, path, step.starts, timeout_s, idle_s, now_s, deadline_s, is_async
        )
        self._live[path] = attempt
        context = None
        if callee.wants_context:
            context = attempt.context = self._context(attempt, step, args)
        if is_async:
            attempt.task = self._loop.create_task(self._run(attempt, prepared, context))
            if not self._stall.watching:
                self._stall.start()
        elif callee.tool.spec.isolation == "process":
            attempt.task = self._loop.create_task(self._run_process(attempt, step, args))
        else:
            run = copy_context().run
            try:
                self.workshop.threads.submit(lambda: run(self._run_thread, attempt, prepared, context))
            except RuntimeError as error:
                del self._live[step.path]
                self._refuse(step, failure_of(NotDone(f"no thread for it: {error}")))
                return
        if idle_s is not None:
            soonest_s = min(soonest_s, now_s + idle_s)
        if soonest_s < self._next_watch_s:
            self._watch_at(soonest_s)

    def _callee(self, name: str | None) -> Callee | Failure:
        tool = self.workshop.registry.get(name or "")
        if tool is None:
            return Failure(
                category="missing_tool",
                code="missing_tool",
                message=f"no tool is named {name!r}",
                classified=True,
                not_done=True,
                remedy="give the engine that tool, then resume the run",
            )
        callee = self._callees[name] = Callee(tool, self.workshop.limits)
        return callee

    def _refuse(self, step: StepState, failure: Failure) -> None:
        self._give(step.node)
        self._put(Raised(step.path, step.starts, failure))

    def _context(self, attempt: Attempt, step: StepState, args: bytes) -> Context:
        run_id = self.run_id
        generation, iteration = step.generation, step.iteration

        def key() -> str:
            # The arguments are part of it: a step that is tried again after its plan was changed, or with
            # what a person wrote instead, makes another call, and must not be given the first one's result.
            text = f"{run_id}\n{attempt.path}\n{generation}\n{iteration}\n{digest(args)}"
            return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

        return Context(attempt, run_id, attempt.path, step.attempt, key)

    # --- three ways to run

    async def _run(self, attempt: Attempt, prepared: Any, context: Context | None) -> None:
        try:
            raw = encode(await attempt.callee.invoke(prepared, context))
        except BaseException as error:  # a tool can raise anything, and must harm only its step
            if self._loop.is_closed():
                raise  # everything is being torn down; there is nobody to tell
            self._over(attempt, None, error)
        else:
            self._over(attempt, raw, None)

    async def _run_process(self, attempt: Attempt, step: StepState, args: bytes) -> None:
        callee = attempt.callee
        context = attempt.context or self._context(attempt, step, args)
        try:
            raw = await self.workshop.processes.call(callee.tool, args, context, attempt)
        except BaseException as error:
            if self._loop.is_closed():
                raise
            self._over(attempt, None, error if attempt.began else not_begun(error))
        else:
            self._over(attempt, raw, None)

    def _run_thread(self, attempt: Attempt, prepared: Any, context: Context | None) -> None:
        raw: bytes | None = None
        failed: BaseException | None = None
        attempt.begin()  # before the look at the verdict: `_stop` does the two the other way round
        try:
            if attempt.verdict is not None or self.closed:
                raise NotDone("it was told to stop before a thread was free for it")
            if armed:
                reach("attempts.thread.begun")
            raw = encode(attempt.callee.invoke(prepared, context))
            if armed:
                reach("attempts.thread.returned")
        except BaseException as error:  # also SystemExit: it ends the step, not the thread
            failed = error
        if attempt.abandoned:
            self.workshop.threads.came_back()
        _call(self._loop, self._over, attempt, raw, failed)

    def _over(self, attempt: Attempt, raw: bytes | None, error: BaseException | None) -> None:
        """The call came to an end, by itself or because it was told to."""
        if armed:
            reach("attempts.over")
        if attempt.usage is not None:
            self._tell_usage(attempt, attempt.usage)
        if self._live.get(attempt.path) is attempt:
            del self._live[attempt.path]
            self._give(attempt.node, failure_of(error).category if error is not None else "")
            if self._none_live is not None and not self._live:
                self._none_live.set()
        if raw is not None:
            if len(raw) > self._result_bytes:
                error = too_large(len(raw), self._result_bytes)
            else:
                put = self._put if self._live else self._put_now
                put(Returned(attempt.path, attempt.starts, raw))
                return
        if error is None:
            return
        failure = failure_of(error)
        if self.closed:  # the driver is letting go of the run: what was in flight is told apart at resume
            if failure.not_done:
                self.not_made.append(attempt.path)
            return
        if attempt.verdict is not None and not failure.classified:
            failure = attempt.verdict  # whatever it raised, it did so because it was told to stop
        self._put(Raised(attempt.path, attempt.starts, failure, _jitter(attempt)))

    # --- deadlines

    def _watch_at(self, when_s: float) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
        self._next_watch_s = when_s
        self._watched_from_s = self._loop.time() + WATCH_S
        self._alarm = self._loop.call_at(max(when_s, self._watched_from_s), self._watch)

    def _watch(self) -> None:
        now_s = self._loop.time()
        late_s = now_s - max(self._next_watch_s, self._watched_from_s)
        self._alarm, self._next_watch_s = None, _NEVER
        soonest_s = _NEVER
        for attempt in list(self._live.values()):
            if late_s > STALL_S:
                attempt.deadline_s = max(attempt.deadline_s, now_s) + late_s
                attempt.beat_s = now_s
            if not attempt.began:  # it still waits for its turn, which is not its fault
                attempt.deadline_s, attempt.beat_s = now_s + attempt.timeout_s, now_s
            idle_s = attempt.idle_s
            idle_at_s = attempt.beat_s + idle_s if idle_s else _NEVER
            if attempt.verdict is not None:
                if now_s >= attempt.stop_s:
                    self._abandon(attempt)
                    continue
            elif now_s >= attempt.deadline_s:
                text = f"no result after {attempt.timeout_s:g} s"
                self._cancel(attempt, Failure(category="timeout", code="timeout", message=text), now_s)
            elif now_s >= idle_at_s:
                text = f"no sign of life for {idle_s:g} s"
                self._cancel(attempt, Failure(category="timeout", code="idle_timeout", message=text), now_s)
            soonest_s = min(
                soonest_s,
                attempt.stop_s if attempt.verdict is not None else min(attempt.deadline_s, idle_at_s),
            )
        if soonest_s < _NEVER:
            self._watch_at(soonest_s)

    def _cancel(self, attempt: Attempt, verdict: Failure, now_s: float) -> None:
        if attempt.verdict is not None:
            return
        if armed:
            reach("attempts.cancel")
        attempt.verdict = verdict
        attempt.stop_s = now_s + GRACE_S
        self._stop(attempt)

    def _stop(self, attempt: Attempt) -> None:
        if attempt.context is not None:
            attempt.context.cancelled = True
        task = attempt.task
        if task is None:
            if not attempt.began:  # and never will
                self._over(attempt, None, NotDone("it was told to stop before a thread was free for it"))
            return
        task.cancel()
        if inspect.getcoroutinestate(cast(Any, task.get_coro())) == inspect.CORO_CREATED:
            # It will never take its first step, so it cannot report either.
            self._over(attempt, None, NotDone("it was told to stop before it began"))

    def _abandon(self, attempt: Attempt) -> None:
        """It was told to stop and does not: go on without it."""
        if armed:
            reach("attempts.abandoned")
        del self._live[attempt.path]
        if attempt.usage is not None:
            self._tell_usage(attempt, attempt.usage)
        verdict = attempt.verdict
        self._give(attempt.node, verdict.category if verdict else "cancelled")
        attempt.abandoned = True
        if attempt.task is None:
            self.workshop.threads.give_up()
        else:
            self._given_up[attempt.task] = None
            attempt.task.add_done_callback(self._given_up.pop)
        if verdict is not None:
            self._put(Raised(attempt.path, attempt.starts, verdict, _jitter(attempt)))

    def cancel(self, why: str, which: Callable[[str], bool] | None = None) -> None:
        """Tell calls to stop: those of the paths that `which` says, all if it is not given."""
        now_s = self._loop.time()
        verdict = Failure(category="cancelled", code="cancelled", message=why)
        for attempt in list(self._live.values()):
            if which is None or which(attempt.path):
                self._cancel(attempt, verdict, now_s)
        if self._live:
            self._watch_at(now_s + GRACE_S)

    def reported(self, attempt: Attempt, kind: str, data: Mapping[str, Any]) -> None:
        """A tool said something while it runs."""
        attempt.beat_s = self._loop.time()
        if kind == "discovery":
            attempt.discoveries += 1
            if attempt.discoveries > MAX_DISCOVERIES:
                if attempt.discoveries == MAX_DISCOVERIES + 1:
                    _log.warning(
                        "step %s discovers too much: what comes after %d is left out",
                        attempt.path, MAX_DISCOVERIES,
                        extra={"action": "discoveries_dropped", "run": self.run_id, "step": attempt.path},
                    )  # fmt: skip
                return
            self._put(Reported(attempt.path, attempt.starts, short(data["what"]), short(data["need"])))
        elif kind == "usage":
            attempt.usage = added(attempt.usage, data)
        elif kind == "progress":
            self._driver.progress(attempt.path, data["fraction"], short(data["message"]))

    def _tell_usage(self, attempt: Attempt, usage: Usage) -> None:
        """Once for each attempt, however often its tool said something: every event is kept for good."""
        self._put(Used(attempt.path, usage))
        attempt.usage = None

    def leave(self) -> None:
        """The run makes no more calls: the workshop need not know of it."""
        self.workshop.runs.discard(self)
        if self._alarm is not None:
            self._alarm.cancel()

    async def close(self) -> None:
        """Let go of every call: cancelled, waited for a moment, then left. What still returns counts."""
        self.closed = True
        self.leave()
        live = list(self._live.values())
        for attempt in live:
            self._stop(attempt)
        if self._live:
            self._none_live = asyncio.Event()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._none_live.wait(), GRACE_S)
        for attempt in self._live.values():
            attempt.abandoned = True
            if attempt.task is None:
                self.workshop.threads.give_up()
            else:
                self._given_up[attempt.task] = None
        self._live.clear()
        await self.end_given_up()

    async def end_given_up(self) -> None:
        """A task that ignores being cancelled would keep its loop, and so its process, from ending."""
        stubborn = list(self._given_up)
        for task in stubborn:
            waits_for: Any = getattr(task.get_coro(), "cr_await", None)
            with suppress(RuntimeError):  # it ignores this too
                if asyncio.iscoroutine(waits_for):
                    waits_for.close()
            task.cancel()
        if stubborn:
            await asyncio.wait(stubborn, timeout=CLOSED_S)


def _jitter(attempt: Attempt) -> float:
    """A number from 0 to 1 that differs between runs, steps and attempts, and needs no random source."""
    text = f"{attempt.owner.run_id}{attempt.path}{attempt.starts}"
    return hashlib.blake2b(text.encode(), digest_size=2).digest()[0] / 255
