"""Reading JSON Schemas: what types they allow, and whether one's values can be another's.

What is not known here is taken to allow everything: a check may miss a fault, it must not invent
one. Schemas come from servers: a hostile one must cost no more than a friendly one, so every walk
has an end that does not depend on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, cast

Schema = Mapping[str, Any]
ANY_TYPE = frozenset({"string", "number", "boolean", "array", "object", "null"})
NULL, BOOLEAN, NUMBER = frozenset({"null"}), frozenset({"boolean"}), frozenset({"number"})
TEXT, LIST, MAP = frozenset({"string"}), frozenset({"array"}), frozenset({"object"})
_HOPS_MAX = 16
_VARIANTS_MAX = 50
_LOOKS_MAX = 1000
_DEPTH_MAX = 32
"""A tree that holds trees has no end: that deep, two schemas are taken to fit."""


class Whole(NamedTuple):
    """A schema and the document that its references point into."""

    schema: Any
    root: Any

    def inner(self, schema: Any) -> Whole:
        return Whole(schema, self.root)


def resolved(whole: Whole) -> Whole:
    """The schema behind `$ref`; an empty one (everything allowed) where it leads nowhere."""
    schema = whole.schema
    for _ in range(_HOPS_MAX):
        if not isinstance(schema, Mapping):
            return whole.inner({} if schema is not False else {"enum": []})
        target = cast(Schema, schema).get("$ref")
        if not isinstance(target, str):
            return whole.inner(schema)
        schema = _pointed(whole.root, target)
    return whole.inner({})


def _pointed(root: Any, target: str) -> Any:
    if not target.startswith("#"):
        return {}
    found = root
    for part in target[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if not isinstance(found, Mapping) or key not in found:
            return {}
        found = cast(Schema, found)[key]
    return found


def variants(whole: Whole) -> list[Whole]:
    """The schemas of which a value must meet one."""
    whole = resolved(whole)
    for word in ("anyOf", "oneOf"):
        choices = whole.schema.get(word)
        if isinstance(choices, list | tuple) and choices:
            return [resolved(whole.inner(choice)) for choice in cast(list[Any], choices)[:_VARIANTS_MAX]]
    return [whole]


def types_of(whole: Whole) -> frozenset[str]:
    """JSON types that a value may have (integers count as numbers)."""
    found: set[str] = set()
    for one in variants(whole):
        found |= own_types(one.schema)
    return frozenset(found)


def own_types(schema: Schema) -> frozenset[str]:
    """`types_of` for a schema without variants."""
    kind = schema.get("type")
    if isinstance(kind, str):
        kinds = {kind}
    elif isinstance(kind, list | tuple):
        kinds = {str(one) for one in cast(list[Any], kind)}
    elif "const" in schema:
        kinds = {type_of(schema["const"])}
    elif isinstance(schema.get("enum"), list | tuple):
        kinds = {type_of(value) for value in schema["enum"]}
    elif "allOf" in schema or not isinstance(schema.get("properties"), Mapping):
        return ANY_TYPE
    else:
        kinds = {"object"}
    return frozenset("number" if one == "integer" else one for one in kinds) & ANY_TYPE or ANY_TYPE


def type_of(value: Any) -> str:
    """The JSON type of a value (integers count as numbers)."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        return "number"
    if isinstance(value, str):
        return "string"
    return "object" if isinstance(value, dict) else "array"


WORDS = {"string": "text", "number": "a number", "integer": "a whole number", "boolean": "true or false",
         "array": "a list", "object": "a map", "null": "null"}  # fmt: skip


def words_of(types: frozenset[str]) -> str:
    """JSON types in words."""
    return " or ".join(WORDS[one] for one in sorted(types))


def misfit(source: Whole, target: Whole) -> str:
    """Why no value of `source` can be a value of `target`; empty if some can, or if nobody knows."""
    return _misfit(source, target, [_LOOKS_MAX], 0)


def _misfit(source: Whole, target: Whole, looks: list[int], depth: int) -> str:
    looks[0] -= 1
    if looks[0] < 0 or depth > _DEPTH_MAX:
        return ""
    given, wanted = types_of(source), types_of(target)
    common = given & wanted
    if not common:
        return f"{words_of(given)} where {words_of(wanted)} is wanted"
    sources, targets = variants(source), variants(target)
    if len(sources) != 1 or len(targets) != 1 or len(common) != 1:
        return ""
    one, other = sources[0], targets[0]
    if common == LIST and "items" in one.schema and "items" in other.schema:
        inner = _misfit(one.inner(one.schema["items"]), other.inner(other.schema["items"]), looks, depth + 1)
        return f"a list of {inner}" if inner else ""
    if common == MAP:
        return _map_misfit(one, other, looks, depth)
    return ""


def _map_misfit(source: Whole, target: Whole, looks: list[int], depth: int) -> str:
    has, wants = properties(source.schema), properties(target.schema)
    if source.schema.get("additionalProperties") is False:
        for name in required(target.schema):
            if name not in has:
                return f"a map without {name!r}, which is required"
    for name in wants:
        if name in has and looks[0] > 0:
            inner = _misfit(source.inner(has[name]), target.inner(wants[name]), looks, depth + 1)
            if inner:
                return f"{inner} at {name!r}"
    return ""


def properties(schema: Schema) -> Schema:
    """The schemas of the keys that are declared."""
    found = schema.get("properties")
    return cast(Schema, found) if isinstance(found, Mapping) else {}


def required(schema: Schema) -> tuple[str, ...]:
    """The keys that must be there."""
    found = schema.get("required")
    return tuple(map(str, cast(list[Any], found))) if isinstance(found, list | tuple) else ()
