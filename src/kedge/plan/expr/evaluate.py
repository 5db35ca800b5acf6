"""Parts to closures: each part becomes one small function, once, and evaluating is calling it.

There is no other evaluator, and nothing here reaches Python's: a closure can do what its part of
the language can do, and the only door outwards is `frame.resolve(name)`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_never

from kedge.plan.expr import operators
from kedge.plan.expr.faults import Absent, kind_of, path_text, shown
from kedge.plan.expr.functions import FUNCTIONS
from kedge.plan.expr.operators import ARITHMETIC, COMPARISON, Frame, Site
from kedge.plan.expr.syntax import (
    Access,
    Arithmetic,
    Call,
    Compare,
    Conditional,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Name,
    Negate,
    Node,
    Not,
    Path,
    Present,
    Slice,
)

Code = Callable[[Frame], Any]
_Step = Callable[[Frame, Any], Any]


def compiled(node: Node, text: str) -> Code:
    """The function that gives the value of `node`, a part of `text`."""
    match node:
        case Literal(value=value):
            return lambda _frame: value
        case Name(path=path):
            return path_code(path, node.start)
        case Access(path=path):
            return _access(node, text) if path is None else path_code(path, node.start)
        case ListOf(items=items):
            codes = [compiled(item, text) for item in items]
            return lambda frame: [code(frame) for code in codes]
        case MapOf(keys=keys, values=values):
            pairs = [(key, compiled(value, text)) for key, value in zip(keys, values, strict=True)]
            return lambda frame: {key: code(frame) for key, code in pairs}
        case Call():
            return _call(node, text)
        case Present(path=path):
            return _present(path, node.start)
        case Negate(operand=operand):
            return _negate(compiled(operand, text), _site(node, text))
        case Not(operand=operand):
            return _not(_condition(operand, text))
        case Logic(word=word, operands=operands):
            return _logic(word, [_condition(operand, text) for operand in operands])
        case Compare():
            return _compare(node, text)
        case Arithmetic():
            return _arithmetic(node, text)
        case Conditional(test=test, then=then, otherwise=otherwise):
            return _conditional(_condition(test, text), compiled(then, text), compiled(otherwise, text))
        case _:
            assert_never(node)


def path_code(path: Path, position: int) -> Code:
    """The function that reads a path that is written out."""
    root, keys = path.root, path.keys

    def name(frame: Frame) -> Any:
        try:
            return frame.resolve(root)
        except Absent as error:
            error.position = position
            raise
        except KeyError as error:
            if error.args != (root,):
                raise  # not "no such name" but a fault inside the resolver
            raise _absent(root, position) from None

    if not keys:
        return name

    def read(frame: Frame) -> Any:
        value: Any = name(frame)
        for depth, key in enumerate(keys):
            kind = kind_of(value)
            if kind is dict and key in value:
                value = value[key]
            else:
                value = operators.get(value, key, path_text(root, keys[:depth]), position)
        return value

    return read


def _absent(root: str, position: int) -> Absent:
    error = Absent(root)
    error.position = position
    return error


def _site(node: Node, text: str) -> Site:
    return Site(node.start, shown(text[node.start : node.end]))


def _condition(node: Node, text: str) -> Code:
    """Like `compiled`, for a place that takes true and false only."""
    code = compiled(node, text)
    if isinstance(node, Compare | Logic | Not | Present):
        return code
    site = _site(node, text)

    def run(frame: Frame) -> bool:
        value = code(frame)
        if value is True or value is False:
            return value
        raise operators.not_boolean(value, site)

    return run


def _logic(word: str, conditions: list[Code]) -> Code:
    decisive = word == "or"  # the value that settles it, so that the rest is not looked at

    def run(frame: Frame) -> bool:
        for condition in conditions:
            if condition(frame) is decisive:
                return decisive
        return not decisive

    return run


def _not(condition: Code) -> Code:
    return lambda frame: not condition(frame)


def _negate(code: Code, site: Site) -> Code:
    return lambda frame: operators.negate(code(frame), site)


def _conditional(test: Code, then: Code, otherwise: Code) -> Code:
    return lambda frame: then(frame) if test(frame) else otherwise(frame)


def _compare(node: Compare, text: str) -> Code:
    compare, site = COMPARISON[node.operator], _site(node, text)
    left, right = compiled(node.left, text), compiled(node.right, text)
    return lambda frame: compare(frame, left(frame), right(frame), site)


def _arithmetic(node: Arithmetic, text: str) -> Code:
    first = compiled(node.first, text)
    rest = [
        (
            ARITHMETIC[operator],
            compiled(operand, text),
            Site(node.start, shown(text[node.start : operand.end])),
        )
        for operator, operand in node.rest
    ]

    def run(frame: Frame) -> Any:
        value = first(frame)
        for compute, operand, site in rest:
            value = compute(frame, value, operand(frame), site)
        return value

    return run


def _call(node: Call, text: str) -> Code:
    function, site = FUNCTIONS[node.function].run, _site(node, text)
    arguments = [compiled(argument, text) for argument in node.arguments]
    return lambda frame: function(frame, [argument(frame) for argument in arguments], site)


def _present(path: Path, position: int) -> Code:
    """Whether a path leads to a value that is not null. Gaps on the way say no."""
    root, keys = path.root, path.keys

    def run(frame: Frame) -> bool:
        try:
            value = frame.resolve(root)
        except Absent:
            return False
        except KeyError as error:
            if error.args != (root,):
                raise
            return False
        for depth, key in enumerate(keys):
            if value is None or _gap(value, key):
                return False
            value = operators.get(value, key, path_text(root, keys[:depth]), position)
        return value is not None

    return run


def _gap(value: Any, key: str | int) -> bool:
    """Whether `value` could have `key`, and has not."""
    kind = kind_of(value)
    if kind is dict and isinstance(key, str):
        return key not in value
    if (kind is list or kind is str) and isinstance(key, int):
        return not -len(value) <= key < len(value)
    return False


def _access(node: Access, text: str) -> Code:
    target = compiled(node.target, text)
    starts = (node.target.end, *node.ends)
    steps = [
        _step(step, Site(node.start, shown(text[node.start : end])), text)
        for step, end in zip(node.steps, starts, strict=False)
    ]

    def run(frame: Frame) -> Any:
        value = target(frame)
        for step in steps:
            value = step(frame, value)
        return value

    return run


def _step(step: str | int | Slice | Node, owner: Site, text: str) -> _Step:
    if isinstance(step, str | int):
        return lambda _frame, value: operators.get(value, step, owner.source, owner.position)
    if isinstance(step, Slice):
        low, high = (
            compiled(bound, text) if bound is not None else _nothing for bound in (step.low, step.high)
        )
        return lambda frame, value: operators.cut(frame, value, low(frame), high(frame), owner)
    index = compiled(step, text)
    return lambda frame, value: operators.get(value, index(frame), owner.source, owner.position)


def _nothing(_frame: Frame) -> None:
    return None
