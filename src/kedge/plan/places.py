"""Places in a document, as in `steps[3].args.path`: making them, taking them apart.

A key that is not a plain word is written quoted, `context["a.b"]`, so that a place can always be
taken apart again, whatever the keys are.
"""

from __future__ import annotations

import json
import re
from typing import Any

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
_PART = re.compile(
    r"""\.?(?P<word>[A-Za-z_][A-Za-z0-9_-]*)|\[(?P<index>\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""", re.ASCII
)

NOWHERE = object()
"""What `look` returns for a place that the document does not have."""


def at(place: str, key: str | int) -> str:
    """The place of `key` inside `place`."""
    if isinstance(key, int):
        return f"{place}[{key}]"
    if _WORD.fullmatch(key):
        return f"{place}.{key}" if place else key
    return f"{place}[{json.dumps(key)}]"


def parts(place: str) -> list[str | int]:
    """The keys and indexes on the way to `place`. ValueError for what no place looks like."""
    found: list[str | int] = []
    position = 0
    while position < len(place):
        match = _PART.match(place, position)
        if match is None:
            raise ValueError(f"not a place in a document: {place!r}")
        word, index, quoted = match.group("word", "index", "quoted")
        if word is not None:
            found.append(word)
        else:
            found.append(int(index) if index is not None else json.loads(quoted))
        position = match.end()
    return found


def look(document: Any, place: str) -> Any:
    """What the document has at `place`, or NOWHERE."""
    value = document
    for part in parts(place):
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            return NOWHERE
    return value
