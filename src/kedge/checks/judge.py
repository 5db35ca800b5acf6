"""What is wrong with a value that a tool's JSON Schema describes, part by part, with the mending.

The subset that tools have: type, enum, const, properties, required, additionalProperties, items,
prefixItems, anyOf, oneOf, allOf, $ref into the same schema, bounds and lengths. A pattern is applied
only if it cannot be slow: regular expressions can hang, and schemas come from servers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, cast

from kedge.checks.schemas import (
    LIST,
    NULL,
    NUMBER,
    TEXT,
    WORDS,
    Schema,
    Whole,
    misfit,
    own_types,
    properties,
    required,
    type_of,
    types_of,
    variants,
    words_of,
)
from kedge.plan.nearest import nearest
from kedge.plan.places import at

_DEPTH_MAX = 64
_LOOKS_MAX = 100_000
_FAULTS_MAX = 50
_PATTERN_MAX = 200
_MATCHED_MAX = 1000


class Fault(NamedTuple):
    """What is wrong with a part of a value."""

    place: str
    code: str
    message: str
    allowed: tuple[str, ...] = ()
    remedy: str = ""
    mended: tuple[Any, ...] = ()
    """One item: what to put in its place."""
    renamed: str = ""
    """What to call the key instead."""
    name: str = ""


Hole = Callable[[str], list[Whole]]
"""For a text with `${` in it: the schemas of what may stand there; none if nobody knows."""


class Judge:
    """Holds values against schemas. It looks at so many parts and no more, whatever the schema is.

    Without `hole`, text is text, whatever stands in it.
    """

    def __init__(self, hole: Hole | None) -> None:
        self._hole = hole
        self._looks = _LOOKS_MAX

    def faults(self, value: Any, whole: Whole, place: str, depth: int = 0) -> list[Fault]:
        """What is wrong with a value, every part of it."""
        self._looks -= 1
        if depth > _DEPTH_MAX or self._looks < 0:
            return []
        choices = variants(whole)
        if len(choices) > 1:
            return self._no_variant(value, choices, place, depth)
        one = choices[0]
        schema = cast(Schema, one.schema)
        if self._hole is not None and isinstance(value, str) and "${" in value:
            reason = next(filter(None, (misfit(source, one) for source in self._hole(value))), "")
            remedy = "pass the part that fits, or another step's result"
            return (
                [Fault(place, "reference_type", f"{_short(value)} is {reason}", remedy=remedy)]
                if reason
                else []
            )
        found: list[Fault] = []
        more = schema.get("allOf")
        for part in cast(list[Any], more) if isinstance(more, list | tuple) else []:
            found += self.faults(value, one.inner(part), place, depth + 1)
        wanted = own_types(schema)
        kind = type_of(value)
        if kind not in wanted or (
            isinstance(value, float) and not value.is_integer() and _only_integers(schema)
        ):
            return [*found, _wrong_type(value, schema, wanted, place)]
        found += _bounds(value, schema, place)
        if kind == "object":
            found += self._map_faults(cast(dict[str, Any], value), one, place, depth)
        elif kind == "array":
            found += self._list_faults(cast(list[Any], value), one, place, depth)
        return found

    def _no_variant(self, value: Any, choices: list[Whole], place: str, depth: int) -> list[Fault]:
        """The faults against the variant of the value's type, if there is one; else one for all."""
        tried: list[tuple[frozenset[str], list[Fault]]] = []
        for choice in choices:
            found = self.faults(value, choice, place, depth + 1)
            if not found:
                return []
            tried.append((own_types(choice.schema), found))
        is_hole = self._hole is not None and isinstance(value, str) and "${" in value
        near = [found for types, found in tried if is_hole or type_of(value) in types]
        near = near or [
            found for types, found in tried if types != NULL
        ]  # `integer or null`: mend the integer
        if len(near) == 1 or (near and is_hole):
            return near[0]
        wanted = frozenset[str]().union(*(types for types, _ in tried))
        return [
            Fault(place, "wrong_argument", f"{_short(value)} is none of the forms this may have",
                  allowed=tuple(WORDS[one] for one in sorted(wanted)), remedy="use one of them")
        ]  # fmt: skip

    def _map_faults(self, value: dict[str, Any], one: Whole, place: str, depth: int) -> Iterator[Fault]:
        known = properties(one.schema)
        more = one.schema.get("additionalProperties")
        for key, item in value.items():
            if key in known:
                yield from self.faults(item, one.inner(known[key]), at(place, key), depth + 1)
            elif more is False:
                meant = nearest(key, [name for name in known if name not in value]) or ""
                remedy = f"did you mean {meant!r}?" if meant else "remove it"
                yield Fault(
                    at(place, key), "unknown_argument", f"there is no {key[:80]!r} here",
                    tuple(known)[:30], remedy, renamed=meant, name=key[:80],
                )  # fmt: skip
            elif isinstance(more, Mapping):
                yield from self.faults(item, one.inner(more), at(place, key), depth + 1)
        for name in required(one.schema):
            if name not in value:
                words = words_of(types_of(one.inner(known.get(name, {}))))
                remedy = f"add {name!r}: {words}"
                yield Fault(
                    at(place, name), "missing_argument", f"{name!r} is missing", remedy=remedy, name=name
                )

    def _list_faults(self, value: list[Any], one: Whole, place: str, depth: int) -> Iterator[Fault]:
        first = one.schema.get("prefixItems")
        prefix = cast(list[Any], first) if isinstance(first, list | tuple) else []
        rest = one.schema.get("items")
        for index, item in enumerate(value):
            schema = prefix[index] if index < len(prefix) else rest
            if isinstance(schema, Mapping):
                yield from self.faults(item, one.inner(schema), at(place, index), depth + 1)


