"""JSON Schemas of Python types, pydantic models among them."""

from __future__ import annotations

import typing
from typing import Any

import msgspec

from kedge.base.errors import BadInput

_DEFS = "#/$defs/"


def of_arguments(
    struct: type[msgspec.Struct], tool_name: str, descriptions: dict[str, str], more: Any
) -> dict[str, Any]:
    """Schema of an argument struct as one object; `more`: type of further arguments, None for none."""
    try:
        whole, definitions = _generate(struct)
        if more is not None and more is not Any:
            further, further_definitions = _generate(more)
            definitions |= further_definitions
        else:
            further = more is not None
    except (TypeError, ValueError) as error:
        raise unusable(tool_name, error) from error
    found = definitions.pop(whole["$ref"].removeprefix(_DEFS))
    del found["title"]
    found["additionalProperties"] = further
    for name, property_schema in found["properties"].items():
        if name in descriptions:
            property_schema.setdefault("description", descriptions[name])
    return found | {"$defs": definitions} if definitions else found


def of_result(hint: Any) -> dict[str, Any] | None:
    """Schema of a result, or None where the type says nothing a schema can say."""
    try:
        found, definitions = _generate(hint)
    except (TypeError, ValueError):
        return None  # a class of the tool's own: the codec judges the value itself
    if not found:
        return None
    return found | {"$defs": definitions} if definitions else found


def build(kind: type, value: Any) -> Any:
    """An instance of a pydantic model from plain data."""
    try:
        return kind.model_validate(value)  # type: ignore[attr-defined]
    except ValueError as error:
        raise ValueError(_one_line(error)) from error


def unusable(tool_name: str, error: Exception) -> BadInput:
    """A signature with a type that no JSON value can become."""
    return BadInput(
        f"tool {tool_name!r} has a parameter whose type a plan cannot give: {str(error).splitlines()[-1]}",
        code="tool_annotation",
        remedy="use numbers, text, bool, list, dict, Literal, dataclasses, structs or pydantic models; "
        "for anything else, a path for instance, take str and make it in the function",
    )


def _generate(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """A type's schema, and the definitions it refers to under `$defs`."""
    definitions: dict[str, Any] = {}

    def of_model(model: Any) -> dict[str, Any]:
        make = getattr(model, "model_json_schema", None)
        if make is None or not hasattr(model, "model_validate"):
            raise TypeError(f"{getattr(model, '__name__', model)} cannot be made from JSON")
        # A model brings definitions of its own; the prefix keeps them apart from all others.
        found = make(ref_template=f"{_DEFS}{model.__qualname__}.{{model}}")
        for name, definition in found.pop("$defs", {}).items():
            definitions[f"{model.__qualname__}.{name}"] = definition
        return found

    found = msgspec.json.schema(kind, schema_hook=of_model)
    definitions.update(found.pop("$defs", {}))
    return found, definitions


def _one_line(error: ValueError) -> str:
    errors = getattr(error, "errors", None)
    if not callable(errors):
        return str(error)
    faults = typing.cast("list[dict[str, Any]]", errors(include_url=False))
    return "; ".join(f"{'.'.join(map(str, f['loc'])) or 'it'}: {f['msg']}" for f in faults[:5])
