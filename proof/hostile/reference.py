"""A second evaluator of the expression language: Python's own parser, and the meaning written anew.

It knows nothing of kedge: precedence is Python's, and each rule below is taken from the language's page,
not from the code. It only serves where both grammars take a text; what ours refuses needs no second
opinion, and what Python's refuses (`a.if`) gets none.
"""

from __future__ import annotations

import ast
import json
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

INT_MIN, INT_MAX = -(2**63), 2**64 - 1
CONSTANTS = {"true": True, "false": False, "null": None}


class Refused(Exception):
    """The language gives it no value."""


class NoOpinion(Exception):
    """The reference cannot say."""


def evaluate(text: str, data: dict[str, Any]) -> Any:
    """The value of `text`. Refused if it has none, NoOpinion where Python's grammar is another."""
    try:
        tree = ast.parse(f"({text}\n)", mode="eval")
        return _value(tree.body, data)
    except (SyntaxError, MemoryError, RecursionError, ValueError) as error:
        raise NoOpinion(str(error)) from None


def _value(node: ast.expr, data: dict[str, Any]) -> Any:
    match node:
        case ast.Constant(value=int() | float() | str() as constant):
            return constant
        case ast.Name(id=name):
            return _name(name, data)
        case ast.Attribute(value=holder, attr=key):
            return _item(_value(holder, data), key)
        case ast.Subscript(value=holder, slice=ast.Slice(lower=lower, upper=upper)):
            value = _value(holder, data)
            return _cut(value, *(None if end is None else _value(end, data) for end in (lower, upper)))
        case ast.Subscript(value=holder, slice=index):
            return _item(_value(holder, data), _value(index, data))
        case ast.List(elts=items):
            return [_value(item, data) for item in items]
        case ast.Dict(keys=keys, values=values):
            return {_value(k, data): _value(v, data) for k, v in zip(keys, values, strict=True) if k}
        case ast.Call(func=ast.Name(id="present"), args=[path]):
            return _is_present(path, data)
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _fits(FUNCTIONS[name](*(_value(one, data) for one in arguments)))
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return _fits(-_number(_value(operand, data)))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return not _truth(_value(operand, data))
        case ast.BoolOp(op=op, values=values):
            decisive = isinstance(op, ast.Or)
            return decisive if any(_truth(_value(v, data)) is decisive for v in values) else not decisive
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _compare(op, _value(left, data), _value(right, data))
        case ast.BinOp(left=left, op=op, right=right):
            return _arithmetic(op, _value(left, data), _value(right, data))
        case ast.IfExp(test=test, body=then, orelse=otherwise):
            return _value(then if _truth(_value(test, data)) else otherwise, data)
        case _:
            raise NoOpinion(type(node).__name__)


def _name(name: str, data: dict[str, Any]) -> Any:
    if name in CONSTANTS:
        return CONSTANTS[name]
    if name not in data:
        raise Refused(name)
    return data[name]


def _item(holder: Any, key: Any) -> Any:
    if isinstance(holder, dict) and isinstance(key, str) and key in holder:
        return holder[key]
    if isinstance(holder, list | str) and type(key) is int and -len(holder) <= key < len(holder):
        return holder[key]
    raise Refused(key)


def _cut(value: Any, lower: Any, upper: Any) -> Any:
    if not isinstance(value, list | str) or {type(lower), type(upper)} - {int, type(None)}:
        raise Refused("slice")
    return value[lower:upper]


def _is_present(path: ast.expr, data: dict[str, Any]) -> bool:
    match path:
        case ast.Attribute(value=holder, attr=key):
            at: Any = key
        case ast.Subscript(value=holder, slice=index):
            at = _value(index, data)
        case ast.Name(id=name):
            return data.get(name) is not None
        case _:
            raise NoOpinion("present")
    if not _is_present(holder, data):
        return False
    value = _value(holder, data)
    fits = isinstance(value, dict) if isinstance(at, str) else isinstance(value, list | str)
    if not fits:
        raise Refused("present")
    try:
        return _item(value, at) is not None
    except Refused:
        return False


def _truth(value: Any) -> bool:
    if not isinstance(value, bool):
        raise Refused("truth")
    return value


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


def _number(value: Any) -> Any:
    if not _is_number(value):
        raise Refused("number")
    return value


