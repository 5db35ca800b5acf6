"""Forks: a run that branches off another one after some event, and goes its own way from there.

The fork's log begins with the very events of the other run, so what it is at that point is what the other
was. What the other's calls came to after that is kept, and used where the same call is due. What would be
done a second time is told before anything starts.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

import msgspec

from kedge.base.clock import Clock
from kedge.base.collector import collector_paused
from kedge.base.errors import BadInput, NotFound, Refused, RunConflict
from kedge.base.failpoints import armed, reach
from kedge.base.ids import new_run_id
from kedge.base.ids import run_id as checked_run_id
from kedge.base.limits import Limits
from kedge.control.follow import Callback, check_callback
from kedge.control.listing import headline
from kedge.control.run import Run
from kedge.control.salvage import Intact, blobs_of, intact
from kedge.engine.log import RunLog
from kedge.engine.ports import Journal
from kedge.engine.recovery import decode, fold
from kedge.engine.writer import Writer
from kedge.flow import events as ev
from kedge.flow.afterwards import Afterwards
from kedge.flow.branching import TAKEN
from kedge.flow.changes import step_at
from kedge.flow.decide import decide
from kedge.flow.due import due
from kedge.flow.inputs import Branched
from kedge.flow.program import Node
from kedge.flow.settings import Ask
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.flow.words import StepStatus
from kedge.journal.entry import Entry, Lease
from kedge.plan.patch import Patch
from kedge.plan.tools import Catalog

_BEGINNINGS = (ev.StepStarted, ev.StepExpanded, ev.StepWaiting)
_NOT_HAD = frozenset({StepStatus.FAILED, StepStatus.SKIPPED, StepStatus.PENDING, StepStatus.WAITING})
"""What a step with effects is at in the end if it is known that the last call of it had none."""
_CHANGES = frozenset({"idempotent", "effect"})
_IN_PATHS = re.compile(r"\[\d+\]|#\d+")
_NO_LIMIT = 1_000_000_000


class Wish(NamedTuple):
    """How a run is to be forked."""

    at: int | None = None
    before: str = ""
    patch: Patch | None = None
    ask: Ask | None = None
    anew: bool = False
    by: str = ""


class Repeat(msgspec.Struct, frozen=True, kw_only=True):
    """A call with effects that the other run made, and that the fork may make again."""

    path: str
    """The step."""
    tool: str
    """What it calls."""
    status: str
    """How the step stands in the other run."""


class Door(NamedTuple):
    """What starting a fork needs of the engine."""

    journal: Journal
    writer: Writer
    clock: Clock
    claim: Callable[[str], Awaitable[Lease]]
    resume: Callable[[str], Awaitable[Run]]
    take_up: Callable[[str, Lease], Run]


class Branch(NamedTuple):
    """A fork that is not written yet."""

    run_id: str
    at: int
    told: list[tuple[int, bytes]]
    blobs: dict[str, bytes]
    line: bytes
    edit: bytes
    reused: tuple[str, ...]
    again: tuple[str, ...]
    repeats: tuple[Repeat, ...]
    damage: str


class Fork:
    """A run that is about to branch off another: nothing is written or started before `start`."""

    def __init__(self, branch: Branch, door: Door) -> None:
        self._branch = branch
        self._door = door
        self.source = branch.run_id
        """The run that it branches off."""
        self.at = branch.at
        """The last event that the two have in common."""
        self.reused = branch.reused
        """Steps that are done at once, with the results that the other run has for the same calls."""
        self.again = branch.again
        """Steps that the other run called after that point, and that are called again if it comes to it."""
        self.repeats = branch.repeats
        """Those of them that have effects: they may happen a second time."""
        self.damage = branch.damage
        """What is wrong with the other run's log after that point: what it did then is not known."""

    async def start(
        self,
        run_id: str | None = None,
        *,
        repeat: bool = False,
        on_event: Callback | None = None,
    ) -> Run:
        """Write it and drive it. With `repeat`, also if effects of the other run may happen again.

        With the id of a run that is this very fork already: that run, driven on.
        """
        check_callback(on_event)
        if self.repeats and not repeat:
            raise Refused(
                f"effects of run {self.source} may happen again: {_named(self.repeats)}",
                code="repeats_effects",
                where=f"run {self.source}",
                remedy="fork it after them, or say that they may: repeat=True",
            )
        id_ = checked_run_id(run_id) if run_id is not None else new_run_id()
        run = await _write(self._branch, self._door, id_)
        if on_event is not None:
            run.subscribe(on_event)
        return run

    def __str__(self) -> str:
        lines = [f"fork of run {self.source} after event {self.at}"]
        lines += [f"  taken over: {', '.join(self.reused)}"] if self.reused else []
        lines += [f"  called again: {', '.join(self.again)}"] if self.again else []
        lines += [
            f"  ! may have its effect again: {one.path} ({one.tool}, {one.status} in the other run)"
            for one in self.repeats
        ]
        lines += [f"  ! {self.damage}"] if self.damage else []
        return "\n".join(lines)


