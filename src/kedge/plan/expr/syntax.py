"""The parts an expression is made of, and the paths it reads.

Chains are flat (`a + b + c` is one part with three operands, `a.b.c` one with two steps), so the
tree is as deep as the brackets a person wrote, and never deeper because a line is long. Parts are
made before what holds them, so there are no cycles and the garbage collector need not look.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kedge.plan.expr.faults import path_text


class Path(msgspec.Struct, frozen=True, gc=False):
    """A value that is read: a name, and the keys that are written out after it."""

    root: str
    keys: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        return path_text(self.root, self.keys)


class _Node(msgspec.Struct, frozen=True, gc=False):
    """A part and where it stands in the text."""

    start: int
    end: int


class Literal(_Node, frozen=True, gc=False):
    """A number, text, true, false or null."""

    value: str | int | float | bool | None


class Name(_Node, frozen=True, gc=False):
    """A value from outside."""

    name: str

    @property
    def path(self) -> Path:
        return Path(self.name)


class Slice(msgspec.Struct, frozen=True, gc=False):
    """`[low:high]`."""

    low: Node | None
    high: Node | None


class Access(_Node, frozen=True, gc=False):
    """`.key`, `["key"]`, `[n]` (all static), `[expression]` and slices, one after another."""

    target: Node
    steps: tuple[str | int | Slice | Node, ...]
    ends: tuple[int, ...]
    """Where each step ends: what stands before it is its owner's name in an error."""

    @property
    def path(self) -> Path | None:
        """The path, when all of it is written out."""
        keys = self.static_keys
        if isinstance(self.target, Name) and len(keys) == len(self.steps):
            return Path(self.target.name, keys)
        return None

    @property
    def static_keys(self) -> tuple[str | int, ...]:
        """The keys up to the first one that is computed."""
        keys: list[str | int] = []
        for step in self.steps:
            if not isinstance(step, str | int):
                break
            keys.append(step)
        return tuple(keys)


class ListOf(_Node, frozen=True, gc=False):
    """`[a, b]`."""

    items: tuple[Node, ...]


class MapOf(_Node, frozen=True, gc=False):
    """`{"key": a}`."""

    keys: tuple[str, ...]
    values: tuple[Node, ...]


class Call(_Node, frozen=True, gc=False):
    """A function of the list, with arguments."""

    function: str
    arguments: tuple[Node, ...]


class Present(_Node, frozen=True, gc=False):
    """`present(path)`: its path is not read like the others, so it is a part of its own."""

    path: Path


class Negate(_Node, frozen=True, gc=False):
    """`-a`."""

    operand: Node


class Not(_Node, frozen=True, gc=False):
    """`not a`."""

    operand: Node


class Logic(_Node, frozen=True, gc=False):
    """`a and b and c`, or the same with `or`."""

    word: str
    operands: tuple[Node, ...]


class Compare(_Node, frozen=True, gc=False):
    """Two values and one of `== != < <= > >= in not in`."""

    operator: str
    left: Node
    right: Node


class Arithmetic(_Node, frozen=True, gc=False):
    """`a + b - c`, or `a * b / c`: operators of one rank, from left to right."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class Conditional(_Node, frozen=True, gc=False):
    """`then if test else otherwise`."""

    test: Node
    then: Node
    otherwise: Node


Node = (
    Literal
    | Name
    | Access
    | ListOf
    | MapOf
    | Call
    | Present
    | Negate
    | Not
    | Logic
    | Compare
    | Arithmetic
    | Conditional
)


def reads(node: Node) -> Iterator[tuple[Path, bool]]:
    """Each path that is read, as far as it is static, and whether only `present` looks at it."""
    todo: list[Node] = [node]
    while todo:
        part = todo.pop()
        if isinstance(part, Name):
            yield Path(part.name), False
        elif isinstance(part, Present):
            yield part.path, True
        elif isinstance(part, Access):
            todo.extend(reversed(_computed(part)))
            if isinstance(part.target, Name):
                yield Path(part.target.name, part.static_keys), False
            else:
                todo.append(part.target)
        else:
            todo.extend(reversed(_children(part)))


def _computed(access: Access) -> list[Node]:
    """The parts inside its brackets."""
    found: list[Node] = []
    for step in access.steps:
        if isinstance(step, Slice):
            found += [bound for bound in (step.low, step.high) if bound is not None]
        elif not isinstance(step, str | int):
            found.append(step)
    return found


def _children(
    node: Literal | ListOf | MapOf | Call | Negate | Not | Logic | Compare | Arithmetic | Conditional,
) -> tuple[Node, ...]:
    match node:
        case Literal():
            return ()
        case ListOf(items=children) | MapOf(values=children):
            return children
        case Call(arguments=children) | Logic(operands=children):
            return children
        case Negate(operand=child) | Not(operand=child):
            return (child,)
        case Compare(left=left, right=right):
            return (left, right)
        case Arithmetic(first=first, rest=rest):
            return (first, *(operand for _, operand in rest))
        case _:
            return (node.then, node.test, node.otherwise)
