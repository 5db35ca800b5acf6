"""Types of expressions before anything runs, and what in them can never be computed.

Only certainty is a fault: where a type is not known, everything is possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kedge.checks.schemas import ANY_TYPE, BOOLEAN, LIST, MAP, NUMBER, TEXT, type_of, words_of
from kedge.plan.expr import Path
from kedge.plan.expr.parser import parse_node
from kedge.plan.expr.syntax import (
    Access,
    Arithmetic,
    Call,
    Compare,
    ListOf,
    Literal,
    Logic,
    MapOf,
    Name,
    Negate,
    Node,
    Not,
    Present,
)

Types = frozenset[str]
TypesOf = Callable[[Path], Types]

_ORDERED = (NUMBER, TEXT)
_ADDED = (NUMBER, TEXT, LIST)

# What each function takes and gives.
_FUNCTIONS: dict[str, tuple[Types, Types]] = {
    "len": (TEXT | LIST | MAP, NUMBER),
    "min": (ANY_TYPE, NUMBER | TEXT), "max": (ANY_TYPE, NUMBER | TEXT),
    "sum": (LIST, NUMBER), "any": (LIST, BOOLEAN), "all": (LIST, BOOLEAN),
    "abs": (NUMBER, NUMBER), "round": (NUMBER, NUMBER), "str": (ANY_TYPE, TEXT),
    "int": (ANY_TYPE, NUMBER), "float": (ANY_TYPE, NUMBER), "bool": (ANY_TYPE, BOOLEAN),
    "lower": (TEXT, TEXT), "upper": (TEXT, TEXT),
    "startswith": (TEXT, BOOLEAN), "endswith": (TEXT, BOOLEAN),
}  # fmt: skip


class Clash(NamedTuple):
    """A part that can never be computed."""

    start: int
    message: str


class Inference:
    """One expression: the types it may have, and its clashes. As deep as the parser lets brackets be."""

    def __init__(self, text: str, types_of: TypesOf) -> None:
        self.clashes: list[Clash] = []
        self._text = text
        self._types_of = types_of
        self._root = parse_node(text)
        self.types = self._types(self._root)

    def want_condition(self) -> None:
        """The whole must be true or false."""
        self._want(self._root, self.types, BOOLEAN, "this is {}, a condition must be true or false")

    def _want(self, node: Node, has: Types, wanted: Types, message: str) -> None:
        if not has & wanted:
            self.clashes.append(Clash(node.start, message.format(words_of(has))))

    def _source(self, node: Node) -> str:
        text = self._text[node.start : node.end]
        return text if len(text) <= 40 else text[:39] + "…"

    def _types(self, node: Node) -> Types:
        match node:
            case Literal(value=value):
                return frozenset({type_of(value)})
            case Name(name=name):
                return self._types_of(Path(name))
            case Access():
                return self._access(node)
            case ListOf(items=items):
                self._all(items)
                return LIST
            case MapOf(values=values):
                self._all(values)
                return MAP
            case Call():
                return self._call(node)
            case Present():
                return BOOLEAN
            case Negate(operand=operand):
                self._want(
                    operand,
                    self._types(operand),
                    NUMBER,
                    f"`-` needs a number, {self._source(operand)} is {{}}",
                )
                return NUMBER
            case Not(operand=operand):
                self._boolean(operand, "not")
                return BOOLEAN
            case Logic(word=word, operands=operands):
                for operand in operands:
                    self._boolean(operand, word)
                return BOOLEAN
            case Compare():
                return self._compare(node)
            case Arithmetic():
                return self._arithmetic(node)
            case _:
                self._boolean(node.test, "if")
                return self._types(node.then) | self._types(node.otherwise)

    def _all(self, nodes: tuple[Node, ...]) -> list[Types]:
        return [self._types(node) for node in nodes]

    def _boolean(self, node: Node, word: str) -> None:
        self._want(
            node, self._types(node), BOOLEAN, f"`{word}` needs true or false, {self._source(node)} is {{}}"
        )

    def _access(self, node: Access) -> Types:
        path = node.path
        if path is not None:
            return self._types_of(path)
        if not isinstance(node.target, Name):
            self._types(node.target)
        return ANY_TYPE

    def _call(self, node: Call) -> Types:
        takes, gives = _FUNCTIONS.get(node.function, (ANY_TYPE, ANY_TYPE))
        given = self._all(node.arguments)
        first = node.arguments[0]  # there is no function without
        wanted = f"{node.function}() takes {words_of(takes)}, {self._source(first)} is {{}}"
        self._want(first, given[0], takes, wanted)
        return gives

    def _compare(self, node: Compare) -> Types:
        left, right = self._types(node.left), self._types(node.right)
        if node.operator in ("in", "not in"):
            holders = LIST | TEXT | MAP
            self._want(
                node.right,
                right,
                holders,
                f"`{node.operator}` needs a list, map or text, {self._source(node.right)} is {{}}",
            )
        elif node.operator not in ("==", "!=") and not any(kind & left and kind & right for kind in _ORDERED):
            self._unlike(node, node.operator, left, right, "compares two numbers or two texts")
        return BOOLEAN

    def _arithmetic(self, node: Arithmetic) -> Types:
        so_far = self._types(node.first)
        for operator, operand in node.rest:
            other = self._types(operand)
            kinds = _ADDED if operator == "+" else (NUMBER,)
            common = frozenset[str]().union(*(kind for kind in kinds if kind & so_far and kind & other))
            if not common:
                what = (
                    "adds two numbers, two texts or two lists" if operator == "+" else "computes with numbers"
                )
                self._unlike(node, operator, so_far, other, what)
                return ANY_TYPE
            so_far = common
        return so_far

    def _unlike(self, node: Node, operator: str, left: Types, right: Types, what: str) -> None:
        message = f"`{operator}` {what}, `{self._source(node)}` has {words_of(left)} and {words_of(right)}"
        self.clashes.append(Clash(node.start, message))
