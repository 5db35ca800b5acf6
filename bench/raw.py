"""The limits that kedge is measured beside: what a few lines of asyncio and SQLite take for the same work.

`Tasks` (L1) keeps nothing: one asyncio task for each node, made when its last input is there. `Ticks`
(L3) makes each result durable with one transaction for each round of the loop, and lets dependents
start after it. Neither has arguments, limits, timeouts, events, or anything to see afterwards.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, Self

import apsw
import node
from graphs import Graph


class Tasks:
    """L1: one raw asyncio task for each node. As a limit has to be fast, everything is a local."""

    def __init__(self) -> None:
        self._graph = Graph([])
        self.began = (0.0, 0.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    async def admit(self, graph: Graph) -> dict[str, float]:
        """Find out who waits for whom."""
        self._graph = graph
        _ = graph.consumers
        self.began = time.perf_counter(), time.process_time()
        return {}

    async def run(self) -> list[Any]:
        """Every result."""
        graph = self._graph
        deps, consumers, sleep_s, step = graph.deps, graph.consumers, graph.sleep_s, node.work
        waiting = [len(deps_) for deps_ in deps]
        results: list[Any] = [None] * len(graph)
        left = len(graph)
        loop = asyncio.get_running_loop()
        done, spawn = loop.create_future(), loop.create_task

        async def run_node(i: int) -> None:
            nonlocal left
            results[i] = await step([results[d] for d in deps[i]], sleep_s[i] if sleep_s else None)
            for consumer in consumers[i]:
                waiting[consumer] -= 1
                if not waiting[consumer]:
                    spawn(run_node(consumer))
            left -= 1
            if not left:
                done.set_result(None)

        for first in [i for i, count in enumerate(waiting) if not count]:
            spawn(run_node(first))
        await done
        return results

    async def forget(self) -> None: ...


class Ticks(Tasks):
    """L3: results of one round of the loop are one transaction with `synchronous=FULL`."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._db = apsw.Connection(str(folder / "raw.db"))
        self._db.pragma("journal_mode", "wal")
        self._db.pragma("synchronous", "full")
        self._db.execute("create table step(run int, id int, value text, primary key(run, id)) without rowid")
        self._run = 0

    async def __aexit__(self, *exc: object) -> None:
        self._db.close()

    async def run(self) -> list[Any]:
        """Every result, each on disk before what waits for it starts."""
        self._run += 1
        graph, run, execute, executemany = self._graph, self._run, self._db.execute, self._db.executemany
        deps, consumers, sleep_s, step = graph.deps, graph.consumers, graph.sleep_s, node.work
        waiting = [len(deps_) for deps_ in deps]
        results: list[Any] = [None] * len(graph)
        left = len(graph)
        rows: list[tuple[int, int, str]] = []
        loop = asyncio.get_running_loop()
        done, spawn, call_soon = loop.create_future(), loop.create_task, loop.call_soon

        async def run_node(i: int) -> None:
            value = results[i] = await step([results[d] for d in deps[i]], sleep_s[i] if sleep_s else None)
            rows.append((run, i, str(value)))
            if len(rows) == 1:
                call_soon(commit)

        def commit() -> None:
            nonlocal rows, left
            written, rows = rows, []
            execute("begin")
            executemany("insert into step values(?,?,?)", written)
            execute("commit")
            for _, i, _ in written:
                for consumer in consumers[i]:
                    waiting[consumer] -= 1
                    if not waiting[consumer]:
                        spawn(run_node(consumer))
            left -= len(written)
            if not left:
                done.set_result(None)

        for first in [i for i, count in enumerate(waiting) if not count]:
            spawn(run_node(first))
        await done
        return results
