"""A tool: its specification, and the three things a caller needs to run it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from kedge.plan.tools import ToolSpec
from kedge.tools.arguments import Arguments
from kedge.tools.settings import check_settings
from kedge.tools.source import ToolSource


class Tool:
    """A function that a plan can call. Calling the Tool itself calls the function, unchecked.

    `decode` turns the canonical JSON bytes of an argument map into a prepared call, or raises
    ToolError; `invoke(prepared, context)` makes that call: the coroutine of an async function, the
    result of any other. A prepared call is private to the tool and good for one call.
    """

    __name__: str  # comes with the function, as its docstring does

    def __init__(
        self, function: Callable[..., Any], spec: ToolSpec, arguments: Arguments, source: ToolSource
    ) -> None:
        check_settings(spec)
        functools.update_wrapper(self, function, updated=())
        self.function = function
        """The function as it was written."""
        self.spec = spec
        """Name, description, effect class, schemas of parameters and result, settings."""
        self.source = source
        """Where it was defined."""
        self.is_async = arguments.is_async
        """It runs in the event loop; others run in a thread or process."""
        self.wants_context = arguments.context_name is not None
        """One of its parameters is the context."""
        self.decode = arguments.decoder(spec.name)
        """A prepared call from the bytes of its arguments."""
        self.invoke = arguments.invoker()
        """Makes a prepared call."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name} ({self.spec.effect}) from {self.source}>"
