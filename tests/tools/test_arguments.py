import asyncio
import contextlib
import dataclasses
import enum
import inspect
from datetime import date
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.base import codec
from kedge.base.errors import ToolError
from kedge.tools.function import tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Place:
    name: str
    size: int = 1


class Shout(ValueError):
    def errors(self, *, include_url):
        return [{"loc": ("size",), "msg": "too loud"}]


class Model:
    """In the shape of a pydantic model."""

    def __init__(self, size):
        self.size = size

    @classmethod
    def model_validate(cls, value):
        if value["size"] > 10:
            raise Shout
        return cls(value["size"])

    @classmethod
    def model_json_schema(cls, ref_template):
        inner = {"type": "integer", "maximum": 10}
        return {
            "type": "object",
            "properties": {"size": {"$ref": ref_template.format(model="Size")}},
            "$defs": {"Size": inner},
        }


def none(): ...
def one(x): ...
def three(x: int, y: str, z: float = 1.5): ...
def ctx_last(x, y, ctx): ...
def ctx_first(ctx, x, y): ...
def ctx_middle(x, ctx, y): ...
def ctx_only(ctx): ...
def ctx_keyword(x, *, y, ctx): ...
def keyword_only(x, *, y): ...
def positional_only(x, /, y): ...
def with_more(x, **more: int): ...
def with_more_and_ctx(x, ctx, /, **more): ...


@pytest.mark.parametrize(
    ("shape", "raw", "args", "kwargs"),
    [
        (none, b"{}", (), {}),
        (one, b'{"x":[1]}', ([1],), {}),
        (three, b'{"y":"b","x":1}', (1, "b", 1.5), {}),
        (ctx_last, b'{"x":1,"y":2}', (1, 2, "CTX"), {}),
        (ctx_first, b'{"x":1,"y":2}', ("CTX", 1, 2), {}),
        (ctx_middle, b'{"x":1,"y":2}', (), {"x": 1, "y": 2, "ctx": "CTX"}),
        (ctx_only, b"{}", ("CTX",), {}),
        (ctx_keyword, b'{"x":1,"y":2}', (), {"x": 1, "y": 2, "ctx": "CTX"}),
        (keyword_only, b'{"x":1,"y":2}', (), {"x": 1, "y": 2}),
        (positional_only, b'{"x":1,"y":2}', (1, 2), {}),
        (with_more, b'{"x":1,"y":2,"z":3}', (), {"x": 1, "y": 2, "z": 3}),
        (with_more_and_ctx, b'{"x":1,"ctx2":2}', (1, "CTX"), {"ctx2": 2}),
    ],
)
def test_each_shape_of_signature_is_called_with_what_it_declares(shape, raw, args, kwargs):
    def record(*args, **kwargs):
        return args, kwargs

    record.__dict__["__signature__"] = inspect.signature(shape)
    recorder = tool(record)
    assert recorder.invoke(recorder.decode(raw), "CTX") == (args, kwargs)
    made = tool(shape)
    made.invoke(made.decode(raw), "CTX")  # the real one takes it so


@tool
def typed(
    x: int,
    color: Color = Color.RED,
    mode: Literal["a", "b"] = "a",
    place: Place | None = None,
    day: date | None = None,
    items: list[int] = [1, 2],  # noqa: B006
):
    return x, color, mode, place, day, items


def test_arguments_arrive_as_the_types_they_are_declared_with(context):
    raw = codec.encode({"x": 1, "color": "blue", "place": {"name": "n"}, "day": "2024-02-29"})
    result = typed.invoke(typed.decode(raw), context)
    assert result == (1, Color.BLUE, "a", Place("n"), date(2024, 2, 29), [1, 2])


def test_a_default_changed_by_one_call_is_not_seen_by_the_next(context):
    first = typed.invoke(typed.decode(b'{"x":1}'), context)[-1]
    first.append(99)
    assert typed.invoke(typed.decode(b'{"x":1}'), context)[-1] == [1, 2]
    assert inspect.signature(typed.function).parameters["items"].default == [1, 2]


def test_a_default_that_is_no_json_stays_the_very_same_object(context):
    nothing = object()

    @tool
    def f(x: Any = nothing):
        return x is nothing

    assert f.invoke(f.decode(b"{}"), context)


@tool(name="more")
def more(x: int, **rest: int): ...


@tool(name="nothing")
def nothing(): ...


