"""Driving every run of a store that can move: what came for it, what was interrupted, what is due."""

from __future__ import annotations

import asyncio
from asyncio import FIRST_COMPLETED
from collections.abc import Callable, Collection, Iterable
from itertools import islice
from typing import TYPE_CHECKING

import msgspec

from kedge.base.errors import BadInput, KedgeError, StoreError
from kedge.control.changed import tools_to_come
from kedge.control.run import Run
from kedge.control.sending import Sender
from kedge.engine.post import Post
from kedge.flow.due import next_wake
from kedge.flow.state import RunState
from kedge.flow.words import RunStatus
from kedge.journal.entry import Head
from kedge.tools.registry import Registry

if TYPE_CHECKING:
    from kedge.control.engine import Engine

AT_ONCE = 100
"""Runs that are driven at the same time."""


class Movable(msgspec.Struct, frozen=True, kw_only=True):
    """A run that nobody drives, and what would move it."""

    run_id: str
    """Its name in the store."""
    seq: int
    """Number of its last event."""
    why: str
    """`commands` came for it; `interrupted`: its driver was lost; `time`: it waits for that; `damaged`."""
    at_ms: int = 0
    """When it can move; 0 for now."""


class Driven(msgspec.Struct, frozen=True, kw_only=True):
    """What came of driving one run."""

    run_id: str
    """Its name in the store."""
    status: str
    """How it stands; `not driven` where it could not be taken up."""
    why: str = ""
    """What it waits for, or why it could not be taken up."""
    code: str = ""
    """The same, for programs, where it could not."""
    refused: dict[str, str] = {}
    """Commands that came for it and were not taken: why, by their keys. Who sent them may be gone."""


class Judge:
    """Says what would move runs. A run is looked at again only when its log has moved."""

    def __init__(self, fold: Callable[[str], RunState]) -> None:
        self._fold = fold
        self._known: dict[str, tuple[int, Movable | None]] = {}
        """Of each run that has not ended: its last event then, and what would move it."""

    def movable(self, heads: Iterable[Head], commanded: Collection[str]) -> list[Movable]:
        """Those of the runs that can move, now or later."""
        found: list[Movable] = []
        before, self._known = self._known, {}
        for head in heads:
            run_id, seq = head.run_id, head.seq
            if run_id in commanded:
                found.append(Movable(run_id=run_id, seq=seq, why="commands"))
                continue
            known = before.get(run_id)
            if known is None or known[0] != seq:
                known = seq, self._judged(run_id, seq)
            self._known[run_id] = known
            found += [known[1]] if known[1] is not None else []
        return found

    def _judged(self, run_id: str, seq: int) -> Movable | None:
        try:
            state = self._fold(run_id)
        except StoreError:  # who takes it up is told
            return Movable(run_id=run_id, seq=seq, why="damaged")
        if state.ended or state.status is RunStatus.PAUSED:
            return None
        if state.status is not RunStatus.WAITING:
            return Movable(run_id=run_id, seq=seq, why="interrupted")
        at_ms = next_wake(state)
        return Movable(run_id=run_id, seq=seq, why="time", at_ms=at_ms) if at_ms else None


def require_tools(state: RunState, registry: Registry) -> None:
    """BadInput if the run has steps to come for which there is no tool here: they would only fail."""
    missing = sorted(name for name in tools_to_come(state) if name in state.tools and name not in registry)
    if missing and not state.ended:
        raise BadInput(
            f"the run still needs tools that are not here: {', '.join(missing)}",
            code="tools_missing",
            where=f"run {state.run_id}",
            remedy="name the files that it was started with: --tools FILE",
        )


def waits_for(state: RunState) -> str:
    """What a run that does not move by itself waits for, in words."""
    if state.ended:
        return ""
    if state.paused:
        return "somebody to lift its pause"
    asked = [id_ for id_, question in state.questions.items() if question.open]
    said = [f"an answer to {', '.join(asked[:5])}"] if asked else []
    if state.listening:
        said += [f"the signal {name!r}" for name in sorted(state.listeners)[:5]]
    return " and ".join(said)


class Drive:
    """Drives what can move, some runs at a time. One that cannot be taken up does not stop the others."""

    def __init__(
        self,
        engine: Engine,
        post: Post,
        sender: Sender,
        told: Callable[[Driven], object],
        *,
        at_once: int,
        keeps: bool,
    ) -> None:
        self._engine = engine
        self._post = post
        self._sender = sender
        self._told = told
        self._at_once = at_once
        self._keeps = keeps
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._kept: set[str] = set()
        """Runs that wait, and stay taken up here: what comes for them wakes them at once."""
        self._stuck: dict[str, int] = {}
        """Runs that could not be moved, and their last event then."""
        self._news = asyncio.Event()

    async def run(self) -> None:
        """Until nothing moves by itself any more; for ever, if what waits is kept."""
        self._post.on_arrival = self._news.set
        try:
            while True:
                self._news.clear()
                at_ms = self._begin()
                if not self._tasks and not self._keeps:
                    return
                await self._something(at_ms)
        finally:
            self._post.on_arrival = _nothing
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _begin(self) -> int:
        """Take up what can move, as far as there are places; when the next one can, in ms, 0 for never."""
        now_ms, later_ms = self._engine.now_ms(), 0
        for found in self._engine.drivable():
            if found.run_id in self._tasks or self._stuck.get(found.run_id) == found.seq:
                continue
            if found.at_ms > now_ms:
                later_ms = min(later_ms or found.at_ms, found.at_ms)
            elif len(self._tasks) - len(self._kept) < self._at_once:
                self._tasks[found.run_id] = asyncio.ensure_future(self._one(found))
        return later_ms

    async def _something(self, at_ms: int) -> None:
        """Until there is news, a run is done with, or the time has come."""
        wait_s = max(0.0, (at_ms - self._engine.now_ms()) / 1000) if at_ms else None
        news = asyncio.ensure_future(self._news.wait())
        try:
            await asyncio.wait([news, *self._tasks.values()], timeout=wait_s, return_when=FIRST_COMPLETED)
        finally:
            news.cancel()
        for run_id, task in list(self._tasks.items()):
            if task.done():
                del self._tasks[run_id]
                self._kept.discard(run_id)
                task.result()

    async def _one(self, found: Movable) -> None:
        run_id = found.run_id
        try:
            if self._sender.refuse_left(run_id):  # it has ended: there is nothing to drive
                return
            before = self._engine.look(run_id).state
            require_tools(before, self._engine.registry)
            await self._follow(await self._engine.resume(run_id), found, len(before.commands))
        except KedgeError as error:
            self._stuck[run_id] = found.seq
            self._told(Driven(run_id=run_id, status="not driven", why=str(error), code=error.code))

    async def _follow(self, run: Run, found: Movable, known: int) -> None:
        """Until it need not be driven here; `known` commands have been told before."""
        while True:
            result = await run.result()
            state, seq = run.state, run.state.seq
            refused = {key: why for key, why in islice(state.commands.items(), known, None) if why}
            known = len(state.commands)
            self._told(
                Driven(run_id=run.id, status=str(result.status), why=waits_for(state), refused=refused)
            )
            if result.state.ended:
                return
            if not self._keeps or len(self._kept) >= self._at_once:
                break
            self._kept.add(run.id)
            self._news.set()  # its place is free
            await run.moved(seq)
            self._kept.discard(run.id)
            if not (run.driven or run.state.ended):
                return
        if seq <= found.seq + 1:  # but for being taken up, nothing has happened
            self._stuck[run.id] = seq
        await self._engine.let_go(run.id)


def _nothing() -> None:
    return None
