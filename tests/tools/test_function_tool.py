from __future__ import annotations

import asyncio
import dataclasses
import enum
import functools
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import msgspec
import pytest

from kedge.base.errors import BadInput
from kedge.plan.model import Retry
from kedge.tools import arguments
from kedge.tools.context import Context
from kedge.tools.function import tool
from kedge.tools.tool import Tool

if TYPE_CHECKING:
    from decimal import Decimal as Absent  # any type: at run time the name is not there


class Node(msgspec.Struct):
    """A type that holds itself."""

    name: str
    children: list[Node] = []


class Arguments(msgspec.Struct):
    """Named like the type that holds the arguments."""

    x: int


class Leaf(msgspec.Struct):
    n: int


LEAF = {
    "$ref": "#/$defs/Leaf",
    "$defs": {
        "Leaf": {
            "title": "Leaf",
            "type": "object",
            "properties": {"n": {"type": "integer"}},
            "required": ["n"],
        }
    },
}


@tool(effect="pure", timeout_s=30, retry=Retry(attempts=3))
async def double(x: int, ctx: Context) -> int:
    """Double a number.

    Args:
        x: the number
    """
    return 2 * x


def test_a_decorated_function_says_everything_about_itself():
    spec = double.spec
    assert (spec.name, spec.description, spec.effect) == ("double", "Double a number.", "pure")
    assert (spec.timeout_s, spec.retry, spec.isolation) == (30, Retry(attempts=3), "none")
    assert spec.parameters == {
        "type": "object",
        "properties": {"x": {"type": "integer", "description": "the number"}},
        "required": ["x"],
        "additionalProperties": False,
    }
    assert spec.returns == {"type": "integer"}
    assert (double.is_async, double.wants_context) == (True, True)
    assert "double" in repr(double)


def test_a_decorated_function_is_still_that_function():
    assert asyncio.run(double(4, None)) == 8
    assert (double.__name__, (double.__doc__ or "")[:16]) == ("double", "Double a number.")
    assert double.__module__ == __name__


def test_a_bare_decorator_takes_the_careful_defaults():
    @tool
    def touch():
        """Touch."""

    assert isinstance(touch, Tool)
    assert (touch.spec.effect, touch.spec.isolation, touch.spec.available) == ("effect", "thread", True)
    assert touch.spec.returns is None
    assert (touch.is_async, touch.wants_context) == (False, False)


def of(function: Callable[..., Any]) -> dict[str, Any]:
    return tool(function).spec.parameters["properties"]


def test_defaults_and_types_become_schema():
    @dataclasses.dataclass
    class Local:
        a: int

    class Color(enum.Enum):
        RED = "red"

    def f(a, b: str = "x", c: int = 0, d: list[int] = [1], e: Literal["p", "q"] = "p", f: object = 1): ...  # noqa: B006

    f.__defaults__ = ("x", None, *(f.__defaults__ or ())[2:])  # "c: int = None", as many still write it
    assert of(f) == {
        "a": {},
        "b": {"type": "string", "default": "x"},
        "c": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
        "d": {"type": "array", "items": {"type": "integer"}, "default": [1]},
        "e": {"enum": ["p", "q"], "default": "p"},
        "f": {"default": 1},
    }

    def g(
        local: Local, color: Color = Color.RED, n: Annotated[int, msgspec.Meta(ge=1, description="own")] = 1
    ):
        """Do.

        n: from the docstring
        """

    spec = tool(g).spec.parameters
    assert spec["properties"]["n"] == {"type": "integer", "minimum": 1, "description": "own", "default": 1}
    assert spec["properties"]["local"] == {"$ref": "#/$defs/Local"}
    assert spec["$defs"]["Local"]["properties"] == {"a": {"type": "integer"}}
    assert spec["$defs"]["Color"]["enum"] == ["red"]
    assert spec["required"] == ["local"]


def test_types_that_hold_themselves_or_share_the_struct_s_name_stay_apart():
    def f(node: Node, arguments: Arguments): ...

    spec = tool(f).spec.parameters
    names = [p["$ref"].removeprefix("#/$defs/") for p in spec["properties"].values()]
    assert set(names) == set(spec["$defs"])
    assert spec["$defs"][names[0]]["properties"]["children"]["items"] == {"$ref": f"#/$defs/{names[0]}"}
    assert list(spec["$defs"][names[1]]["properties"]) == ["x"]


@pytest.mark.parametrize(
    ("annotation", "returns"),
    [
        ("None", {"type": "null"}),
        ("Any", None),
        ("list[str]", {"type": "array", "items": {"type": "string"}}),
        ("Callable[[], int]", None),
        ("Leaf", LEAF),
    ],
)
def test_the_result_s_schema_is_what_the_annotation_tells(annotation, returns):
    def f(): ...

    f.__annotations__["return"] = annotation
    assert tool(f).spec.returns == returns


class Pair(NamedTuple):
    """A row, and a list as msgspec writes it."""

    m: int
    inner: Leaf | None = None


