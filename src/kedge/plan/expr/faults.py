"""What an expression may cost, and how it says no: budgets, faults, and words for values."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any

from kedge.base.errors import ExpressionError

MAX_TEXT = 4_096
"""Characters of one expression, checked before anything looks at them."""
MAX_DEPTH = 32
"""Brackets, calls, signs and `else` inside each other."""
MAX_NODES = 500
"""Parts of one expression. There are no loops, so each part runs at most once an evaluation."""
MAX_WORK = 1_000_000
"""One evaluation: items looked at, items and characters made, and blocks of 256 characters compared."""
MAX_RENDERED = 64 * 1024 * 1024
"""Characters of one rendered text: what the arguments of a call may weigh by default."""
INT_MIN, INT_MAX = -(2**63), 2**64 - 1
"""Whole numbers that can be stored."""

kind_of: Callable[[object], type[object]] = type
"""`type`, with its answer typed: data is Any, what kind it is of is not."""


class Absent(ExpressionError):
    """A name that has no value here: its step was skipped, or has not ended. Resolvers raise it."""

    code = "absent"

    def __init__(self, name: str, why: str = "") -> None:
        told = shown(name)
        super().__init__(
            f"{told} has no value" + (f": {why}" if why else ""),
            remedy=f"guard it, as in `present({told}) and …` or `{told} if present({told}) else null`",
        )
        self.name = name
        self.why = why


def nearest(word: str, known: Iterable[str], count: int = 10) -> list[str]:
    """Up to `count` of the known names, those most like `word` first."""
    pool = [name for name in islice(known, 50) if len(name) <= 64]  # likeness is quadratic: keep it small
    close = difflib.get_close_matches(word[:64], pool, n=3)
    return [*close, *(name for name in pool if name not in close)][:count]


def closest(word: str, known: Iterable[str]) -> str | None:
    """The one known name that `word` was probably meant to be."""
    found = difflib.get_close_matches(word[:64], list(known), n=1, cutoff=0.7)
    return found[0] if found else None


def shown(source: str, length: int = 60) -> str:
    """Source text, short enough for a message."""
    source = " ".join(source.split())
    return source if len(source) <= length else source[: length - 1] + "…"


def describe(value: Any) -> str:
    """What a value is, in words for people."""
    kind = kind_of(value)
    if value is None:
        return "null"
    if kind is bool:
        return "true" if value else "false"
    if kind is int or kind is float:
        return "a number"
    if kind is str:
        return f"a text of {len(value)} character{'' if len(value) == 1 else 's'}"
    if kind is list:
        return f"a list of {len(value)} item{'' if len(value) == 1 else 's'}"
    if kind is dict:
        return f"a map of {len(value)} key{'' if len(value) == 1 else 's'}"
    return f"a {kind.__name__}"


def path_text(root: str, keys: Iterable[str | int]) -> str:
    """A path as a person would write it."""
    text = root
    for key in keys:
        if isinstance(key, int):
            text += f"[{key}]"
        else:
            text += f".{key}" if key.isidentifier() and key.isascii() else f"[{key!r}]"
    return text
