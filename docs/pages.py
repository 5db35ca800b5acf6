"""The pages, and the places in them that are generated."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

_PLACE = re.compile(
    r"(?P<start><!-- generated: (?P<name>[a-z][a-z -]*[a-z]) -->\n)(?P<text>.*?)(?P<end>\n?<!-- end -->)",
    re.DOTALL,
)


def pages(root: Path) -> list[Path]:
    """Every page that people read."""
    return [root / "README.md", *sorted((root / "docs").glob("*.md"))]


def fill(page: str, content: Callable[[str, str], str]) -> str:
    """The page with each place filled by `content(name, what is there)`."""

    def put(match: re.Match[str]) -> str:
        present = match["text"].strip("\n")
        return f"{match['start']}{content(match['name'], present)}\n<!-- end -->"

    return _PLACE.sub(put, page)


def table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A Markdown table."""
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    lines += [f"| {' | '.join(_cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def _cell(value: object) -> str:
    return " ".join(str(value).split()).replace("|", "\\|")


def code(text: object) -> str:
    """Text as code."""
    return f"`{text}`"


def listed(words: Iterable[object]) -> str:
    """Words as code, with commas."""
    return ", ".join(code(word) for word in words)


def first_line(text: str | None) -> str:
    """The first sentence of a docstring's first paragraph, as it stands."""
    return " ".join((text or "").strip().split("\n\n")[0].split())
