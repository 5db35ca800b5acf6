"""DBOS: a workflow of steps, on SQLite.

It numbers the steps of a workflow as they start, and asks for the same order whenever it runs again. So nodes
of the same depth start together, after all that are less deep: started as their inputs come they would be
faster, and wrong after a crash.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

import node
from dbos import DBOS
from graphs import Graph

from peers import PeerAdapter


@DBOS.step()
async def call(inputs: list[int]) -> int:
    """What a node does."""
    return await node.work(inputs)


@DBOS.workflow()
async def whole(deps: list[list[int]], levels: list[list[int]]) -> list[int]:
    """One level after the other."""
    results = [0] * len(deps)
    for level in levels:
        found = await asyncio.gather(*(call([results[dep] for dep in deps[i]]) for i in level))
        for i, value in zip(level, found, strict=True):
            results[i] = value
    return results


class Adapter(PeerAdapter):
    """A database for all runs."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._inputs: tuple[list[list[int]], list[list[int]]] = ([], [])

    async def __aenter__(self) -> Self:
        url = f"sqlite:///{self.folder / 'dbos.db'}"
        DBOS(config={"name": "bench", "system_database_url": url, "log_level": "ERROR"})
        DBOS.launch()
        return self

    async def __aexit__(self, *exc: object) -> None:
        DBOS.destroy()

    async def build(self, graph: Graph) -> None:
        """The depth of a node is its result."""
        levels: list[list[int]] = [[] for _ in range(max(graph.expected))]
        for i, depth in enumerate(graph.expected):
            levels[depth - 1].append(i)
        self._inputs = [list(deps) for deps in graph.deps], levels

    async def run(self) -> list[Any]:
        """Every result, by node."""
        return await whole(*self._inputs)
