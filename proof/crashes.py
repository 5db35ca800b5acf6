"""Real processes, really killed, at every named place: what was promised holds after every recovery.

A case is a workflow, a place and a pass of it: the client is killed there, started again, perhaps killed
again while it recovers, and left to its end at last. `crash_checks` says what must hold after each life.

First each place is killed at once, then pairs of places on the small workflows and a fair draw from the
whole matrix, and at last what is needed for every kind of event to have been the last one before a kill and
the first one after one. Drawn with a fixed seed; a failure prints the command that shows its case again.

In memory where that is possible: a kill leaves the same files there as on a disk. Power cuts are another
part.
"""

from __future__ import annotations

import json
import os
import random
import selectors
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, Self, get_args

from crash_cost import prove_cost
from crash_plans import SMALL, SPECIAL, WORKFLOWS
from crash_tools import IN_TOOLS
from facts import Fact

from kedge.flow.events import AnyEvent
from kedge.testing.failpoints import PLACES

ROOT = Path(__file__).parents[1]
USUAL = 500
LABORATORIES = os.cpu_count() or 1
PASSES_MAX = 70
"""A recovery passes about so many places: where in it the next kill comes is drawn from these."""
HITS_MAX = 12
"""Of one place in one workflow: those after it are more of the same."""
TRIES_MAX = 400
"""For kinds of events that have not been at both sides of a kill yet."""
KINDS = frozenset(kind.__name__ for kind in get_args(AnyEvent))
WRITTEN_LIVE = KINDS - {"Forked", "ResultKept", "ResultReused"}
"""Those three are written in one piece with what is before them, and the last with what follows too:
no kill comes between."""
FROZEN = ("pays", "diamond", "foreach_effects", "in_doubt")
"""Workflows whose drivers stand still while a rival wants their run, and are told to end."""
LONG = {
    "file.open.made",
    "file.open.set_up",
    "schema.migrate.before",
    "schema.migrate.applied",
    "schema.migrate.after",
}
"""Who stands still there holds the file itself, and everybody waits for it as for a busy store."""


@dataclass
class Tally:
    """What was done and found so far."""

    outcomes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    kills: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    wrong: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    hits: dict[str, dict[str, int]] = field(default_factory=dict[str, dict[str, int]])
    """How often each workflow passes each place when nobody kills it."""
    kinds: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    took_s: float = 0.0

    @property
    def cycles(self) -> int:
        """Kills that were recovered from."""
        return sum(kill["how"] == "kill" for kill in self.kills)

    def add(self, outcome: dict[str, Any]) -> None:
        self.outcomes.append(outcome)
        workflow = outcome["case"].split()[0]
        self.kills += [{**kill, "workflow": workflow} for kill in outcome["kills"]]
        for fault in outcome["wrong"]:
            self.wrong.append((outcome["case"], fault))
            print(f"  {again(outcome['case'])}\n    {fault}", file=sys.stderr)
        if " " not in outcome["case"]:
            self.hits[workflow], self.kinds[workflow] = outcome["hits"], outcome["kinds"]

    def kinds_at(self, side: str) -> set[str]:
        return {kill[side] for kill in self.kills if kill["workflow"] not in SPECIAL} - {""}


def prove(count: int | None) -> Iterator[Fact]:
    """Kill that often, and tell what came of it."""
    wanted = count or USUAL
    tally = Tally()
    with Laboratories() as laboratories:
        run_all(laboratories, tally, wanted)
    yield from _facts(tally, wanted)
    yield from prove_cost()


