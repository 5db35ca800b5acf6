"""The codec: Python values that a tool might return, and bytes that a store might hold."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import io
import json
import re
import types
import uuid
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import Any, NamedTuple

import msgspec

from hostile.corpus import texts_of
from hostile.guard import Broken, is_plain, same, watched
from hostile.luck import Luck
from kedge.base.codec import MAX_DEPTH, UNREADABLE, decode, encode
from kedge.base.errors import NotSerializable

ENCODE_S = 0.100


class _Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class _Record:
    name: str
    inner: Any = None


class _Tagged(msgspec.Struct, tag="t", rename="camel"):
    some_name: Any = None


class _Listed(msgspec.Struct, array_like=True):
    first: Any = None


class _Colour(enum.StrEnum):
    RED = "red"


class _Number(enum.IntEnum):
    ONE = 1


class _LyingText(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "not what it is"

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class _LyingInt(int):
    def __int__(self) -> int:
        raise ZeroDivisionError

    __index__ = __int__


class _LyingFloat(float):
    def __float__(self) -> float:
        return float("nan")


class _LyingMap(dict[Any, Any]):
    def __iter__(self) -> Any:
        return iter(["other"])

    def items(self) -> Any:
        raise KeyError("no")

    def __getitem__(self, key: Any) -> Any:
        raise KeyError(key)

    keys = __len__ = items


class _LyingList(list[Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = None


class _Pretender:
    """Says it is a map, as mocks do."""

    @property
    def __class__(self) -> Any:
        return dict

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class _Breaks:
    @property
    def __class__(self) -> Any:
        raise KeyError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class _Dumps:
    """Like a pydantic model, whatever its dump gives."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def model_dump(self, **_: Any) -> Any:
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


class _Explodes:
    def __reduce__(self) -> Any:
        raise AssertionError("it was pickled")

    def __repr__(self) -> str:
        raise AssertionError("it was shown")

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"its {name} was read")


class _Shown(type):
    @property
    def __name__(cls) -> str:  # type: ignore[override]
        raise AssertionError("its name was read")


class _Nameless(metaclass=_Shown): ...


def _ring() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


def _deep(levels: int) -> Callable[[], Any]:
    def make() -> Any:
        value: Any = 1
        for level in range(levels):
            value = [value] if level % 2 else {"k": value}
        return value

    return make


def _unset() -> Any:
    record = _Record("x")
    del record.name
    return record


def _long_name() -> Any:
    return type("N" * 10_000, (), {})()


def _shared() -> Any:
    part = [1, {"x": 2}]
    return {"a": part, "b": part, "c": (part, part)}