def _fits(value: Any) -> Any:
    if type(value) is int and not INT_MIN <= value <= INT_MAX:
        raise Refused("overflow")
    if type(value) is float and not math.isfinite(value):
        raise Refused("overflow")
    return value


_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_ORDERS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip


def _arithmetic(op: ast.operator, left: Any, right: Any) -> Any:
    if isinstance(op, ast.Add) and type(left) is type(right) and type(left) in (str, list):
        return left + right
    try:
        return _fits(_OPERATORS[type(op)](_number(left), _number(right)))
    except (ZeroDivisionError, OverflowError):
        raise Refused("arithmetic") from None


def _compare(op: ast.cmpop, left: Any, right: Any) -> bool:
    if type(op) in _ORDERS:
        if (_is_number(left) and _is_number(right)) or (isinstance(left, str) and isinstance(right, str)):
            return _ORDERS[type(op)](left, right)
        raise Refused("order")
    if isinstance(op, ast.In | ast.NotIn):
        return _holds(right, left) is isinstance(op, ast.In)
    return _equal(left, right) is isinstance(op, ast.Eq)


def _holds(holder: Any, item: Any) -> bool:
    if isinstance(holder, list):
        return any(_equal(item, one) for one in holder)
    if isinstance(holder, str | dict) and isinstance(item, str):
        return item in holder
    raise Refused("in")


def _equal(left: Any, right: Any) -> bool:
    if _is_number(left) and _is_number(right):
        return left == right
    if type(left) is not type(right):
        return False
    if isinstance(left, list):
        return len(left) == len(right) and all(map(_equal, left, right))
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(_equal(left[key], right[key]) for key in left)
    return left == right


def _size(value: Any) -> int:
    if not isinstance(value, str | list | dict):
        raise Refused("len")
    return len(value)


def _extreme(pick: Callable[[Any], Any]) -> Callable[..., Any]:
    def run(*arguments: Any) -> Any:
        items = arguments[0] if len(arguments) == 1 else arguments
        if isinstance(items, str | dict) or not isinstance(items, list | tuple) or not items:
            raise Refused("extreme")
        if not (all(map(_is_number, items)) or all(isinstance(item, str) for item in items)):
            raise Refused("extreme")
        return pick(items)

    return run


def _sum(items: Any) -> Any:
    if not isinstance(items, list) or not all(map(_is_number, items)):
        raise Refused("sum")
    if all(type(item) is int for item in items):
        return sum(items)
    try:
        return float(sum(map(Fraction, items)))
    except OverflowError:
        raise Refused("sum") from None


def _every(pick: Callable[[Any], bool]) -> Callable[[Any], bool]:
    def run(items: Any) -> bool:
        if not isinstance(items, list) or not all(isinstance(item, bool) for item in items):
            raise Refused("any")
        return pick(items)

    return run


def _round(value: Any, *decimals: Any) -> Any:
    _number(value)
    if any(type(one) is not int or abs(one) > 22 for one in decimals):
        raise Refused("round")
    try:
        return round(value, *decimals)
    except OverflowError:
        raise Refused("round") from None


def _str(value: Any) -> str:
    if isinstance(value, str):
        return value
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    if "." in text or "e" in text or not text.isprintable():
        raise NoOpinion("JSON can be written in several ways")
    return text


def _int(value: Any) -> int:
    if isinstance(value, str) and re.fullmatch(r"[ \t]*[+-]?[0-9]{1,20}[ \t]*", value) and len(value) <= 64:
        return int(value)
    if isinstance(value, bool | int | float):
        return int(value)
    raise Refused("int")


def _float(value: Any) -> float:
    shape = r"[ \t]*[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?[ \t]*"
    if isinstance(value, str) and not (re.fullmatch(shape, value) and len(value) <= 64):
        raise Refused("float")
    if isinstance(value, bool | int | float | str):
        return float(value)
    raise Refused("float")


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Refused("text")
    return value


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "len": _size, "min": _extreme(min), "max": _extreme(max), "sum": _sum,
    "any": _every(any), "all": _every(all), "abs": lambda value: abs(_number(value)), "round": _round,
    "str": _str, "int": _int, "float": _float, "bool": bool,
    "lower": lambda value: _text(value).lower(), "upper": lambda value: _text(value).upper(),
    "startswith": lambda text, start: _text(text).startswith(_text(start)),
    "endswith": lambda text, end: _text(text).endswith(_text(end)),
}  # fmt: skip