@pytest.mark.parametrize(
    ("made", "raw", "message"),
    [
        (typed, b"{}", "typed: argument 'x' is missing (at $); it takes x, color, mode, place, day, items"),
        (
            typed,
            b'{"x":1,"y":2}',
            "typed: no argument 'y' (at $); it takes x, color, mode, place, day, items",
        ),
        (typed, b'{"x":"1"}', "typed: argument 'x': expected int, got str (at $.x)"),
        (typed, b'{"x":null}', "typed: argument 'x': expected int, got null (at $.x)"),
        (typed, b'{"x":1.5}', "typed: argument 'x': expected int, got float (at $.x)"),
        (typed, b'{"x":true}', "typed: argument 'x': expected int, got bool (at $.x)"),
        (
            typed,
            b'{"x":1,"mode":"c"}',
            "typed: argument 'mode': invalid enum value 'c' (at $.mode); allowed: 'a', 'b'",
        ),
        (
            typed,
            b'{"x":1,"color":"c"}',
            "typed: argument 'color': invalid enum value 'c' (at $.color); allowed: 'red', 'blue'",
        ),
        (
            typed,
            b'{"x":1,"place":{"name":1}}',
            "typed: argument 'place': expected str, got int (at $.place.name)",
        ),
        (
            typed,
            b'{"x":1,"place":{}}',
            "typed: argument 'place': Object missing required field name (at $.place)",
        ),
        (typed, b'{"x":1,"items":[1,"b"]}', "typed: argument 'items': expected int, got str (at $.items[1])"),
        (more, b'{"x":1,"a":1,"b":"2"}', "more: argument 'b': expected int, got str (at $.b)"),
        (more, b'{"x":1,"a":{"c":1}}', "more: argument 'a': expected int, got object (at $.a)"),
        (more, b'{"a":1}', "more: argument 'x' is missing (at $); it takes x"),
        (nothing, b'{"x":1}', "nothing: no argument 'x' (at $); it takes no arguments"),
    ],
)
def test_a_wrong_argument_is_named_with_what_was_expected_and_what_came(made, raw, message):
    with pytest.raises(ToolError) as caught:
        made.decode(raw)
    assert str(caught.value) == message
    assert caught.value.category == "invalid_input"


def test_a_huge_wrong_value_does_not_make_a_huge_message():
    raw = codec.encode({"x": 1, "mode": "q" * 1_000_000})
    with pytest.raises(ToolError) as caught:
        typed.decode(raw)
    assert len(str(caught.value)) < 1000


def test_pydantic_models_are_built_by_their_own_validation(context):
    @tool
    def f(model: Model, models: list[Model] = []):  # noqa: B006
        return model.size, [m.size for m in models]

    assert f.spec.parameters["properties"]["model"]["properties"]["size"] == {"$ref": "#/$defs/Model.Size"}
    assert f.spec.parameters["$defs"] == {"Model.Size": {"type": "integer", "maximum": 10}}
    raw = b'{"model":{"size":1},"models":[{"size":2}]}'
    assert f.invoke(f.decode(raw), context) == (1, [2])
    with pytest.raises(ToolError, match=r"argument 'models': size: too loud \(at \$\.models\[0\]\)"):
        f.decode(b'{"model":{"size":1},"models":[{"size":20}]}')


def test_real_pydantic_models_work(context):
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Inner", n=(int, ...))
    outer = pydantic.create_model("Outer", inner=(inner, ...))

    def f(x):
        return x

    f.__annotations__ = {"x": outer, "return": outer}
    made = tool(f)
    assert made.spec.parameters["$defs"]["Outer.Inner"]["properties"]["n"]["type"] == "integer"
    assert codec.encode(made.invoke(made.decode(b'{"x":{"inner":{"n":1}}}'), context)) == b'{"inner":{"n":1}}'
    with pytest.raises(ToolError, match=r"argument 'x': inner\.n: .*integer"):
        made.decode(b'{"x":{"inner":{"n":"a"}}}')


def test_a_pydantic_model_is_stored_under_the_names_its_schema_has(context):
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", two_words=(int, pydantic.Field(alias="twoWords")))

    def f(x):
        return x

    f.__annotations__ = {"x": model, "return": model}
    made = tool(f)
    assert list((made.spec.returns or {})["properties"]) == ["twoWords"]
    assert codec.encode(made.invoke(made.decode(b'{"x":{"twoWords":1}}'), context)) == b'{"twoWords":1}'


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), json_values, max_size=4), json_values)
def test_any_json_value_reaches_an_untyped_parameter_unchanged(more, x):
    @tool
    def f(x, **rest):
        return x, rest

    rest = {name: value for name, value in more.items() if name != "x"}
    raw = codec.encode({**rest, "x": x})
    assert f.invoke(f.decode(raw), None) == (codec.decode(codec.encode(x)), codec.decode(codec.encode(rest)))


@given(json_values)
def test_arguments_of_any_shape_are_taken_or_refused_and_nothing_else(value):
    with contextlib.suppress(ToolError):
        typed.decode(codec.encode({"x": value, "place": value}))


def test_async_functions_give_their_coroutine():
    @tool
    async def f(x: int) -> int:
        return x + 1

    assert asyncio.run(f.invoke(f.decode(b'{"x":1}'), None)) == 2


def test_the_struct_of_one_call_is_not_shared_with_the_next():
    made = tool(one)
    first, second = made.decode(b'{"x":[]}'), made.decode(b'{"x":[]}')
    assert isinstance(first, msgspec.Struct)
    assert first is not second
    assert first.x is not second.x  # type: ignore[attr-defined]