ODD: dict[str, Callable[[], Any]] = {
    "not a number": lambda: float("nan"), "infinite": lambda: float("-inf"),
    "a zero with a sign": lambda: -0.0,
    "the smallest float": lambda: 5e-324, "an integer too long": lambda: 2**64,
    "too low": lambda: -(2**63) - 1,
    "five thousand digits": lambda: 10**5000, "the longest integer": lambda: 2**64 - 1,
    "text": lambda: "é\u2028\0",
    "half a pair": lambda: "a\ud800", "bytes": lambda: b"\xff", "a bytearray": lambda: bytearray(b"x"),
    "a view": lambda: memoryview(b"x"), "a set": lambda: {1, 2}, "a frozen set": lambda: frozenset({1}),
    "a decimal": lambda: decimal.Decimal("1.1"),
    "a time with a zone": lambda: datetime.datetime.now(datetime.UTC),
    "a date": lambda: datetime.date(2026, 1, 1), "a span": lambda: datetime.timedelta(1), "an id": uuid.uuid4,
    "a path": lambda: PurePosixPath("/etc"), "complex": lambda: 1j, "a range": lambda: range(10**12),
    "keys that become one": lambda: {1: 1, "1": 2}, "a key that is null": lambda: {None: 1},
    "a tuple as key": lambda: {("[", 1): 1}, "a key with half a pair": lambda: {"a": {"\ud800": 1}},
    "a long key": lambda: {"k" * 100_000: [float("nan"), *[1] * 1_000]},
    "an odd key": lambda: {"a b": {"": 1j}},
    "inside itself": _ring, "as deep as it may be": _deep(MAX_DEPTH), "one deeper": _deep(MAX_DEPTH + 1),
    "a hundred thousand deep": _deep(100_000), "shared parts": _shared, "a pair": lambda: _Pair(1, {2}),
    "a record": lambda: _Record("x", _Record("y", (1, 2))), "a record without a field": _unset,
    "a struct": lambda: _Tagged({"x": (1,)}), "a struct as list": lambda: _Listed(_Listed(1j)),
    "an enum": lambda: _Colour.RED, "a number's enum": lambda: {"x": _Number.ONE}, "a type": lambda: _Record,
    "a text that lies": lambda: _LyingText("x"), "an integer that lies": lambda: [_LyingInt(5)],
    "a float that lies": lambda: {"x": _LyingFloat(1.5)}, "a map that lies": lambda: _LyingMap({"a": 1,
    "b": 1j}),
    "a list that lies": lambda: _LyingList([1, 2]), "a pretender": _Pretender,
    "a thing without a class": _Breaks,
    "a dump": lambda: _Dumps({"x": [_Dumps({"y": 1})]}), "a dump of nothing": lambda: _Dumps(None),
    "a dump that raises": lambda: _Dumps(ZeroDivisionError("no")), "one that explodes": _Explodes,
    "a dump of itself": lambda: _Dumps(collections.UserDict({"a": 1})), "nameless": _Nameless,
    "a file": lambda: io.StringIO("x"), "a function": lambda: len, "a module": lambda: json,
    "a generator": lambda: (number for number in (1, 2)),
    "an ordered map": lambda: collections.OrderedDict(a=1),
    "a default map": lambda: collections.defaultdict(list, a=[1]),
    "a counter": lambda: collections.Counter(["a"]),
    "a namespace": lambda: types.SimpleNamespace(a=1),
    "a view of a map": lambda: types.MappingProxyType({"a": 1}),
    "an error": lambda: ValueError("x"), "a pattern": lambda: re.compile("a"), "nothing at all": lambda: ...,
    "a deque": lambda: collections.deque([1]), "raw": lambda: msgspec.Raw(b"{"),
    "unset": lambda: msgspec.UNSET,
    "a class with a long name": _long_name, "a list of many": lambda: [0] * 10_000,
}  # fmt: skip
"""What tools have returned, and worse, each with a word on what it is."""
_PLAIN: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**63, 1.5, 1e308, "", "x", "ü", "\x00", "\x7f\u2028", "${a}", "__class__",
    "1e400",
)  # fmt: skip
_KEYS = ("a", "b", "", "a.b", "odd key", "é", "__class__", "\x00", "1", "NaN", "[0]")


def value(luck: Luck) -> Any:
    """A value as Python has it."""
    return _value(luck, luck.below(5))


def _value(luck: Luck, depth: int) -> Any:
    if depth <= 0 or luck.percent(25):
        return luck.pick(tuple(ODD.values()))() if luck.percent(12) else luck.pick(_PLAIN)
    match luck.below(8):
        case 0 | 1 | 2:
            return {luck.pick(_KEYS): _value(luck, depth - 1) for _ in range(luck.below(4))}
        case 3 | 4:
            return [_value(luck, depth - 1) for _ in range(luck.below(4))]
        case 5:
            return tuple(_value(luck, depth - 1) for _ in range(luck.below(3)))
        case 6:
            return luck.pick((_Tagged, _Listed, _Dumps))(_value(luck, depth - 1))
        case _:
            return _Record("n", _value(luck, depth - 1))


