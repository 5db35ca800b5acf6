"""One measurement in a fresh process: `python child.py NAME '{"argument": value}'`, one line of JSON out.

Every function below that `MEASURES` names is one. Nothing here is compared with anything: `run.py` does that.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol, Self

import graphs
import node
import peers
import steering

BORN_S = float(os.environ.get("BENCH_BORN_S") or time.time())
"""Wall clock of when this process was asked for."""


class Subject(Protocol):
    """What can run a graph."""

    began: tuple[float, float]
    """When it was admitted and the run itself began: wall and CPU."""

    async def __aenter__(self) -> Self: ...
    async def __aexit__(self, *exc: object) -> None: ...
    async def admit(self, graph: graphs.Graph) -> dict[str, float]: ...
    async def run(self) -> list[Any]: ...
    async def forget(self) -> None: ...


def subject(who: str, folder: Path) -> Subject:
    """By name: the raw limits, another engine, or kedge without and with a disk."""
    if who in peers.PEERS:
        return peers.adapter(who, folder)
    if who in ("L1", "L3"):
        import raw

        return raw.Tasks() if who == "L1" else raw.Ticks(folder)
    from ours import Kedge

    if who == "memory":
        return Kedge(":memory:")
    return Kedge(folder / "kedge.db", "effect" if who == "effect" else "pure")


# --- time and memory of whole runs


async def wall(
    folder: Path, who: str, graph: str, n: int | None = None, reps: int = 3, *, keep: bool = False
) -> dict[str, Any]:
    """Seconds of `reps` runs and of their admission; the peak of memory, with all that was built.

    `keep` leaves the runs in the store, for whoever wants to look at what was timed.
    """
    small = graphs.make(graph, 20)
    async with subject(who, folder) as engine:
        await _timed(engine, small, keep=keep)  # imports on use, SQL compiled
        runs = [await _timed(engine, graphs.make(graph, n), keep=keep) for _ in range(reps)]
    return {"n": len(graphs.make(graph, n)), "runs": runs}


async def _timed(engine: Subject, graph: graphs.Graph, *, keep: bool) -> dict[str, float]:
    gc.collect()
    before, called = reset_peak(), node.calls
    admitted = await engine.admit(graph)
    results = await engine.run()
    wall_s, cpu_s = time.perf_counter() - engine.began[0], time.process_time() - engine.began[1]
    taken = {"wall": wall_s, "cpu": cpu_s, **admitted}
    peak = memory("VmHWM") - before
    graph.check(results)
    if node.calls - called != len(graph):
        raise SystemExit(f"{node.calls - called} calls were made for {len(graph)} steps")
    if not keep:
        await engine.forget()
    return {**taken, "peak": peak} if before else taken


def reset_peak() -> int:
    """Memory in use, where the system can tell its peak from here on; else 0."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
        return memory("VmRSS")
    except OSError:
        return 0


