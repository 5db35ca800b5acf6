"""What operators do with values: JSON's rules, not Python's.

A boolean is no number, so `true == 1` is false and `true + 1` an error. Nothing is converted on
the quiet. Whatever would grow is measured first, and charged to the evaluation's budget.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from kedge.base.errors import ExpressionError
from kedge.plan.expr.faults import INT_MAX, INT_MIN, MAX_WORK, describe, kind_of, nearest

Resolve = Callable[[str], Any]
BLOCK_BITS = 8  # comparing 256 characters takes about as long as looking at one item


class Site(msgspec.Struct, frozen=True, gc=False):
    """Where in the expression something is computed, for its errors."""

    position: int
    source: str
    """What it is: an operator with its operands, a call, a path."""


class Frame:
    """One evaluation: where names come from, and how much work is left."""

    __slots__ = ("left", "resolve")

    def __init__(self, resolve: Resolve) -> None:
        self.resolve = resolve
        self.left = MAX_WORK

    def spend(self, amount: int, site: Site) -> None:
        """Charge work that is about to be done, or refuse it."""
        self.left -= amount
        if self.left < 0:
            raise fault(
                site,
                "expr_too_big",
                f"takes the evaluation over {MAX_WORK:,} items and characters",
                "let a step compute it, and read its result",
            )


def fault(site: Site, code: str, message: str, remedy: str, allowed: tuple[str, ...] = ()) -> ExpressionError:
    """An error that names the part of the expression it comes from."""
    return ExpressionError(
        f"`{site.source}` {message}", code=code, position=site.position, remedy=remedy, allowed=allowed
    )


def is_number(value: Any) -> bool:
    """Whether it is a number. A boolean is none."""
    kind = kind_of(value)
    return kind is int or kind is float


def fitting(value: float, site: Site) -> float:
    """A computed number, if it can be stored."""
    if type(value) is int:
        if INT_MIN <= value <= INT_MAX:
            return value
    elif value - value == 0:  # neither infinite nor NaN
        return value
    raise fault(
        site, "expr_overflow", "gives a number that cannot be stored", "keep whole numbers within 64 bits"
    )


def wrong_type(site: Site, needed: str, value: Any) -> ExpressionError:
    """The error of something that is given the wrong kind of value."""
    remedy = "guard it with present(…)" if value is None else f"give it {needed}"
    return fault(site, "expr_type", f"needs {needed}, and has {describe(value)}", remedy)


def not_boolean(value: Any, site: Site) -> ExpressionError:
    """The error of anything but true and false where one of them is needed."""
    kind = kind_of(value)
    source = site.source
    if source[:1] == "(" and source.count("(") == source.count(")") == 1 and source[-1] == ")":
        source = source[1:-1]
    remedy = "compare it with something"
    if kind is str or kind is list or kind is dict:
        remedy = f"to ask whether it holds anything write len({source}) > 0"
    elif value is None:
        remedy = f"to ask whether there is a value write present({source})"
    elif kind is int or kind is float:
        remedy = f"to ask whether it is not zero write {source} != 0"
    return fault(site, "expr_not_boolean", f"is {describe(value)} where true or false is needed", remedy)


# Arithmetic


def add(frame: Frame, left: Any, right: Any, site: Site) -> Any:
    """`left + right`: numbers, texts or lists."""
    kind = kind_of(left)
    if is_number(left) and is_number(right):
        return fitting(left + right, site)
    if kind is type(right) and (kind is str or kind is list):
        frame.spend(len(left) + len(right), site)
        return left + right
    remedy = "write str(x) to make a text of a value" if str in (kind, type(right)) else "join like with like"
    raise _wrong_operands(site, "two numbers, two texts or two lists", left, right, remedy)


def _numeric(compute: Callable[[Any, Any], Any], *, divides: bool = False) -> Callable[..., Any]:
    def run(_frame: Frame, left: Any, right: Any, site: Site) -> Any:
        if not (is_number(left) and is_number(right)):
            raise _wrong_operands(
                site, "two numbers", left, right, "write int(x) or float(x) to make a number of a text"
            )
        if divides and right == 0:
            raise fault(
                site, "expr_zero_division", "divides by zero", "guard it, as in `a / b if b != 0 else null`"
            )
        try:
            return fitting(compute(left, right), site)
        except OverflowError:
            return fitting(float("inf"), site)

    return run


ARITHMETIC: dict[str, Callable[[Frame, Any, Any, Site], Any]] = {
    "+": add,
    "-": _numeric(lambda left, right: left - right),
    "*": _numeric(lambda left, right: left * right),
    "/": _numeric(lambda left, right: left / right, divides=True),
    "//": _numeric(lambda left, right: left // right, divides=True),
    "%": _numeric(lambda left, right: left % right, divides=True),
}


def negate(value: Any, site: Site) -> Any:
    """`-value`."""
    if not is_number(value):
        raise wrong_type(site, "a number", value)
    return fitting(-value, site)


def _wrong_operands(site: Site, needed: str, left: Any, right: Any, remedy: str) -> ExpressionError:
    if left is None or right is None:
        remedy = "guard it with present(…)"
    return fault(site, "expr_type", f"needs {needed}, and has {describe(left)} and {describe(right)}", remedy)


# Comparison


def equal(frame: Frame, left: Any, right: Any, site: Site) -> bool:
    """Whether two JSON values are the same. Iterative, for data may nest as deep as it likes."""
    kind = kind_of(left)
    if kind is not list and kind is not dict:
        return _equal_scalars(frame, left, right, site)
    inside: list[Iterator[tuple[Any, Any]]] = [iter([(left, right)])]
    while inside:
        pair = next(inside[-1], None)
        if pair is None:
            inside.pop()
            continue
        left, right = pair
        kind, other = kind_of(left), kind_of(right)
        if kind is list and other is list:
            if len(left) != len(right):
                return False
            frame.spend(len(left), site)
            inside.append(zip(left, right, strict=True))
        elif kind is dict and other is dict:
            frame.spend(len(left), site)
            if left.keys() != right.keys():
                return False
            inside.append(_values(left, right))
        elif not _equal_scalars(frame, left, right, site):
            return False
    return True


def _values(left: dict[str, Any], right: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    return ((value, right[key]) for key, value in left.items())


def _equal_scalars(frame: Frame, left: Any, right: Any, site: Site) -> bool:
    kind = kind_of(left)
    other = kind_of(right)
    if kind is str and other is str:
        frame.spend(len(left) >> BLOCK_BITS, site)
        return left == right
    if kind is bool or other is bool or left is None or right is None:
        return left is right
    return is_number(left) and is_number(right) and left == right


def unequal(frame: Frame, left: Any, right: Any, site: Site) -> bool:
    """`left != right`."""
    return not equal(frame, left, right, site)


def _ordered(compare: Callable[[Any, Any], bool]) -> Callable[[Frame, Any, Any, Site], bool]:
    def run(frame: Frame, left: Any, right: Any, site: Site) -> bool:
        if is_number(left) and is_number(right):
            return compare(left, right)
        if type(left) is str and type(right) is str:
            frame.spend(len(left) >> BLOCK_BITS, site)
            return compare(left, right)
        raise _wrong_operands(site, "two numbers or two texts", left, right, "compare like with like")

    return run


def contains(frame: Frame, item: Any, holder: Any, site: Site) -> bool:
    """`item in holder`: text in text, item in list, key in map."""
    kind = kind_of(holder)
    if kind is list:
        frame.spend(len(holder), site)
        return any(equal(frame, item, each, site) for each in holder)
    if type(item) is str:
        if kind is str:
            frame.spend(len(holder) >> BLOCK_BITS, site)
            return item in holder
        if kind is dict:
            return item in holder
    raise _wrong_operands(
        site,
        "text in text, item in list or key in map",
        item,
        holder,
        "write [a, b] to test against some values",
    )


def lacks(frame: Frame, item: Any, holder: Any, site: Site) -> bool:
    """`item not in holder`."""
    return not contains(frame, item, holder, site)


COMPARISON: dict[str, Callable[[Frame, Any, Any, Site], bool]] = {
    "==": equal,
    "!=": unequal,
    "<": _ordered(operator.lt),
    "<=": _ordered(operator.le),
    ">": _ordered(operator.gt),
    ">=": _ordered(operator.ge),
    "in": contains,
    "not in": lacks,
}


# Keys, places and slices


def get(value: Any, key: Any, owner: str, position: int) -> Any:
    """`owner[key]`: a key of a map, a place in a list or text."""
    kind = kind_of(value)
    if kind is dict:
        if type(key) is str:
            if key in value:
                return value[key]
            near = nearest(key, map(str, value))
            raise fault(
                Site(position, owner),
                "expr_missing_key",
                f"has no key {key!r}" if len(key) <= 64 else "has no such key",
                "write one of its keys, or ask present(…) first"
                if near
                else "it is empty: ask present(…) first",
                allowed=tuple(near),
            )
    elif (kind is list or kind is str) and type(key) is int:
        size = len(value)
        if -size <= key < size:
            return value[key]
        raise fault(
            Site(position, owner),
            "expr_index",
            f"has no place {key}, it is {describe(value)}",
            "places count from 0; ask len(…) or present(…) first",
        )
    raise _wrong_key(value, key, owner, position)


def _wrong_key(value: Any, key: Any, owner: str, position: int) -> ExpressionError:
    site = Site(position, owner)
    if value is None:
        return fault(
            site, "expr_null", f"is null and has no {_key_words(key)}", f"ask present({owner}) first"
        )
    kind = kind_of(value)
    if kind is dict:
        return fault(site, "expr_type", f"is a map, its keys are texts, not {describe(key)}", 'write ["key"]')
    if kind is list or kind is str:
        return fault(
            site,
            "expr_type",
            f"is {describe(value)} and has no {_key_words(key)}",
            "take one of its items first, as in [0]" if kind is list else "only maps have keys",
        )
    return fault(
        site, "expr_type", f"is {describe(value)} and has no {_key_words(key)}", "only maps have keys"
    )


def _key_words(key: Any) -> str:
    if type(key) is str:
        return f"key {key!r}" if len(key) <= 64 else "such key"
    return f"place {key}" if type(key) is int else f"place for {describe(key)}"


def cut(frame: Frame, value: Any, low: Any, high: Any, site: Site) -> Any:
    """`value[low:high]` of a list or text."""
    for bound in (low, high):
        if bound is not None and type(bound) is not int:
            raise fault(
                site, "expr_type", f"is cut at whole numbers, not at {describe(bound)}", "write [a:b]"
            )
    kind = kind_of(value)
    if kind is not list and kind is not str:
        code = "expr_null" if value is None else "expr_type"
        raise fault(
            site, code, f"is {describe(value)}, and only lists and texts can be cut", "name a list or text"
        )
    frame.spend(len(range(*slice(low, high).indices(len(value)))), site)
    return value[low:high]
