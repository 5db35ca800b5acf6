"""A docstring's first paragraph, and what it says of each parameter.

One rule covers the styles people use: below the first paragraph, a line that begins with a
parameter's name (behind `:param`, a bullet, or nothing; a type in brackets may follow) and a colon
describes it, and deeper indented lines go on. NumPy's `name : type` has its text below, which is
the same rule with the type for a first line, so those types are dropped.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable

_ENTRY = re.compile(
    r"(?P<indent> *)(?:[-*] )?(?P<sphinx>:param (?:[^:`]{0,80} )?)?"
    r"`{0,2}\*{0,2}(?P<name>[A-Za-z_]\w*)`{0,2}(?: ?\([^()]{0,200}\))?(?P<gap> ?):(?!:)(?P<text>.*)"
)


def parse_docstring(docstring: str | None, names: Iterable[str]) -> tuple[str, dict[str, str]]:
    """The first paragraph as one line, and the text for each of `names` that has one."""
    known = frozenset(names)
    lines = inspect.cleandoc(docstring or "").splitlines()
    first: list[str] = []
    while lines and lines[0].strip() and not _entry(lines[0], known):
        first.append(lines.pop(0).strip())
    return " ".join(first), _entries(lines, known)


def _entry(line: str, known: frozenset[str]) -> re.Match[str] | None:
    match = _ENTRY.match(line)
    return match if match and match["name"] in known else None


def _entries(lines: list[str], known: frozenset[str]) -> dict[str, str]:
    texts: dict[str, list[str]] = {}
    current: list[str] | None = None
    indent = 0
    for line in lines:
        if match := _entry(line, known):
            indent = len(match["indent"])
            is_numpy = match["gap"] and not match["sphinx"]
            current = texts.setdefault(match["name"], [])
            current.append("" if is_numpy else match["text"].strip())
        elif current is not None and line.strip() and len(line) - len(line.lstrip()) > indent:
            current.append(line.strip())
        else:
            current = None
    joined = {name: " ".join(filter(None, parts)) for name, parts in texts.items()}
    return {name: text for name, text in joined.items() if text}