def _named(repeats: Sequence[Repeat]) -> str:
    return ", ".join(one.path for one in repeats[:20]) + (" …" if len(repeats) > 20 else "")


# --- making it


def fork(door: Door, run_id: str, wish: Wish, catalog: Catalog, limits: Limits) -> Fork:
    """The fork, written nowhere yet. BadInput, InvalidPlan or Refused if there can be none."""
    with collector_paused():
        return Fork(_branch(door.journal, run_id, wish, catalog, limits, door.clock.now_ms()), door)


def _branch(
    journal: Journal, run_id: str, wish: Wish, catalog: Catalog, limits: Limits, now_ms: int
) -> Branch:
    source = intact(journal, run_id)
    at = _position(run_id, source, wish)
    before = source.entries[:at]
    known = _afterwards(run_id, source, at, catalog, limits)
    folded = fold(run_id, before, source.blobs.__getitem__, catalog, limits)
    _refuse_undone_since(run_id, folded.state, known)
    state = folded.state
    turn = Turn(state, now_ms)
    settings = msgspec.structs.replace(state.settings, ask=wish.ask) if wish.ask is not None else None
    kept = () if wish.anew else known.results
    decide(turn, Branched(
        run=run_id, seq=at, kept=kept, anew=wish.anew, patch=wish.patch, settings=settings, by=wish.by,
        lost=_lost(run_id, source) if source.damage is not None else "",
    ))  # fmt: skip
    told = [(entry.at, entry.data) for entry in before]
    told += [(turn.now, ev.encode_event(event)) for event in turn.events]
    line = headline(state, folded.started.plan)
    at_hand = {**source.blobs, **turn.blobs}
    named = {sha for _, data in told for sha in blobs_of(ev.decode_event(data))}
    reused, again, repeats = _preview(state, known, turn.now)
    edit = msgspec.json.encode(wish.patch, order="deterministic") if wish.patch is not None else b""
    damage = _lost(run_id, source) if source.damage is not None else ""
    blobs = {sha: at_hand[sha] for sha in named}
    return Branch(run_id, at, told, blobs, line, edit, reused, again, repeats, damage)


def _lost(run_id: str, source: Intact) -> str:
    return f"The log of run {run_id} is damaged: what it did after event {len(source.entries)} is lost."


def _position(run_id: str, source: Intact, wish: Wish) -> int:
    last = len(source.entries)
    if wish.before:
        at = _before(run_id, source.entries, wish.before)
    else:
        at = wish.at if wish.at is not None else last
    if type(at) is not int or not 1 <= at <= last:
        reason = f" ({source.damage})" if source.damage is not None else ""
        raise BadInput(
            f"it has no intact event {at!r}{reason}",
            code="fork_at", where=f"run {run_id}", allowed=[f"1 to {last}"],
            remedy="name one of its events: kedge log RUN lists them",
        )  # fmt: skip
    at = max(at, 2)  # before its plan is followed there is no run
    _refuse_undone(run_id, source.entries[:at])
    return min(at + isinstance(decode(run_id, source.entries[at - 1]), TAKEN), last)


def _refuse_undone(run_id: str, entries: Sequence[Entry]) -> None:
    """Refused if what the run did was being undone by then: there is nothing left to build on."""
    for entry in entries:
        if isinstance(decode(run_id, entry), ev.CompensationStarted):
            raise Refused(
                f"what the run did is undone from event {entry.seq} on",
                code="fork_undone", where=f"run {run_id}", allowed=[f"1 to {entry.seq - 1}"],
                remedy="name an event before that, or start the plan anew",
            )  # fmt: skip


def _refuse_undone_since(run_id: str, state: RunState, known: Afterwards) -> None:
    """Refused if something that the fork would build on has been undone by now."""
    gone = sorted(path for path in known.undone if path in state.steps and state.steps[path].ended_seq)
    if gone:
        raise Refused(
            f"what it would begin with has been undone since: {', '.join(gone[:10])}",
            code="fork_undone", where=f"run {run_id}",
            remedy=f"branch off before that was done, as with before={gone[0]!r}, or start the plan anew",
        )  # fmt: skip


