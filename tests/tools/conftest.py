import asyncio
import inspect
from typing import Any

import pytest

from kedge.base import codec
from kedge.tools.context import Context
from kedge.tools.tool import Tool


class ListSink:
    """Keeps what a tool reports."""

    def __init__(self) -> None:
        self.reports: list[tuple[str, Any]] = []

    def report(self, kind, data):
        self.reports.append((kind, dict(data)))


@pytest.fixture
def sink():
    return ListSink()


@pytest.fixture
def context(sink):
    return Context(sink, "run1", "outer/step", 1, lambda: "key-1")


@pytest.fixture
def call(context):
    """Calls a tool as an engine does: arguments from bytes, result to bytes and back."""

    def call_tool(tool: Tool, /, **arguments: Any) -> Any:
        prepared = tool.decode(codec.encode(arguments))
        result = tool.invoke(prepared, context)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        return codec.decode(codec.encode(result))

    return call_tool
