"""What a struct or enumeration says of itself: types in words, defaults, the text below each field."""

from __future__ import annotations

import ast
import inspect
import textwrap
from itertools import pairwise
from typing import Any

import msgspec
from msgspec.inspect import (
    AnyType,
    BoolType,
    DictType,
    Field,
    FloatType,
    IntType,
    ListType,
    LiteralType,
    NoneType,
    StrType,
    StructType,
    Type,
    UnionType,
    VarTupleType,
)
from pages import code, listed


def docs_of(kind: type) -> dict[str, str]:
    """The text that stands below each field or member in the source."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    found: dict[str, str] = {}
    for field, text in pairwise(body.body if isinstance(body, ast.ClassDef) else ()):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = " ".join(words.split())
            case _:
                continue
    return found


def attributes_of(kind: type) -> dict[str, str]:
    """The public attributes that `__init__` gives an instance, and the text that stands below each."""
    init = vars(kind).get("__init__")
    if not inspect.isfunction(init):
        return {}
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(init))).body
    found: dict[str, str] = {}
    for line, below in pairwise([*getattr(body, "body", ()), ast.Pass()]):
        match line:
            case (
                ast.AnnAssign(target=ast.Attribute(ast.Name("self"), name))
                | ast.Assign(targets=[ast.Attribute(ast.Name("self"), name)])
            ) if not name.startswith("_"):
                text = below.value if isinstance(below, ast.Expr) else None
                said = text.value if isinstance(text, ast.Constant) else ""
                found[name] = " ".join(str(said).split())
            case _:
                continue
    return found


def default_of(field: Field) -> str:
    """A field's default as it would be written in a plan."""
    if field.required:
        return "needed"
    if field.default_factory is not msgspec.NODEFAULT:
        value: Any = field.default_factory()
    else:
        value = field.default
    if value in (msgspec.UNSET, msgspec.NODEFAULT, None, {}, (), ""):
        return ""
    return code(msgspec.json.encode(value).decode())


_WORDS: dict[type[Type], str] = {
    AnyType: "any value",
    BoolType: "true or false",
    DictType: "map",
    FloatType: "number",
    IntType: "whole number",
    StrType: "text",
}


def type_words(kind: Type) -> str:
    """A type in words."""
    match kind:
        case UnionType():
            return " or ".join(type_words(one) for one in kind.types if not isinstance(one, NoneType))
        case StructType():
            return kind.cls.__name__
        case LiteralType():
            return "one of " + listed(kind.values)
        case VarTupleType() | ListType():
            return f"list of {_plural(kind.item_type)}"
        case DictType():
            return f"map of {_plural(kind.value_type)}"
        case IntType() | FloatType():
            return _WORDS[type(kind)] + _range(kind)
        case _:
            return _WORDS.get(type(kind), "value")


def _plural(kind: Type) -> str:
    words = type_words(kind)
    if isinstance(kind, LiteralType):
        return words
    return f"{words}s" if isinstance(kind, StrType | AnyType | FloatType | IntType) else words


def _range(kind: IntType | FloatType) -> str:
    low = f"from {kind.ge:g}" if kind.ge is not None else f"above {kind.gt:g}" if kind.gt is not None else ""
    high = f"to {kind.le:,.0f}" if kind.le is not None else ""
    return f" {low} {high}".rstrip() if low or high else ""
