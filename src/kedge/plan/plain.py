"""Plain data: what JSON can hold, nothing else, shared with nobody."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from kedge.base import codec
from kedge.base.codec import decode, encode

_in_key_order = msgspec.json.Encoder(order="deterministic").encode
_as_given = msgspec.json.Encoder().encode
kind_of: Callable[[object], type[object]] = type
"""`type`, with its answer typed: data is Any, what kind it is of is not."""
_HOLDERS = frozenset({dict, list, tuple})
_DEEPEST = 900


def is_plain(value: Any) -> bool:
    """True if JSON can hold `value` (tuples as lists), as deep as the library can write it."""
    return codec.is_plain(value, _DEEPEST)


def canonical(value: Any, root: str = "$") -> bytes:
    """Canonical bytes of plain data, or NotSerializable that names the part that is not.

    The same contract as `encode`, for values of any depth that can be written.
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
    """Bytes of plain data. None if it is not plain: then `encode`, which is slower, names the part."""
    if not is_plain(value):
        return None
    try:
        return write(value)
    except (UnicodeEncodeError, RecursionError):
        return None


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
