"""Whole lives of simulated processes, one for each seed: no law may be broken in any of them.

One by hand: `PYTHONPATH=src .venv/bin/python -m kedge.testing.world 12345`.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from facts import Fact

from kedge.testing.world import simulate
from kedge.testing.world.replay import command

USUAL = 10_000
"""Seeds where no number is asked for: about a minute's worth."""
WANTED = 20_000
CHUNK = 100
YEAR_S = 365.25 * 24 * 3600
COUNTED = ("events", "calls", "promises", "prefixes", "steps")


@dataclass
class Sums:
    """What came of some seeds."""

    counts: Counter[str] = field(default_factory=Counter)
    struck: Counter[str] = field(default_factory=Counter)
    seconds: float = 0.0
    broken: list[tuple[int, str]] = field(default_factory=list)

    def add(self, other: Sums) -> None:
        self.counts += other.counts
        self.struck += other.struck
        self.seconds += other.seconds
        self.broken += other.broken


def prove(count: int | None) -> Iterator[Fact]:
    """Live so many lives, from seed 0 on."""
    count = count or USUAL
    sums = Sums()
    chunks = [range(start, min(start + CHUNK, count)) for start in range(0, count, CHUNK)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        for part in pool.map(_live, chunks):
            for seed, blame in part.broken:
                print(f"  {blame}: {command(seed)}", file=sys.stderr, flush=True)
            sums.add(part)
    broken = sums.broken
    yield Fact(
        "simulated lives of processes",
        f"{count:,} seeds, {len(broken)} violations",
        f">= {WANTED:,} seeds, 0 violations",
        False if broken else (count >= WANTED or None),
        f"{broken[0][1]}: {command(broken[0][0])}" if broken else "",
    )
    years = sums.seconds / YEAR_S
    yield Fact("simulated time", f"{years:.1f} years", ">= 1 year", years >= 1 if count >= WANTED else None)
    struck = ", ".join(f"{number:,} {what}" for what, number in sums.struck.most_common())
    yield Fact("what went wrong in them", f"{sum(sums.struck.values()):,} faults", note=struck)
    counts = sums.counts
    yield Fact(
        "what was looked at in them",
        f"{counts['events']:,} events, {counts['calls']:,} calls, {counts['promises']:,} promises",
        note=f"{counts['prefixes']:,} folds beside live states, {counts['steps']:,} steps",
    )


def _live(seeds: range) -> Sums:
    sums = Sums()
    for seed in seeds:
        report = simulate(seed)
        sums.counts.update({name: getattr(report, name) for name in COUNTED})
        sums.struck.update(report.happened)
        sums.seconds += report.seconds
        if report.blames:
            sums.broken.append((seed, str(report.blames[0])))
    return sums