def run_all(laboratories: Laboratories, tally: Tally, wanted: int) -> None:
    """All of it: `wanted` kills or more."""
    rng = random.Random(0)
    laboratories.run(iter(WORKFLOWS), tally)  # unharmed: they say what there is to kill at
    began_s = time.monotonic()
    laboratories.run(_each_place(tally, rng), tally)
    pairs = _pairs(tally, rng)
    laboratories.run(_until(pairs, lambda: tally.cycles < wanted * 0.4), tally)
    laboratories.run(_until(_draw(tally, rng), lambda: tally.cycles < wanted), tally)
    laboratories.run(_missing_kinds(tally, rng), tally)
    tally.took_s = time.monotonic() - began_s
    laboratories.run(_frozen(tally, rng, max(40, wanted // 20)), tally)


def run_a_few(laboratories: Laboratories, tally: Tally, count: int) -> None:
    """What the test suite has time for: every workflow left alone, and a draw of all that is done to them."""
    rng = random.Random(1)
    laboratories.run(iter(WORKFLOWS), tally)
    cases = rng.sample(list(islice(_each_place(tally, rng), len(PLACES))), count // 2)
    cases += islice(_draw(tally, rng), count // 4)
    laboratories.run(iter([*cases, *_frozen(tally, rng, count // 4)]), tally)


def again(case: str) -> str:
    """The command that shows a case again."""
    return f"PYTHONPATH=src .venv/bin/python proof/crash_lab.py {case}"


# --- cases


def _each_place(tally: Tally, rng: random.Random) -> Iterator[str]:
    for round_ in range(4):  # what depends on time is not passed as often each time
        for place in (*PLACES, *IN_TOOLS):
            able = {name: hits[place] for name, hits in tally.hits.items() if place in hits}
            if not able or any(kill["at"] == place for kill in tally.kills):
                continue
            if round_:
                yield f"{max(able, key=lambda name: able[name])} {place}:1"
            else:
                workflow = rng.choices([*able], [WORKFLOWS[name].weight for name in able])[0]
                yield f"{workflow} {place}:{rng.randint(1, min(able[workflow], HITS_MAX))}"


def _pairs(tally: Tally, rng: random.Random) -> Iterator[str]:
    """A kill at one place, and at another while that is recovered from."""
    recovered_at = sorted({place for hits in tally.hits.values() for place in hits})
    pairs = [(name, one, two) for name in SMALL for one in tally.hits[name] for two in recovered_at]
    rng.shuffle(pairs)
    for workflow, one, two in pairs:
        if two in tally.hits[workflow] or two.startswith("control.resume"):
            yield f"{workflow} {one}:{rng.randint(1, tally.hits[workflow][one])} {two}:1"


def _draw(tally: Tally, rng: random.Random) -> Iterator[str]:
    """From the whole matrix, for ever: each point of it once, then deeper and deeper."""
    while True:
        points = [
            (workflow, place, hit)
            for workflow, hits in tally.hits.items()
            for place, passes in hits.items()
            for hit in range(1, min(passes, HITS_MAX) + 1)
            if rng.random() * 4 < WORKFLOWS[workflow].weight
        ]
        rng.shuffle(points)
        for workflow, place, hit in points:
            deeper = [f" any:{rng.randint(1, PASSES_MAX)}" for _ in range(rng.choice((0, 1, 1, 2)))]
            yield f"{workflow} {place}:{hit}{''.join(deeper)}"


def _missing_kinds(tally: Tally, rng: random.Random) -> Iterator[str]:
    """Kills among the events of those workflows that have the kinds still missing."""
    for _ in range(TRIES_MAX):
        missing = (WRITTEN_LIVE - tally.kinds_at("before")) | (WRITTEN_LIVE - tally.kinds_at("after"))
        if not missing:
            return
        kind = rng.choice(sorted(missing))
        able = [o["case"].split()[0] for o in tally.outcomes if kind in o["kinds"]]
        able = [name for name in able if name not in SPECIAL]
        if not able:
            return
        workflow = rng.choice(able)
        kinds = tally.kinds[workflow]
        if kind in kinds:
            number = rng.choice([n for n, found in enumerate(kinds, start=1) if found == kind])
            inside = f"journal.append.event:{max(1, number - rng.randrange(2))}"
            yield f"{workflow} {rng.choice((inside, f'driver.appended:{rng.randint(1, number)}'))}"
        else:  # only a recovery brings it
            yield f"{workflow} any:{rng.randint(40, 100)} journal.append.event:{rng.randint(1, 3)}"


def _frozen(tally: Tally, rng: random.Random, count: int) -> Iterator[str]:
    """Drivers that stand still while a rival wants their run, and drivers that are told to end."""
    for number in range(count):
        workflow = rng.choice(FROZEN)
        place = rng.choice(sorted(set(tally.hits[workflow]) - LONG))
        here = f"{workflow} {place}:{rng.randint(1, tally.hits[workflow][place])}"
        yield here + (":freeze", ":int", ":int2", ":freeze_kill", " all:1:race")[number % 5]


def _until(cases: Iterator[str], go_on: Callable[[], bool]) -> Iterator[str]:
    while go_on() and (case := next(cases, None)) is not None:
        yield case


class Laboratories:
    """As many processes as there are processors, each with a case at a time."""

    def __enter__(self) -> Self:
        command = [sys.executable, str(Path(__file__).with_name("crash_lab.py"))]
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        self._labs = [
            subprocess.Popen(  # noqa: S603 - our own
                command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(LABORATORIES)
        ]
        return self

    def __exit__(self, *exc: object) -> None:
        for lab in self._labs:
            lab.communicate()  # the end of its input is its end

    def run(self, cases: Iterator[str], tally: Tally) -> None:
        """Run the cases; which are next may depend on what came of the last ones."""
        with selectors.DefaultSelector() as busy:
            for lab in self._labs:
                self._give(lab, cases, busy)
            while busy.get_map():
                for key, _ in busy.select():
                    lab: subprocess.Popen[str] = key.data
                    busy.unregister(key.fileobj)
                    line = lab.stdout.readline() if lab.stdout else ""
                    if not line:
                        raise SystemExit(f"a laboratory ended with exit code {lab.wait()}")
                    tally.add(json.loads(line))
                    self._give(lab, cases, busy)

    def _give(self, lab: subprocess.Popen[str], cases: Iterator[str], busy: selectors.BaseSelector) -> None:
        case = next(cases, None)
        if case is None or lab.stdin is None or lab.stdout is None:
            return
        lab.stdin.write(case + "\n")
        lab.stdin.flush()
        busy.register(lab.stdout, selectors.EVENT_READ, lab)


# --- what came of it


def _facts(tally: Tally, wanted: int) -> Iterator[Fact]:
    kills = [kill for kill in tally.kills if kill["how"] == "kill"]
    broken = {case for case, _ in tally.wrong}
    yield Fact(
        "kills, each recovered from",
        f"{len(kills):,} cycles, {len(broken)} violations",
        f">= {wanted:,}, 0 violations",
        len(kills) >= wanted and not broken,
        f"{tally.took_s / max(1, len(kills)) * 1000:.0f} ms each; first failure: {again(tally.wrong[0][0])}"
        if broken
        else f"{tally.took_s / max(1, len(kills)) * 1000:.0f} ms each",
    )
    by_place = Counter(kill["at"] for kill in kills)
    missed = sorted(set(PLACES) - set(by_place))
    passed = {place for hits in tally.hits.values() for place in hits}
    yield Fact(
        "named places killed at",
        f"{len(PLACES) - len(missed)} of {len(PLACES)}",
        "all, >= 60",
        not missed and len(PLACES) >= 60,
        f"missed: {', '.join(missed)}" if missed else f"{len(passed)} were passed by workflows left alone",
    )
    deep = Counter(kill["depth"] for kill in kills)
    yield Fact(
        "killed again during recovery",
        f"{deep[2]:,} twice, {deep[3]:,} three times",
        "> 0",
        deep[2] > 0 and deep[3] > 0,
        f"at {len({kill['at'] for kill in kills if kill['depth'] > 1})} places",
    )
    pairs = {o["case"] for o in tally.outcomes if _is_pair(o)}
    yield Fact("pairs of places, on five small workflows", f"{len(pairs):,}")
    yield Fact("workflows", f"{len(WORKFLOWS)}", ">= 24", len(WORKFLOWS) >= 24)
    kinds = len(WRITTEN_LIVE)
    before, after = WRITTEN_LIVE - tally.kinds_at("before"), WRITTEN_LIVE - tally.kinds_at("after")
    yield Fact(
        "kinds of event next to a kill",
        f"{kinds - len(before)} before, {kinds - len(after)} after, of {kinds}",
        "all, both",
        not (before or after),
        f"missing: {', '.join(sorted(before | after))}" if before | after else "",
    )
    yield from _other_facts(tally)


def _is_pair(outcome: dict[str, Any]) -> bool:
    words = outcome["case"].split()
    return words[0] in SMALL and len(words) == 3 and words[2][:4] != "any:" and len(outcome["kills"]) == 2


def _other_facts(tally: Tally) -> Iterator[Fact]:
    broken = {case for case, _ in tally.wrong}
    for hows, title in (
        (("freeze", "freeze_kill"), "drivers stopped while a rival wants the run"),
        (("race",), "runs that several wanted at once after a kill"),
        (("int", "int2"), "drivers told to end (Ctrl-C, once and twice)"),
    ):
        cases = {o["case"] for o in tally.outcomes if any(kill["how"] in hows for kill in o["kills"])}
        bad = cases & broken
        yield Fact(title, f"{len(cases)}, {len(bad)} violations", "0 violations", bool(cases) and not bad)
