"""What is measured, what it is compared with, and what it should come to. `run.py` does the rounds."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from peers import PEERS, Peer

US = 1e6
"""Microseconds in a second."""


@dataclass(frozen=True)
class Job:
    """One child process; the same job is run once in each round."""

    measure: str
    arguments: dict[str, Any] = field(default_factory=dict)
    beside: str = ""
    """Whom it takes turns with: then it is measured anew, though another row has the same job."""

    def __str__(self) -> str:
        told = " ".join(f"{name}={value}" for name, value in self.arguments.items())
        return f"{self.measure} {told} {self.beside}".strip()


Found = dict[str, list[dict[str, Any]]]
"""What each job of a row gave, a round each, by the name the row has for it."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    part: str
    """What `--only` chooses by."""
    title: str
    jobs: dict[str, Job]
    value: Callable[[Found], float]
    unit: str
    most: float | None = None
    """The target; None where a number is only told."""
    least: float | None = None
    note: Callable[[Found], str] = lambda _: ""

    def good(self, value: float) -> bool:
        """Whether the target is met."""
        return (self.most is None or value <= self.most) and (self.least is None or value >= self.least)

    @property
    def target(self) -> str:
        """The target in words."""
        if self.most is not None:
            return f"<= {self.most:g} {self.unit}".rstrip()
        return f">= {self.least:g} {self.unit}".rstrip() if self.least is not None else ""


def _step_us(found: Found, name: str, what: str = "wall") -> float:
    """Least microseconds for a step, of all runs of all rounds."""
    return min(run[what] / one["n"] for one in found[name] for run in one["runs"]) * US


def _ratio(found: Found) -> float:
    return _step_us(found, "ours") / _step_us(found, "limit")


def _two_times(found: Found) -> str:
    cpu = _step_us(found, "ours", "cpu") / _step_us(found, "limit", "cpu")
    return f"{_step_us(found, 'ours'):.1f} of {_step_us(found, 'limit'):.1f} us a step, {cpu:.2f}x of its CPU"


def _least(name: str, what: str, scale: float = 1.0) -> Callable[[Found], float]:
    return lambda found: min(one[what] for one in found[name]) * scale


def _walls(graph: str, limit: str, ours: str, reps: int, n: int | None) -> dict[str, Job]:
    size = {} if n is None else {"n": n}
    return {
        name: Job("wall", {"who": who, "graph": graph, "reps": reps, **size})
        for name, who in (("limit", limit), ("ours", ours))
    }


def _beside(title: str, graph: str, ours: str, most: float, reps: int, limit: str = "L1") -> Row:
    return Row(graph, title, _walls(graph, limit, ours, reps, None), _ratio, "x", most, note=_two_times)


def _admission(graph: str, reps: int) -> Row:
    def each(found: Found) -> float:
        return (
            min((run["parse"] + run["start"]) / one["n"] for one in found["ours"] for run in one["runs"]) * US
        )

    def parts(found: Found) -> str:
        return f"parse {_step_us(found, 'ours', 'parse'):.1f}, start {_step_us(found, 'ours', 'start'):.1f}"

    jobs = {"ours": Job("wall", {"who": "memory", "graph": graph, "reps": reps})}
    return Row(graph, f"{graph} admission: parse, check, compile", jobs, each, "us a step", 40, note=parts)


def speed() -> list[Row]:
    """Whole runs beside the raw limits."""
    return [
        _beside("W1 chain of 1,000, in memory / L1", "W1", "memory", 5, 10),
        _beside("W1 in SQLite, pure steps / L1", "W1", "sqlite", 12, 10),
        _beside("W1 in SQLite, steps with effects / L3", "W1", "effect", 1.5, 10, "L3"),
        Row(
            "W1",
            "W1 syncs for each step with effects",
            {"ours": Job("syncs")},
            lambda found: min(one["syncs"] / one["n"] for one in found["ours"]),
            "a step",
            least=1.0,
        ),
        _admission("W1", 10),
        _beside("W2 1,000 at once and a join, in memory / L1", "W2", "memory", 5, 10),
        _beside("W2 in SQLite, pure steps / L1", "W2", "sqlite", 8, 10),
        _beside("W3 10,000 woven, in memory / L1", "W3", "memory", 5, 3),
        _beside("W3 in SQLite, pure steps / L1", "W3", "sqlite", 8, 3),
        _admission("W3", 3),
        Row(
            "W4",
            "W4 300 sleepers, makespan / L1",
            _walls("W4", "L1", "memory", 2, None),
            _ratio,
            "x",
            1.01,
            note=_makespan,
        ),
    ]


def _makespan(found: Found) -> str:
    from graphs import make

    path_s = make("W4").critical_path_s
    times = [_step_us(found, name) * 300 / US for name in ("ours", "limit")]
    return f"{times[0] / path_s:.4f} of {times[1] / path_s:.4f} critical paths"


