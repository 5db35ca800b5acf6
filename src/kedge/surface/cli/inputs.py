"""Inputs, steps and patches of a plan as people type them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from kedge import Addition, BadInput, NotFound, Patch, Plan, Step
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
    data = _from_file(file)
    if not isinstance(data, dict):
        raise BadInput(
            "it does not hold a map",
            code="inputs_file",
            where=file,
            remedy="write one `name: value` per line",
        )
    return cast("dict[str, Any]", data)


def step_of(file: str) -> Step:
    """The step that a file holds, as a plan would."""
    return _step(map_of_file(file), file)


def patch_of(file: str) -> Patch:
    """The patch of a plan that a file holds."""
    return _patch(map_of_file(file), file)


def _from_file(file: str) -> Any:
    try:
        raw = Path(file).read_bytes()
    except FileNotFoundError:
        raise NotFound("there is no such file", code="file_missing", where=file) from None
    except OSError as error:
        raise BadInput(f"cannot be read: {error.strerror}", code="file_unreadable", where=file) from None
    return to_data(raw)


def _step(data: Any, where: str) -> Step:
    """A step as a plan has it; InvalidPlan with every fault of it."""
    try:
        return Plan.parse({"goal": "-", "steps": [data]}).steps[0]
    except BadInput as error:
        error.where = f"{where}: {error.where}" if error.where else where
        raise


def _patch(data: dict[str, Any], where: str) -> Patch:
    added = data.pop("add", [])
    try:
        patch = msgspec.convert(data, Patch)
        if not isinstance(added, list):
            raise msgspec.ValidationError("Expected `array` - at `$.add`")
        additions = [_addition(one, where) for one in added]  # pyright: ignore[reportUnknownVariableType]
    except msgspec.ValidationError as error:
        raise BadInput(
            f"it is no patch: {error}", code="patch_file", where=where, allowed=Patch.__struct_fields__,
            remedy="see docs/steering.md for what stands in each field",
        ) from None  # fmt: skip
    return msgspec.structs.replace(patch, add=tuple(additions))


def _addition(data: Any, where: str) -> Addition:
    if not isinstance(data, dict) or set(data) - {"step", "into"} or "step" not in data:  # pyright: ignore[reportUnknownArgumentType]
        raise msgspec.ValidationError(
            "Expected `step`, and `into` if it goes into a composite - at `$.add[...]`"
        )
    into: Any = data.get("into", "")  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    if not isinstance(into, str):
        raise msgspec.ValidationError("Expected `str` - at `$.add[...].into`")
    return Addition(step=_step(data["step"], where), into=into)
