"""Inputs of a plan as people type them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from kedge import BadInput, NotFound, Plan
from kedge.base.codec import UNREADABLE
from kedge.plan.document import to_data
from kedge.surface.cli.options import json_value


def inputs_of(plan: Plan, typed: tuple[str, ...], file: str | None) -> dict[str, Any]:
    """All inputs: those of the file, and over them those that were typed one by one."""
    found = map_of_file(file) if file is not None else {}
    for text in typed:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadInput(
                f"{text[:60]!r} is not NAME=VALUE",
                code="option_input",
                where="--input",
                allowed=[f"{name}={one.type}" for name, one in plan.inputs.items()],
            )
        found[name] = _value(plan, name, value)
    return found


def _value(plan: Plan, name: str, text: str) -> Any:
    """Text where the plan wants text; else JSON. For an input of any type, what is no JSON is text."""
    declared = plan.inputs.get(name)
    kind = declared.type if declared is not None else "any"
    if kind == "string":
        return text
    if kind == "any":
        try:
            return msgspec.json.decode(text)
        except UNREADABLE:
            return text
    return json_value(text, f"--input {name} ({kind})")


def map_of_file(file: str) -> dict[str, Any]:
    """The map that a YAML or JSON file holds."""
    try:
        raw = Path(file).read_bytes()
    except FileNotFoundError:
        raise NotFound("there is no such file", code="file_missing", where=file) from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", code="file_unreadable", where=file) from None
    data: Any = to_data(raw)
    if not isinstance(data, dict):
        raise BadInput(
            "it does not hold a map",
            code="inputs_file",
            where=file,
            remedy="write one `name: value` per line",
        )
    return cast("dict[str, Any]", data)