def large(n: int) -> list[Row]:
    """A large run: its memory, and whether a step still costs the same."""
    jobs = {
        "ours": Job("wall", {"who": "memory", "graph": "W7", "reps": 1, "n": n}),
        "small": Job("wall", {"who": "memory", "graph": "W7", "reps": 5, "n": 1_000}),
        "disk": Job("wall", {"who": "sqlite", "graph": "W7", "reps": 1, "n": n}),
    }

    def kib(found: Found, name: str) -> float:
        return min(run.get("peak", math.nan) / one["n"] for one in found[name] for run in one["runs"]) / 1024

    return [
        Row(
            "W7",
            f"W7 {n:,} woven: peak memory, all that is built in it",
            jobs,
            lambda found: kib(found, "ours"),
            "KiB a step",
            6,
            note=lambda found: f"{kib(found, 'disk'):.1f} in SQLite",
        ),
        Row(
            "W7",
            f"W7 cost of a step, {n:,} / 1,000",
            jobs,
            lambda found: _step_us(found, "ours") / _step_us(found, "small"),
            "x",
            1.5,
            note=lambda found: f"{_step_us(found, 'ours'):.1f} of {_step_us(found, 'small'):.1f} us a step",
        ),
        Row(
            "W7",
            "W7 admission",
            jobs,
            lambda found: _step_us(found, "ours", "parse") + _step_us(found, "ours", "start"),
            "us a step",
            40,
        ),
    ]


def resuming(events: int) -> list[Row]:
    """Killed when half of the steps had started, and taken up by a new process."""
    rows: list[Row] = []
    for graph, title in (("W3", "10,000 woven"), ("W6", "1,000 that wait 5 ms")):
        jobs = {"ours": Job("resume", {"graph": graph})}
        rows += [
            Row(
                "resume",
                f"{title}, killed half way: process start to first new step",
                jobs,
                _least("ours", "first_step_s"),
                "s",
                0.4,
                note=lambda found: f"{_least('ours', 'events')(found):,.0f} events",
            ),
            Row(
                "resume",
                f"{title}: run twice, beyond in flight and not yet on disk",
                jobs,
                lambda found: max(one["twice"] - one["in_flight"] - one["behind"] for one in found["ours"]),
                "steps",
                0,
                note=_twice,
            ),
        ]
    for shape in ("foreach", "loop"):
        rows.append(
            Row(
                "resume",
                f"a log of {events:,} events ({shape}): to the first new step",
                {"ours": Job("resume", {"events": events, "shape": shape})},
                _least("ours", "first_step_s"),
                "s",
                5,
                note=lambda found: f"{_least('ours', 'peak', 1 / 2**20)(found):,.0f} MiB",
            )
        )
    return rows


def _twice(found: Found) -> str:
    worst = max(found["ours"], key=lambda one: one["twice"])
    return f"{worst['twice']} twice; {worst['in_flight']} in flight, {worst['behind']} events not on disk"


def prompt() -> list[Row]:
    """How soon things are there."""
    bare, ours = Job("python", {"words": "-c pass"}), Job("python", {"words": "-c import+kedge"})
    used = Job("python", {"words": "-c from+kedge+import+Engine,Plan,tool"})
    help_ = Job("python", {"words": "-m kedge --help", "needs": "kedge.__main__"})

    def beyond_bare(found: Found) -> float:
        return (_least("ours", "seconds")(found) - _least("bare", "seconds")(found)) * 1e3

    return [
        Row(
            "start",
            "import kedge, beyond a bare interpreter",
            {"bare": bare, "ours": ours},
            beyond_bare,
            "ms",
            100,
        ),
        Row("start", "… and its Engine, Plan and tool", {"bare": bare, "ours": used}, beyond_bare, "ms"),
        Row("start", "kedge --help", {"ours": help_}, _least("ours", "seconds", 1e3), "ms", 300),
        Row(
            "soon",
            "event to subscriber, 99 of 100",
            {"ours": Job("follow")},
            _least("ours", "p99_s", 1e3),
            "ms",
            1,
            note=lambda found: f"half: {_least('ours', 'p50_s', 1e3)(found):.2f} ms; elsewhere 5 ms",
        ),
        Row(
            "soon",
            "cancel of 1,000 steps that wait",
            {"ours": Job("cancel")},
            _least("ours", "seconds"),
            "s",
            1,
        ),
        Row(
            "soon",
            "disk behind at worst when more is added, W3",
            {"ours": Job("lag")},
            _least("ours", "behind_s", 1e3),
            "ms",
            20,
            note=lambda found: f"{_least('ours', 'behind_events')(found):.0f} events",
        ),
    ]


