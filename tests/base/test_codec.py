"""Values as canonical bytes: what has a form gets it, what has none is refused with place and remedy."""

from __future__ import annotations

import dataclasses
import enum
import time
import tracemalloc
from typing import Any, NamedTuple
from unittest import mock

import msgspec
import pytest

from kedge.base.codec import MAX_DEPTH, decode, digest, encode
from kedge.base.errors import NotSerializable


class Pair(NamedTuple):
    left: Any
    right: Any


@dataclasses.dataclass
class Record:
    name: str
    inner: Any = None


class Tagged(msgspec.Struct, tag="t", rename="camel"):
    some_name: Any = None


class Plain(msgspec.Struct):
    first: Any = None


class Listed(msgspec.Struct, array_like=True):
    first: Any = None


class TaggedList(msgspec.Struct, array_like=True, tag="l"):
    first: Any = None


class Colour(enum.StrEnum):
    RED = "red"


class Number(enum.IntEnum):
    ONE = 1


class Price(float):
    def __float__(self) -> float:
        return float("nan")


class Model:
    """As pydantic's are."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def model_dump(self, *, mode: str, by_alias: bool) -> Any:
        assert (mode, by_alias) == ("json", True)
        if isinstance(self.given, Exception):
            raise self.given
        return self.given


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = (value,)  # no JSON type: the walk has to look
    return value


def ring() -> Any:
    value: dict[str, Any] = {}
    value["a b"] = [value]
    return value


class Unshowable:
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        raise RuntimeError("no")


class Unequal(list[Any]):
    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError

    __hash__ = None


FORMS = [
    (None, b"null"),
    (True, b"true"),
    (0, b"0"),
    (2**64 - 1, b"18446744073709551615"),
    (-(2**63), b"-9223372036854775808"),
    (-0.0, b"-0.0"),
    ("é\n", '"é\\n"'.encode()),
    ({"b": 1, "a": [1.5, None]}, b'{"a":[1.5,null],"b":1}'),
    ([10**19], b"[10000000000000000000]"),
    ((1, (2, [3])), b"[1,[2,[3]]]"),
    (Pair(1, Pair("x", None)), b'[1,["x",null]]'),
    ([Record("a", (1,))], b'[{"inner":[1],"name":"a"}]'),
    ([Plain((1,))], b'[{"first":[1]}]'),
    ([Tagged((1,))], b'[{"someName":[1],"type":"t"}]'),
    ([Listed((1,))], b"[[[1]]]"),
    ([TaggedList((1,))], b'[["l",[1]]]'),
    ((Colour.RED, Number.ONE), b'["red",1]'),
    ((Price(1.5), True), b"[1.5,true]"),
    (Model({"x": Model({"y": (1,)})}), b'{"x":{"y":[1]}}'),
    (Unequal([1, 2]), b"[1,2]"),
    ("x" * 25 + "1" * 25, b'"' + b"x" * 25 + b"1" * 25 + b'"'),
    (deep(MAX_DEPTH), b"[" * MAX_DEPTH + b"1" + b"]" * MAX_DEPTH),
]


@pytest.mark.parametrize(("value", "raw"), FORMS, ids=[str(raw[:20]) for _, raw in FORMS])
def test_what_has_a_form_is_written_in_it(value, raw):
    assert encode(value) == raw
    assert encode(decode(raw)) == raw


REFUSED = [
    (float("nan"), "$", "float", "null"),
    ({"a": [1, float("inf")]}, "$.a[1]", "float", "finite"),
    (2**64, "$", "int", "as text"),
    ([1, -(2**63) - 1], "$[1]", "int", "as text"),
    ({"n": 10**400}, "$.n", "int", "as text"),
    ("a\ud800", "$", "str", "errors='replace'"),
    ({"a": ["\udfff"]}, "$.a[0]", "str", "errors='replace'"),
    ({"a": {"\ud800": 1}}, '$.a["\\\\ud800"]', "str", "errors='replace'"),
    ({"a": {1: 2}}, "$.a[1]", "int", "str(key)"),
    ({"a": {("x",): 2}}, "$.a[\"('x',)\"]", "tuple", "str(key)"),
    ({Unshowable(): 1}, '$["Unshowable"]', "Unshowable", "str(key)"),
    ({"1": 1, 1: 2}, "$[1]", "int", "str(key)"),
    ({"odd key": {"": {1}}}, '$["odd key"][""]', "set", "sorted"),
    ({"k" * 500: b"x"}, "$." + "k" * 118 + " … " + "k" * 60, "bytes", "decode"),
    (deep(MAX_DEPTH + 1), "$" + "[0]" * MAX_DEPTH, "tuple", "flatten"),
    (ring(), '$["a b"][0]', "dict", "ids for links"),
    ([Record], "$[0]", "type", "numbers, text"),
    (len, "$", "builtin_function_or_method", "numbers, text"),
    (lambda: 1, "$", "function", "not code"),
    ([Model(ZeroDivisionError("no"))], "$[0]", "Model", "made of it"),
    ([Model(None)], "$[0]", "Model", "made of it"),
    (mock.Mock(spec=dict), "$", "Mock", "made of it"),
    ({"r": Unequal([1j])}, "$.r[0]", "complex", "value.real"),
]


@pytest.mark.parametrize(
    ("value", "path", "kind", "remedy"), REFUSED, ids=[f"{kind} {path[:20]}" for _, path, kind, _ in REFUSED]
)
def test_what_has_none_is_refused_with_place_type_and_remedy(value, path, kind, remedy):
    with pytest.raises(NotSerializable) as caught:
        encode(value)
    error = caught.value
    assert (error.path, error.type_name) == (path, kind)
    assert remedy in error.remedy
    assert len(str(error)) < 1_000


def test_a_record_without_a_field_is_refused_like_any_other():
    record = Record("x")
    del record.name
    with pytest.raises(NotSerializable) as caught:
        encode({"r": record})
    assert caught.value.path == "$.r"
    assert "AttributeError" in caught.value.message


def test_the_root_of_a_path_has_a_name():
    with pytest.raises(NotSerializable) as caught:
        encode({"a": {1}}, root="inputs.x")
    assert caught.value.path == "inputs.x.a"
    with pytest.raises(NotSerializable) as caught:
        encode(2**70, root="inputs.x")
    assert caught.value.path == "inputs.x"


def test_refusing_costs_no_text_for_each_item():
    """A path is made for the one error, not for every item on the way to it."""
    value = {"k" * 100_000: [float("nan"), *[1] * 20_000]}
    began_s = time.thread_time()
    tracemalloc.start()
    try:
        with pytest.raises(NotSerializable):
            encode(value)
        assert tracemalloc.get_traced_memory()[1] < 50_000_000
    finally:
        tracemalloc.stop()
    assert time.thread_time() - began_s < 2


@pytest.mark.parametrize("around", [list, tuple, lambda items: {"k": items[0], "t": items[1]}, Record])
def test_a_value_inside_itself_is_not_written_first(around):
    """The library would: a thousand times over, and the long text each time."""
    ring: list[Any] = ["x" * 100_000]
    ring.append(around([ring, ring]) if around is not Record else Record("r", ring))
    tracemalloc.start()
    try:
        with pytest.raises(NotSerializable, match="contains itself"):
            encode(ring)
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_digest_is_of_the_bytes():
    assert digest(b"{}") == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"


def test_what_an_object_says_of_itself_is_looked_at_like_everything_else():
    class Says:
        def model_dump(self, **_):
            return {("a", 1): 1}

    with pytest.raises(NotSerializable) as refused:
        encode({"x": Says()})
    assert refused.value.type_name == "tuple"
