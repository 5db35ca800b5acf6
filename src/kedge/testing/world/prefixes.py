"""Every prefix of a log adds up to what the run was, live, when it had come so far.

The log is folded once more, event by event as it is synced, and each fold is held to the laws of a run.
Whenever a process has moved a run, its live state is written down; as soon as the disk has come as far, the
two must be the same, byte by byte.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING

import msgspec

from kedge.base.limits import DEFAULT_LIMITS
from kedge.engine.recovery import decode, fold
from kedge.flow.events import PlanAdopted, StepInterrupted
from kedge.flow.evolve import evolve
from kedge.flow.state import RunState
from kedge.journal.entry import Entry
from kedge.testing.laws import check_event, check_laws, picture
from kedge.testing.world.legal import illegal
from kedge.testing.world.tools import ALL_TOOLS, REGISTRY

if TYPE_CHECKING:
    from kedge.testing.world.process import Process
    from kedge.testing.world.world import World

_encode = msgspec.json.Encoder(order="deterministic").encode
LATER_MS = 2**62
"""No timer is still to go off by then: when a driver looked at its timers is no part of the fold."""


def state_hash(state: RunState) -> str:
    """A run's state in a few bytes."""
    return blake2b(_encode(picture(state, LATER_MS)), digest_size=12).hexdigest()


class Prefixes:
    """The folds of all logs, and what live runs looked like."""

    def __init__(self, world: World, *, thorough: bool) -> None:
        self._world = world
        self._thorough = thorough
        """Every prefix is compared, not only those at the end of a process and of a run."""
        self._folds: dict[str, RunState] = {}
        self._live: dict[tuple[str, int, int], str] = {}
        """Hash by run, epoch and event, for what is not on disk yet."""
        self.compared = 0

    def take(self, run_id: str, entry: Entry) -> None:
        """One more event is synced."""
        event = decode(run_id, entry)
        state = self._folds.get(run_id)
        if state is None:
            self._folds[run_id] = self._begin(run_id, entry)
            return
        try:
            if self._thorough and type(event) is not StepInterrupted:  # `life` judges that, with the calls
                check_event(state, event)  # type: ignore[arg-type] # an event of the union
            evolve(state, event, entry.at)
            if self._thorough:
                check_laws(state)
        except Exception as error:
            self._world.blame("I4 fold", f"{run_id} event {entry.seq}: {type(error).__name__}: {error}")
            return
        if type(event) is PlanAdopted:
            self._plan(run_id, state)
        live = self._live.pop((run_id, entry.epoch, entry.seq), None) if self._live else None
        if live is not None:
            self._same(run_id, entry.seq, live)

    def _plan(self, run_id: str, state: RunState) -> None:
        """Another plan is followed: it must be one that can be."""
        plan = msgspec.json.decode(_encode(state.plan))
        self._world.lives[run_id].adopt(plan)
        why = illegal(plan, ALL_TOOLS)
        if why:
            self._world.blame("I6 legal plans", f"{run_id}: version {state.version} is not legal: {why}")

    def _begin(self, run_id: str, entry: Entry) -> RunState:
        blobs = self._world.disk.blobs
        return fold(run_id, [entry], blobs.__getitem__, REGISTRY.catalog, DEFAULT_LIMITS).state

    def look(self, process: Process) -> None:
        """A process did something: see how its runs stand."""
        for run in process.engine.live if process.engine else ():
            state = run.state
            if process.seen.get(run.id) == state.seq:
                continue
            process.seen[run.id] = state.seq
            if not (self._thorough or state.ended):
                continue
            folded = self._folds.get(run.id)
            epoch = process.journal.epoch_of(run.id)
            if epoch < self._world.lives[run.id].epoch:
                continue  # it was replaced while it was frozen: what it has in mind is nobody's any more
            if folded is None or folded.seq < state.seq:
                self._live[run.id, epoch, state.seq] = state_hash(state)
            elif folded.seq == state.seq:
                self._same(run.id, state.seq, state_hash(state))

    def _same(self, run_id: str, seq: int, live: str) -> None:
        self.compared += 1
        if state_hash(self._folds[run_id]) != live:
            self._world.blame("I4 fold", f"{run_id}: the log up to event {seq} is not what the run was then")
