"""The functions of the language: these, and no others, can be called."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import Any

import msgspec

from kedge.base.codec import encode
from kedge.base.errors import ExpressionError, NotSerializable
from kedge.plan.expr.faults import describe, kind_of
from kedge.plan.expr.operators import BLOCK_BITS, Frame, Site, fault, fitting, is_number, wrong_type

_WHOLE = re.compile(r"[ \t]*+([+-]?[0-9]{1,20})[ \t]*+")
_FRACTION = re.compile(r"[ \t]*+([+-]?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?)[ \t]*+")
_DECIMALS_MAX = 22


class Function(msgspec.Struct, frozen=True):
    """One function: how many arguments it takes, how it is written, what it does."""

    fewest: int
    most: int
    usage: str
    run: Callable[[Frame, list[Any], Site], Any]


def text_of(value: Any) -> str:
    """A value as text: texts as they are, everything else as canonical JSON."""
    if type(value) is str:
        return value
    try:
        return encode(value).decode()
    except NotSerializable as error:
        raise ExpressionError(
            f"a value has no text: {error.message}", code="expr_no_text", remedy=error.remedy
        ) from None


def _len(_frame: Frame, arguments: list[Any], site: Site) -> int:
    (value,) = arguments
    kind = kind_of(value)
    if kind is str or kind is list or kind is dict:
        return len(value)
    raise wrong_type(site, "a text, list or map", value)


def _extreme(pick: Callable[[list[Any]], Any], word: str) -> Callable[[Frame, list[Any], Site], Any]:
    def run(frame: Frame, arguments: list[Any], site: Site) -> Any:
        items = arguments
        if len(arguments) == 1:
            items = _list(frame, arguments[0], site)
        if not items:
            raise fault(
                site,
                "expr_empty_list",
                f"has no {word}: the list is empty",
                "guard it, as in `… if len(x) > 0 else null`",
            )
        if all(map(is_number, items)) or all(type(item) is str for item in items):
            return pick(items)
        odd = next((item for item in items if not is_number(item)), None)
        raise fault(
            site,
            "expr_type",
            f"needs only numbers or only texts, and has {describe(odd)} among them",
            "leave the others out",
        )

    return run


def _sum(frame: Frame, arguments: list[Any], site: Site) -> Any:
    items = _list(frame, arguments[0], site)
    for index, item in enumerate(items):
        if not is_number(item):
            raise fault(
                site,
                "expr_type",
                f"adds numbers, and item {index} is {describe(item)}",
                "leave the others out",
            )
    if all(type(item) is int for item in items):
        return fitting(sum(items), site)
    try:
        return fitting(math.fsum(items), site)  # exact, so the same on every Python version
    except (OverflowError, ValueError):
        return fitting(math.inf, site)


def _any(frame: Frame, arguments: list[Any], site: Site) -> bool:
    return any(_booleans(frame, arguments[0], site))


def _all(frame: Frame, arguments: list[Any], site: Site) -> bool:
    return all(_booleans(frame, arguments[0], site))


def _abs(_frame: Frame, arguments: list[Any], site: Site) -> Any:
    (value,) = arguments
    if not is_number(value):
        raise wrong_type(site, "a number", value)
    return fitting(abs(value), site)


def _round(_frame: Frame, arguments: list[Any], site: Site) -> Any:
    value, *more = arguments
    if not is_number(value):
        raise wrong_type(site, "a number", value)
    if not more:
        return (
            fitting(round(value), site)
            if type(value) is int or math.isfinite(value)
            else fitting(value, site)
        )
    (decimals,) = more
    if type(decimals) is not int or abs(decimals) > _DECIMALS_MAX:
        raise wrong_type(site, f"a whole number of decimals up to {_DECIMALS_MAX}", decimals)
    return fitting(round(value, decimals), site)


def _str(frame: Frame, arguments: list[Any], site: Site) -> str:
    (value,) = arguments
    frame.spend(_json_size(frame, value, site), site)
    return text_of(value)


def _int(_frame: Frame, arguments: list[Any], site: Site) -> int:
    (value,) = arguments
    kind = kind_of(value)
    if kind is int or kind is bool:
        return int(value)
    if kind is float and math.isfinite(value):
        return int(fitting(int(value), site))
    if kind is str and len(value) <= 64 and (match := _WHOLE.fullmatch(value)):
        return int(fitting(int(match[1]), site))
    raise fault(
        site,
        "expr_conversion" if kind is str else "expr_type",
        f"makes no whole number of {_content(value)}",
        "it reads numbers and texts such as 42; for 4.2 write int(float(x))",
    )


def _float(_frame: Frame, arguments: list[Any], site: Site) -> float:
    (value,) = arguments
    kind = kind_of(value)
    if kind is int or kind is float or kind is bool:
        return float(fitting(value, site))
    if kind is str and len(value) <= 64 and (match := _FRACTION.fullmatch(value)):
        return float(fitting(float(match[1]), site))
    raise fault(
        site,
        "expr_conversion" if kind is str else "expr_type",
        f"makes no number of {_content(value)}",
        "it reads numbers and texts such as 42, 4.2 and 1e6",
    )


def _bool(_frame: Frame, arguments: list[Any], _site: Site) -> bool:
    (value,) = arguments
    return bool(value)


def _lower(frame: Frame, arguments: list[Any], site: Site) -> str:
    return _text(frame, arguments[0], site).lower()


def _upper(frame: Frame, arguments: list[Any], site: Site) -> str:
    return _text(frame, arguments[0], site).upper()


def _startswith(frame: Frame, arguments: list[Any], site: Site) -> bool:
    text, start = arguments
    return _searched(frame, text, site).startswith(_searched(frame, start, site))


def _endswith(frame: Frame, arguments: list[Any], site: Site) -> bool:
    text, end = arguments
    return _searched(frame, text, site).endswith(_searched(frame, end, site))


FUNCTIONS: dict[str, Function] = {
    "len": Function(1, 1, "len(x)", _len),
    "min": Function(1, 255, "min(list) or min(a, b)", _extreme(min, "smallest")),
    "max": Function(1, 255, "max(list) or max(a, b)", _extreme(max, "largest")),
    "sum": Function(1, 1, "sum(list)", _sum),
    "any": Function(1, 1, "any(list)", _any),
    "all": Function(1, 1, "all(list)", _all),
    "abs": Function(1, 1, "abs(number)", _abs),
    "round": Function(1, 2, "round(number) or round(number, decimals)", _round),
    "str": Function(1, 1, "str(x)", _str),
    "int": Function(1, 1, "int(x)", _int),
    "float": Function(1, 1, "float(x)", _float),
    "bool": Function(1, 1, "bool(x)", _bool),
    "lower": Function(1, 1, "lower(text)", _lower),
    "upper": Function(1, 1, "upper(text)", _upper),
    "startswith": Function(2, 2, "startswith(text, start)", _startswith),
    "endswith": Function(2, 2, "endswith(text, end)", _endswith),
}
"""All functions but `present`, which asks about a path instead of a value."""


def _content(value: Any) -> str:
    return repr(value) if type(value) is str and len(value) <= 40 else describe(value)


def _list(frame: Frame, value: Any, site: Site) -> list[Any]:
    kind = kind_of(value)
    if kind is not list:
        raise wrong_type(site, "a list", value)
    frame.spend(len(value), site)
    return value


def _booleans(frame: Frame, value: Any, site: Site) -> list[bool]:
    items = _list(frame, value, site)
    for index, item in enumerate(items):
        if item is not True and item is not False:
            message = f"asks for a list of true and false, and item {index} is {describe(item)}"
            raise fault(
                site, "expr_not_boolean", message, "let a step compare each item, and read its result"
            )
    return items


def _text(frame: Frame, value: Any, site: Site) -> str:
    """A text that is about to be copied."""
    if type(value) is not str:
        raise wrong_type(site, "a text", value)
    frame.spend(len(value), site)
    return value


def _searched(frame: Frame, value: Any, site: Site) -> str:
    """A text that is about to be compared."""
    if type(value) is not str:
        raise wrong_type(site, "a text", value)
    frame.spend(len(value) >> BLOCK_BITS, site)
    return value


def _json_size(frame: Frame, value: Any, site: Site) -> int:
    """How long `value` is as JSON, escapes apart, without making it."""
    size = 0
    todo = [value]
    while todo:
        item = todo.pop()
        kind = kind_of(item)
        if kind is str:
            size += len(item) + 2
        elif kind is int or kind is float:
            size += len(repr(item))
        elif kind is list:
            frame.spend(len(item), site)
            size += len(item) + 1
            todo.extend(item)
        elif kind is dict:
            frame.spend(len(item), site)
            size += sum(len(key) + 4 for key in item) + 1
            todo.extend(item.values())
        else:
            size += 5
    return size
