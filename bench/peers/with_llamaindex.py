"""LlamaIndex workflows: steps are joined by the events they take and give, and there are no other edges.

So one step does the work of every node, and one decides what is ready now.
"""
# pyright: reportMissingImports=false, reportUntypedBaseClass=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import node
from graphs import Graph
from workflows import Context, Workflow, step
from workflows.events import Event, StartEvent, StopEvent

from peers import PeerAdapter

WIDTH = 1_000
"""How many nodes may run at once: the widest graph."""


class Ready(Event):
    """The inputs of a node are there."""

    i: int
    inputs: list[int]


class Done(Event):
    """A node has its result."""

    i: int
    value: int


class Nodes(Workflow):
    """Runs one graph, once."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(timeout=None)
        self.graph = graph
        self.waiting = [len(deps) for deps in graph.deps]
        self.results: dict[int, int] = {}

    @step
    async def begin(self, ctx: Context, _: StartEvent) -> Ready | None:
        """Start what has no inputs."""
        for i, deps in enumerate(self.graph.deps):
            if not deps:
                ctx.send_event(Ready(i=i, inputs=[]))

    @step(num_workers=WIDTH)
    async def work(self, ready: Ready) -> Done:
        """What a node does."""
        return Done(i=ready.i, value=await node.work(ready.inputs))

    @step(num_workers=1)
    async def go_on(self, ctx: Context, done: Done) -> Ready | StopEvent | None:
        """Start what waited for this node last."""
        self.results[done.i] = done.value
        if len(self.results) == len(self.graph):
            return StopEvent(result=self.results)
        for consumer in self.graph.consumers[done.i]:
            self.waiting[consumer] -= 1
            if not self.waiting[consumer]:
                inputs = [self.results[dep] for dep in self.graph.deps[consumer]]
                ctx.send_event(Ready(i=consumer, inputs=inputs))
        return None


class Adapter(PeerAdapter):
    """A workflow for each run."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._workflow: Any = None
        self._size = 0

    async def build(self, graph: Graph) -> None:
        """Who waits for whom is found out before."""
        _ = graph.consumers
        self._size = len(graph)
        self._workflow = Nodes(graph)

    async def run(self) -> list[Any]:
        """Every result, by node."""
        results = await self._workflow.run()
        return [results[i] for i in range(self._size)]
