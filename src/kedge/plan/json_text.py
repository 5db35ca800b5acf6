"""JSON as it should be, and a diagnosis of JSON as models and people send it.

The standard library reads NaN and keeps the last of duplicate keys without a word; both are errors
here. What cannot be read is named: wrapped in prose or a fence, cut off, a trailing comma, two
documents in one, Python instead of JSON.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from kedge.base.errors import InvalidPlan
from kedge.plan.findings import Finding, invalid

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)


class _Refused(ValueError):
    """A number that JSON does not have."""


def load_json(text: str) -> Any:
    """The data of one JSON document. InvalidPlan with line and column for everything else."""
    doubled: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            doubled.append("")
        return found

    try:
        data = json.loads(
            text, object_pairs_hook=pairs, parse_constant=_no_constant, parse_float=_float, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        raise _diagnosis(text, error) from None
    except _Refused as error:
        raise _fault(
            "number",
            _find_number(text, str(error)),
            text,
            f"{str(error)[:40]} is not a number that JSON has",
            "write null, a smaller number, or text in quotes",
        ) from None
    except RecursionError:
        raise _fault(
            "too_deep", 0, text, "lists and maps are nested too deep to be read", "flatten it"
        ) from None
    if doubled:
        raise invalid(_duplicates(text))
    return data


def _no_constant(word: str) -> NoReturn:
    raise _Refused(word)


def _float(word: str) -> float:
    number = float(word)
    if not math.isfinite(number):
        raise _Refused(word)
    return number


def _integer(word: str) -> int:
    if len(word) > 20 or not -(2**63) <= (number := int(word)) < 2**64:
        raise _Refused(word)
    return number


def _find_number(text: str, word: str) -> int:
    for match in _TOKEN.finditer(text):
        if match.group() == word:
            return match.start()
    return 0


def _duplicates(text: str) -> list[Finding]:
    """Every key that a map has twice, with its place."""
    found: list[Finding] = []
    open_maps: list[set[str] | None] = []
    previous = ""
    for match in _TOKEN.finditer(text):
        token = match.group()
        if token == "{":
            open_maps.append(set())
        elif token == "[":
            open_maps.append(None)
        elif token in "}]":
            open_maps.pop()
        elif token[0] == '"' and previous in ("{", ","):
            seen = open_maps[-1]
            key = json.loads(token)
            if seen is not None:
                if key in seen:
                    found.append(
                        Finding(
                            code="duplicate_key",
                            message=f"the key {key[:80]!r} is here twice",
                            path=_place(text, match.start()),
                            remedy="keep one of them",
                        )
                    )
                seen.add(key)
        previous = token
    return found


def _diagnosis(text: str, error: json.JSONDecodeError) -> InvalidPlan:
    """What is most likely wrong with a text that is not JSON."""
    before = text[: error.pos].rstrip()
    rest = text[error.pos :].lstrip()
    if error.msg == "Extra data":
        if rest[0] in "{[":
            return _fault(
                "several_documents", error.pos, text, "a second document starts here", "give one document"
            )
        return _fault(
            "json_in_prose", error.pos, text, "text after the end of the JSON", "give the JSON alone"
        )
    comma = len(before) - 1
    if rest[:1] == ",":  # from Python 3.13 on the comma itself is the place
        comma, rest = error.pos, rest[1:].lstrip() if error.msg.startswith("Illegal trailing comma") else rest
    if rest[:1] in ("}", "]") and text[comma : comma + 1] == ",":
        return _fault("json_trailing_comma", comma, text, f"a comma before {rest[0]!r}", "remove the comma")
    if not rest or error.msg.startswith("Unterminated string"):
        return _fault(
            "json_truncated",
            len(text.rstrip()),
            text,
            "the text ends in the middle of the JSON",
            "send the whole document; if it was cut for its length, send a shorter one",
        )
    if rest.startswith(("//", "/*", "#")):
        return _fault(
            "json_comment", error.pos, text, "JSON has no comments", "remove it, or write the plan as YAML"
        )
    if rest.startswith(("'", "True", "False", "None")):
        return _fault(
            "json_python",
            error.pos,
            text,
            "this is Python, not JSON",
            "write text in double quotes, and true, false, null",
        )
    return _fault(
        "json_syntax",
        error.pos,
        text,
        f"not JSON: {error.msg[0].lower()}{error.msg[1:]}",
        "mend it there; keys and text stand in double quotes",
    )


def wrapped(text: str) -> InvalidPlan | None:
    """The diagnosis of a text that is not a document but has one in it."""
    fence = text.find("```")
    if fence >= 0:
        return _fault(
            "fenced",
            fence,
            text,
            "the document stands in a ``` fence",
            "give the document alone, without the fence",
        )
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            inside = json.loads(text[start : end + 1])
        except (ValueError, RecursionError):
            return None
        if isinstance(inside, dict) and inside:
            return _fault(
                "json_in_prose", start, text, "the JSON stands inside other text", "give the JSON alone"
            )
    return None


def _place(text: str, position: int) -> str:
    line = text.count("\n", 0, position) + 1
    return f"line {line}, column {position - (text.rfind(chr(10), 0, position) + 1) + 1}"


def _fault(code: str, position: int, text: str, message: str, remedy: str) -> InvalidPlan:
    return invalid([Finding(code=code, message=message, path=_place(text, position), remedy=remedy)])
