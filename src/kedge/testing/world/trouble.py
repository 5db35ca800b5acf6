"""What goes wrong at the store: the faults of the scenario, told to one process's journal."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedge.base.errors import StoreError, StoreFull

if TYPE_CHECKING:
    from kedge.testing.world.process import Process
    from kedge.testing.world.scenario import Fault

WRITES = frozenset({"commit", "claim", "delete"})
THREAD_PATIENCE_S = 1.0
"""Who waits longer than that does not wait in the event loop."""


class Died(BaseException):
    """The process is gone in the middle of what it did. Nobody in it lives to catch this."""


class StoreTrouble:
    """Every call of one process to the store passes here, twice or three times."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._world = process.world
        self._pending: list[Fault] = []
        """What is to happen later in the call under way."""

    def before(self, call: str, patience_s: float) -> None:
        process, world = self._process, self._world
        if process.dead:
            raise Died
        self._pending = world.count("store", process)
        if call == "commit":
            self._pending += world.count("commit", process)
        self._happen("before")
        if call not in WRITES:
            return
        now_s = world.clock.now_s
        if now_s < world.full_until_s:
            raise StoreFull("simulated: the disk is full")
        if now_s < world.busy_until_s and patience_s < world.busy_until_s - now_s:
            raise StoreError("simulated: another process writes", code="store_busy")
        world.clock.advance(world.commit_s())

    def written(self, call: str) -> None:  # noqa: ARG002 - one shape for all three
        self._happen("written")

    def after(self, call: str) -> None:  # noqa: ARG002
        self._happen("after")

    def _happen(self, phase: str) -> None:
        for fault in [fault for fault in self._pending if fault.phase == phase]:
            self._pending.remove(fault)
            self._world.strike(fault, self._process)
            if fault.what == "error" and not self._world.calm:
                self._fail(phase)
        if self._process.dead:
            raise Died

    def _fail(self, phase: str) -> None:
        if phase == "written":  # it is taken back: the error means what it says
            self._world.disk.power_cut(0)
        known = "and it happened all the same" if phase == "after" else "and nothing was written"
        raise StoreError(f"simulated: the disk failed, {known}", code="store_io")
