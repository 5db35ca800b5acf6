"""Rules about `output`: what of a JSON Schema is not applied to results, said before the plan runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from kedge.checks.judge import is_quick
from kedge.checks.survey import Survey, finding
from kedge.plan.findings import Finding
from kedge.plan.places import at

_NOT_APPLIED = frozenset(
    """not if then else contains minContains maxContains uniqueItems multipleOf patternProperties
    propertyNames minProperties maxProperties dependentRequired dependentSchemas dependencies
    unevaluatedItems unevaluatedProperties additionalItems $dynamicRef $recursiveRef""".split()
)
_ONE = ("items", "additionalProperties")
_LISTS = ("prefixItems", "anyOf", "oneOf", "allOf")
_MAPS = ("properties", "$defs", "definitions")
_SCHEMAS_MAX = 10_000


def unapplied(survey: Survey) -> Iterator[Finding]:
    """Words of an `output` that no result is held against."""
    for node in survey.nodes:
        if node.step.output is None:
            continue
        for place, word in _words(node.step.output):
            yield finding(
                node,
                "output_unchecked",
                place,
                f"{word!r} is not applied to results",
                names=(word,),
                remedy="say it in `expect`, or remove it",
            )


def _words(output: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Each such word with its place, of all schemas inside the schema."""
    todo: list[tuple[Any, str]] = [(output, "output")]
    for schema, place in todo:  # grows
        if not isinstance(schema, Mapping):
            continue
        whole = cast("Mapping[str, Any]", schema)
        for word, value in whole.items():
            if word in _NOT_APPLIED or (word == "pattern" and not is_quick(str(value))):
                yield at(place, word), word
        todo.extend(_inside(whole, place))
        if len(todo) > _SCHEMAS_MAX:
            return


def _inside(schema: Mapping[str, Any], place: str) -> Iterator[tuple[Any, str]]:
    for word in _ONE:
        yield schema.get(word), at(place, word)
    for word in _LISTS:
        found = schema.get(word)
        if isinstance(found, list | tuple):
            many = cast("list[Any]", found)
            yield from ((one, at(at(place, word), index)) for index, one in enumerate(many))
    for word in _MAPS:
        found = schema.get(word)
        if isinstance(found, Mapping):
            named = cast("Mapping[str, Any]", found)
            yield from ((one, at(at(place, word), name)) for name, one in named.items())