def memory(name: str) -> int:
    """What the system says of this process's memory, in bytes; 0 if it does not tell."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(name)), 0)


async def count_syncs(folder: Path, n: int = 1_000) -> dict[str, Any]:
    """Syncs of a chain of steps with effects, from after its admission to its end."""
    import syncs
    from ours import Kedge

    syncs.install()
    async with Kedge(folder / "kedge.db", "effect") as engine:
        graph = graphs.chain(n)
        await engine.admit(graph)
        before = syncs.count
        graph.check(await engine.run())
        return {"n": n, "syncs": syncs.count - before}


async def lag(folder: Path, graph: str = "W3", n: int | None = None) -> dict[str, Any]:
    """How far the disk was behind at worst when a turn had just made it more."""
    from ours import Kedge

    async with Kedge(folder / "kedge.db") as engine:
        made = graphs.make(graph, n)
        await engine.admit(made)
        driver = engine.driver
        log, woken = driver.log, driver.on_events
        events, seconds, turn, last = 0, 0.0, 0, log.seq

        def on_events() -> None:
            nonlocal events, seconds, turn, last
            turn, last = max(turn, log.seq - last), log.seq
            events = max(events, log.behind)
            if log.behind:
                seconds = max(seconds, time.perf_counter() - log.oldest_s)
            if woken is not None:
                woken()

        driver.on_events = on_events
        made.check(await engine.run())
        return {"n": len(made), "behind_events": events, "behind_s": seconds, "turn_events": turn}


# --- killed and taken up again


async def kill(
    folder: Path, graph: str = "W3", n: int | None = None, *, events: int = 0, shape: str = ""
) -> dict[str, Any]:
    """Run in `folder` and be killed when half of the steps have started, or when there are `events`."""
    from ours import Kedge

    engine = await Kedge(folder / "kedge.db").__aenter__()
    if events:
        plan = _long_plan(shape, events)
        engine.handle = await engine.engine.start(plan, run_id="bench0")
        node.die_at_call = events // 2
    else:
        made = graphs.make(graph, n)
        await engine.admit(made)
        node.die_at_call = len(made) // 2
    driver = engine.driver

    def last_words() -> None:
        # One that returned and was not looked at yet is no longer in flight, and not yet in the log.
        in_flight = len(driver.attempts) + len(driver._intake)  # noqa: SLF001
        state = {"in_flight": in_flight, "behind": driver.log.behind}
        (folder / "killed.json").write_text(json.dumps({**state, "events": driver.log.seq}))

    node.last_words = last_words
    await engine.run_handle.result()
    raise SystemExit("the run ended before it was killed")


def _long_plan(shape: str, events: int) -> Any:
    """A plan of few steps and that many events: each call is two. A few are left to do."""
    from ours import LIMITS

    import kedge

    calls = events // 2 + 10
    step: dict[str, Any] = {"id": "many", "tool": "node", "args": {"i": 0, "inputs": []}}
    if shape == "loop":
        step["loop"] = {"times": calls}
        return kedge.Plan.parse({"goal": "a long log", "steps": [step]}, LIMITS)
    step["foreach"] = "${inputs.items}"
    document = {
        "goal": "a long log",
        "inputs": {"items": {"type": "array", "default": list(range(calls))}},
        "limits": {"parallel": 100},  # else all of them would be in flight
        "steps": [step],
    }
    return kedge.Plan.parse(document, LIMITS)


async def resume(folder: Path, graph: str = "W3", n: int | None = None, *, events: int = 0) -> dict[str, Any]:
    """Take the killed run of `folder` up and end it: seconds count from when this process was asked for."""
    from ours import Kedge

    async with Kedge(folder / "kedge.db") as engine:
        handle = engine.handle = await engine.engine.resume("bench0")
        resumed_s = time.time()
        result = await handle.result()
        ended_s = time.time()
        found = {
            "first_step_s": node.first_call_s - BORN_S,
            "resumed_s": resumed_s - BORN_S,
            "ended_s": ended_s - BORN_S,
            "calls": node.calls,
            "peak": memory("VmHWM"),
        }
        if events:
            return {**found, "twice": node.calls - 10, "ok": result.ok}
        made = graphs.make(graph, n)
        made.check([result.steps[f"n{i}"].result for i in range(len(made))])
        return {**found, "twice": len(made) // 2 + node.calls - len(made), "ok": result.ok}


# --- how soon


async def follow(folder: Path, n: int = 1_000) -> dict[str, Any]:
    """Seconds from the append of each event to a subscriber, 99th of 100, while steps wait 5 ms each."""
    from ours import Kedge

    from kedge.flow.events import Event

    async with Kedge(folder / "kedge.db") as engine:
        made = graphs.make("W6", n)
        await engine.admit(made)
        log = engine.driver.log
        append, born_s = log.append, [0.0] * (log.seq + 1)

        def timed_append(events: Sequence[Event], at: int, blobs: dict[str, bytes]) -> None:
            append(events, at, blobs)
            born_s.extend([time.perf_counter()] * (log.seq + 1 - len(born_s)))

        log.append = timed_append
        late_s: list[float] = []

        async def subscriber() -> None:
            seen = 0
            async for event in engine.run_handle.events():
                if event.seq > seen and born_s[event.seq]:
                    late_s.append(time.perf_counter() - born_s[event.seq])
                seen = event.seq

        reader = asyncio.create_task(subscriber())
        made.check(await engine.run())
        await reader
    late_s.sort()
    return {
        "events": len(late_s),
        "p50_s": late_s[len(late_s) // 2],
        "p99_s": late_s[len(late_s) * 99 // 100],
    }


async def cancel(folder: Path, n: int = 1_000) -> dict[str, Any]:
    """Seconds from the cancel of `n` sleeping steps to the end of the run, on disk."""
    from ours import Kedge

    async with Kedge(folder / "kedge.db") as engine:
        await engine.admit(graphs.Graph([()] * n, [60.0] * n))
        while node.calls < n:  # noqa: ASYNC110 - the tool is not to know that it is watched
            await asyncio.sleep(0.01)
        began_s = time.perf_counter()
        await engine.run_handle.cancel()
        result = await engine.run_handle.result()
        taken_s = time.perf_counter() - began_s
        if result.status != "cancelled":
            raise SystemExit(f"the run is {result.status}")
    return {"n": n, "seconds": taken_s}


async def repair(folder: Path, n: int = 12, *, durable: bool = False) -> dict[str, Any]:
    """Seconds from a failure to the next step's start, without the planner's own, in a plan of `n` steps."""
    from repairing import repair_again_and_again

    return await repair_again_and_again(folder / "kedge.db" if durable else ":memory:", n)


def _elsewhere(module: str, name: str) -> Callable[..., Coroutine[Any, Any, dict[str, Any]]]:
    """A measurement of another file, loaded when it is made: the others start without it."""

    async def measure(folder: Path, **arguments: Any) -> dict[str, Any]:
        return await getattr(importlib.import_module(module), name)(folder, **arguments)

    return measure


MEASURES: dict[str, Callable[..., Coroutine[Any, Any, dict[str, Any]]]] = {
    "wall": wall,
    "syncs": count_syncs,
    "lag": lag,
    "kill": kill,
    "resume": resume,
    "follow": follow,
    "cancel": cancel,
    "send": steering.send,
    "elsewhere": steering.elsewhere,
    "queued": steering.queued,
    "repair": repair,
    **{name: _elsewhere("live", name) for name in ("update", "position")},
}


def main() -> None:
    """Measure what the command line names; the folder is given, or made and removed."""
    name, arguments = sys.argv[1], json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}
    folder = arguments.pop("folder", None)
    if folder is not None:
        found = asyncio.run(MEASURES[name](Path(folder), **arguments))
    else:
        with tempfile.TemporaryDirectory(prefix="kedge-bench-") as made:
            found = asyncio.run(MEASURES[name](Path(made), **arguments))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
