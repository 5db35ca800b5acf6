"""What the parser says to text that means something elsewhere, or nothing anywhere.

Half of a language is how it says no: each refusal names what stands there and what to write
instead, and hands over the mended text where that is plain.
"""

from __future__ import annotations

from typing import NoReturn

from kedge.plan.expr.cursor import Cursor
from kedge.plan.expr.faults import closest, shown
from kedge.plan.expr.functions import FUNCTIONS
from kedge.plan.expr.lexer import FOREIGN_WORDS, Token

CONSTANTS: dict[str, bool | None] = {"true": True, "false": False, "null": None}
KEYWORDS = frozenset({"and", "or", "not", "in", "if", "else", *CONSTANTS})
RESERVED_WORDS = KEYWORDS | FUNCTIONS.keys() | {"present", "is", "for", "lambda"}
"""Words that cannot be a name in an expression, so no step may have one of them as its id."""
FUNCTION_NAMES = tuple(sorted({*FUNCTIONS, "present"}))
_OTHER_NAMES = {
    "length": "len", "size": "len", "count": "len", "exists": "present", "defined": "present",
    "string": "str", "integer": "int", "number": "float", "boolean": "bool",
}  # fmt: skip


def check_name(at: Cursor, token: Token) -> None:
    """Refuse a word that cannot stand for a value. The cursor is behind it."""
    word = str(token.value)
    if word in FOREIGN_WORDS:
        foreign_word(at, token)
    if at.token.kind == "text" and at.token.start == token.end:
        without = None if "{" in str(at.token.value) else at.with_replaced(token.start, token.end, "")
        message = f"texts have no prefix {shown(word)}"
        at.fail("expr_string_prefix", message, "write the quotes alone", at=token, suggestion=without)
    if word in FUNCTION_NAMES:
        usage = FUNCTIONS[word].usage if word in FUNCTIONS else "present(name)"
        at.fail("expr_reserved", f"{word} is a function, not a value", f"write {usage}", at=token)
    if word in RESERVED_WORDS:
        remedy = "name a value; after a dot it may be a key"
        at.fail("expr_reserved", f"`{word}` is not a value", remedy, at=token)
    if word.startswith("_"):
        at.fail("expr_dunder", f"{shown(word)} is not a name", "names start with a letter a-z", at=token)
    if not word.islower():
        at.fail(
            "expr_name",
            f"{shown(word)} is not a name: names are a-z, 0-9 and _",
            "write it as the step's id is written; text goes into quotes",
            at=token,
            suggestion=at.with_replaced(token.start, token.end, word.lower()),
        )


def check_key(at: Cursor, token: Token, key: str) -> None:
    """Refuse keys that would be Python's own names."""
    if key.startswith("__") and key.endswith("__"):
        at.fail(
            "expr_dunder",
            f"{shown(key)} is not a key: nothing behind the data can be reached",
            "read the data's own keys",
            at=token,
        )


def foreign_word(at: Cursor, token: Token) -> NoReturn:
    """`True`, `is`, `AND` and the like."""
    word = str(token.value)
    ours = FOREIGN_WORDS[word]
    code = "expr_python_literal" if ours in CONSTANTS else "expr_operator"
    message = f"`{word}` is written `{ours}` here"
    at.fail(code, message, f"write {ours}", at=token)


def unknown_function(at: Cursor, token: Token) -> NoReturn:
    """A call of something that is not on the list."""
    name = str(token.value)
    if name in KEYWORDS:
        at.fail("expr_reserved", f"`{name}` is not a function", "put a value before it", at=token)
    near = _OTHER_NAMES.get(name) or closest(name.lower(), FUNCTION_NAMES)
    at.fail(
        "expr_unknown_function",
        f"there is no function {shown(name)}",
        f"did you mean {near}?" if near else "let a step compute it, and read its result",
        at=token,
        allowed=FUNCTION_NAMES,
        suggestion=at.with_replaced(token.start, token.end, near) if near else None,
    )


def method(at: Cursor, owner_start: int, dot: Token, key: str) -> NoReturn:
    """`x.upper()`. The cursor is on the bracket."""
    suggestion = None
    if key in FUNCTION_NAMES:
        comma = "" if at.behind.value == ")" else ", "
        owner = at.source(owner_start, dot.start)
        suggestion = at.with_replaced(owner_start, at.token.end, f"{key}({owner}{comma}")
    at.fail(
        "expr_call",
        f"data has no methods, so .{shown(key)}() cannot be called",
        f"write {key}(…)" if suggestion else "call one of the functions with the value in its brackets",
        at=dot,
        allowed=() if suggestion else FUNCTION_NAMES,
        suggestion=suggestion,
    )


def not_a_key(at: Cursor, dot: Token) -> NoReturn:
    """Something else than a word after a dot."""
    token = at.token
    suggestion = (
        at.with_replaced(dot.start, token.end, f"[{token.value}]") if token.kind == "number" else None
    )
    at.fail(
        "expr_key",
        "after a dot stands a key of A-Z, a-z, 0-9 and _",
        'write other keys as ["the key"], and places in a list as [0]',
        suggestion=suggestion,
    )


def no_value(at: Cursor) -> NoReturn:
    """Something else stands where a value should."""
    token = at.token
    raw = at.source(token.start, token.end)
    if token.kind == "end":
        at.fail("expr_incomplete", "the expression ends where a value should come", "complete it")
    if raw == "+":
        without = at.with_replaced(token.start, token.end, "")
        at.fail("expr_syntax", "a number has no sign +", "leave the + out", suggestion=without)
    if raw == ".":
        zero = at.with_replaced(token.start, token.start, "0")
        at.fail("expr_number", "a number starts with a digit", "write 0.5 for .5", suggestion=zero)
    at.fail(
        "expr_syntax", f"{raw} stands where a value should", "write a name, a number, a text or a bracket"
    )


def no_operator(at: Cursor) -> NoReturn:
    """A value is complete, and something follows that is no operator."""
    token = at.token
    raw = at.source(token.start, token.end)
    if raw in FOREIGN_WORDS:
        foreign_word(at, token)
    if raw == "for":
        at.fail(
            "expr_comprehension", "there are no comprehensions", "let a `foreach` step do it for each item"
        )
    if raw in (")", "]", "}"):
        at.fail("expr_unopened", f"{raw} closes nothing", "remove it, or open its bracket")
    if raw in (",", ":"):
        at.fail("expr_syntax", f"{raw} has no meaning here", "lists stand in [ ], maps in { }")
    at.fail("expr_syntax", f"{shown(raw)} follows a value", "put an operator between them: and, or, ==, +, …")
