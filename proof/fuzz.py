"""Hostile input to everything that reads some: nothing is executed, nothing hangs, every error is ours.

Each input is made from a number, so a failure is one line that shows it again:

    PYTHONPATH=src .venv/bin/python proof/fuzz.py expression 12345     the input of that seed
    PYTHONPATH=src .venv/bin/python proof/fuzz.py expression 0x612b    the input that these bytes are
    PYTHONPATH=src .venv/bin/python proof/fuzz.py expression           the known attacks
"""

from __future__ import annotations

import os
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from facts import Fact
from hostile.corpus import attacks
from hostile.guard import Broken
from hostile.targets import TARGETS, Target, ready

USUAL = 10_000
"""Inputs of each target where no number is asked for: about a minute's worth."""
CHUNK = 5_000
MEMORY_MB_MAX = 400
"""What a process may weigh that has read them all; a reader that keeps or swells shows."""
SHOWN_MAX = 10


@dataclass
class Tally:
    """What became of a stretch of inputs."""

    name: str
    tried: int = 0
    cpu_s: float = 0.0
    memory_mb: float = 0.0
    came_to: Counter[str] = field(default_factory=Counter[str])
    broken: list[str] = field(default_factory=list[str])

    def add(self, other: Tally) -> None:
        self.tried += other.tried
        self.cpu_s += other.cpu_s
        self.memory_mb = max(self.memory_mb, other.memory_mb)
        self.came_to += other.came_to
        self.broken += other.broken


def prove(count: int | None) -> Iterator[Fact]:
    """A line for each target: how many inputs, and what was broken by them."""
    each = count or USUAL
    tallies = {name: Tally(name) for name in TARGETS}
    todo = [(name, first, min(CHUNK, each - first)) for first in range(0, each, CHUNK) for name in TARGETS]
    spawn = get_context("spawn")  # a fresh interpreter: what the parent has loaded hides nothing
    with ProcessPoolExecutor(os.cpu_count(), mp_context=spawn, initializer=_modest) as workers:
        for tally in workers.map(_stretch, *zip(*todo, strict=True)):
            tallies[tally.name].add(tally)
    for name, tally in tallies.items():
        for one in tally.broken[:SHOWN_MAX]:
            print(f"  {name}: {one}", file=sys.stderr)
        yield _fact(TARGETS[name], tally)


def _fact(target: Target, tally: Tally) -> Fact:
    kinds = len(tally.came_to)
    share = tally.came_to["value"] / tally.tried
    worth = 0.02 <= share <= 0.98  # else nearly all of it stopped at the door, or none was hostile
    light = tally.memory_mb <= MEMORY_MB_MAX
    rate = tally.tried / tally.cpu_s
    note = f"{rate:,.0f}/s, {share:.0%} were good, {kinds} kinds of refusal, {tally.memory_mb:.0f} MB"
    if tally.broken:
        note += f"; {tally.broken[0].partition(': ')[0]} shows one again"
    return Fact(
        target.what,
        f"{tally.tried:,} inputs and {len(attacks(target.name))} known attacks, {len(tally.broken)} escapes",
        "0 escapes",
        not tally.broken and worth and light,
        note,
    )


def _modest() -> None:
    """No input may make a process swell: beyond this it gets a MemoryError, which no judge lets pass."""
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, resource.RLIM_INFINITY))


def _stretch(name: str, first: int, count: int) -> Tally:
    """The inputs from one number on; with the first of them, the corpus."""
    ready()
    target, tally = TARGETS[name], Tally(name)
    began_s = time.process_time()
    if first == 0:
        for what, text in attacks(name):
            _judge(target, tally, target.of_text(text), f"{name} ({what})")
    for seed in range(first, first + count):
        _judge(target, tally, target.of_seed(seed), f"{name} {seed}")
    tally.tried = count
    tally.cpu_s = time.process_time() - began_s
    tally.memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return tally


def _judge(target: Target, tally: Tally, given: object, shown: str) -> None:
    try:
        tally.came_to[target.judge(given)] += 1
    except Broken as broken:
        tally.broken.append(f"PYTHONPATH=src .venv/bin/python proof/fuzz.py {shown}: {broken}")


def _main() -> int:
    """Show inputs again. The exit code is 1 if one of them breaks something."""
    name, *chosen = sys.argv[1:] or [""]
    if name not in TARGETS:
        print(f"name a target: {', '.join(TARGETS)}", file=sys.stderr)
        return 2
    target = TARGETS[name]
    ready()
    inputs = [(text, target.of_text(text)) for _, text in attacks(name)]
    if chosen:
        word = chosen[0]
        given = (
            target.of_bytes(bytes.fromhex(word[2:])) if word.startswith("0x") else target.of_seed(int(word))
        )
        inputs = [(given, given)]
    code = 0
    for shown, given in inputs:
        try:
            came = target.judge(given)
        except Broken as broken:
            came, code = f"BROKEN: {broken}", 1
            if broken.__cause__ is not None and chosen:
                raise broken.__cause__ from None
        print(f"{shown!a:.2000}\n  {came}")
    return code


if __name__ == "__main__":
    sys.exit(_main())
