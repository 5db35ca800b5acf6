"""Small changes to a module, each of which makes it wrong: what a slip of the hand would."""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_COUNTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Add, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change. It is found again by the number of its place, so a mutant is a few numbers."""

    path: Path
    line: int
    number: int
    what: str

    def source(self) -> ast.Module:
        """The module with the change in it."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        for number, (_, _, apply) in enumerate(_places(tree)):
            if number == self.number:
                apply()
                return ast.fix_missing_locations(tree)
        raise LookupError(f"{self.path} has no place {self.number}")

    def statement(self) -> set[int]:
        """The lines of the statement that it is in, without those of statements inside that one."""
        tree = ast.parse(self.path.read_text(encoding="utf-8"))
        around = [node for node in ast.walk(tree) if isinstance(node, ast.stmt) and self.line in _lines(node)]
        inner = min(around, key=lambda node: len(_lines(node)))
        inside = [node for node in ast.walk(inner) if isinstance(node, ast.stmt) and node is not inner]
        return set(_lines(inner)).difference(*map(_lines, inside))


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def mutants(path: Path) -> Iterator[Mutant]:
    """Every change to the module at `path` that we know how to make."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for number, (node, what, _) in enumerate(_places(tree)):
        yield Mutant(path, getattr(node, "lineno", 0), number, what)


_Place = tuple[ast.AST, str, Callable[[], None]]


def _places(tree: ast.Module) -> Iterator[_Place]:
    for parent in list(_code(tree)):
        if isinstance(parent, ast.stmt):
            yield from _of_statement(parent)
        elif isinstance(parent, ast.Compare):
            yield from _of_compare(parent)
        elif isinstance(parent, ast.BoolOp):
            other = ast.Or() if isinstance(parent.op, ast.And) else ast.And()
            yield _swap(parent, "op", other, f"{_name(parent.op)} -> {_name(other)}")
        elif isinstance(parent, ast.BinOp) and type(parent.op) in _COUNTED:
            op = _COUNTED[type(parent.op)]()
            yield _swap(parent, "op", op, f"{_name(parent.op)} -> {_name(op)}")
        elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            yield _swap(parent, "operand", ast.UnaryOp(ast.Not(), parent.operand), "not x -> x")
        elif isinstance(parent, ast.Constant):
            yield from _of_constant(parent)
        elif isinstance(parent, ast.IfExp):
            yield _swap(parent, "test", ast.UnaryOp(ast.Not(), parent.test), "a if x else b -> b if x else a")
        elif isinstance(parent, ast.Call) and parent.keywords:
            for keyword in parent.keywords:
                if not _is_look(keyword):
                    yield _without(parent, keyword)


def _code(tree: ast.Module) -> Iterator[ast.AST]:
    """What runs: no annotations, docstrings, messages, imports or type definitions."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
            continue
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast":
            todo.append(node.args[1])  # the type is for readers
            continue
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        yield node
        first = isinstance(node, ast.FunctionDef) and node.name == "__init__"
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "bases", "type_params"):
                continue
            values = value if isinstance(value, list) else [value]
            children = [child for child in values if isinstance(child, ast.AST) and not _is_words(child)]
            todo.extend(child for child in children if not (first and _is_nothing(child)))


def _is_words(node: ast.AST) -> bool:
    """A docstring, or `__slots__`: nothing that runs depends on them."""
    if _is_look(node):
        return True
    if isinstance(node, ast.Assign) and any(
        isinstance(t, ast.Name) and t.id == "__slots__" for t in node.targets
    ):
        return True
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _is_look(node: ast.AST) -> bool:
    """`strict=` of `zip`, `assert_never`: they look for bugs themselves."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return isinstance(node.value.func, ast.Name) and node.value.func.id == "assert_never"
    return isinstance(node, ast.keyword) and node.arg == "strict"


def _is_nothing(node: ast.AST) -> bool:
    """An attribute that begins with nothing: one kind of nothing or another, nobody could tell."""
    return isinstance(node, ast.Assign) and _is_false(node.value)


def _of_statement(node: ast.stmt) -> Iterator[_Place]:
    match node:
        case ast.Return(value=ast.expr() as value) if not _is_false(value):
            yield _swap(node, "value", ast.Constant(None), "return x -> return None")
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Constant):
            yield _swap(node, "test", ast.UnaryOp(ast.Not(), test), "if x -> if not x")
        case ast.Expr(value=ast.Call()):
            yield _swap(node, "value", ast.Constant(None), "a call left out")
        case ast.AugAssign(op=op) if type(op) in _COUNTED:
            other = _COUNTED[type(op)]()
            yield _swap(node, "op", other, f"{_name(op)}= -> {_name(other)}=")
            yield _swap(node, "value", ast.Constant(0), "an update left out")
        case ast.Assign(targets=[ast.Attribute() as target]):
            yield _swap(node, "value", copy.deepcopy(_loaded(target)), f"{target.attr} = … left out")
        case _:
            return


def _loaded(target: ast.Attribute) -> ast.expr:
    """The target as a value, None where it has none yet: what the assignment would have changed stays."""
    default = ast.Constant(None)
    return ast.Call(ast.Name("getattr", ast.Load()), [target.value, ast.Constant(target.attr), default], [])


def _of_compare(node: ast.Compare) -> Iterator[_Place]:
    for index, op in enumerate(node.ops):
        other = _COMPARED[type(op)]()
        ops = [other if place == index else kept for place, kept in enumerate(node.ops)]
        yield _swap(node, "ops", ops, f"{_name(op)} -> {_name(other)}")


def _of_constant(node: ast.Constant) -> Iterator[_Place]:
    value = node.value
    if isinstance(value, bool):
        yield _swap(node, "value", not value, f"{value} -> {not value}")
    elif isinstance(value, int | float):
        yield _swap(node, "value", value + 1, f"{value} -> {value + 1}")
    elif isinstance(value, str) and value.isidentifier():  # a word that means something; sentences do not
        yield _swap(node, "value", value + "_", f"{value!r} -> {value + '_'!r}")


def _without(node: ast.Call, keyword: ast.keyword) -> _Place:
    kept = [other for other in node.keywords if other is not keyword]
    return _swap(node, "keywords", kept, f"without {keyword.arg}=")


def _swap(node: ast.AST, field: str, value: object, what: str) -> _Place:
    return node, what, lambda: setattr(node, field, value)


def _is_false(node: ast.expr) -> bool:
    """None, or what says no as well as None does: no change that anybody could notice."""
    return isinstance(node, ast.Constant) and not node.value


def _name(op: ast.AST) -> str:
    return type(op).__name__.lower()
