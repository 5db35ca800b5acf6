"""A tool as the calls of one run need it."""

from __future__ import annotations

from kedge.base.limits import Limits
from kedge.tools.tool import Tool


class Callee:
    """What all calls of a tool have in common."""

    __slots__ = ("decode", "invoke", "is_async", "timeout_s", "tool", "wants_context")

    def __init__(self, tool: Tool, limits: Limits) -> None:
        self.tool = tool
        self.decode = tool.decode
        self.invoke = tool.invoke
        self.is_async = tool.is_async and tool.spec.isolation != "process"
        self.wants_context = tool.wants_context
        self.timeout_s: float = tool.spec.timeout_s or limits.step_s
        """For steps that set none."""
