"""text.stats, text.extract, text.replace, text.join: plain text, letter by letter.

No pattern comes from a plan: a pattern written by someone else can run for ever. What is found here is
found by scanners that pass over the text once.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from kedge.base.errors import ToolError
from kedge.tools.builtin import scan
from kedge.tools.function import tool
from kedge.tools.tool import Tool

TEXT_MAX = 16 * 1024 * 1024
FOUND_MAX = 100_000

What = Literal["between", "lines", "numbers", "emails", "urls"]


class Stats(msgspec.Struct, frozen=True):
    """Counts over a text."""

    characters: int
    bytes: int
    words: int
    lines: int


@tool(name="text.stats", effect="pure")
def stats(text: str) -> Stats:
    """Count a text's characters, bytes (UTF-8), words and lines.

    text: the text
    """
    _check_length(len(text))
    return Stats(
        len(text), len(text.encode("utf-8", "surrogatepass")), len(text.split()), len(text.splitlines())
    )


@tool(name="text.extract", effect="pure")
def extract(
    text: str, what: What, start: str = "", end: str = "", containing: str = ""
) -> list[str | int | float]:
    """Take parts out of a text, in order.

    text: where to look
    what: between (two markers), lines (that hold a text), numbers (a comma ends one), emails or urls
    start: with between: the marker before
    end: with between: the marker after
    containing: with lines: what the line holds
    """
    _check_length(len(text))
    _check_markers(what, start, end, containing)
    found: list[str | int | float] = []
    for part in _parts(text, what, start, end, containing):
        found.append(part)
        if len(found) > FOUND_MAX:
            raise ToolError(f"the text has more than {FOUND_MAX:,} such parts ({what})", "limit")
    return found


@tool(name="text.replace", effect="pure")
def replace(text: str, old: str, new: str) -> str:
    """Put one text in the place of another, everywhere.

    text: where to replace
    old: what goes, letter by letter (no pattern)
    new: what comes in its place
    """
    if not old:
        raise ToolError("there is nothing to replace: 'old' is empty", "invalid_input")
    _check_length(len(text))
    _check_length(len(text) + text.count(old) * (len(new) - len(old)))
    return text.replace(old, new)


@tool(name="text.join", effect="pure")
def join(parts: list[str | int | float | bool], separator: str = "\n") -> str:
    """Join texts and numbers to one text.

    parts: what to join
    separator: what comes between two of them
    """
    texts = [str(part).lower() if isinstance(part, bool) else str(part) for part in parts]
    _check_length(sum(map(len, texts)) + len(separator) * max(0, len(texts) - 1))
    return separator.join(texts)


def text_tools() -> list[Tool]:
    """The text.* tools."""
    return [stats, extract, replace, join]


def _parts(text: str, what: What, start: str, end: str, containing: str) -> scan.Parts:
    match what:
        case "between":
            return scan.between(text, start, end)
        case "lines":
            return (line for line in text.splitlines() if containing in line)
        case "numbers":
            return scan.numbers(text)
        case "emails":
            return scan.emails(text)
        case "urls":
            return scan.urls(text)


def _check_markers(what: What, start: str, end: str, containing: str) -> None:
    needed = {"between": {"start": start, "end": end}, "lines": {"containing": containing}}.get(what, {})
    for name, value in needed.items():
        if not value:
            raise ToolError(f"what={what!r} needs {name!r}", "invalid_input")
    for name, value in {"start": start, "end": end, "containing": containing}.items():
        if value and name not in needed:
            raise ToolError(f"what={what!r} does not use {name!r}", "invalid_input", remedy="leave it out")


def _check_length(characters: int) -> None:
    if characters > TEXT_MAX:
        raise ToolError(
            f"that is a text of {characters:,} characters, and at most {TEXT_MAX:,} are handled",
            "limit",
            remedy="work on parts of it",
        )
