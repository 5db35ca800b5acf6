"""The same text with other names in it: what an expression or a template reads is called otherwise.

By tokens, so a quoted text that happens to hold the name, or a key after a dot, stays what it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from kedge.plan.expr.lexer import Token, tokens
from kedge.plan.expr.template import expression_spans


def renamed_expression(text: str, names: Mapping[str, str]) -> str:
    """`text`, an expression, with its names replaced. ExpressionError if it is none."""
    found = tokens(text)
    return _put(
        text,
        [token for before, token in zip([None, *found], found, strict=False) if _is_name(before, token)],
        names,
    )


def _is_name(before: Token | None, token: Token) -> bool:
    return token.kind == "word" and (before is None or before.value != "." or before.kind != "symbol")


def _put(text: str, words: list[Token], names: Mapping[str, str]) -> str:
    out: list[str] = []
    end = 0
    for word in words:
        new = names.get(str(word.value))
        if new is not None:
            out += (text[end : word.start], new)
            end = word.end
    return "".join([*out, text[end:]])


def renamed_template(text: str, names: Mapping[str, str]) -> str:
    """`text`, a template, with the names in its expressions replaced."""
    out: list[str] = []
    end = 0
    for start, stop in expression_spans(text):
        out += (text[end:start], renamed_expression(text[start:stop], names))
        end = stop
    return "".join([*out, text[end:]])
