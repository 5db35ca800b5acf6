"""Prefect: a flow that awaits its tasks, beside a server of its own in a process of its own.

As it comes: the server keeps what became of tasks, and results are not kept. Tasks could be submitted to a
runner of threads instead; awaited they are many times faster, so that was taken.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Self

import node
from graphs import Graph
from prefect import flow, task
from prefect.testing.utilities import prefect_test_harness

from peers import PeerAdapter


@task
async def call(inputs: list[int]) -> int:
    """What a node does."""
    return await node.work(inputs)


class Adapter(PeerAdapter):
    """A flow for each graph."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._server = prefect_test_harness(server_startup_timeout=90)
        self._flow: Any = None

    async def __aenter__(self) -> Self:
        self._server.__enter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        self._server.__exit__(None, None, None)

    async def build(self, graph: Graph) -> None:
        """A task is called when the last of its inputs is there."""

        @flow
        async def whole() -> list[int]:
            started: list[asyncio.Future[int]] = []

            async def one(deps: tuple[int, ...]) -> int:
                return await call([await started[dep] for dep in deps])

            started.extend(asyncio.ensure_future(one(deps)) for deps in graph.deps)
            return await asyncio.gather(*started)

        self._flow = whole

    async def run(self) -> list[Any]:
        """Every result, by node."""
        return await self._flow()
