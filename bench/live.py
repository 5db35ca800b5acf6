"""How soon a live run is up to date: each measurement is one of `child.py`'s."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import graphs
import syncs
from ours import Kedge, node_tool

from kedge.engine.recovery import decode
from kedge.flow.events import Event, RunStarted
from kedge.flow.evolve import evolve
from kedge.flow.program import compile_plan
from kedge.flow.state import RunState
from kedge.journal.entry import Entry
from kedge.plan.model import Plan
from kedge.tools.registry import Registry


def _share(sorted_s: Sequence[float], percent: int) -> float:
    return sorted_s[len(sorted_s) * percent // 100]


async def update(_folder: Path, graph: str = "W3", n: int = 10_000) -> dict[str, Any]:
    """Seconds that one event takes to be folded into the state, all of them and 99 of 100."""
    async with Kedge(":memory:") as engine:
        made = graphs.make(graph, n)
        await engine.admit(made)
        log, entries = engine.driver.log, list(engine.driver.log.tail)
        usual = log.append

        def keep(events: Sequence[Event], at: int, blobs: dict[str, bytes]) -> None:
            before = len(log.tail)
            usual(events, at, blobs)
            entries.extend(log.tail[before:])

        log.append = keep
        made.check(await engine.run())
        plan, run_id = engine.run_handle.plan, engine.run_handle.id
    took_s = _fold(plan, run_id, entries)
    took_s.sort()
    return {"events": len(took_s), "mean_s": sum(took_s) / len(took_s), "p99_s": _share(took_s, 99)}


def _fold(plan: Plan, run_id: str, entries: list[Entry]) -> list[float]:
    events = [(decode(run_id, entry), entry.at) for entry in entries]
    first = events[0][0]
    if not isinstance(first, RunStarted):
        raise SystemExit("the log was not kept from its beginning")
    program = compile_plan(plan, Registry([node_tool("pure")]).catalog)
    state = RunState(run_id, program, bytes(first.inputs))
    took_s: list[float] = []
    for event, at in events:
        began_s = time.perf_counter()
        evolve(state, event, at)
        took_s.append(time.perf_counter() - began_s)
    if not state.ended:
        raise SystemExit("the log was not kept to its end")
    return took_s


async def position(folder: Path, n: int = 500) -> dict[str, Any]:
    """Seconds from an append to its place on disk, and how many of them the disk's own sync took."""
    syncs.install()
    async with Kedge(folder / "kedge.db", "effect") as engine:
        made = graphs.chain(n)
        await engine.admit(made)
        log = engine.driver.log
        append, durable = log.append, log.on_durable
        began: list[tuple[float, float]] = []
        own_s: list[float] = []
        disk_s: list[float] = []

        def appended(events: Sequence[Event], at: int, blobs: dict[str, bytes]) -> None:
            began.append((time.perf_counter(), syncs.spent_s))
            append(events, at, blobs)

        def written() -> None:
            now_s, synced_s = time.perf_counter(), syncs.spent_s
            for then_s, before_s in began:
                disk_s.append(synced_s - before_s)
                own_s.append(now_s - then_s - disk_s[-1])
            began.clear()
            durable()

        log.append, log.on_durable = appended, written
        made.check(await engine.run())
    own_s.sort()
    disk_s.sort()
    return {"appends": len(own_s), "p95_s": _share(own_s, 95), "disk_p95_s": _share(disk_s, 95)}
