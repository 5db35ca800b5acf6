"""A simulated world: the real engine through everything that can go wrong, from a seed.

    report = simulate(12345)
    assert not report.blames, report

The engine, its drivers, its writer and the core are the real ones. Simulated is what they stand on: the
event loop and its time, the clock, the disk (`disk`), threads, tools (`tools`), and the people and programs
that use it (`callers`). Processes are killed at any step, power is cut, disks fill up, drivers freeze and
wake when another has taken over. After each step, oracles that share no code with the engine look at what
happened (`life`, `ledger`, `legal`), and every prefix of every log is compared with what was live
(`prefixes`).

One seed is one life, always the same. `python -m kedge.testing.world 12345` lives it again and, if a law was
broken, looks for the smallest scenario that breaks it too (`shrink`).
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import contextmanager

import msgspec

from kedge.testing.world.scenario import Fault, Order, Scenario, drawn
from kedge.testing.world.world import Blame, World

__all__ = ["Blame", "Fault", "Order", "Report", "Scenario", "World", "drawn", "simulate"]


class Report(msgspec.Struct, frozen=True):
    """What came of one life."""

    scenario: Scenario
    blames: tuple[Blame, ...]
    happened: dict[str, int]
    """Faults that struck."""
    seconds: float
    """Simulated time."""
    steps: int
    calls: int
    events: int
    promises: int
    """What was acknowledged, and is true."""
    prefixes: int
    """Folds that were compared with a live state."""
    log_hash: int
    """Of every byte in every log."""

    def __str__(self) -> str:
        found = "\n".join(f"  {blame}" for blame in self.blames) or "  every law holds"
        return (
            f"{found}\n  {self.events} events, {self.calls} calls, {self.steps} steps: {dict(self.happened)}"
        )


def simulate(scenario: int | Scenario) -> Report:
    """Live one life: that of a seed, or of a scenario made of one."""
    scenario = drawn(scenario) if isinstance(scenario, int) else scenario
    world = World(scenario)
    began_s = world.clock.now_s
    with _quiet():
        world.live()
    runs = world.disk.runs.values()
    return Report(
        scenario=scenario,
        blames=tuple(world.blames),
        happened=dict(world.happened),
        seconds=world.clock.now_s - began_s,
        steps=world.steps,
        calls=world.ledger.calls,
        events=sum(len(run.entries) for run in runs),
        promises=world.acknowledged.count,
        prefixes=world.prefixes.compared,
        log_hash=hash(tuple(run.head.chain for run in runs)),
    )


@contextmanager
def _quiet() -> Generator[None]:
    """What the engine logs about faults that were made on purpose is for nobody."""
    log = logging.getLogger("kedge")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
