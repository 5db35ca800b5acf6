"""What a step may be called, and what it could be called instead."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container

from kedge.plan.expr import RESERVED_WORDS
from kedge.plan.parts import ID_PATTERN, RESERVED_IDS

_ID = re.compile(ID_PATTERN, re.ASCII)
_ID_MAX = 64
TAKEN_NAMES = RESERVED_IDS | RESERVED_WORDS
"""Names that mean something in expressions already."""

ID_RULE = "1 to 64 of a-z, 0-9 and '_', starting with a letter"


def is_id(text: str) -> bool:
    """True if a step may have this id."""
    return _ID.fullmatch(text) is not None and text not in TAKEN_NAMES


def id_fault(text: str) -> tuple[str, str] | None:
    """Code and message of what is wrong with an id, or None."""
    if text in TAKEN_NAMES:
        return "reserved_id", f"{text!r} means something in expressions already"
    if _ID.fullmatch(text):
        return None
    if not text:
        return "bad_id", "the id is empty"
    if len(text) > _ID_MAX:
        return "bad_id", f"an id of {len(text)} characters ({text[:20]!r}…) is too long"
    strange = next((c for c in text if not (c.isascii() and (c.isalnum() or c == "_"))), None)
    if strange is not None:
        name = unicodedata.name(strange, "a control character")
        return "bad_id", f"{text!r} has {name} (U+{ord(strange):04X}) in it"
    if text.lower() != text:
        return "bad_id", f"{text!r} has capital letters: ids that differ only in case would be mixed up"
    return "bad_id", f"{text!r} does not start with a letter"


def suggested_id(text: str, taken: Container[str] = ()) -> str:
    """An id close to `text` that is allowed and not taken."""
    plain = unicodedata.normalize("NFKD", text[:200]).encode("ascii", "ignore").decode().lower()
    base = re.sub(r"[^a-z0-9]+", "_", plain).strip("_") or "step"
    if not base[0].isalpha():
        base = f"step_{base}"
    base = base[: _ID_MAX - 5]
    if base in TAKEN_NAMES:
        base += "_step"
    found, number = base, 1
    while found in taken:
        number += 1
        found = f"{base}_{number}"
    return found
