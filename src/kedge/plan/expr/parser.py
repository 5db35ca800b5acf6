"""Tokens to parts: precedence climbing, with depth and size counted on the way down.

Python's own parser is not used: it knows far more than this language has, dies on deep input
before anyone can count, and forbids keys such as `.if` and `.in`, which data is free to use.

Loosest first:  if else,  or,  and,  not,  == != < <= > >= in,  + -,  * / // %,  -a,  a.b a[b]
"""

from __future__ import annotations

import msgspec

from kedge.base.errors import ExpressionError
from kedge.plan.expr import refusals
from kedge.plan.expr.cursor import Cursor
from kedge.plan.expr.faults import shown
from kedge.plan.expr.functions import FUNCTIONS
from kedge.plan.expr.lexer import Token
from kedge.plan.expr.refusals import CONSTANTS, FUNCTION_NAMES
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
    Present,
    Slice,
)

_NOT, _COMPARE, _SIGN = 3, 4, 7
_RANK = {
    "or": 1, "and": 2,
    "==": _COMPARE, "!=": _COMPARE, "<": _COMPARE, "<=": _COMPARE, ">": _COMPARE, ">=": _COMPARE,
    "in": _COMPARE, "not in": _COMPARE,
    "+": 5, "-": 5, "*": 6, "/": 6, "//": 6, "%": 6,
}  # fmt: skip
_OPERATOR_WORDS = frozenset({"and", "or", "in"})


def parse_node(text: str) -> Node:
    """The parts of `text`, or ExpressionError at the first thing that is wrong."""
    parser = _Parser(text)
    if len(parser.tokens) == 1:
        raise ExpressionError(
            "the expression is empty",
            code="expr_empty",
            remedy="write a value or a condition, or leave it out",
        )
    node = parser.expression()
    if parser.token.kind != "end":
        refusals.no_operator(parser)
    return node


