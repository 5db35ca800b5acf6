"""The one codec: values as canonical JSON bytes, and the walk that guards the way in.

Between steps a value *is* its canonical bytes (UTF-8, no spaces, keys sorted). Decoding gives a
fresh value, so two steps can never share a mutable object, and equal values have equal hashes.

The JSON library is fast and silent: it writes NaN as null, bytes as base64, a set as a list, and
keeps both of `{1: …, "1": …}`. `encode` walks a value first and refuses what would change on the
way, with the path, the type and a remedy. What has a defined form is accepted: tuples become
lists, named ones too; dataclasses, msgspec structs and pydantic models become maps.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

from kedge.base.errors import NotSerializable

_encoder = msgspec.json.Encoder(order="deterministic")
_encode = _encoder.encode
encode_plain: Callable[[Any], bytes] = _encoder.encode
"""`encode` for what is known to be plain data already, a checked plan's for instance: no second look."""
decode = msgspec.json.Decoder().decode

_PLAIN = frozenset({str, bool, type(None)})
_LONG_NUMBER = re.compile(rb"[0-9]{19}").search
"""May be an integer of more than 64 bits, which the library writes without a word."""
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
MAX_DEPTH = 64


def encode(value: Any, *, max_depth: int = MAX_DEPTH, root: str = "$") -> bytes:
    """Canonical bytes of `value`, or NotSerializable that names the part that cannot be stored."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is int:
        if not _INT_MIN <= value <= _INT_MAX:
            _check_int(value, root)
    elif kind not in _PLAIN:
        raw = _unchanged(value, max_depth)
        if raw is not None:
            return raw
        value = _checked(value, max_depth, root)
    try:
        return _encode(value)
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError):
        _checked(value, max_depth, root)  # names the part; scalars skip it on the way in
        raise


def _unchanged(value: Any, max_depth: int) -> bytes | None:
    """The bytes, if reading them back gives an equal value: then nothing was changed on the way.

    Ten times faster than the walk, and right for nearly all values. What is not equal (NaN became
    null, a tuple a list), cannot be written, or may be too deep is left to the walk.
    """
    try:
        raw = _encode(value)
        shallow = raw.count(b"[") + raw.count(b"{") <= max_depth
        if shallow and not _LONG_NUMBER(raw) and decode(raw) == value:
            return raw
    except (UnicodeEncodeError, OverflowError, TypeError, ValueError, RecursionError):
        return None
    return None


def digest(raw: bytes) -> str:
    """The SHA-256 of canonical bytes, as hex: the id of a blob, the identity of arguments."""
    return hashlib.sha256(raw).hexdigest()


def _checked(value: Any, max_depth: int, root: str) -> Any:
    """`value` with only plain JSON types in it. Iterative: depth is data, never recursion."""
    holder: list[Any] = [value]
    # (container, key, path, depth, containers around it): written to in place, so `_plain` must
    # hand back a fresh container each time.
    todo: list[tuple[Any, Any, str, int, frozenset[int]]] = [(holder, 0, root, 0, frozenset())]
    while todo:
        parent, key, path, depth, around = todo.pop()
        item = parent[key]
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            _check_text(item, path)
        elif kind is int:
            _check_int(item, path)
        elif kind is bool or item is None:
            continue
        elif kind is float:
            if not math.isfinite(item):
                raise NotSerializable(
                    path, "float", f"{item!r} has no JSON form", "return null, or a finite number"
                )
        else:
            plain: Any = _plain(item, path)
            if type(plain) is dict or type(plain) is list:
                if id(item) in around:
                    raise _unfit(
                        path, kind.__name__, "the value contains itself", "return a tree, or ids for links"
                    )
                if depth >= max_depth:
                    what = f"nested deeper than {max_depth}"
                    raise _unfit(path, kind.__name__, what, "flatten it, or return it as text")
                inside = around | {id(item)}
                inner = cast(dict[str, Any] | list[Any], plain)
                todo.extend((inner, key, at, depth + 1, inside) for key, at in _parts(inner, path))
            else:
                todo.append((parent, key, path, depth, around))
            parent[key] = plain
    return holder[0]


def _parts(plain: dict[str, Any] | list[Any], path: str) -> list[tuple[Any, str]]:
    if isinstance(plain, dict):
        return [(key, f"{path}.{key}") for key in plain]
    return [(index, f"{path}[{index}]") for index in range(len(plain))]


def _unfit(path: str, kind: str, what: str, remedy: str) -> NotSerializable:
    shown = path if len(path) <= 200 else f"{path[:120]} … {path[-60:]}"
    return NotSerializable(shown, kind, what, remedy)


def _check_text(text: str, path: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise NotSerializable(
            path,
            "str",
            f"the text has half of a surrogate pair at character {error.start}",
            "decode the bytes with errors='replace'",
        ) from None


def _check_int(number: int, path: str) -> None:
    if not _INT_MIN <= number <= _INT_MAX:
        raise NotSerializable(
            path, "int", f"an integer of {number.bit_length()} bits does not fit 64", "return it as text"
        )


_REMEDIES = {
    "bytes": "decode it to text, or write a file and return its path",
    "bytearray": "decode it to text, or write a file and return its path",
    "memoryview": "decode it to text, or write a file and return its path",
    "set": "return sorted(value)",
    "frozenset": "return sorted(value)",
    "datetime": "return value.isoformat()",
    "date": "return value.isoformat()",
    "time": "return value.isoformat()",
    "timedelta": "return value.total_seconds()",
    "Decimal": "return str(value) or float(value)",
    "UUID": "return str(value)",
    "PosixPath": "return str(value)",
    "WindowsPath": "return str(value)",
    "complex": "return [value.real, value.imag]",
    "generator": "return list(value)",
    "async_generator": "collect it into a list",
    "coroutine": "await it",
    "function": "return data, not code",
    "DataFrame": "return frame.to_dict(orient='records')",
    "Series": "return series.to_list()",
    "ndarray": "return array.tolist()",
    "TextIOWrapper": "return the file's text or its path",
    "BufferedReader": "return the file's text or its path",
}


def _plain(item: Any, path: str) -> Any:
    """One level of `item` as a fresh dict or list, or a plain scalar."""
    if isinstance(item, dict):
        return _plain_dict(cast(dict[Any, Any], item), path)
    if isinstance(item, list | tuple):
        return list(cast(list[Any] | tuple[Any, ...], item))
    if isinstance(item, str):  # here and below subclasses: enums with a value type, numpy floats
        return str.__str__(item)
    for scalar in (bool, int, float):
        if isinstance(item, scalar):
            return scalar(item)
    if isinstance(item, msgspec.Struct):
        return _plain_struct(item)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(cast(Any, item))}
    dump = getattr(cast(type, type(item)), "model_dump", None)
    if dump is not None:
        return dict(dump(item, mode="json", by_alias=True))  # as its schema has the names
    name = type(item).__name__
    raise NotSerializable(
        path,
        name,
        f"a {name} has no JSON form",
        _REMEDIES.get(name, "return numbers, text, true/false, null, lists and maps"),
    )


def _plain_struct(item: msgspec.Struct) -> dict[str, Any] | list[Any]:
    """As the library itself writes one, tag and changed names included: a tool's schema says the same."""
    config = item.__struct_config__
    values = msgspec.structs.astuple(item)
    if config.array_like:
        return list(values) if config.tag is None else [config.tag, *values]
    plain: dict[str, Any] = dict(zip(item.__struct_encode_fields__, values, strict=True))
    return plain if config.tag_field is None else {config.tag_field: config.tag, **plain}


def _plain_dict(item: dict[Any, Any], path: str) -> dict[str, Any]:
    for key in item:
        if type(key) is not str:
            name = type(key).__name__
            raise NotSerializable(
                f"{path}[{_short(key)}]",
                name,
                f"a map's keys must be text, this one is {name}",
                "use {str(key): value}",
            )
        _check_text(key, f"{path} key")
    return dict(item)


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a broken __repr__ must not hide the real fault
        text = type(value).__name__
    return text if len(text) <= 60 else text[:57] + "..."
