"""Hamilton: its asynchronous driver, and a function for each node.

Its parameters are named as what it depends on; written by hand they would be in its source.
"""
# pyright: reportMissingImports=false

from __future__ import annotations

from inspect import Parameter, Signature
from pathlib import Path
from typing import Any

import node
from graphs import Graph
from hamilton import ad_hoc_utils, async_driver, base

from peers import PeerAdapter


class Adapter(PeerAdapter):
    """A driver for each graph."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._driver: Any = None
        self._names: list[str] = []

    async def build(self, graph: Graph) -> None:
        """A function for each node, whose parameters name what it depends on."""
        self._names = [f"n{i}" for i in range(len(graph))]
        functions = [_function(name, deps) for name, deps in zip(self._names, graph.deps, strict=True)]
        module = ad_hoc_utils.create_temporary_module(*functions)
        self._driver = async_driver.AsyncDriver({}, module, result_builder=base.DictResult())
        await self._driver.ainit()

    async def run(self) -> list[Any]:
        """Every result, by node."""
        results = await self._driver.execute(self._names)
        return [results[name] for name in self._names]


def _function(name: str, deps: tuple[int, ...]) -> Any:
    async def call(**inputs: int) -> int:
        return await node.work(list(inputs.values()))

    named = [Parameter(f"n{dep}", Parameter.KEYWORD_ONLY, annotation=int) for dep in deps]
    call.__name__ = call.__qualname__ = name
    call.__signature__ = Signature(named, return_annotation=int)
    call.__annotations__ = {**{each.name: int for each in named}, "return": int}
    return call
