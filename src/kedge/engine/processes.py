"""Child processes for tools with `isolation="process"`."""

from __future__ import annotations

from kedge.tools.context import Context, Sink
from kedge.tools.tool import Tool


class Processes:
    """Child processes of one engine."""

    async def call(self, tool: Tool, args: bytes, context: Context, sink: Sink) -> bytes:
        raise NotImplementedError

    async def close(self) -> None:
        return None
