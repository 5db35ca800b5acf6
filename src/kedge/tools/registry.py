"""The tools of an engine, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from kedge.base.errors import BadInput
from kedge.plan.tools import Catalog
from kedge.tools.function import tool
from kedge.tools.tool import Tool


class Registry:
    """Tools by name, in the order they were given. Plain functions become tools on the way in."""

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        if isinstance(tools, str) or callable(tools):  # a text is a sequence of letters, each a tool's name
            raise BadInput(
                f"tools are a list of tools, not one {type(tools).__name__}",
                code="not_a_tool",
                where="tools",
                remedy="write tools=[my_tool]; kedge.builtin_tools() are a list already",
            )
        for given in tools:
            self._add(given if isinstance(given, Tool) else tool(given))
        self.catalog = Catalog(known.spec for known in self._tools.values())
        """The same tools as a plan and its checks see them."""

    def _add(self, new: Tool) -> None:
        known = self._tools.setdefault(new.spec.name, new)
        if known is not new:
            raise BadInput(
                f"two tools are named {new.spec.name!r}: {known.source} and {new.source}",
                code="duplicate_tool",
                where=new.spec.name,
                remedy="give one of them another name, as in @kedge.tool(name='other.name')",
            )

    def get(self, name: str) -> Tool | None:
        return self._tools.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)
