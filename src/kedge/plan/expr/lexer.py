"""Text to tokens: one pass of one pattern, linear in the text.

Quantifiers are possessive and an open quote swallows the rest, so no input makes the pattern try
twice. What other languages write (`&&`, `===`, `${…}`) is matched too, for the error to say what to
write here.
"""

from __future__ import annotations

import re
import unicodedata

import msgspec

from kedge.base.errors import ExpressionError
from kedge.plan.expr.faults import INT_MAX, MAX_TEXT, shown

QUOTED = r"\"(?:[^\"\\\n]++|\\.)*+\"|'(?:[^'\\\n]++|\\.)*+'"
TOKEN = re.compile(
    rf"""
     (?P<space>[ \t\r\n]++)
    |(?P<word>[A-Za-z_][A-Za-z0-9_]*+)
    |(?P<number>[0-9](?:[eE][+-](?=[0-9])|[0-9A-Za-z_.])*+)
    |(?P<text>{QUOTED})
    |(?P<open>["'][\s\S]*+)
    |(?P<foreign>===|!==|<>|&&|\|\||\*\*|:=|=>|=<|<<|>>|\$\{{|\{{\{{)
    |(?P<symbol>==|!=|<=|>=|//|[-+*/%<>()\[\]{{}},:.])
    |(?P<other>[\s\S])
    """,
    re.VERBOSE,
)
_NUMBER = re.compile(r"(?:0|[1-9][0-9]*+)(\.[0-9]++)?([eE][+-]?[0-9]++)?")
_ESCAPE = re.compile(r"\\(.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"'}

OPERATORS: dict[str, str | None] = {
    "===": "==", "!==": "!=", "<>": "!=", "=>": ">=", "=<": "<=", "≤": "<=", "≥": ">=", "≠": "!=",
    "&&": "and", "||": "or", "&": "and", "|": "or", "!": "not", "∧": "and", "\u2228": "or", "¬": "not",
    "\u00d7": "*", "÷": "/", "\u2212": "-", "\u2013": "-", "=": "==",
    "<<": None, ">>": None, "^": None, "~": None, "@": None,
}  # fmt: skip
"""Operators of other languages, and ours where there is one."""
_REFUSED = {
    "${": ("expr_template", "${…} has no meaning inside an expression", "write what is inside it, alone"),
    "{{": ("expr_template", "{{…}} has no meaning inside an expression", "write what is inside it, alone"),
    "=": ("expr_assignment", "= would assign, and nothing can be assigned here", "to compare write =="),
    ":=": ("expr_assignment", ":= would assign, and nothing can be assigned here", "to compare write =="),
    "**": ("expr_power", "there is no power operator", "multiply, as in x * x"),
    "?": ("expr_operator", "there is no operator ?", "write `a if test else b` for `test ? a : b`"),
}
FOREIGN_WORDS = {
    "True": "true", "False": "false", "None": "null", "TRUE": "true", "FALSE": "false", "NULL": "null",
    "Null": "null", "AND": "and", "OR": "or", "NOT": "not", "IN": "in", "is": "==",
}  # fmt: skip
"""Words of other languages, and ours. All but `is` have capitals, so none can be a name."""


class Token(msgspec.Struct, frozen=True, gc=False):
    """One word, number, text or symbol. `kind` is one of word, number, text, symbol, end."""

    kind: str
    value: str | int | float
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """All tokens of `text`, an `end` token last. ExpressionError at the first that is none."""
    if len(text) > MAX_TEXT:
        raise ExpressionError(
            f"the expression has {len(text):,} characters, {MAX_TEXT:,} is the most",
            code="expr_too_long",
            position=MAX_TEXT,
            remedy="let a step compute the value, and read its result",
        )
    found: list[Token] = []
    for match in TOKEN.finditer(text):
        kind = match.lastgroup
        raw = match.group()
        if kind in ("word", "symbol"):
            found.append(Token(kind, raw, match.start(), match.end()))
        elif kind == "number":
            found.append(Token(kind, _number(text, raw, match.start()), match.start(), match.end()))
        elif kind == "text":
            found.append(Token(kind, _unquoted(raw, match.start()), match.start(), match.end()))
        elif kind != "space":
            raise _stranger(raw, match.start())
    found.append(Token("end", "", len(text), len(text)))
    return found


def _number(text: str, raw: str, start: int) -> int | float:
    match = _NUMBER.fullmatch(raw)
    if match is None:
        raise ExpressionError(
            f"{shown(raw)} is not a number",
            code="expr_number",
            position=start,
            remedy="write numbers as 12, 0.5 or 1e6: decimal, no leading zero, no underscore",
            suggestion=_mended_number(text, raw, start),
        )
    if match[1] is None and match[2] is None:
        if len(raw) <= 20 and (whole := int(raw)) <= INT_MAX:
            return whole
    elif (fraction := float(raw)) != float("inf"):
        return fraction
    raise ExpressionError(
        f"{shown(raw)} does not fit 64 bits",
        code="expr_number_too_big",
        position=start,
        remedy="use a smaller number, or text in quotes",
    )


def _mended_number(text: str, raw: str, start: int) -> str | None:
    plain = raw.replace("_", "").lstrip("0")
    plain = plain if plain[:1].isdigit() else f"0{plain}"
    plain = plain.removesuffix(".")
    return text[:start] + plain + text[start + len(raw) :] if _NUMBER.fullmatch(plain) else None


def _unquoted(raw: str, start: int) -> str:
    body = raw[1:-1]
    if "${" in body:
        raise ExpressionError(
            f"{shown(raw)} is text: ${{…}} inside an expression is not filled in",
            code="expr_template",
            position=start,
            remedy="name the value itself, as in list.path, and join texts with +",
        )
    if not body.isascii():
        for offset, char in enumerate(body):
            if "\ud800" <= char <= "\udfff":
                raise _strange_character(char, start + 1 + offset)
    if "\\" not in body:
        return body

    def unescaped(match: re.Match[str]) -> str:
        if match[1] not in _ESCAPES:
            raise ExpressionError(
                f"\\{match[1]} is not an escape",
                code="expr_escape",
                position=start + 1 + match.start(),
                allowed=("\\n", "\\t", "\\r", "\\\\", "\\'", '\\"'),
                remedy="write the character itself, or \\\\ for a backslash",
            )
        return _ESCAPES[match[1]]

    return _ESCAPE.sub(unescaped, body)


def _stranger(raw: str, start: int) -> ExpressionError:
    """The error for something that is no token here."""
    if raw[0] in "\"'":
        return ExpressionError(
            f"the quote {raw[0]} is never closed",
            code="expr_unclosed_string",
            position=start,
            remedy=f"close it with {raw[0]}, or escape it as \\{raw[0]}",
        )
    if raw not in _REFUSED and raw not in OPERATORS:
        return _strange_character(raw, start)
    ours = OPERATORS.get(raw)
    remedy = f"write {ours}" if ours else "let a step compute it, and read its result"
    code, message, remedy = _REFUSED.get(raw, ("expr_operator", f"there is no operator {raw}", remedy))
    return ExpressionError(message, code=code, position=start, remedy=remedy)


def _strange_character(char: str, start: int) -> ExpressionError:
    name = unicodedata.name(char, "")
    shown_as = f"U+{ord(char):04X}" + (f" ({name})" if name else "")
    readable = f"{char!r}, {shown_as}," if char.isprintable() else shown_as
    return ExpressionError(
        f"{readable} has no meaning in an expression",
        code="expr_character",
        position=start,
        remedy="names and operators are plain ASCII; other characters go into quotes",
    )
