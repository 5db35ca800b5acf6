"""Plain data: what JSON can hold, nothing else, shared with nobody."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from kedge.base.codec import decode, encode

_in_key_order = msgspec.json.Encoder(order="deterministic").encode
_as_given = msgspec.json.Encoder().encode
kind_of: Callable[[object], type[object]] = type
"""`type`, with its answer typed: data is Any, what kind it is of is not."""
_SCALARS = frozenset({str, bool, type(None)})
_HOLDERS = frozenset({dict, list, tuple})
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1


def is_plain(value: Any) -> bool:
    """True if JSON can hold `value` (tuples as lists). A value inside itself must be ruled out before."""
    todo: list[Any] = [value]
    while todo:
        item = todo.pop()
        kind = kind_of(item)
        if kind in _SCALARS:
            continue
        if kind is int:
            if not _INT_MIN <= item <= _INT_MAX:
                return False
        elif kind is list or kind is tuple:
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

    The same contract as `encode`, five times as fast for what is plain already.
    """
    raw = _written(_in_key_order, value)
    return raw if raw is not None else encode(value, root=root)


def detached(value: Any) -> tuple[Any, int]:
    """A copy of plain data that shares nothing with `value`, keys in their order; its size in bytes."""
    raw = _written(_as_given, value)
    if raw is None:
        raw = encode(value)
    return decode(raw), len(raw)


def _written(write: Callable[[Any], bytes], value: Any) -> bytes | None:
    """Bytes of plain data. None if it is not plain: then `encode`, which is slower, names the part.

    The library writes first, which rules out a value inside itself; then one walk makes sure that it
    had nothing to change.
    """
    try:
        raw = write(value)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError, RecursionError):
        return None
    return raw if is_plain(value) else None


def is_deeper(value: Any, depth: int) -> bool:
    """True if lists and maps are nested deeper than `depth`. Level by level, so that nothing recurses."""
    level: list[Any] = [value] if kind_of(value) in _HOLDERS else []
    for _ in range(depth):
        if not level:
            return False
        seen: set[int] = set()
        below: list[Any] = []
        for holder in level:
            items: Iterable[Any] = (
                cast(dict[Any, Any], holder).values() if isinstance(holder, dict) else holder
            )
            for item in items:
                if kind_of(item) in _HOLDERS and id(item) not in seen:  # shared parts count once
                    seen.add(id(item))
                    below.append(item)
        level = below
    return bool(level)
