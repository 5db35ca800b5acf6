"""A Python function as an agent."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence

from kedge.flow.commands import Command
from kedge.flow.situation import Situation

Decide = Callable[[Situation], Sequence[Command] | Awaitable[Sequence[Command]]]


class FunctionAgent:
    """Decides by a function, async or not. One that is not async must not take long: nothing else runs."""

    def __init__(self, function: Decide, name: str = "") -> None:
        self._function = function
        self.name = name or getattr(function, "__name__", "agent")
        """Who its commands are by."""

    async def decide(self, situation: Situation, /) -> Sequence[Command]:
        """What the function says."""
        said = self._function(situation)
        if inspect.isawaitable(said):
            return await said
        return said