def steering(count: int) -> list[Row]:
    """How soon commands are applied."""

    def disk(found: Found) -> str:
        half_ms, most_ms = (_least("ours", what, 1e3)(found) for what in ("disk_p50_s", "disk_p99_s"))
        return f"the disk beside it: half {half_ms:.2f} ms, 99 of 100 {most_ms:.2f} ms"

    queued = {"ours": Job("queued", {"n": count})}

    def rate(what: str) -> Callable[[Found], float]:
        return lambda found: max(one["n"] / one[what] for one in found["ours"])

    return [
        Row(
            "steer", "command to its decision, 99 of 100, without the disk", {"ours": Job("send")},
            _least("ours", "p99_s", 1e3), "ms", 2, note=disk,
        ),
        Row(
            "steer", "the same from another process, with the disk", {"ours": Job("elsewhere")},
            _least("ours", "p99_s", 1e3), "ms", 100,
            note=lambda found: f"half of them within {_least('ours', 'p50_s', 1e3)(found):.1f} ms",
        ),
        Row(
            "steer", f"{count:,} commands for one run from 64 senders: accepted", queued,
            rate("accepted_s"), "/s", least=2_000,
        ),
        Row(
            "steer", "… applied", queued, rate("applied_s"), "/s", least=2_000,
            note=lambda found: f"{_least('ours', 'grown', 1 / 2**20)(found):.0f} MiB more",
        ),
        Row(
            "steer", "… out of order or twice", queued,
            lambda found: max(one["wrong"] for one in found["ours"]), "commands", 0,
        ),
    ]  # fmt: skip


def repairing() -> list[Row]:
    """The loop around a planner: from a failure to the start of the mended step."""
    found: list[Row] = []
    for n in (12, 1_000):
        jobs = {"ours": Job("repair", {"n": n}), "disk": Job("repair", {"n": n, "durable": True})}
        found.append(
            Row(
                "repair",
                f"failure to mended step started, of {n:,} steps, 99 of 100",
                jobs,
                _least("ours", "p99_s", 1e3),
                "ms",
                5,
                note=_halves,
            )
        )
    return found


def _halves(found: Found) -> str:
    half_ms, disk_ms = (_least(name, "p50_s", 1e3)(found) for name in ("ours", "disk"))
    return f"half of them within {half_ms:.2f} ms, in SQLite {disk_ms:.2f}"


def live() -> list[Row]:
    """How soon a live run is up to date; `elsewhere` is what comparable systems set themselves."""
    return [
        Row(
            "live",
            "state update, one event",
            {"ours": Job("update")},
            _least("ours", "mean_s", US),
            "us",
            10,
            note=lambda found: f"99 of 100: {_least('ours', 'p99_s', US)(found):.1f} us; elsewhere 1 ms",
        ),
        Row(
            "live",
            "durable position, 95 of 100, the disk's own sync left out",
            {"ours": Job("position")},
            _least("ours", "p95_s", 1e3),
            "ms",
            1,
            note=lambda found: f"sync: {_least('ours', 'disk_p95_s', 1e3)(found):.2f} ms; elsewhere 50 ms",
        ),
    ]


def others() -> list[Row]:
    """Other engines that are installed: the same graphs, beside ours in the same rounds, and no target."""
    found: list[Row] = []
    for name, peer in PEERS.items():
        if not peer.version:
            found.append(_left_out(f"peer: {name}", f"{peer.package} is not installed"))
            continue
        for graph in ("W1", "W2", "W3"):
            title = f"peer: {name} {graph} / L1"
            cannot = peer.cannot.get(graph)
            found.append(_left_out(title, cannot) if cannot else _peer(title, name, peer, graph))
    return found


def _left_out(title: str, why: str) -> Row:
    return Row("peers", title, {"ours": Job("none", {"why": why})}, lambda _: math.nan, "x")


def _peer(title: str, name: str, peer: Peer, graph: str) -> Row:
    """A thousand steps, whatever the graph: some would take minutes for more.

    What is kept is run once for each process: the next run may wait for what the last one left to do.
    """
    ours, where = ("effect", "on disk") if peer.keeps else ("memory", "in memory")
    runs = {"limit": ("L1", 10), "ours": (ours, 5), "peer": (name, 1 if peer.keeps else 2)}
    jobs = {
        side: Job("wall", {"who": who, "graph": graph, "reps": reps, "n": 1_000}, beside=name)
        for side, (who, reps) in runs.items()
    }

    def ratio(found: Found) -> float:
        return _step_us(found, "peer") / _step_us(found, "limit")

    def note(found: Found) -> str:
        theirs_us, limit_us, ours_us = (_step_us(found, side) for side in ("peer", "limit", "ours"))
        cpu = _step_us(found, "peer", "cpu") / _step_us(found, "limit", "cpu")
        times = f"{theirs_us:,.0f} of {limit_us:.1f} us a step, {cpu:,.0f}x of its CPU"
        return f"{times}; kedge {where} {ours_us:.1f}; {peer.version}"

    return Row("peers", title, jobs, ratio, "x", note=note)


def rows(*, quick: bool) -> list[Row]:
    """The table."""
    return [
        *speed(),
        *large(20_000 if quick else 100_000),
        *resuming(100_000 if quick else 1_000_000),
        *prompt(),
        *steering(20_000 if quick else 100_000),
        *repairing(),
        *live(),
        *others(),
    ]
