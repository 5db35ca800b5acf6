"""An expression, ready to be evaluated, and the way from its text to it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from kedge.base.errors import ExpressionError
from kedge.plan.expr.evaluate import Code, compiled, path_code
from kedge.plan.expr.faults import MAX_TEXT, shown
from kedge.plan.expr.lexer import tokens
from kedge.plan.expr.mending import mended
from kedge.plan.expr.operators import Frame, Resolve, Site, not_boolean
from kedge.plan.expr.parser import parse_node
from kedge.plan.expr.refusals import RESERVED_WORDS
from kedge.plan.expr.syntax import Access, Name, Path, reads

# Most references are a name with a key or two: they skip lexer and parser. Keys with two underscores in
# a row take the long way, where the forbidden ones among them are refused.
_SIMPLE = re.compile(r"([a-z][a-z0-9_]*+)((?:\.(?!__)[A-Za-z_][A-Za-z0-9_]*+){0,8}+)")
_NO_NAMES: frozenset[str] = frozenset()
CACHED_TEXT_MAX = 256
"""Longer ones are parsed anew: thousands of the longest, kept, would be 600 MB."""
_MENDS_MAX = 3
_MENDED_TEXT_MAX = 1_000  # a guess costs as much as a parse: refusing a long text must stay cheap


class Expression(msgspec.Struct, frozen=True, eq=False):
    """One expression, compiled. Frozen and safe to share; equal texts give the same object while cached."""

    text: str
    paths: tuple[Path, ...]
    """Each path that is read, as far as it is written out."""
    present_names: frozenset[str]
    """Names that occur only inside `present(…)`: they may have no value."""
    simple: Path | None
    """The path, when the expression is that and nothing else."""
    code: Code

    @property
    def names(self) -> frozenset[str]:
        """The names whose values it may ask for."""
        return frozenset([path.root for path in self.paths])

    def __repr__(self) -> str:
        return f"parse({self.text!r})"

    def evaluate(self, resolve: Resolve) -> Any:
        """Its value. `resolve(name)` gives plain JSON values, or raises Absent or KeyError(name).

        The value may share parts with what `resolve` gave. ExpressionError when it has none.
        """
        return self.code(Frame(resolve))


def parse(text: str) -> Expression:
    """The expression that `text` is, or ExpressionError saying what is wrong, where, and what to write."""
    if type(text) is not str:
        raise ExpressionError(
            f"an expression is text, this is {type(text).__name__}",
            code="expr_not_text",
            remedy="write it in quotes",
        )
    if len(text) > CACHED_TEXT_MAX:
        if len(text) > MAX_TEXT:
            tokens(text)  # says so
        return _parsed(text)
    return _parse(text)


def evaluate_condition(expression: Expression, resolve: Resolve) -> bool:
    """The value of a condition: true or false, or an error. Nothing else counts as either."""
    value = expression.evaluate(resolve)
    if value is True or value is False:
        return value
    raise not_boolean(value, Site(0, shown(expression.text)))


@lru_cache(maxsize=4096)
def _parse(text: str) -> Expression:
    return _parsed(text)


def _parsed(text: str) -> Expression:
    match = _SIMPLE.fullmatch(text)
    if match is not None and (root := match[1]) not in RESERVED_WORDS:
        path = Path(root, tuple(match[2].split(".")[1:])) if match[2] else Path(root)
        return Expression(text, (path,), _NO_NAMES, path, path_code(path, 0))
    try:
        node = parse_node(text)
    except ExpressionError as error:
        error.suggestion = _mended(text, error.suggestion)
        raise
    seen = tuple(reads(node))
    plain = {path.root for path, only_asked in seen if not only_asked}
    simple = node.path if isinstance(node, Name | Access) else None
    return Expression(
        text,
        tuple(dict.fromkeys(path for path, _ in seen)),
        frozenset(path.root for path, _ in seen if path.root not in plain),
        simple,
        compiled(node, text),
    )


def _mended(text: str, suggestion: str | None) -> str | None:
    """A right expression that is close to `text`, if one is found in a few tries."""
    for _ in range(_MENDS_MAX):
        if len(text) > _MENDED_TEXT_MAX:
            return None
        better = suggestion or mended(text)
        if better == text:
            return None
        try:
            parse_node(better)
        except ExpressionError as error:
            text, suggestion = better, error.suggestion
        else:
            return better
    return None
