"""`sleep` and `fail`: tools about the run itself."""

from __future__ import annotations

from typing import Annotated

import msgspec

from kedge.base.errors import Category, InternalError, ToolError
from kedge.plan.model import SLEEP
from kedge.tools.function import tool
from kedge.tools.tool import Tool


@tool(name=SLEEP, effect="pure")
async def sleep(seconds: Annotated[float, msgspec.Meta(ge=0)]) -> None:
    """Wait. The wait is kept in the run's log, so it goes on over a restart.

    seconds: how long
    """
    raise InternalError(f"sleep({seconds}) was called as a tool: the engine should have set a timer")


@tool(name="fail", effect="pure")
async def fail(message: str, category: Category = "permanent") -> None:
    """Fail on purpose: where a plan finds that it cannot go on.

    message: what the person reads
    category: the kind of failure, which decides what happens next
    """
    raise ToolError(message, category)


def control_tools() -> list[Tool]:
    """The tools sleep and fail."""
    return [sleep, fail]
