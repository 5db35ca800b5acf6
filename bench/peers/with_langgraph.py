"""LangGraph: a StateGraph, a node and its edges for each step; without a checkpointer, and with SQLite's.

Its functional API was not taken: there a task is only submitted to be saved when what depends on it starts.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

import operator
from pathlib import Path
from typing import Annotated, Any, Self, TypedDict

import node
from graphs import Graph
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import END, START, StateGraph

from peers import PeerAdapter


class State(TypedDict):
    """What nodes share: each adds its own result."""

    results: Annotated[dict[int, int], operator.or_]


class InMemory(PeerAdapter):
    """Nothing is kept."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.saver: Any = None
        self._graph: Any = None
        self._runs = 0
        self._size = 0

    async def build(self, graph: Graph) -> None:
        """A node waits for all of its edges only if they come as one list."""
        self._size = len(graph)
        builder = StateGraph(State)
        for i, deps in enumerate(graph.deps):
            builder.add_node(f"n{i}", _step(i, deps))
        for i, deps in enumerate(graph.deps):
            match deps:
                case ():
                    builder.add_edge(START, f"n{i}")
                case (only,):
                    builder.add_edge(f"n{only}", f"n{i}")
                case _:
                    builder.add_edge([f"n{dep}" for dep in deps], f"n{i}")
        for i, consumers in enumerate(graph.consumers):
            if not consumers:
                builder.add_edge(f"n{i}", END)
        self._graph = builder.compile(checkpointer=self.saver)

    async def run(self) -> list[Any]:
        """With a checkpointer, the results of a superstep are saved before the next one begins."""
        self._runs += 1
        config = {"recursion_limit": 1_000_000, "configurable": {"thread_id": str(self._runs)}}
        kept = {"durability": "sync"} if self.saver else {}
        state = await self._graph.ainvoke({"results": {}}, config, **kept)
        return [state["results"][i] for i in range(self._size)]


class InSqlite(InMemory):
    """Every superstep is saved."""

    async def __aenter__(self) -> Self:
        self._opened = AsyncSqliteSaver.from_conn_string(str(self.folder / "langgraph.db"))
        self.saver = await self._opened.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._opened.__aexit__(None, None, None)

    async def forget(self) -> None:
        """Delete the run, so that the next one is measured beside nothing."""
        await self.saver.adelete_thread(str(self._runs))


def _step(i: int, deps: tuple[int, ...]) -> Any:
    async def call(state: State) -> dict[str, dict[int, int]]:
        return {"results": {i: await node.work([state["results"][dep] for dep in deps])}}

    return call