_BYTES = (
    b"{", b"}", b"[", b"]", b":", b",", b'"', b"\\", b"\\u", b"\\ud800", b"\\u0000", b"\xff",
    b"\xed\xa0\x80", b"\x00",
    b"1", b"-", b"-0", b"1e400", b"1e5", b"NaN", b"null", b"true", b"false", b" ", b"\n", b"\xef\xbb\xbf",
    b"9" * 30,
    b'"a":', b"[" * 70, b"]" * 70, b"[" * 2_000, b"\xc3\xa9", b"0.1", b"18446744073709551616", b"/**/",
)  # fmt: skip


def stored(luck: Luck) -> bytes:
    """Bytes that should be canonical JSON."""
    if luck.percent(20):
        data = luck.pick(texts_of("codec")).encode("utf-8", "surrogateescape")
    else:
        data = msgspec.json.encode(_json(luck, luck.below(4)))
    for _ in range(luck.below(4)):
        at = luck.below(len(data) + 1)
        data = data[:at] + luck.pick(_BYTES) + data[at + luck.below(3) :]
    return data


def _json(luck: Luck, depth: int) -> Any:
    if depth <= 0:
        return luck.pick(_PLAIN)
    if luck.percent(50):
        return {luck.pick(_KEYS): _json(luck, depth - 1) for _ in range(luck.below(4))}
    return [_json(luck, depth - 1) for _ in range(luck.below(4))]


def codec_input(luck: Luck) -> Any:
    """A value to write, or bytes to read (as `stored` in a list of one, which no tool returns)."""
    return (stored(luck),) if luck.percent(40) else value(luck)


def judge(given: Any) -> str:
    """Write it, or read it."""
    if type(given) is tuple and len(given) == 1 and type(given[0]) is bytes:
        return judge_bytes(given[0])
    raw, error = watched(lambda: encode(given), (NotSerializable,), ENCODE_S)
    if raw is None:
        if not isinstance(error, NotSerializable) or not (error.path and error.type_name and error.remedy):
            raise Broken(f"refused without path, type or remedy: {error!r}")
        return error.code
    _is_canonical(raw)
    return "value"


def judge_bytes(raw: bytes) -> str:
    """Read it: it is data, or one of three errors; what is data can be written, and then stays as it is."""
    value, error = watched(lambda: decode(raw), UNREADABLE, ENCODE_S)
    if error is not None:
        return type(error).__name__
    try:
        if not same(value, json.loads(raw)):
            raise Broken(f"two JSON readers do not agree about {raw[:200]!r}")
    except RecursionError:  # as deep as only one of them goes
        pass
    written, refused = watched(lambda: encode(value), (NotSerializable,), ENCODE_S)
    if written is None:
        return f"read, and not written: {getattr(refused, 'code', '')}"
    _is_canonical(written)
    if not same(decode(written), value):
        raise Broken(f"written again, {raw[:200]!r} is {written[:200]!r}")
    return "value"


def _is_canonical(raw: bytes) -> None:
    back = decode(raw)
    theirs = json.loads(raw)
    if not is_plain(back) or not same(back, theirs):
        raise Broken(f"two JSON readers do not agree about {raw[:200]!r}")
    if encode(back) != raw or _keys(theirs) != _keys(json.loads(raw, object_pairs_hook=_pairs)):
        raise Broken(f"{raw[:200]!r} is not canonical")


class _Pairs(list[tuple[str, Any]]):
    """A map's keys and values, as they were written."""


def _pairs(pairs: list[tuple[str, Any]]) -> Any:
    return _Pairs(pairs)


def _keys(data: Any) -> Any:
    """The data with each map as sorted pairs; one that was read as pairs keeps their order."""
    if isinstance(data, _Pairs):
        return [(key, _keys(value)) for key, value in data]
    if isinstance(data, dict):
        return [(key, _keys(data[key])) for key in sorted(data, key=lambda key: key.encode())]
    return [_keys(item) for item in data] if isinstance(data, list) else data
