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
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec

from kedge.base.errors import NotSerializable

_encoder = msgspec.json.Encoder(order="deterministic")
_encode = _encoder.encode
encode_plain: Callable[[Any], bytes] = _encoder.encode
"""`encode` for what is known to be plain data already, a checked plan's for instance: no second look."""
decode = msgspec.json.Decoder().decode
UNREADABLE = (msgspec.MsgspecError, UnicodeError, RecursionError)
"""What decoders raise of bytes or text that nobody vouches for."""

_PLAIN = frozenset({str, bool, type(None)})
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII).fullmatch
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
MAX_DEPTH = 64


def encode(value: Any, *, max_depth: int = MAX_DEPTH, root: str = "$") -> bytes:
    """Canonical bytes of `value`, or NotSerializable that names the part that cannot be stored."""
    kind = type(value)  # pyright: ignore[reportUnknownVariableType]
    if kind is int and _INT_MIN <= value <= _INT_MAX:
        return _encode(value)
    if kind not in _PLAIN and not is_plain(value, max_depth):
        value = _checked(value, max_depth, root)
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_checked(value, max_depth, root))  # says which text has half a character


def is_plain(value: Any, max_depth: int = MAX_DEPTH) -> bool:
    """True if the library writes `value` as it is: JSON's types, tuples as lists, and not too deep.

    Looked at before it is written: a value inside itself would be written a thousand times first, which
    is a gigabyte if there is a long text in it. Level by level, and parts that are shared once.
    """
    level: Iterable[Any] = ((value,),)
    for _ in range(max_depth + 1):
        below: dict[int, Any] = {}
        for holder in level:
            items: Iterable[Any] = holder
            if type(holder) is dict:
                for key in items:
                    if type(key) is not str:
                        return False
                items = cast(dict[str, Any], holder).values()
            for item in items:
                kind = cast(type[object], type(item))
                if kind in _PLAIN:
                    continue
                if kind is dict or kind is list or kind is tuple:
                    below[id(item)] = item
                elif kind is int:
                    if not _INT_MIN <= item <= _INT_MAX:
                        return False
                elif kind is not float or item - item != 0:
                    return False
        if not below:
            return True
        level = below.values()
    return False


def digest(raw: bytes) -> str:
    """The SHA-256 of canonical bytes, as hex: the id of a blob, the identity of arguments."""
    return hashlib.sha256(raw).hexdigest()


def _checked(value: Any, max_depth: int, root: str) -> Any:
    """`value` with only plain JSON types in it. Iterative: depth is data, never recursion."""
    holder: list[Any] = [value]
    # (container, key, way to it, depth, containers around it): written to in place, so `_plain` must
    # hand back a fresh container each time.
    todo: list[tuple[Any, Any, _Way, int, frozenset[int]]] = [(holder, 0, (None, root), 0, frozenset())]
    while todo:
        parent, key, way, depth, around = todo.pop()
        item = parent[key]
        kind = type(item)  # pyright: ignore[reportUnknownVariableType]
        if kind is str:
            _check_text(item, way)
        elif kind is int:
            _check_int(item, way)
        elif kind is bool or item is None:
            continue
        elif kind is float:
            if not math.isfinite(item):
                raise _unfit(way, "float", f"{item!r} has no JSON form", "return null, or a finite number")
        else:
            plain = _plain(item, way)
            if isinstance(plain, dict | list):
                plain = cast(dict[Any, Any] | list[Any], plain)
                if id(item) in around:
                    what = "the value contains itself"
                    raise _unfit(way, _name(item), what, "return a tree, or ids for links")
                if depth >= max_depth:
                    what = f"nested deeper than {max_depth}"
                    raise _unfit(way, _name(item), what, "flatten it, or return it as text")
                inside = around | {id(item)}
                todo.extend(
                    (plain, key, (way, key), depth + 1, inside) for key in _keys(cast(list[Any], plain))
                )
            else:
                todo.append((parent, key, way, depth, around))
            parent[key] = plain
    return holder[0]


def _keys(plain: dict[Any, Any] | list[Any]) -> Iterable[Any]:
    return plain if isinstance(plain, dict) else range(len(plain))


_Way = tuple[Any, Any]
"""The way to a container and the key in it; the first is None and the root. Made a path only for an error:
a text for every item of a list below a long key would weigh gigabytes."""