def _only_integers(schema: Schema) -> bool:
    kind = schema.get("type")
    return kind == "integer" or (
        isinstance(kind, list | tuple) and "integer" in kind and "number" not in kind
    )


def _wrong_type(value: Any, schema: Schema, wanted: frozenset[str], place: str) -> Fault:
    words = "a whole number" if wanted == NUMBER and _only_integers(schema) else words_of(wanted)
    mended = _converted(value, schema, wanted)
    remedy = f"write {_short(mended[0])}" if mended else f"give {words}"
    return Fault(
        place, "wrong_argument", f"{_short(value)} where {words} is wanted", remedy=remedy, mended=mended
    )


def _converted(value: Any, schema: Schema, wanted: frozenset[str]) -> tuple[Any, ...]:
    """What was probably meant."""
    if isinstance(value, str):
        if "number" in wanted and re.fullmatch(r"[-+]?\d{1,15}", value, re.ASCII):
            return (int(value),)
        decimal = re.fullmatch(r"[-+]?\d{1,15}\.\d{1,15}", value, re.ASCII)
        if "number" in wanted and decimal and not _only_integers(schema):
            return (float(value),)
        if "boolean" in wanted and value.lower() in ("true", "false"):
            return (value.lower() == "true",)
    elif isinstance(value, int | float) and wanted == TEXT and not isinstance(value, bool):
        return (f"{value!r}",)
    if wanted == LIST and not isinstance(value, dict) and value is not None:
        items = schema.get("items")
        if not isinstance(items, Mapping) or type_of(value) in own_types(cast(Schema, items)):
            return ([value],)
    return ()


_LIMITS: tuple[tuple[str, str, Callable[[Any, Any], bool], str], ...] = (
    ("minimum", "number", lambda v, b: v >= b, "at least {}"),
    ("maximum", "number", lambda v, b: v <= b, "at most {}"),
    ("exclusiveMinimum", "number", lambda v, b: v > b, "more than {}"),
    ("exclusiveMaximum", "number", lambda v, b: v < b, "less than {}"),
    ("minLength", "string", lambda v, b: len(v) >= b, "at least {} characters"),
    ("maxLength", "string", lambda v, b: len(v) <= b, "at most {} characters"),
    ("minItems", "array", lambda v, b: len(v) >= b, "at least {} items"),
    ("maxItems", "array", lambda v, b: len(v) <= b, "at most {} items"),
)


def _bounds(value: Any, schema: Schema, place: str) -> Iterator[Fault]:
    values = [schema["const"]] if "const" in schema else schema.get("enum")
    if isinstance(values, list | tuple):
        choices = cast(list[Any], values)
        if not any(_same(value, one) for one in choices):
            yield _no_choice(value, choices, place)
    kind = type_of(value)
    for word, of, holds, text in _LIMITS:
        bound = schema.get(word)
        if of != kind or not isinstance(bound, int | float) or isinstance(bound, bool) or holds(value, bound):
            continue
        words = text.format(_short(bound)).removesuffix("s" if bound == 1 else "")
        mended = (bound,) if word in ("minimum", "maximum") else ()
        message = f"{_short(value)} is out of range: {words}"
        yield Fault(place, "wrong_argument", message, remedy=f"give {words}", mended=mended)
    pattern = schema.get("pattern")
    if isinstance(value, str) and isinstance(pattern, str) and not _matches(value, pattern):
        message = f"{_short(value)} does not match {pattern}"
        yield Fault(place, "wrong_argument", message, remedy="give text of that form")


def _matches(text: str, pattern: str) -> bool:
    """False if it is sure that the text does not have the form."""
    return len(text) > _MATCHED_MAX or not is_quick(pattern) or re.search(pattern, text) is not None


def _no_choice(value: Any, choices: list[Any], place: str) -> Fault:
    texts = [one for one in choices if isinstance(one, str)]
    meant = nearest(value, texts) if isinstance(value, str) else None
    mended: tuple[Any, ...] = (meant,) if meant is not None else tuple(choices) if len(choices) == 1 else ()
    remedy = f"write {_short(mended[0])}" if mended else "use one of the allowed values"
    allowed = tuple(_short(one) for one in choices[:20])
    return Fault(
        place, "wrong_argument", f"{_short(value)} is not one of the allowed values", allowed, remedy, mended
    )


def is_quick(pattern: str) -> bool:
    """True for a regular expression that cannot be slow: no groups, no choices, at most one repetition."""
    if len(pattern) > _PATTERN_MAX or re.search(r"[(|]|\\[0-9kKgGpPuU]|\[\[|--|&&|~~", pattern):
        return False
    outside = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "x", pattern)
    if "[" in outside or len(re.findall(r"[*+{?]", outside)) > 1:
        return False
    try:
        re.compile(pattern)
    except (re.error, OverflowError):
        return False
    return True


def _same(one: Any, other: Any) -> bool:
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _short(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        return WORDS[type_of(value)]
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= 60 else text[:57] + "…"
