"""kedge as its users have it: the public API, the default codec and event chain, limits raised not lifted."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

import node
from graphs import Graph

import kedge
from kedge.engine.driver import Driver
from kedge.engine.log import RunLog
from kedge.flow.events import Event

LIMITS = kedge.Limits(
    parallel=1_000_000,
    parallel_total=1_000_000,
    steps=1_000_000,
    chain=1_000_000,
    expansions=1_000_000,
    iterations=1_000_000,
    calls=10_000_000,
)


def node_tool(effect: Literal["pure", "effect"]) -> kedge.Tool:
    """The step as a tool."""

    @kedge.tool(effect=effect, name="node")
    async def call(i: int, inputs: list[int], sleep_s: float | None = None) -> int:
        return await node.work(inputs, sleep_s)

    return call


def _watch_first_event() -> list[tuple[float, float]]:
    """Will hold the moment (wall, CPU) at which the next event of any run is about to be appended."""
    usual, moments = RunLog.append, list[tuple[float, float]]()

    def first(self: RunLog, events: Sequence[Event], at: int, blobs: dict[str, bytes]) -> None:
        moments.append((time.perf_counter(), time.process_time()))
        RunLog.append = usual
        usual(self, events, at, blobs)

    RunLog.append = first
    return moments


class Kedge:
    """An engine that runs graphs."""

    def __init__(self, store: Path | str, effect: Literal["pure", "effect"] = "pure") -> None:
        self.engine = kedge.Engine(tools=[node_tool(effect)], store=store, limits=LIMITS)
        self.handle: kedge.Run | None = None
        self.began = (0.0, 0.0)
        self._size = 0
        self._runs = 0

    async def __aenter__(self) -> Self:
        await self.engine.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.engine.__aexit__(*exc)

    async def admit(self, graph: Graph) -> dict[str, float]:
        """Plan and start; seconds of each. What comes after the run's first event belongs to the run."""
        document = graph.document()
        self._size = len(graph)
        asked_s = time.perf_counter()
        plan = kedge.Plan.parse(document, LIMITS)
        parsed_s = time.perf_counter()
        began = _watch_first_event()
        self.handle = await self.engine.start(plan, run_id=f"bench{self._runs}")
        self._runs += 1
        self.began = began[0]
        return {"parse": parsed_s - asked_s, "start": self.began[0] - parsed_s}

    async def run(self) -> list[Any]:
        """Wait for the end and read every result."""
        result = await self.run_handle.result()
        steps = result.steps
        return [steps[f"n{i}"].result for i in range(self._size)]

    async def forget(self) -> None:
        """Delete the run, so that the next one is measured beside nothing."""
        self.engine.delete(self.run_handle.id)
        self.handle = None

    @property
    def run_handle(self) -> kedge.Run:
        if self.handle is None:
            raise SystemExit("no run was started")
        return self.handle

    @property
    def driver(self) -> Driver:
        """What makes the run move: a benchmark may look inside."""
        return self.run_handle._driver  # noqa: SLF001
