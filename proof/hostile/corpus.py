"""The known attacks, as files that people read: `tests/attacks/NAME.txt`.

    === what it tries
    an input

What reads short texts has an input on each line; what reads documents has one below each heading.
Characters that cannot be seen stand as `⟦202e⟧` (their code points), and long runs as `⟦4000*(⟧`.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "tests" / "attacks"
_ON_ONE_LINE = frozenset({"expression", "template", "names", "text"})
_HEAD = "=== "
_ESCAPE = re.compile(r"⟦(?:([0-9a-f]{2,6})|([0-9]+)\*((?:[^⟦⟧]|⟦[0-9a-f]{2,6}⟧)+))⟧")


@cache
def attacks(name: str) -> tuple[tuple[str, str], ...]:
    """Each known attack on a target: what it tries, and the input as text."""
    found: list[tuple[str, str]] = []
    for block in ("\n" + (FOLDER / f"{name}.txt").read_text(encoding="utf-8")).split(f"\n{_HEAD}")[1:]:
        what, _, body = block.partition("\n")
        inputs = body.rstrip("\n").split("\n") if name in _ON_ONE_LINE else [body.rstrip("\n")]
        found += [(what.strip(), _ESCAPE.sub(_character, text)) for text in inputs]
    return tuple(found)


@cache
def texts_of(name: str) -> tuple[str, ...]:
    """The inputs alone."""
    return tuple(text for _, text in attacks(name))


def _character(match: re.Match[str]) -> str:
    code, times, piece = match.groups()
    return chr(int(code, 16)) if code else _ESCAPE.sub(_character, piece) * int(times)
