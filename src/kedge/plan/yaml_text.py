"""YAML with JSON's types only.

YAML 1.1, which most libraries read, turns `on` into true, `12:30` into 750 and `1_000` into 1000;
anchors turn 1 KB into 1 GB; tags build objects. None of that is read here: plain words follow the
core schema of YAML 1.2, and anchors, aliases, tags, merge keys and second documents are errors.

Built from the parser's events, not from its node tree: that tree is composed recursively in C, where
depth is a crash. libyaml's parser is used where PyYAML has it (ten times as fast).
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field
from typing import Any, cast

import yaml

from kedge.base.errors import InvalidPlan
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.plan.findings import Finding, invalid
from kedge.plan.plain import kind_of

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_NUMBER = re.compile(
    r"(?P<int>[-+]?[0-9]+)|(?P<oct>0o[0-7]+)|(?P<hex>0x[0-9a-fA-F]+)"
    r"|(?P<float>[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?)"
    r"|(?P<other>[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN))",
    re.ASCII,
)
_NUMBER_START = frozenset("0123456789+-.")
_FAULTS_MAX = 100
_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def plain_value(text: str) -> Any:
    """What an unquoted word of YAML stands for. ValueError: a number that JSON does not have."""
    if text in _NULL:
        return None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    if text[0] not in _NUMBER_START:
        return text
    match = _NUMBER.fullmatch(text)
    if match is None:
        return text
    if match["other"]:
        raise ValueError(f"{text} has no JSON form")
    if match["float"]:
        number = float(text)
        if not math.isfinite(number):
            raise ValueError(f"{text[:40]} is too large for a number")
        return number
    if len(text) > 30:
        raise ValueError(f"an integer of {len(text)} digits does not fit 64 bits")
    whole = int(text, 8 if match["oct"] else 16 if match["hex"] else 10)
    if not -(2**63) <= whole < 2**64:
        raise ValueError(f"{text} does not fit 64 bits")
    return whole


def load_yaml(text: str, limits: Limits = DEFAULT_LIMITS) -> Any:
    """The data of one YAML document. InvalidPlan with line and column for everything else."""
    try:
        return _Builder(limits).build(cast(Any, yaml).parse(text, Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, int(error.position)) + 1
        raise _broken(
            "bad_character",
            f"line {line}",
            f"a character that YAML does not allow: {error.reason}",
            "remove it, or write it as an escape in double quotes",
        ) from None
    except UnicodeEncodeError as error:
        line = text.count("\n", 0, error.start) + 1
        raise _broken(
            "bad_character",
            f"line {line}",
            "half of a surrogate pair is no character",
            "save the text as UTF-8",
        ) from None


@dataclass(slots=True)
class _Open:
    """A list or map that is being filled."""

    items: Any
    key: str | None = None
    holds_steps: bool = False
    """It is the plan itself, its list of steps, or a step: where steps are counted."""
    seen: set[str] = field(default_factory=set[str])


class _Builder:
    """Turns parser events into data, with a stack of its own."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._stack: list[_Open] = []
        self._root: Any = None
        self._documents = 0
        self._steps = 0
        self._faults: list[Finding] = []

    def build(self, events: Any) -> Any:
        for event in events:
            kind = kind_of(event)
            if kind is yaml.ScalarEvent:
                self._scalar(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._open(event, {} if kind is yaml.MappingStartEvent else [])
            elif kind is yaml.MappingEndEvent or kind is yaml.SequenceEndEvent:
                self._stack.pop()
            elif kind is yaml.AliasEvent:
                self._fault(
                    "yaml_alias", event, f"*{event.anchor} repeats another part", "write that part out here"
                )
                self._put(None, event)
            elif kind is yaml.DocumentStartEvent:
                self._documents += 1
                if self._documents > 1:
                    self._fault(
                        "several_documents",
                        event,
                        "a second document starts here",
                        "give one document; remove the '---' line and what does not belong",
                    )
                    break
        if self._documents == 0:
            self._faults.append(
                Finding(
                    code="empty_document",
                    message="there is nothing in the document",
                    path="line 1",
                    remedy="write a plan with `goal` and `steps`",
                )
            )
        if self._faults:
            raise invalid(self._faults)
        return self._root

    def _scalar(self, event: Any) -> None:
        self._marks(event)
        text: str = event.value
        if not event.implicit[0]:  # quoted or a block: text
            self._put(text, event)
            return
        parent = self._stack[-1] if self._stack else None
        if text == "<<" and parent and type(parent.items) is dict and parent.key is None:
            self._fault("yaml_merge_key", event, "'<<' merges another map", "write the keys out here")
        try:
            value = plain_value(text)
        except ValueError as error:
            self._fault("number", event, str(error), "write it in quotes, or as a smaller number")
            value = text
        self._put(value, event)

    def _open(self, event: Any, items: Any) -> None:
        self._marks(event)
        if len(self._stack) >= self._limits.depth:
            line, column = event.start_mark.line + 1, event.start_mark.column + 1
            raise _broken(
                "too_deep",
                f"line {line}, column {column}",
                f"lists and maps are nested deeper than {self._limits.depth}",
                "flatten it, or raise the limit `depth`",
            )
        parent = self._stack[-1] if self._stack else None
        opened = _Open(items, holds_steps=self._leads_to_steps(parent, items))
        self._put(items, event)
        self._stack.append(opened)
        if opened.holds_steps and parent is not None and type(parent.items) is list:
            self._steps += 1
            if self._steps > self._limits.steps:
                raise _broken(
                    "too_many_steps",
                    f"line {event.start_mark.line + 1}",
                    f"more than {self._limits.steps} steps",
                    "split the plan, use foreach, or raise the limit `steps`",
                )

    @staticmethod
    def _leads_to_steps(parent: _Open | None, items: Any) -> bool:
        if parent is None:
            return type(items) is dict
        if not parent.holds_steps:
            return False
        return type(parent.items) is list or (type(items) is list and parent.key == "steps")

    def _put(self, value: Any, event: Any) -> None:
        if not self._stack:
            self._root = value
            return
        top = self._stack[-1]
        if kind_of(top.items) is list:
            top.items.append(value)
        elif top.key is not None:
            top.items[top.key] = value
            top.key = None
        elif type(value) is not str:
            self._fault(
                "key_not_text",
                event,
                f"a key must be text, this one is {_kind(value)}",
                "put the key in quotes",
            )
            top.key = f"{value!r:.60}"
        else:
            if value in top.seen:
                self._fault(
                    "duplicate_key", event, f"the key {value[:80]!r} is here twice", "keep one of them"
                )
            top.seen.add(value)
            top.key = value

    def _marks(self, event: Any) -> None:
        if event.anchor is not None:
            self._fault(
                "yaml_anchor",
                event,
                f"&{event.anchor} is an anchor",
                "remove it; write the part out where it is used",
            )
        if event.tag is not None:
            self._fault(
                "yaml_tag",
                event,
                f"{event.tag[:80]!r} is a tag",
                "remove it; text, numbers, true/false, null, lists and maps need none",
            )

    def _fault(self, code: str, event: Any, message: str, remedy: str) -> None:
        mark = event.start_mark
        self._faults.append(
            Finding(
                code=code,
                message=message,
                path=f"line {mark.line + 1}, column {mark.column + 1}",
                remedy=remedy,
            )
        )
        if len(self._faults) >= _FAULTS_MAX:
            raise invalid(self._faults)


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, dict):
        return "a map"
    return "a list" if isinstance(value, list) else "a number"


def _syntax(error: yaml.MarkedYAMLError, text: str) -> InvalidPlan:
    mark = error.problem_mark or error.context_mark
    place = f"line {mark.line + 1}, column {mark.column + 1}" if mark else ""
    problem = str(error.problem or error.context or "it is not YAML")
    if mark and _line(text, mark.line).lstrip(" ").startswith("\t"):
        return _broken("yaml_tab", place, "a tab where YAML wants spaces", "indent with spaces")
    context = f" {error.context}" if error.problem and error.context else ""
    return _broken(
        "yaml_syntax",
        place,
        f"not YAML: {problem}{context}",
        "mend that line; put text that has ': ', '#', '{' or '[' in it in quotes",
    )


def _line(text: str, number: int) -> str:
    lines = text.split("\n", number + 1)
    return lines[number] if number < len(lines) else ""


def _broken(code: str, place: str, message: str, remedy: str) -> InvalidPlan:
    return invalid([Finding(code=code, message=message, path=place, remedy=remedy)])
