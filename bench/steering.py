"""How soon commands are applied: sent here, sent from another process, and a hundred thousand at once."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import kedge
from kedge import commands
from kedge.base.failpoints import armed
from kedge.flow.events import CommandRefused, CommandTaken, decode_event
from kedge.journal.sqlite import SqliteJournal

PLAN = {"goal": "Wait", "steps": [{"id": "w", "wait": {"signal": "go"}}]}

DRIVER = """
import asyncio, sys
import kedge

async def main():
    async with kedge.Engine(store=sys.argv[1]) as engine:
        run = await engine.resume("r")
        print("ready", flush=True)
        while not run.state.ended:
            await asyncio.sleep(0.05)

asyncio.run(main())
"""


class _Disk:
    """Seconds that COMMIT took in this process, as it goes on."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        self._began_s = 0.0
        armed["file.commit.before"] = self._begin
        armed["file.commit.after"] = self._end

    def _begin(self) -> None:
        self._began_s = time.perf_counter()

    def _end(self) -> None:
        self.spent_s += time.perf_counter() - self._began_s


def _ranks(seconds: list[float]) -> tuple[float, float]:
    seconds.sort()
    return seconds[len(seconds) // 2], seconds[len(seconds) * 99 // 100]


def _command(n: int) -> Any:
    return commands.Unpause() if n % 2 else commands.Pause()


async def send(folder: Path, n: int = 1_000) -> dict[str, Any]:
    """From `run.send` to its decision, without the time of COMMIT, and that time beside it."""
    disk, took_s, disk_s = _Disk(), list[float](), list[float]()
    async with kedge.Engine(store=folder / "kedge.db") as engine:
        run = await engine.start(kedge.Plan.parse(PLAN), run_id="r")
        await run.result()
        for i in range(n):
            began_s, before_s = time.perf_counter(), disk.spent_s
            decision = await run.send(_command(i))
            whole_s, on_disk_s = time.perf_counter() - began_s, disk.spent_s - before_s
            if not decision.taken:
                raise SystemExit(decision.why)
            took_s.append(whole_s - on_disk_s)
            disk_s.append(on_disk_s)
    (p50_s, p99_s), (disk_p50_s, disk_p99_s) = _ranks(took_s), _ranks(disk_s)
    return {"n": n, "p50_s": p50_s, "p99_s": p99_s, "disk_p50_s": disk_p50_s, "disk_p99_s": disk_p99_s}


async def elsewhere(folder: Path, n: int = 300) -> dict[str, Any]:
    """From `engine.send` to the decision that comes back from the process that drives the run."""
    store, took_s = folder / "kedge.db", list[float]()
    async with kedge.Engine(store=store) as engine:
        await (await engine.start(kedge.Plan.parse(PLAN), run_id="r")).result()
        await engine.let_go("r")
        driver = await asyncio.create_subprocess_exec(
            sys.executable, "-c", DRIVER, str(store), stdout=subprocess.PIPE
        )
        if driver.stdout is None or await driver.stdout.readline() != b"ready\n":
            raise SystemExit("the driver did not come up")
        for i in range(n):
            began_s = time.perf_counter()
            decision = await (await engine.send("r", _command(i))).decided(30)
            took_s.append(time.perf_counter() - began_s)
            if not decision.taken:
                raise SystemExit(decision.why)
            await asyncio.sleep(0.002)
        await (await engine.send("r", commands.Cancel())).decided(30)
        await driver.wait()
    p50_s, p99_s = _ranks(took_s)
    return {"n": n, "p50_s": p50_s, "p99_s": p99_s}


async def queued(folder: Path, n: int = 100_000, senders: int = 64) -> dict[str, Any]:
    """Many commands for a run that nobody drives: accepted per second, then applied per second, in order."""
    from child import memory, reset_peak

    store = folder / "kedge.db"
    async with kedge.Engine(store=store) as engine:
        await (await engine.start(kedge.Plan.parse(PLAN), run_id="r")).result()
        await engine.let_go("r")
        began_s = time.perf_counter()

        async def sender(name: int) -> None:
            for i in range(n // senders):
                await engine.send("r", commands.Pause(key=f"{name}-{i}"))

        await asyncio.gather(*(sender(name) for name in range(senders)))
        accepted_s = time.perf_counter() - began_s
        last = await engine.send("r", commands.Cancel(key="last"))
    async with kedge.Engine(store=store) as engine:
        before = reset_peak()
        began_s = time.perf_counter()
        run = await engine.resume("r")
        last = await engine.send("r", commands.Cancel(key="last"))
        await last.decided(CHILD_S)
        await run.result()
        applied_s = time.perf_counter() - began_s
        grown = memory("VmHWM") - before
    wrong = _out_of_order(store, senders)
    return {"n": n, "accepted_s": accepted_s, "applied_s": applied_s, "grown": grown, "wrong": wrong}


CHILD_S = 500.0


def _out_of_order(store: Path, senders: int) -> int:
    """Commands that were taken before one that their sender had sent earlier, or more than once."""
    journal = SqliteJournal(store)
    seen, wrong = dict.fromkeys(map(str, range(senders)), -1), 0
    for entry in journal.read("r"):
        event = decode_event(entry.data)
        if isinstance(event, CommandTaken | CommandRefused) and event.key != "last":
            name, _, i = event.key.partition("-")
            wrong += int(i) != seen[name] + 1
            seen[name] = int(i)
    journal.close()
    return wrong
