"""Markdown in which text of others is text: it makes no heading, link, image, table or tag."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from kedge.views.text import clean

_MARKS = re.compile(r"([\\`*\[\]<>#|~&$]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9]))")
_LEADING = re.compile(r"^([-+=]|\d+(?=[.)]))")
_AUTOLINK = re.compile(r"(?<=[A-Za-z]):(?=//)|(?<=www)\.", re.IGNORECASE)
_TICKS = re.compile(r"`+")


def prose(text: str, width: int) -> str:
    """Words for people, on one line."""
    escaped = _MARKS.sub(r"\\\1", clean(text, width))
    return _AUTOLINK.sub(r"\\\g<0>", _LEADING.sub(_behind, escaped))


def _behind(found: re.Match[str]) -> str:
    """At the start of a line these begin a list or a heading."""
    start = found[1]
    return f"\\{start}" if not start[0].isdigit() else f"{start}\\"


def code(text: str, width: int = 80) -> str:
    """Names and data, on one line, character by character."""
    shown = clean(text, width).replace("|", "\\|")
    if not shown:
        return ""
    ticks = "`" * (max(map(len, _TICKS.findall(shown)), default=0) + 1)
    room = " " if shown[0] == "`" or shown[-1] == "`" else ""
    return f"{ticks}{room}{shown}{room}{ticks}"


def quoted(text: str, width: int) -> str:
    """Words of several lines."""
    return "\n".join(f"> {prose(line, width)}".rstrip() for line in text.splitlines())


def bullets(lines: Iterable[str]) -> str:
    """A list of lines that are Markdown already."""
    return "\n".join(f"- {line}" for line in lines)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are Markdown already."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
