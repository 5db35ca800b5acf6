"""The known name that a wrong one was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

_CANDIDATES_MAX = 200
_LIKENESS_MIN = 0.66  # one wrong letter in three


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The closest known name, or None when none is close.

    Comparing two names costs microseconds and a document may have thousands of each, so only names
    of about the same length that share a first or last character are compared, and not too many.
    """
    if len(word) > 100:
        return None
    plain = _plain(word)
    candidates: list[str] = []
    for name in known:
        if _plain(name) == plain:
            return name
        if abs(len(name) - len(word)) <= 3 and name and word and (name[0] == word[0] or name[-1] == word[-1]):
            candidates.append(name)
    found = difflib.get_close_matches(word, candidates[:_CANDIDATES_MAX], n=1, cutoff=_LIKENESS_MIN)
    return found[0] if found else None


def _plain(name: str) -> str:
    return "".join(c for c in name.casefold() if c.isalnum())
