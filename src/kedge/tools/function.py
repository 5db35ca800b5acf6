"""`@tool`: a Python function becomes a tool, with nothing written twice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Literal, overload

import msgspec

from kedge.base.errors import BadInput
from kedge.plan.model import Retry
from kedge.plan.tools import Effect, ToolSpec
from kedge.tools.annotations import plain_function
from kedge.tools.arguments import Arguments
from kedge.tools.docstring import parse_docstring
from kedge.tools.source import source_of
from kedge.tools.tool import Tool

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*([./][A-Za-z0-9_-]+)*", re.ASCII)
_NAME_MAX = 128
_SWITCHED_OFF = "it is switched off where it is defined"


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    effect: Effect = "effect",
    timeout_s: float | None = None,
    retry: Retry | None = None,
    name: str | None = None,
    resources: tuple[str, ...] = (),
    parallel: int | None = None,
    isolation: Literal["none", "process"] = "none",
    substitutes: tuple[str, ...] = (),
    available: bool | str = True,
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None,
    /,
    *,
    effect: Effect = "effect",
    timeout_s: float | None = None,
    retry: Retry | None = None,
    name: str | None = None,
    resources: tuple[str, ...] = (),
    parallel: int | None = None,
    isolation: Literal["none", "process"] = "none",
    substitutes: tuple[str, ...] = (),
    available: bool | str = True,
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a function a tool: its name, parameters, result and description are read off it.

    `effect` says what a repeated call would do: "pure" (no I/O), "read", "idempotent" (a write its
    key makes repeatable) or "effect" (the default: never run twice unasked). A function that is not
    async runs in a thread; `isolation="process"` runs it where it can be killed. `available` may be
    the reason why the tool cannot be used here. The result can still be called as the function.
    """
    reason = available if isinstance(available, str) else "" if available else _SWITCHED_OFF
    draft = ToolSpec(
        name=name or "",
        effect=effect,
        timeout_s=timeout_s,
        retry=retry,
        resources=_words("resources", resources),
        parallel=parallel,
        isolation=isolation,
        substitutes=_words("substitutes", substitutes),
        available=not reason,
        unavailable_because=reason,
    )
    if function is not None:
        return _make(function, draft)

    def decorate(function: Callable[..., Any]) -> Tool:
        return _make(function, draft)

    return decorate


def _make(function: Callable[..., Any], draft: ToolSpec) -> Tool:
    if isinstance(function, Tool):
        raise BadInput(
            f"{function.spec.name!r} is a tool already", code="not_a_tool", where=str(function.source)
        )
    if not callable(function) or isinstance(function, type):
        raise BadInput(f"{function!r} is not a function", code="not_a_tool", remedy="give a function")
    name = draft.name or getattr(function, "__name__", "")
    source = source_of(plain_function(function))
    _check_name(name)
    _check_isolation(draft, name)
    if draft.isolation == "process" and not source.findable:
        raise BadInput(
            f"tool {name!r} is made inside a function: another process cannot find it",
            code="tool_isolation",
            where=str(source),
            remedy="move it to the top level of its module, or leave out isolation",
        )
    arguments = Arguments(function, name)
    description, texts = parse_docstring(_docstring(function), arguments.names)
    isolation = draft.isolation
    if isolation == "none" and not arguments.is_async:
        isolation = "thread"
    spec = msgspec.structs.replace(
        draft,
        name=name,
        description=description,
        parameters=arguments.schema(name, texts),
        returns=arguments.returns_schema(),
        isolation=isolation,
    )
    return Tool(function, spec, arguments, source)


def _docstring(function: Callable[..., Any]) -> str | None:
    # A partial's own docstring is the class's, which says nothing of the function.
    return plain_function(function).__doc__


def _words(setting: str, given: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(given, str):  # a text is a sequence of letters, and each would become a name
        raise BadInput(f"{setting} must be a list of names, not the text {given!r}", code="tool_setting")
    return tuple(given)


def _check_name(name: str) -> None:
    if len(name) > _NAME_MAX or not _NAME.fullmatch(name):
        raise BadInput(
            f"{name[:_NAME_MAX]!r} is not a tool name",
            code="tool_name",
            remedy=f"use up to {_NAME_MAX} letters, digits, '_' and '-', in parts joined by '.'",
        )


def _check_isolation(draft: ToolSpec, name: str) -> None:
    if draft.isolation not in ("none", "process"):
        raise BadInput(
            f"unknown isolation {draft.isolation!r}",
            code="tool_setting",
            where=f"tool {name}",
            allowed=("none", "process"),
            remedy="a function that is not async gets a thread by itself",
        )