def _before(run_id: str, entries: Sequence[Entry], path: str) -> int:
    begun: dict[str, int] = {}
    for entry in entries:
        event = decode(run_id, entry)
        if isinstance(event, _BEGINNINGS):
            begun.setdefault(event.path, entry.seq)
    if path not in begun:
        raise NotFound(
            f"in run {run_id} no step {path[:80]!r} has begun",
            code="unknown_step", where=f"run {run_id}", allowed=list(begun)[:10],
            remedy="name a step that has begun",
        )  # fmt: skip
    return begun[path] - 1


def _afterwards(run_id: str, source: Intact, at: int, catalog: Catalog, limits: Limits) -> Afterwards:
    """What the other run did after event `at`."""
    entries = source.entries
    known = Afterwards(fold(run_id, entries[:1], source.blobs.__getitem__, catalog, limits).state)
    for entry in entries[1:]:
        if entry.seq == at + 1:
            known.branch_here()
        known.fold(decode(run_id, entry), entry.at, f"{run_id}@{entry.seq}")
    if at == len(entries):
        known.branch_here()
    return known


# --- what it would do


class _Room:
    """A gate that holds nothing back."""

    def take(self, node: Node) -> str:  # noqa: ARG002
        return ""

    def give(self, node: Node) -> None:
        pass

    def room(self, name: str) -> int:  # noqa: ARG002
        return _NO_LIMIT


def _preview(
    state: RunState, known: Afterwards, now_ms: int
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[Repeat, ...]]:
    """Takes the fork's first turn to see what it comes to. The state is of no use afterwards."""
    state.parallel = _NO_LIMIT
    state.blocked_by = 0  # as if all that holds up the whole run were answered
    turn = Turn(state, now_ms)
    due(turn, _Room())
    reused = tuple(event.path for event in turn.events if isinstance(event, ev.ResultReused))
    again = tuple(path for path in known.called if path not in reused and _is_to_come(state, path))
    repeats = [found for path in again if (found := _repeat(state, known, path)) is not None]
    return reused, again, tuple(repeats)


def _is_to_come(state: RunState, path: str) -> bool:
    step = state.steps.get(path)
    if step is not None:
        return step.outcome is None
    return step_at(state.plan, _IN_PATHS.sub("", path)) is not None


def _repeat(state: RunState, known: Afterwards, path: str) -> Repeat | None:
    then: StepState | None = known.state.steps.get(path)
    step = step_at(state.plan, _IN_PATHS.sub("", path))
    tool = (step.tool if step is not None else None) or ""
    mark = known.state.tools.get(then.node.step.tool or "" if then is not None else tool)
    if mark is None or mark.effect not in _CHANGES:
        return None
    if then is not None and then.status in _NOT_HAD and path not in known.ended:
        return None
    return Repeat(path=path, tool=tool, status=str(then.status) if then is not None else "replaced")


# --- writing it


async def _write(branch: Branch, door: Door, run_id: str) -> Run:
    journal = door.journal
    head = journal.head(run_id)
    if head is not None and head.seq:
        _refuse_another(journal, run_id, branch)
        return await door.resume(run_id)
    lease = await door.claim(run_id)
    if armed:
        reach("control.fork.claimed")
    try:
        log = RunLog(lease, 0, 0, 0, door.clock)
        log.copy(branch.told, branch.blobs)
        log.headline = lambda: branch.line
        await _on_disk(log, door.writer)
        if armed:
            reach("control.fork.written")
        return door.take_up(run_id, lease)
    except BaseException:
        journal.release(lease)
        raise


def _refuse_another(journal: Journal, run_id: str, branch: Branch) -> None:
    """RunConflict unless the run of that id is this fork."""
    forked, edit = None, b""
    for entry in journal.read(run_id, branch.at):
        event = decode(run_id, entry)
        if isinstance(event, ev.Forked) and forked is None:
            forked = event.run, event.seq
        elif isinstance(event, ev.PlanAdopted) and forked is not None:
            edit = bytes(event.patch) if event.cause == "fork" else b""
            break
    if forked != (branch.run_id, branch.at) or edit != branch.edit:
        raise RunConflict(
            "the id belongs to another run", where=f"run {run_id}",
            remedy="give another id, or none for a new one",
        )  # fmt: skip


async def _on_disk(log: RunLog, writer: Writer) -> None:
    done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def lost(error: Exception) -> None:
        if not done.done():
            done.set_exception(error)

    log.on_durable = lambda: None if done.done() else done.set_result(None)
    log.on_lost = lost
    writer.dirty(log)
    writer.flush_soon()
    await done