def _path(way: _Way) -> str:
    """The way as a text that can be followed: keys that are no plain words stand in quotes."""
    keys: list[str] = []
    while way[0] is not None:
        way, key = way
        if type(key) is int:
            keys.append(f"[{key}]")
        elif type(key) is str and _WORD(key):
            keys.append(f".{key}")
        else:
            text = key if type(key) is str else _short(key)
            quoted = _encode(text.encode("utf-8", "backslashreplace").decode())
            keys.append(f"[{quoted.decode()}]")
    path = way[1] + "".join(reversed(keys))
    return path if len(path) <= 200 else f"{path[:120]} … {path[-60:]}"


def _unfit(way: _Way, kind: str, what: str, remedy: str) -> NotSerializable:
    return NotSerializable(_path(way), kind, what, remedy)


def _check_text(text: str, way: _Way) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise _unfit(
            way,
            "str",
            f"the text has half of a surrogate pair at character {error.start}",
            "decode the bytes with errors='replace'",
        ) from None


def _check_int(number: int, way: _Way) -> None:
    if not _INT_MIN <= number <= _INT_MAX:
        what = f"an integer of {number.bit_length()} bits does not fit 64"
        raise _unfit(way, "int", what, "return it as text")


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


def _plain(item: Any, way: _Way) -> Any:
    """One level of `item` as a fresh dict or list, or a plain scalar."""
    try:
        plain = _level(item, way)
    except NotSerializable:
        raise
    except Exception as error:  # a property, a `model_dump`, a class that says it is another
        what = f"reading it raised {type(error).__name__}"
        raise _unfit(way, _name(item), what, "return numbers, text, lists and maps made of it") from error
    if plain is not _NOTHING:
        return plain
    name = _name(item)
    remedy = _REMEDIES.get(name, "return numbers, text, true/false, null, lists and maps")
    raise _unfit(way, name, f"a {name} has no JSON form", remedy)


_NOTHING = object()


def _level(item: Any, way: _Way) -> Any:
    """Read by the types' own functions: what a subclass does instead is its business, not data."""
    if isinstance(item, dict):
        return _plain_dict(cast(dict[Any, Any], item), way)
    if isinstance(item, list | tuple):
        return list(cast(list[Any] | tuple[Any, ...], item))
    if isinstance(item, str):  # here and below subclasses: enums with a value type, numpy floats
        return str.__str__(item)
    if isinstance(item, int):
        return int.__int__(item)
    if isinstance(item, float):
        return float.__float__(item)
    if isinstance(item, msgspec.Struct):
        return _plain_struct(item)
    if dataclasses.is_dataclass(item) and not isinstance(item, type):
        return {field.name: getattr(item, field.name) for field in dataclasses.fields(cast(Any, item))}
    dump = getattr(cast(type, type(item)), "model_dump", None)
    if dump is not None:
        return _plain_dict(dict(dump(item, mode="json", by_alias=True)), way)  # as its schema has the names
    return _NOTHING


def _name(item: object) -> str:
    """Of its class, as the class itself has it."""
    return type.__dict__["__name__"].__get__(type(item))[:60]


def _plain_struct(item: msgspec.Struct) -> dict[str, Any] | list[Any]:
    """As the library itself writes one, tag and changed names included: a tool's schema says the same."""
    config = item.__struct_config__
    values = msgspec.structs.astuple(item)
    if config.array_like:
        return list(values) if config.tag is None else [config.tag, *values]
    plain: dict[str, Any] = dict(zip(item.__struct_encode_fields__, values, strict=True))
    return plain if config.tag_field is None else {config.tag_field: config.tag, **plain}


def _plain_dict(item: dict[Any, Any], way: _Way) -> dict[str, Any]:
    plain = dict[Any, Any].copy(item)
    for key in plain:
        if type(key) is not str:
            name = _name(key)
            what = f"a map's keys must be text, this one is {name}"
            raise _unfit((way, key), name, what, "use {str(key): value}")
        _check_text(key, (way, key))
    return plain


def _short(value: object) -> str:
    try:
        text = repr(value)
    except Exception:  # a broken __repr__ must not hide the real fault
        text = _name(value)
    return text if len(text) <= 60 else text[:57] + "..."