class Tagged(msgspec.Struct, tag="t", rename="camel"):
    """Not what its fields are called."""

    two_words: int


class Row(msgspec.Struct, array_like=True):
    """A struct that is a list."""

    a: int
    b: str


class TaggedRow(msgspec.Struct, array_like=True, tag=True):
    """A list that starts with its tag."""

    a: int


@pytest.mark.parametrize(
    ("value", "stored", "kind"),
    [
        (Pair(1, Leaf(2)), [1, {"n": 2}], "array"),
        (Tagged(3), {"type": "t", "twoWords": 3}, "object"),
        (Row(4, "b"), [4, "b"], "array"),
        (TaggedRow(5), ["TaggedRow", 5], "array"),
    ],
)
def test_a_result_is_stored_in_the_shape_that_its_schema_says(call, value, stored, kind):
    def f(): ...

    f.__annotations__["return"] = type(value)
    shape = tool(f).spec.returns or {}
    assert call(tool(name="g")(lambda: value)) == stored
    assert shape.get("$defs", {}).get(type(value).__name__, shape)["type"] == kind
    assert msgspec.convert(stored, type(value)) == value


@pytest.mark.parametrize("annotation", ["Context", "Context | None", "Absent", "int"])
def test_ctx_is_left_out_whatever_its_annotation(annotation):
    def f(x: int, ctx): ...

    f.__annotations__["ctx"] = annotation
    assert list(of(f)) == ["x"]
    assert tool(f).wants_context


def test_a_context_by_annotation_may_have_any_name():
    def f(x: int, *, run: Context | None = None): ...

    assert list(of(f)) == ["x"]


def test_functions_in_functions_see_the_classes_around_them():
    class Inner(msgspec.Struct):
        a: int

    def make():
        @tool(name="inner.use")
        def use(x: Inner) -> Inner:
            return x

        return use

    made = make()
    assert made.decode(b'{"x":{"a":1}}').x == Inner(1)


def test_partials_methods_and_callable_objects_are_tools():
    class Greeter:
        def hello(self, name: str) -> str:
            """Greet."""
            return f"hello {name}"

        async def __call__(self, name: str) -> str:
            return f"called {name}"

    made = tool(Greeter().hello)
    assert (made.spec.name, made.spec.description, list(made.spec.parameters["properties"])) == (
        "hello",
        "Greet.",
        ["name"],
    )
    called = tool(name="greeter")(Greeter())
    assert called.is_async
    assert asyncio.run(called.invoke(called.decode(b'{"name":"a"}'), None)) == "called a"
    part = tool(name="part")(functools.partial(Greeter().hello, name="x"))
    assert part.invoke(part.decode(b"{}"), None) == "hello x"


def test_unavailable_tools_say_why():
    @tool(available="needs a GPU")
    def f(): ...

    @tool(available=False)
    def g(): ...

    assert (f.spec.available, f.spec.unavailable_because) == (False, "needs a GPU")
    assert (g.spec.available, bool(g.spec.unavailable_because)) == (False, True)


class At:
    """As the package annotated-types has them."""

    def __init__(self, **given: Any) -> None:
        vars(self).update(given)


class Field:
    """As pydantic's, which holds constraints of that kind."""

    def __init__(self, metadata: list[Any]) -> None:
        self.metadata = metadata


class Thing:
    """Functions in a class."""

    def method(self, x: int): ...

    @staticmethod
    def made(x: int): ...


def _args(*args): ...
def _generator():
    yield 1


async def _async_generator():
    yield 1


def _iterable(x: Iterable[int]): ...
def _complex(x: complex): ...
def _absent(x: Absent): ...
def _path(x: Path): ...
def _foreign(x: list[Annotated[int, At(ge=1)]] | None): ...
def _foreign_field(x: Annotated[str, Field([At(pattern="a+")])]): ...
def _described(x: Annotated[int, "a word", Field([]), msgspec.Meta(ge=1)]): ...
def _two_kinds(x: list[int] | tuple[int, int]): ...
def _broken(x): ...
def _fine(): ...


_broken.__annotations__["x"] = "1 + 'a'"


