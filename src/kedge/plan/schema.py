"""The plan language as JSON Schema (2020-12): for editors, for models, for other programs."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any, cast

import msgspec

from kedge.plan.names import TAKEN_NAMES
from kedge.plan.parts import DOERS, ID_PATTERN
from kedge.plan.plain import detached


def schema_of(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The schema of `kind`, with what its docstrings say."""
    (top,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    for cls in _parts_of(kind):
        _describe(parts[cls.__name__], cls)
    step = parts["Step"]
    step["properties"]["id"] |= {"pattern": f"^{ID_PATTERN}$", "not": {"enum": sorted(TAKEN_NAMES)}}
    step["oneOf"] = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in DOERS]
    main = parts.pop(kind.__name__)
    del top["$ref"]
    dialect = "https://json-schema.org/draft/2020-12/schema"
    return detached({"$schema": dialect, **top, **main, "$defs": parts})[0]


def _parts_of(kind: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """`kind` and every struct that a field of it can hold."""
    found: dict[type[msgspec.Struct], None] = {}
    todo: list[Any] = [msgspec.inspect.type_info(kind)]
    while todo:
        info = todo.pop()
        if isinstance(info, msgspec.inspect.StructType):
            if info.cls in found:
                continue
            found[info.cls] = None
            todo += [field.type for field in info.fields]
        for name in ("types", "item_type", "value_type"):
            inner: Any = getattr(info, name, None)
            todo += (
                cast(list[Any], list(inner))
                if isinstance(inner, tuple)
                else [inner]
                if inner is not None
                else []
            )
    return list(found)


def _describe(schema: dict[str, Any], cls: type[msgspec.Struct]) -> None:
    for name, text in _field_docs(cls).items():
        schema["properties"][name]["description"] = text


def _field_docs(cls: type[msgspec.Struct]) -> dict[str, str]:
    """The text that stands below each field in the source."""
    body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]).body
    found: dict[str, str] = {}
    for field, text in pairwise(body):
        match field, text:
            case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                found[name] = " ".join(words.split())
            case _:
                continue
    return found
