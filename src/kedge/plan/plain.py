"""Plain data: what JSON can hold, nothing else, shared with nobody."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import msgspec

from kedge.base.codec import decode, encode

_encode = msgspec.json.Encoder(order="deterministic").encode
kind_of: Callable[[object], type[object]] = type
"""`type`, with its answer typed: data is Any, what kind it is of is not."""
_SCALARS = frozenset({str, int, bool, type(None)})


def is_plain(value: Any) -> bool:
    """True if JSON can hold `value` as it is. Of a tree: a value inside itself must be ruled out before."""
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        kind = kind_of(item)
        if kind in _SCALARS:
            continue
        if kind is list:
            todo += item
        elif kind is dict:
            for key in item:
                if type(key) is not str:
                    return False
            todo += item.values()
        elif kind is not float or not math.isfinite(item):
            return False
    return True


def canonical(value: Any, root: str = "$") -> bytes:
    """Canonical bytes of plain data, or NotSerializable that names the part that is not.

    The same contract as `encode`, five times as fast for what is plain already: the library writes
    first (which rules out a value inside itself), then one walk makes sure it had nothing to change.
    """
    try:
        raw = _encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError, RecursionError):
        return encode(value, root=root)
    return raw if is_plain(value) else encode(value, root=root)


def detached(value: Any) -> tuple[Any, int]:
    """A copy of plain data that shares nothing with `value`, and its size in bytes."""
    raw = canonical(value)
    return decode(raw), len(raw)
