"""The quick look at arguments, which nearly every step of a large plan passes.

A schema that only says types (also of a list's items, and several to choose from) is cut down once
to a `Form`. A value that has the form is right; one that has not may still be, and is then looked
at thoroughly, which costs ten times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from kedge.checks.schemas import Schema

SAID_ELSEWHERE = frozenset({"title", "description", "default", "examples"})
_SCALARS: Mapping[str, frozenset[type]] = {
    "string": frozenset({str}),
    "boolean": frozenset({bool}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
}
_NUMBERS = frozenset({"integer", "number"})

Given = Callable[[str], frozenset[str]]
"""For a text with `${` in it: the names of the types that may stand there; empty if nobody knows."""


class Form:
    """What a value may be: Python types of scalars, and lists of a form."""

    __slots__ = ("items", "names", "scalars")

    def __init__(self, names: frozenset[str], scalars: frozenset[type], items: Form | None) -> None:
        self.names = names
        self.scalars = scalars
        self.items = items

    def holds(self, value: Any, given: Given) -> bool:
        """True if the value certainly has this form."""
        kind = type(value)  # pyright: ignore[reportUnknownVariableType]
        if kind is str and "${" in value:
            types = given(value)
            return bool(types) and types <= self.names
        if kind in self.scalars:
            return True
        if self.items is not None and kind is list:
            items = self.items
            return all(items.holds(item, given) for item in value)
        return False


def form_of(schema: Any) -> Form | None:
    """The form that a schema comes down to, or None if it says more than types."""
    if not isinstance(schema, Mapping):
        return None
    schema = cast(Schema, schema)
    said = schema.keys() - SAID_ELSEWHERE
    if said in ({"anyOf"}, {"oneOf"}):
        return _one_of([form_of(choice) for choice in schema.get("anyOf") or schema.get("oneOf") or ()])
    kind = schema.get("type")
    if not isinstance(kind, str):
        return None
    if kind == "array" and said == {"type", "items"}:
        items = form_of(schema["items"])
        return Form(frozenset(), frozenset(), items) if items is not None else None
    if said != {"type"} or kind not in _SCALARS:
        return None
    # Whether a number is whole is known when it is there: then the tool's own check sees it.
    return Form(_NUMBERS if kind in _NUMBERS else frozenset({kind}), _SCALARS[kind], None)


def _one_of(forms: list[Form | None]) -> Form | None:
    known = [form for form in forms if form is not None]
    lists = [form.items for form in known if form.items is not None]
    if len(known) != len(forms) or not known or len(lists) > 1:
        return None
    names = frozenset[str]().union(*(form.names for form in known))
    scalars = frozenset[type]().union(*(form.scalars for form in known))
    return Form(names, scalars, lists[0] if lists else None)