class _Parser(Cursor):
    """The grammar, one method for each of its rules."""

    def expression(self) -> Node:
        self.deeper()
        node = self.binary(1)
        if self.take("if", "word"):
            test = self.binary(1)
            if not self.take("else", "word"):
                self.fail(
                    "expr_no_else",
                    "`if` without `else` has no value when the test is false",
                    "add `else null`",
                    suggestion=self.with_replaced(test.end, test.end, " else null"),
                )
            otherwise = self.expression()
            self.count()
            node = Conditional(node.start, otherwise.end, test, node, otherwise)
        self.shallower()
        return node

    def binary(self, floor: int) -> Node:
        """An operand and every operator after it that binds at least as tight as `floor`."""
        left = self.operand(floor)
        while True:
            operator = self.operator()
            rank = _RANK.get(operator, 0)
            if rank == 0 or rank < floor:
                return left
            self.count()
            if rank < _NOT:
                left = self.logic(left, operator, rank)
            elif rank == _COMPARE:
                left = self.compare(left, operator)
            else:
                left = self.arithmetic(left, rank)

    def operator(self) -> str:
        """The operator or symbol that stands next, without taking it; an empty text if none does."""
        token = self.token
        if token.kind == "symbol" or (token.kind == "word" and token.value in _OPERATOR_WORDS):
            return str(token.value)
        if token.value == "not" and token.kind == "word":
            return "not in" if self.behind.kind == "word" and self.behind.value == "in" else ""
        return ""

    def logic(self, left: Node, word: str, rank: int) -> Node:
        operands = [left]
        while self.operator() == word:
            self.next()
            operands.append(self.binary(rank + 1))
        return Logic(left.start, operands[-1].end, word, tuple(operands))

    def compare(self, left: Node, operator: str) -> Node:
        self.next()
        if operator == "not in":
            self.next()
        right = self.binary(_COMPARE + 1)
        again = self.operator()
        if _RANK.get(again) == _COMPARE:
            middle = self.source(right.start, right.end)
            self.fail(
                "expr_chained",
                f"{operator} and {again} in a row would compare three values at once",
                f"write two comparisons: … {operator} {shown(middle, 30)} and {shown(middle, 30)} {again} …",
                suggestion=self.with_replaced(right.end, right.end, f" and {middle}"),
            )
        return Compare(left.start, right.end, operator, left, right)

    def arithmetic(self, left: Node, rank: int) -> Node:
        rest: list[tuple[str, Node]] = []
        while _RANK.get(operator := self.operator()) == rank:
            self.next()
            rest.append((operator, self.binary(rank + 1)))
        return Arithmetic(left.start, rest[-1][1].end, left, tuple(rest))

    def operand(self, floor: int) -> Node:
        token = self.token
        if token.value == "-" and token.kind == "symbol":
            inner = self.prefixed(_SIGN)
            return Negate(token.start, inner.end, inner)
        if token.value == "not" and token.kind == "word":
            if floor > _NOT:
                self.fail("expr_syntax", "`not` cannot follow this operator", "put it in brackets: (not x)")
            inner = self.prefixed(_NOT)
            return Not(token.start, inner.end, inner)
        return self.accesses(self.primary())

    def prefixed(self, rank: int) -> Node:
        """What stands behind `-` or `not`."""
        self.next()
        self.deeper()
        self.count()
        inner = self.binary(rank)
        self.shallower()
        return inner

    def primary(self) -> Node:
        self.count()
        token = self.token
        if token.kind == "word":
            self.next()
            return self.word(token)
        if token.kind in ("number", "text"):
            self.next()
            return Literal(token.start, token.end, token.value)
        if token.value == "(":
            return self.brackets()
        if token.value == "[":
            opened = self.next()
            items = self.items("]")
            return ListOf(opened.start, self.close("]", opened), items)
        if token.value == "{":
            return self.map_of()
        return refusals.no_value(self)

    def word(self, token: Token) -> Node:
        word = str(token.value)
        if self.sees("("):
            return self.call(token, word)
        if word in CONSTANTS:
            return Literal(token.start, token.end, CONSTANTS[word])
        refusals.check_name(self, token)
        return Name(token.start, token.end, word)

    def brackets(self) -> Node:
        opened = self.next()
        if self.sees(")"):
            self.fail("expr_syntax", "() holds no value", "write a value in the brackets, or null", at=opened)
        inner = self.expression()
        if self.sees(","):
            self.fail("expr_tuple", "( , ) would be a tuple, which JSON has not", "write a list: [a, b]")
        end = self.close(")", opened)
        return msgspec.structs.replace(inner, start=opened.start, end=end)  # errors quote it whole

    def items(self, bracket: str) -> tuple[Node, ...]:
        """Values with commas between them, up to a bracket. A comma may stand after the last."""
        items: list[Node] = []
        while not self.sees(bracket):
            items.append(self.expression())
            if not self.take(","):
                break
        return tuple(items)

    def close(self, bracket: str, opened: Token) -> int:
        """Take the closing bracket; where it ends."""
        if self.token.kind == "end":
            self.fail(
                "expr_unclosed",
                f"{opened.value} is never closed",
                f"close it with {bracket}",
                at=opened,
                suggestion=self.text.rstrip() + bracket,
            )
        if not self.sees(bracket):
            refusals.no_operator(self)
        return self.next().end

    def map_of(self) -> Node:
        opened = self.next()
        keys: list[str] = []
        values: list[Node] = []
        while not self.sees("}"):
            keys.append(self.map_key(keys))
            if not self.take(":"):
                self.fail("expr_map_key", "a map pairs each key with a value", 'write {"key": value}')
            values.append(self.expression())
            if not self.take(","):
                break
        return MapOf(opened.start, self.close("}", opened), tuple(keys), tuple(values))

    def map_key(self, before: list[str]) -> str:
        token = self.token
        if token.kind == "end":
            refusals.no_value(self)
        key = str(self.next().value)
        if token.kind != "text":
            quoted = self.with_replaced(token.start, token.end, f'"{key}"') if token.kind == "word" else None
            remedy = 'write {"key": value}'
            self.fail("expr_map_key", "a map's keys are texts", remedy, at=token, suggestion=quoted)
        if key in before:
            self.fail(
                "expr_duplicate_key", f"the key {shown(repr(key))} stands twice", "keep one of them", at=token
            )
        return key

    def call(self, token: Token, name: str) -> Node:
        opened = self.next()
        if name not in FUNCTION_NAMES:
            refusals.unknown_function(self, token)
        arguments = self.items(")")
        end = self.close(")", opened)
        if name == "present":
            return _present(self, token, end, arguments)
        function = FUNCTIONS[name]
        if not function.fewest <= len(arguments) <= function.most:
            message = f"{name} does not take {len(arguments)} arguments"
            self.fail("expr_arguments", message, f"write {function.usage}", at=token)
        return Call(token.start, end, name, arguments)

    def accesses(self, target: Node) -> Node:
        """The keys, places and slices that follow a value."""
        steps: list[str | int | Slice | Node] = []
        ends: list[int] = []
        while self.token.kind == "symbol":
            if self.token.value == ".":
                steps.append(self.key(target))
            elif self.token.value == "[":
                steps.append(self.index())
            elif self.token.value == "(":
                remedy = "call a function by its name"
                self.fail("expr_call", "a value cannot be called", remedy, allowed=FUNCTION_NAMES)
            else:
                break
            self.count()
            ends.append(self.taken.end)
        return Access(target.start, ends[-1], target, tuple(steps), tuple(ends)) if steps else target

    def key(self, target: Node) -> str:
        dot = self.next()
        if self.token.kind != "word":
            refusals.not_a_key(self, dot)
        token = self.next()
        key = str(token.value)
        refusals.check_key(self, token, key)
        if self.sees("("):
            refusals.method(self, target.start, dot, key)
        return key

    def index(self) -> str | int | Slice | Node:
        opened = self.next()
        low = None if self.sees(":") else self.expression()
        if low is None or self.sees(":"):
            return self.slice_from(low, opened)
        self.close("]", opened)
        if isinstance(low, Literal) and isinstance(low.value, str):
            refusals.check_key(self, opened, low.value)
        return _static(low)

    def slice_from(self, low: Node | None, opened: Token) -> Slice:
        self.next()
        high = None if self.sees("]") or self.sees(":") else self.expression()
        if self.sees(":"):
            self.fail("expr_slice_step", "a slice has no step", "write [a:b]")
        self.close("]", opened)
        return Slice(low, high)


def _present(at: Cursor, token: Token, end: int, arguments: tuple[Node, ...]) -> Node:
    found = arguments[0] if len(arguments) == 1 else None
    path = found.path if isinstance(found, Name | Access) else None
    if path is None:
        at.fail(
            "expr_present",
            "present asks for one name, with keys if need be",
            'write present(name), present(name.key) or present(name["key"][0])',
            at=token,
        )
    return Present(token.start, end, path)


def _static(index: Node) -> str | int | Node:
    """The key itself when it is written out, or the part that computes it."""
    sign = 1
    written = index
    if isinstance(index, Negate):
        sign, written = -1, index.operand
    if isinstance(written, Literal):
        value = written.value
        if isinstance(value, int) and not isinstance(value, bool):
            return sign * value
        if isinstance(value, str) and sign == 1:
            return value
    return index
