"""Dotted paths over data: `a.b[0].c`, `["a key"].d`, `items[-1]`.

Smaller than the plan language's expressions on purpose: a query picks one part, or fails and says
which name was not there.
"""

from __future__ import annotations

import re
from typing import Any, cast

from kedge.base.errors import ToolError
from kedge.plan.nearest import nearest

_STEP = re.compile(
    r"""\[(?P<index>-?[0-9]{1,9})\]|\[(?P<quoted>"(?:[^"\\]|\\["\\])*")\]|(?P<dot>\.?)(?P<name>[^.\[\]"\s]+)""",
    re.ASCII,
)
_LENGTH_MAX = 1000
_SYNTAX = 'a query is names and indexes, as in a.b[0].c or ["a key"].d'


def query(data: Any, path: str) -> Any:
    """The part of `data` at `path`; all of it if `path` is empty."""
    found = data
    done = ""
    for step, text in _steps(path):
        found = _part(found, step, done or "the top", path)
        done += text
    return found


def _steps(path: str) -> list[tuple[str | int, str]]:
    if len(path) > _LENGTH_MAX:
        raise ToolError(f"the query is longer than {_LENGTH_MAX} characters", "invalid_input", remedy=_SYNTAX)
    steps: list[tuple[str | int, str]] = []
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        # A dot stands between two names: not first, and not left out.
        if match is None or (match["name"] is not None and bool(match["dot"]) != bool(steps)):
            raise ToolError(
                f"the query {path!r} cannot be read at character {position + 1}",
                "invalid_input",
                remedy=_SYNTAX,
            )
        if match["index"] is not None:
            steps.append((int(match["index"]), match[0]))
        elif match["quoted"] is not None:
            steps.append((re.sub(r"\\(.)", r"\1", match["quoted"][1:-1]), match[0]))
        else:
            steps.append((match["name"], match[0]))
        position = match.end()
    return steps


def _part(data: Any, step: str | int, place: str, path: str) -> Any:
    if isinstance(step, int):
        if not isinstance(data, list):
            raise _wrong(f"{place} is {_kind(data)}, so it has no [{step}]", path)
        items = cast("list[Any]", data)
        if not -len(items) <= step < len(items):
            raise _wrong(f"{place} has {len(items)} items, so there is no [{step}]", path)
        return items[step]
    if not isinstance(data, dict):
        raise _wrong(f"{place} is {_kind(data)}, so it has no {step!r}", path)
    table = cast("dict[str, Any]", data)
    if step not in table:
        close = nearest(step, table)
        known = ", ".join(list(table)[:20]) or "nothing"
        raise _wrong(
            f"{place} has no {step!r}", path, f"did you mean {close!r}?" if close else f"it has: {known}"
        )
    return table[step]


def _wrong(message: str, path: str, remedy: str = "") -> ToolError:
    return ToolError(f"query {path!r}: {message}", "invalid_input", remedy=remedy[:500])


def _kind(data: Any) -> str:
    if data is None:
        return "null"
    names = {dict: "a map", list: "a list", str: "text", bool: "true or false"}
    return names.get(cast("type[Any]", type(data)), "a number")
