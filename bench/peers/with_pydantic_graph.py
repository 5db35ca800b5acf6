"""pydantic-graph: a step for each node, and a join before each that has several inputs.

A join there belongs to the fork before it, and does not wait for just any steps: a woven graph cannot
be said.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import node
from graphs import Graph
from pydantic_graph import GraphBuilder, StepContext, reduce_list_append

from peers import PeerAdapter


class Adapter(PeerAdapter):
    """The results are the state; the inputs of a step come along its edge."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._graph: Any = None
        self._size = 0

    async def build(self, graph: Graph) -> None:
        """What starts forks to all that have no inputs; what nobody waits for is joined into the end."""
        self._size = len(graph)
        builder = GraphBuilder(state_type=dict[int, int], output_type=object)
        steps = [builder.step(_step(i, deps), node_id=f"n{i}") for i, deps in enumerate(graph.deps)]
        entries: list[Any] = list(steps)
        for i, deps in enumerate(graph.deps):
            if len(deps) > 1:
                entries[i] = builder.join(reduce_list_append, initial_factory=list, node_id=f"join{i}")
                builder.add(builder.edge_from(entries[i]).to(steps[i]))
        roots = [entry for entry, deps in zip(entries, graph.deps, strict=True) if not deps]
        builder.add(builder.edge_from(builder.start_node).to(*roots))
        ending: Any = builder.end_node
        if sum(not consumers for consumers in graph.consumers) > 1:
            ending = builder.join(reduce_list_append, initial_factory=list, node_id="ending")
            builder.add(builder.edge_from(ending).to(builder.end_node))
        for step, consumers in zip(steps, graph.consumers, strict=True):
            targets = [entries[consumer] for consumer in consumers] or [ending]
            builder.add(builder.edge_from(step).to(*targets))
        self._graph = builder.build()

    async def run(self) -> list[Any]:
        """Every result, by node."""
        results: dict[int, int] = {}
        await self._graph.run(state=results)
        return [results.get(i) for i in range(self._size)]


def _step(i: int, deps: tuple[int, ...]) -> Any:
    async def call(ctx: StepContext[dict[int, int], None, Any]) -> int:
        inputs = [] if not deps else ctx.inputs if len(deps) > 1 else [ctx.inputs]
        value = ctx.state[i] = await node.work(inputs)
        return value

    return call