@pytest.mark.parametrize(
    ("function", "settings", "code", "says"),
    [
        (_args, {}, "tool_signature", r"takes \*args"),
        (_generator, {}, "tool_signature", "generator"),
        (_async_generator, {}, "tool_signature", "generator"),
        (_iterable, {}, "tool_annotation", "Iterable"),
        (_complex, {}, "tool_annotation", "complex"),
        (_absent, {}, "tool_annotation", "parameter 'x' of tool '_absent'.*'Absent' is not defined"),
        (_path, {}, "tool_annotation", "Path cannot be made.*take str and make it in the function"),
        (_foreign, {}, "tool_annotation", r"'x' of tool '_foreign' has a constraint.*msgspec\.Meta\(ge=1\)"),
        (_foreign_field, {}, "tool_annotation", "constraint that is not checked"),
        (_described, {}, None, ""),
        (Thing.method, {}, "tool_signature", r"method of Thing, .*'self'.*kedge\.tool\(thing\.method\)"),
        (Thing.made, {}, None, ""),
        (Thing().method, {}, None, ""),
        (_two_kinds, {}, "tool_annotation", "unions"),
        (_broken, {}, "tool_annotation", "cannot be resolved"),
        (lambda: 1, {}, "tool_name", "'<lambda>'"),
        (_fine, {"name": ""}, None, ""),
        (_fine, {"name": "a b"}, "tool_name", "'a b'"),
        (_fine, {"name": "../x"}, "tool_name", "x"),
        (_fine, {"name": "a" * 1000}, "tool_name", "128"),
        (_fine, {"name": "a.b/c-d_e"}, None, ""),
        (_fine, {"effect": "none"}, "tool_setting", "idempotent"),
        (_fine, {"isolation": "thread"}, "tool_setting", "thread"),
        (_fine, {"timeout_s": 0}, "tool_setting", "timeout_s"),
        (_fine, {"timeout_s": float("nan")}, "tool_setting", "timeout_s"),
        (_fine, {"parallel": True}, "tool_setting", "parallel"),
        (_fine, {"parallel": 1.5}, "tool_setting", "parallel"),
        (_fine, {"resources": "gpu"}, "tool_setting", "resources"),
        (_fine, {"timeout_s": float("inf")}, "tool_setting", "at most 31622400, not inf"),
        (_fine, {"retry": 3}, "tool_setting", "retry must be a kedge.Retry, not 3"),
        (_fine, {"retry": {"attempts": 3}}, "tool_setting", "must be a kedge.Retry"),
        (_fine, {"retry": Retry(attempts=-5)}, "tool_setting", r"int >= 1 - at \$\.attempts"),
        (_fine, {"retry": Retry(attempts=1001)}, "tool_setting", "attempts"),
        (_fine, {"retry": Retry(backoff_s=float("nan"))}, "tool_setting", r"null - at \$\.backoff_s"),
        (_fine, {"retry": Retry(backoff_s=-1)}, "tool_setting", "backoff_s"),
        (_fine, {"retry": Retry(max_backoff_s=float("inf"))}, "tool_setting", "max_backoff_s"),
        (_fine, {"retry": Retry(on=("sometimes",))}, "tool_setting", "'sometimes'"),  # type: ignore[arg-type]
        (_fine, {"retry": Retry(on="timeout")}, "tool_setting", r"\$\.on"),  # type: ignore[arg-type]
        (_fine, {"retry": Retry(backoff_s=object())}, "tool_setting", "retry"),  # type: ignore[arg-type]
        (_fine, {"retry": Retry(attempts=1000, backoff_s=0, on=("permanent",))}, None, ""),
        (int, {"name": "x"}, "not_a_tool", "function"),
        (3, {"name": "x"}, "not_a_tool", "3"),
        (double, {}, "not_a_tool", "already"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_with_a_remedy(function, settings, code, says):
    if code is None:
        tool(**settings)(function)
        return
    with pytest.raises(BadInput, match=says) as caught:
        tool(**settings)(function)
    assert caught.value.code == code


def test_a_tool_put_together_by_hand_is_held_to_the_same_settings():
    made = tool(_fine)
    spec = msgspec.structs.replace(made.spec, retry=Retry(attempts=0))
    with pytest.raises(BadInput, match="retry") as caught:
        Tool(_fine, spec, arguments.Arguments(_fine, "_fine"), made.source)
    assert (caught.value.code, caught.value.where) == ("tool_setting", "tool _fine")


def test_every_default_that_json_can_hold_is_in_the_schema():
    class Color(enum.Enum):
        RED = "red"

    def f(
        color: Color = Color.RED,
        some: list[int] = [1],  # noqa: B006
        leaf: Leaf = Leaf(2),  # noqa: B008
        none: dict[str, int] = {},  # noqa: B006
        row: tuple[int, ...] = (3,),
        left: str | None = None,
        odd: Any = object(),  # noqa: B008
    ): ...

    defaults = {name: shape["default"] for name, shape in of(f).items() if "default" in shape}
    assert defaults == {"color": "red", "some": [1], "leaf": {"n": 2}, "none": {}, "row": [3], "left": None}


def test_a_process_tool_must_be_findable_from_another_process():
    @tool
    def inside(): ...

    assert not inside.source.findable
    with pytest.raises(BadInput, match="made inside a function") as caught:
        tool(isolation="process")(inside.function)
    assert caught.value.code == "tool_isolation"
    assert tool(isolation="process")(_fine).spec.isolation == "process"


def test_a_definition_s_hash_is_the_same_each_time_and_follows_the_schema():
    def f(x: int): ...
    def g(x: str): ...

    hashes = {tool(name="f")(function).spec.definition_hash for function in (f, f, g)}
    assert len(hashes) == 2
