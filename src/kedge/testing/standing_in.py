"""A tool that stands in for another: the same to a plan, and what a call does is said by the test."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kedge.plan.tools import ToolSpec
from kedge.tools.arguments import Arguments
from kedge.tools.context import Context
from kedge.tools.source import ToolSource
from kedge.tools.tool import Tool


def standing_in(
    spec: ToolSpec, prepare: Callable[[bytes], Any], call: Callable[[Any, Context], Awaitable[Any]]
) -> Tool:
    """A tool of that specification. `prepare` reads (and checks) the arguments, `call` gets what it made.

    It runs in the event loop, whatever the real one does: a thread or a process has a pace of its own, and a
    test would not take the same course each time.
    """

    async def nothing(ctx: Context, **arguments: Any) -> None:
        """Only its form is used."""

    own = msgspec.structs.replace(spec, isolation="none", available=True, unavailable_because="")
    made = Tool(nothing, own, Arguments(nothing, spec.name), ToolSource("kedge.testing", "standing_in"))
    made.decode, made.invoke = prepare, call
    return made
