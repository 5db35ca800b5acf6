"""Says what is wrong with a call's arguments in the words of whoever wrote them."""

from __future__ import annotations

import enum
import re
import typing

import msgspec

from kedge.base.errors import ToolError

_AT = re.compile(r"^(?P<fault>.*?)(?: - at `(?P<path>\$[^`]*)`)?$", re.DOTALL)
_FIRST = re.compile(r"\$\.(?P<name>\w+)(?P<inside>.*)", re.DOTALL)
_NAMED = re.compile(r"Object (?P<what>missing required|contains unknown) field `(?P<name>[^`]*)`")
_TEXT_MAX = 500


def explained(
    error: msgspec.MsgspecError, tool_name: str, struct: type[msgspec.Struct], argument: str = ""
) -> ToolError:
    """The fault as a ToolError that names the argument, what was expected, what was there, and where.

    `argument`: the one that was being read by itself, if it was not the whole map.
    """
    match = _AT.match(str(error))
    fault, path = (match["fault"], match["path"] or "$") if match else (str(error), "$")
    fault = fault if len(fault) <= _TEXT_MAX else fault[: _TEXT_MAX - 3] + "..."
    if argument:
        return ToolError(
            f"{tool_name}: argument {argument!r}: {_worded(fault)} (at $.{argument}{path[1:]})",
            "invalid_input",
        )
    names = struct.__struct_fields__
    takes = f"it takes {', '.join(names)}" if names else "it takes no arguments"
    named = _NAMED.match(fault) if path == "$" else None
    if named and named["what"] == "missing required":
        return ToolError(
            f"{tool_name}: argument {named['name']!r} is missing (at $)", "invalid_input", remedy=takes
        )
    if named:
        return ToolError(f"{tool_name}: no argument {named['name']!r} (at $)", "invalid_input", remedy=takes)
    fault = _worded(fault)
    first = _FIRST.match(path)
    if first is None:
        return ToolError(f"{tool_name}: the arguments: {fault} (at {path})", "invalid_input", remedy=takes)
    return ToolError(
        f"{tool_name}: argument {first['name']!r}: {fault} (at {path})",
        "invalid_input",
        remedy=_allowed_values(struct, first["name"]) if not first["inside"] else "",
    )


def _worded(fault: str) -> str:
    return fault.replace("`", "").replace("Expected ", "expected ").replace("Invalid ", "invalid ")


def _allowed_values(struct: type[msgspec.Struct], name: str) -> str:
    kind = next(field.type for field in msgspec.structs.fields(struct) if field.name == name)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return f"allowed: {', '.join(repr(member.value) for member in kind)}"
    if typing.get_origin(kind) is typing.Literal:
        return f"allowed: {', '.join(map(repr, typing.get_args(kind)))}"
    return ""
