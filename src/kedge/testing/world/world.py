"""One life of a simulated world: processes on one clock over one disk, and everything that goes wrong.

Whatever happens is one step of one process. After each, those who keep watch look: they stand outside the
engine, and what they know they know from the disk, from the calls that were made, and from what people and
programs were told.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any, cast

import msgspec

from kedge.testing.world.callers import program
from kedge.testing.world.commanded import Commanded
from kedge.testing.world.disk import Disk
from kedge.testing.world.ledger import Acknowledged, Ledger
from kedge.testing.world.legal import illegal
from kedge.testing.world.life import Life
from kedge.testing.world.loop import SimulatedClock
from kedge.testing.world.network import Network
from kedge.testing.world.prefixes import Prefixes
from kedge.testing.world.process import Process, WallClock
from kedge.testing.world.scenario import Counted, Fault, Order, Scenario
from kedge.testing.world.senders import sender
from kedge.testing.world.tools import ALL_TOOLS

CALM_AFTER_STEPS = 3_000
"""From then on nothing goes wrong any more, and every run must come to its end …"""
LAST_STEP = 30_000
"""… before this one, …"""
CALM_S = 400 * 24 * 3600.0
"""… and within this time: plans sleep for up to some months in all."""
PROCESSES_MAX = 4
FEW = 3
"""Live states are compared with every prefix in one of so many worlds, at ends in all."""

KNOWN_FAULTS = {"cycle", "duplicate_id", "unknown_after", "unknown_reference", "unknown_tool"}
"""What makes a plan illegal for both opinions on it."""


class Blame(msgspec.Struct, frozen=True):
    """A law that was broken."""

    law: str
    text: str
    step: int

    def __str__(self) -> str:
        return f"{self.law}: {self.text} (step {self.step})"


class Wanted:
    """What becomes of an order."""

    def __init__(self, order: Order) -> None:
        self.order = order
        self.retries = order.retries
        self.undone_later = order.undone_later
        self.started = False
        """Somebody was told that it is."""
        self.again = False
        """It failed, and is to be taken up again."""
        self.undo = False
        """It has ended, and is to be undone."""
        self.settled = False


class World:
    """Live it with `live`, then look at `blames`."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.clock = SimulatedClock()
        self.clock_off_s = 0.0
        self.wall = WallClock(self)
        self.disk = Disk()
        self.disk.on_synced = self._read_on
        self.full_until_s = self.busy_until_s = 0.0
        self.blames: list[Blame] = []
        self.calm = False
        self.deployed = False
        """Processes that begin from now on have tools of a later release."""
        self.happened: Counter[str] = Counter()
        """Faults that really struck, by name."""
        self.steps = 0
        self._luck = Random(f"order {scenario.seed}")
        self._lag = Random(f"lag {scenario.seed}")
        self._counts: Counter[Counted] = Counter()
        self._faults: dict[tuple[Counted, int], list[Fault]] = {}
        for fault in scenario.faults:
            self._faults.setdefault((fault.at, fault.number), []).append(fault)
        self.wanted = [Wanted(order) for order in scenario.orders]
        self.network = Network(Random(f"network {scenario.seed}"))
        self.lives = {o.run_id: Life(o.run_id, o.plan, dict(ALL_TOOLS), self.blame) for o in scenario.orders}
        self.ledger = Ledger(self)
        self.acknowledged = Acknowledged(self)
        self.commanded = Commanded(self)
        self.prefixes = Prefixes(self, thorough=scenario.seed % FEW == 0)
        self.processes: list[Process] = []
        self._born = 0
        self._alarms: list[tuple[float, int, Callable[[], None]]] = []
        self._alarms_set = 0
        self._graves: list[Process] = []

    # --- life

    def live(self) -> None:
        """Until everything that was wanted is settled, or a law is broken."""
        self._bear()
        calm_from_s = 0.0
        while not self.blames and self._step():
            self.steps += 1
            if self.steps == CALM_AFTER_STEPS:
                self._calm_down()
                calm_from_s = self.clock.now_s
            elif self.steps == LAST_STEP or (self.calm and self.clock.now_s > calm_from_s + CALM_S):
                self.blame(
                    "I10 liveness", f"nothing goes wrong any more, and these do not end: {self._waiting()}"
                )
        if not self.blames:
            self._last_look()
        for process in self.processes:
            self._graves.append(process)
        self._bury()

    def _step(self) -> bool:
        while True:
            able = [process for process in self.processes if process.can_move]
            if able:
                break
            if not self._jump():
                if self._open():
                    self.blame(
                        "I10 liveness", f"everything stands still, and these do not end: {self._open()}"
                    )
                return False
        process = able[0] if len(able) == 1 else self._luck.choice(able)
        for fault in self.count("step", process):
            self.strike(fault, process)
        if process.can_move:
            process.loop.step()
            if not process.dead:
                self.prefixes.look(process)
            if process.loop.faults:
                self.blame("I11 nobody caught", process.loop.faults[0])
        if self._graves:
            self._bury()
        return True

    def _jump(self) -> bool:
        """Nobody has anything to do now: let time pass until somebody has."""
        now_s = self.clock.now_s
        times = [self._alarms[0][0]] if self._alarms else []
        for process in self.processes:
            if not process.dead and not process.over:
                at_s = process.loop.next_at_s()
                if at_s is not None or process.loop.ready:
                    times.append(max(process.frozen_until_s, at_s if at_s is not None else now_s))
        if not times:
            return False
        self.clock.now_s = max(now_s, min(times))
        while self._alarms and self._alarms[0][0] <= self.clock.now_s:
            heapq.heappop(self._alarms)[2]()
        return True

    def _calm_down(self) -> None:
        self.calm = True
        self._faults.clear()
        self.full_until_s = self.busy_until_s = 0.0
        for process in self.processes:
            process.frozen_until_s = 0.0

    def _open(self) -> list[str]:
        return [w.order.run_id for w in self.wanted if not w.settled]

    def _waiting(self) -> list[str]:
        senders = [p for p in self.processes if not (p.drives or p.over or p.dead)]
        return [*self._open(), *(f"sender {process.number}" for process in senders)]

    def _last_look(self) -> None:
        self.acknowledged.check()
        self.commanded.check()
        for process in self.processes:
            held = [run_id for run_id, owned in self.disk.owners.items() if owned.holder is process.journal]
            if process.over and held:
                self.blame("I10 liveness", f"process {process.number} has ended and still has {held[0]}")

    # --- processes

    def _bear(self) -> None:
        if self._open():
            self._born += 1
            self.processes.append(Process(self, self._born, program))

    def ended(self, process: Process) -> None:
        """A process's program came to an end."""
        if process.dead:
            return
        process.over = True
        main = process.main
        if not main.cancelled() and main.exception() is not None:
            self.blame("I11 nobody caught", f"process {process.number}: {_root(main.exception())!r}")
        self._bear_later()

    def _bear_later(self) -> None:
        self._alarm(self._lag.choice([0.0, 0.1, 2.0, 60.0]), self._bear_if_none)

    def _bear_if_none(self) -> None:
        if all(process.dead or process.over for process in self.processes if process.drives):
            self._bear()

    def _bear_sender(self) -> None:
        self._born += 1
        self.processes.append(Process(self, self._born, sender, drives=False))

    def _kill(self, process: Process) -> None:
        process.dead = True
        process.loop.die()
        self.disk.forget(process.journal)
        self._graves.append(process)
        self._bear_later()

    def _bury(self) -> None:
        graves, self._graves = self._graves, []
        for process in graves:
            process.dead = True
            process.loop.bury()
            if process in self.processes:
                self.processes.remove(process)

    def _alarm(self, wait_s: float, action: Callable[[], None]) -> None:
        self._alarms_set += 1
        heapq.heappush(self._alarms, (self.clock.now_s + wait_s, self._alarms_set, action))

    # --- faults

    def count(self, what: Counted, process: Process) -> list[Fault]:  # noqa: ARG002 - who did it decides whom it strikes
        """One more of these; the faults that are set for it."""
        self._counts[what] += 1
        return self._faults.pop((what, self._counts[what]), [])

    def strike(self, fault: Fault, process: Process) -> None:
        """The fault happens to this process, or through it."""
        if self.calm:
            return
        self.happened[fault.what] += 1
        now_s = self.clock.now_s
        match fault.what:
            case "kill":
                # A write under way may have come to its end. If it has, the system will see to the rest.
                self.disk.power_cut(fault.number % 2)
                self._kill(process)
            case "power cut":
                self.disk.power_cut(self._luck.randint(0, self.disk.unsynced))
                for each in [p for p in self.processes if not p.dead]:
                    self._kill(each)
                self.acknowledged.check()
            case "stop":
                process.stop()
            case "freeze":
                self._freeze(process, fault)
            case "second":
                if len(self.processes) < PROCESSES_MAX:
                    self._bear()
            case "full":
                self.full_until_s = now_s + fault.for_s
            case "busy":
                self.busy_until_s = now_s + fault.for_s
            case "clock":
                self.clock_off_s += fault.for_s
            case "sender":
                if sum(not each.drives for each in self.processes) < PROCESSES_MAX:
                    self._bear_sender()
            case "pause" | "cancel" | "again" | "edit" | "undo" | "cancel and undo":
                if process.commands:
                    command = self._luck.choice(process.commands)
                    process.loop.create_task(command(fault.what))
            case "deploy":
                self.deployed = not self.deployed
                process.stop()
            case "error":
                pass  # the store raises it

    def _freeze(self, process: Process, fault: Fault) -> None:
        process.frozen_until_s = self.clock.now_s + fault.for_s
        self._alarm(fault.for_s, lambda: None)
        if fault.take_over and len(self.processes) < PROCESSES_MAX:
            self.disk.forget(process.journal)
            self._bear()

    def commit_s(self) -> float:
        """How long the disk takes for one commit."""
        if self.calm or not self.scenario.slow_disk:
            return 0.00005
        return self._lag.choice([0.0002, 0.003, 0.003, 0.02])

    def thread_delay_s(self) -> float:
        """How long it takes until a thread gets to its job."""
        return self._lag.choice([0.0, 0.0001, 0.0001, 0.002, 0.03])

    # --- what is seen

    def blame(self, law: str, text: str) -> None:
        """A law is broken."""
        self.blames.append(Blame(law, text, self.steps))

    def _read_on(self) -> None:
        """Something may have been synced."""
        for run_id, life in self.lives.items():
            stored = self.disk.runs.get(run_id)
            if stored is None:
                continue
            if len(stored.entries) < life.seq:
                self.blame(
                    "I1 acknowledged is kept", f"{run_id}: events after {len(stored.entries)} are lost"
                )
                return
            if len(stored.entries) > life.seq:
                for entry in stored.entries[life.seq :]:
                    if entry.epoch != stored.head.epoch:
                        self.blame(
                            "I5 one driver", f"{run_id}: a driver that was replaced wrote event {entry.seq}"
                        )
                    life.take(entry)
                    self.prefixes.take(run_id, entry)

    def accepted(self, wanted: Wanted) -> None:
        """Somebody has a handle on the run."""
        order = wanted.order
        why = illegal(order.plan, ALL_TOOLS)
        if why:
            self.blame("I6 legal plans", f"{order.run_id} was started, and its plan is not legal: {why}")
        wanted.started = True
        self.acknowledged.told(order.run_id, "the start", "RunStarted")

    def refused(self, wanted: Wanted, codes: set[str]) -> None:
        """The plan cannot be run, it is said."""
        if codes & KNOWN_FAULTS and not illegal(wanted.order.plan, ALL_TOOLS):
            self.blame("I6 legal plans", f"{wanted.order.run_id} was refused, and its plan is legal")
        wanted.settled = True

    def told_end(self, wanted: Wanted, status: str, luck: Random) -> None:
        """Somebody got the result."""
        order = wanted.order
        self.acknowledged.told(order.run_id, f"the end ({status})", "RunEnded", status=status)
        if self.lives[order.run_id].ended != status:
            return  # told late, by a process that was frozen: another one has taken it up again
        if status != "done" and wanted.retries and luck.randrange(3):
            wanted.retries -= 1
            wanted.again = True
        elif wanted.undone_later and not wanted.again:
            wanted.undone_later -= 1
            wanted.undo = True
        elif not (wanted.again or wanted.undo):
            wanted.settled = True


def _root(error: Any) -> Any:
    """What is at the bottom of a group of errors."""
    while isinstance(error, BaseExceptionGroup):
        error = cast(Any, error).exceptions[0]
    return error
