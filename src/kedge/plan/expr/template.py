"""Text with `${…}` in it. A template that is one `${…}` and nothing else keeps its value's type.

Rendered once, never again: what comes out is data, whatever characters it has.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from kedge.base.errors import ExpressionError
from kedge.plan.expr.expression import Expression, parse
from kedge.plan.expr.faults import MAX_RENDERED, MAX_TEXT, shown
from kedge.plan.expr.functions import text_of
from kedge.plan.expr.operators import Resolve
from kedge.plan.expr.syntax import Path

_WHOLE = re.compile(r"\$\{[A-Za-z0-9_. ]*+\}")
_EXPRESSIONS_MAX = 1_000
_OPENING = re.compile(r"\$?\$\{")
_INSIDE = re.compile(r"\"(?:[^\"\\\n]++|\\.)*+\"|'(?:[^'\\\n]++|\\.)*+'|(?P<open>[\"'][\s\S]*+)|[{}]")


class Template(msgspec.Struct, frozen=True, eq=False):
    """Text and expressions, in order."""

    parts: tuple[str | Expression, ...]
    whole: Expression | None = None
    """The expression, when the text is exactly one: the result has its type."""

    @property
    def names(self) -> frozenset[str]:
        """The names whose values it may ask for."""
        return frozenset([path.root for path in self.paths])

    @property
    def paths(self) -> tuple[Path, ...]:
        """Each path that is read, as far as it is written out."""
        if self.whole is not None:
            return self.whole.paths
        found = (path for part in self.parts if isinstance(part, Expression) for path in part.paths)
        return tuple(dict.fromkeys(found))

    def render(self, resolve: Resolve) -> Any:
        """The value, typed if the template is one expression, else text with the values written in.

        Inside text a text stands as it is, everything else as canonical JSON.
        """
        if self.whole is not None:
            return self.whole.evaluate(resolve)
        written: list[str] = []
        size = 0
        for part in self.parts:
            text = part if isinstance(part, str) else text_of(part.evaluate(resolve))
            size += len(text)
            if size > MAX_RENDERED:
                raise ExpressionError(
                    f"the text would have more than {MAX_RENDERED:,} characters",
                    code="template_too_big",
                    remedy="write less into it, or hand the value over alone, as a value",
                )
            written.append(text)
        return "".join(written)


def parse_template(text: str) -> Template:
    """The template that `text` is. `$${` stands for the characters `${`."""
    if "${" not in text:
        return Template((text,))
    if _WHOLE.fullmatch(text):
        whole = _inner(text, 2, len(text) - 1)
        return Template((whole,), whole)
    return _parsed(text)


def expression_spans(text: str) -> Iterator[tuple[int, int]]:
    """From where to where each expression in the template stands."""
    position = 0
    while (opening := _OPENING.search(text, position)) is not None:
        position = opening.end()
        if opening.group() != "$${":
            closing = _closing(text, position)
            yield position, closing
            position = closing + 1


def _parsed(text: str) -> Template:
    parts: list[str | Expression] = []
    literal: list[str] = []
    position = expressions = 0
    while (opening := _OPENING.search(text, position)) is not None:
        literal.append(text[position : opening.start()])
        position = opening.end()
        if opening.group() == "$${":
            literal.append("${")
            continue
        expressions += 1
        if expressions > _EXPRESSIONS_MAX:
            raise ExpressionError(
                f"the text has more than {_EXPRESSIONS_MAX:,} ${{…}} in it",
                code="template_too_many_parts",
                position=opening.start(),
                remedy="let a step put the text together",
            )
        closing = _closing(text, position)
        parts += ["".join(literal), _inner(text, position, closing)]
        literal = []
        position = closing + 1
    parts.append("".join(literal) + text[position:])
    parts = [part for part in parts if part != ""]
    only = parts[0] if len(parts) == 1 else None
    return Template(tuple(parts), only if isinstance(only, Expression) else None)


def _closing(text: str, start: int) -> int:
    """Where the `}` stands that ends the expression begun at `start`."""
    depth = 0
    end = start + MAX_TEXT + 1
    for match in _INSIDE.finditer(text, start, end):
        if match["open"] is not None:
            break
        char = match.group()
        if char == "{":
            depth += 1
        elif char == "}":
            if depth == 0:
                return match.start()
            depth -= 1
    closes = text.find("}", start, end)
    if closes >= 0:
        return closes  # an open quote or bracket inside: the expression's own error says which
    raise ExpressionError(
        f"{shown(text[start - 2 : start + 40], 30)} is not closed within {MAX_TEXT:,} characters",
        code="template_unclosed",
        position=start - 2,
        remedy="close it with }, or write $${ for the characters ${",
    )


def _inner(text: str, start: int, end: int) -> Expression:
    """The expression from `start` to `end`, its errors told in terms of the whole text."""
    inner = text[start:end]
    if not inner.strip():
        raise ExpressionError(
            "${} has no expression in it",
            code="template_empty",
            position=start - 2,
            remedy="name a value, or write $${} for the characters ${}",
        )
    try:
        return parse(inner)
    except ExpressionError as error:
        error.position += start
        if error.suggestion is not None:
            error.suggestion = text[:start] + error.suggestion + text[end:]
        raise
