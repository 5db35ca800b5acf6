"""Expressions and templates: written by the grammar, bent out of it, judged by a second evaluator too."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hostile.corpus import texts_of
from hostile.guard import Broken, is_plain, same, watched
from hostile.luck import Luck, changed, drawn_out
from hostile.reference import NoOpinion, Refused, evaluate
from kedge.base.codec import encode
from kedge.base.errors import ExpressionError
from kedge.plan.expr import Absent, Expression, Template, parse, parse_template

PARSE_S = 0.010
RUN_S = 1.0
"""What one evaluation may take at the very most: a million items are looked at in that time."""
EXPRESSION_MAX = 4_096

DATA: dict[str, Any] = {
    "a": {"x": 1, "y": [1, 2.5, -3], "z": None, "__class__": {"__bases__": [1]}, "if": True, "odd key": "v"},
    "b": [1, "two", None, [True, False], {"k": "v"}, 1.0, True],
    "n": -9223372036854775808,
    "m": 18446744073709551615,
    "f": 1.7976931348623157e308,
    "g": 5e-324,
    "zero": 0,
    "flag": True,
    "no": False,
    "nothing": None,
    "numbers": [3, 1, 2.5, -0.0],
    "words": ["beta", "alpha", ""],
    "flags": [True, False],
    "empty": [],
    "blank": "",
    "text": "${a.x} {{7*7}} __import__('os').system('id') %s",
    "odd": "\x00\x1b[31m\u202e\ud800 ﬁ İ",
    "digits": " +12 ",
    "item": "a.md",
    "wide": [[["deep"] * 3] * 3] * 3,
}
_NAMES = (*DATA, "a.x", "a.y", "a.y[0]", "a.z", "b[4].k", "b[3]", 'a["odd key"]', "a.if", "wide[0][1][2]")
_ATOMS = (
    "1", "0", "2", "true", "null", "'a'", '""', "1.5", "1e3", "-1", "false", "[]", "{}",
    "18446744073709551615",
    "9223372036854775807", "0.1", "1e308", "'${'", "'1'", "'beta'", "[1, 2]", '{"x": 1}', "missing", "1e-300",
)  # fmt: skip
_BINARY = ("+", "-", "*", "/", "//", "%", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or")
_ONE = (
    "len",
    "min",
    "max",
    "sum",
    "any",
    "all",
    "abs",
    "round",
    "str",
    "int",
    "float",
    "bool",
    "lower",
    "upper",
)
_TWO = ("startswith", "endswith", "round", "min", "max")
WORDS = (
    "(", ")", "[", "]", "{", "}", ",", ":", ".", "'", '"', "\\", " ", "\n", "-", "not ", " if ", " else ",
    " and ",
    " or ", " in ", " == ", "===", "&&", "||", "!", "=", ":=", "**", "<<", "^", "~", "@", "?", "`", "$",
    "${", "{{",
    "}}", "#", ";", "lambda", "for", "is", "True", "None", "await ", "yield ", "import ", "*", "...", "->",
    ".__class__", ".__globals__", "__import__", "__builtins__", "['__class__']", "getattr(", "eval(", "open(",
    "exec(", "().__class__.__bases__[0].__subclasses__()", "f'", "rb'", "u'", "'%s' % a", "{0.__class__}",
    ".format(", "9**9**9", "9" * 400, "1e999", "0x1f", "1_000", "01", ".5", "5.", "'a'*10", "a.b.c",
    "present(",
    "present(a.x)", "len(", "\u0430", "\uff41", "\u200b", "\u202e", "\x00", "\ud800", "\u2028", "\ufeff",
    "ﬁ", "٣",
    "≤", "\u00d7", "“", "”", "a?.b", "a??b", "x=>x", "secret.KEY", "../", "runs[0]", "constructor",
    "__proto__",
)  # fmt: skip


def _write(luck: Luck, out: list[str], depth: int) -> None:
    """One expression that the grammar has, as tokens."""
    if depth <= 0:
        out.append(luck.pick(_NAMES if luck.percent(60) else _ATOMS))
        return
    match luck.below(12):
        case 0 | 1 | 2 | 3:
            _write(luck, out, depth - 1)
            out += [" ", luck.pick(_BINARY), " "]
            _write(luck, out, depth - 1)
        case 4:
            out += [luck.pick(_ONE), "("]
            _write(luck, out, depth - 1)
            out.append(")")
        case 5:
            out += [luck.pick(_TWO), "("]
            _write(luck, out, depth - 1)
            out.append(", ")
            _write(luck, out, depth - 1)
            out.append(")")
        case 6:
            out.append(luck.pick(("(", "not (", "-(", "- (", "(\n")))
            _write(luck, out, depth - 1)
            out.append(")")
        case 7:
            _write(luck, out, depth - 1)
            out.append(" if ")
            _write(luck, out, depth - 2)
            out.append(" else ")
            _write(luck, out, depth - 1)
        case 8:
            _write_holder(luck, out, depth)
        case 9:
            out += [
                "(",
                luck.pick(_NAMES),
                ")[",
                luck.pick(("0", "-1", "1:", ":2", ":", "a.x", "'x'", "'y'")),
                "]",
            ]
        case 10:
            out += ["present(", luck.pick(_NAMES), ")"]
        case _:
            out.append(luck.pick(_NAMES))


def _write_holder(luck: Luck, out: list[str], depth: int) -> None:
    """A list or a map."""
    opening, closing = luck.pick(("[]", "{}"))
    out.append(opening)
    for number in range(luck.below(4)):
        out.append(f'"k{number}": ' if opening == "{" else "")
        _write(luck, out, depth - 1)
        out.append(", ")
    out.append(closing)


def _tokens(luck: Luck) -> list[str]:
    out: list[str] = []
    _write(luck, out, luck.below(5))
    return out


def expression(luck: Luck) -> str:
    """A text for the expression reader: right, nearly right, an attack, or drawn out to the limit."""
    kind = luck.below(100)
    if kind < 40:
        return "".join(_tokens(luck))
    if kind < 80:
        return "".join(changed(luck, _tokens(luck), WORDS, 1 + luck.below(4)))[:5_000]
    if kind < 98:
        return "".join(changed(luck, list(luck.pick(texts_of("expression"))[:400]), WORDS, luck.below(4)))[
            :5_000
        ]
    return drawn_out(luck, [*_tokens(luck), luck.pick(WORDS)])


def template(luck: Luck) -> str:
    """A text with expressions in it."""
    if luck.percent(15):
        return "".join(changed(luck, list(luck.pick(texts_of("template"))[:400]), WORDS, luck.below(4)))[
            :5_000
        ]
    out: list[str] = []
    for _ in range(luck.below(4)):
        out.append(luck.pick(("", "", " and ", "$${", "$", "{{", "}", "é\n", "\x1b[0m", "$$${", "'", "\\${")))
        out.append("${")
        out += _tokens(luck)
        out.append("}")
    if luck.percent(45):
        changed(luck, out, WORDS, 1 + luck.below(3))
    return "".join(out)[:20_000]


def _resolve(name: str) -> Any:
    if name == "skipped":
        raise Absent(name, "its step was skipped")
    return DATA[name]


_ERRORS = (ExpressionError,)


def judge_expression(text: str) -> str:
    """Parse and evaluate it. What it came to: `value`, or the code of its refusal."""
    made, refused = watched(lambda: parse(text), _ERRORS, PARSE_S)
    if made is None:
        return _refused(text, refused, parse)
    value, error = watched(lambda: made.evaluate(_resolve), _ERRORS, RUN_S)
    if error is None and not is_plain(value):
        raise Broken(f"came to {type(value).__name__}, which is not plain data: {value!r:.200}")
    _agrees(made, value, error)
    return "value" if error is None else getattr(error, "code", "")


def _refused(text: str, error: Exception | None, read: Callable[[str], Any]) -> str:
    if not isinstance(error, ExpressionError):
        raise Broken("neither value nor error")
    if not 0 <= error.position <= len(text) or not error.remedy:
        raise Broken(f"an error at {error.position} of {len(text)} with the remedy {error.remedy!r}")
    if error.suggestion is not None:
        _, again = watched(lambda: read(error.suggestion or ""), _ERRORS, PARSE_S * (1 + len(text) // 4096))
        if again is not None and text.count("${") < 2:  # else it mends the first of several
            raise Broken(f"suggests {error.suggestion!r:.200}, and refuses it: {again}")
    return error.code


def _agrees(made: Expression, value: Any, error: Exception | None) -> None:
    """With the second evaluator, where that has an opinion. A budget may stop ours alone."""
    try:
        expected = evaluate(made.text, DATA)
    except Refused as refused:
        if error is None:
            raise Broken(f"came to {value!r:.200}, and should be refused ({refused})") from None
    except (NoOpinion, TypeError):
        return
    else:
        if isinstance(error, ExpressionError):
            if error.code not in ("expr_too_big", "expr_no_text"):
                raise Broken(f"is refused ({error.code}), and should come to {expected!r:.200}")
        elif not same(value, expected):
            raise Broken(f"came to {value!r:.200}, and should come to {expected!r:.200}")


def judge_template(text: str) -> str:
    """Parse and render it."""
    made, refused = watched(
        lambda: parse_template(text), _ERRORS, PARSE_S * (1 + len(text) // EXPRESSION_MAX)
    )
    if made is None:
        return _refused(text, refused, parse_template)
    value, error = watched(lambda: made.render(_resolve), _ERRORS, RUN_S)
    if error is not None:
        return getattr(error, "code", "")
    if made.whole is None and type(value) is not str:
        raise Broken(f"text with expressions in it came to {type(value).__name__}")
    if not is_plain(value):
        raise Broken(f"came to {type(value).__name__}, which is not plain data: {value!r:.200}")
    expected = _rendered(text, made)
    if not same(value, expected):
        raise Broken(f"came to {value!r:.300}, and should come to {expected!r:.300}")
    return "value"


def _rendered(text: str, made: Template) -> Any:
    """What it should come to: the shortest `${…}` that holds an expression, filled in once, left to right."""
    parts: list[Any] = []
    at = 0
    while (opening := text.find("${", at)) >= 0:
        if opening > at and text[opening - 1] == "$":
            parts.append(text[at : opening - 1] + "${")
            at = opening + 2
            continue
        closing = text.find("}", opening)
        while closing >= 0 and not _is_expression(text[opening + 2 : closing]):
            closing = text.find("}", closing + 1)
        if closing < 0:
            raise Broken(f"was taken for a template, and {text[opening : opening + 80]!r} never ends")
        parts += [text[at:opening], parse(text[opening + 2 : closing]).evaluate(_resolve)]
        at = closing + 1
    parts.append(text[at:])
    if made.whole is not None:
        return next((part for part in parts if type(part) is not str or part), "")
    return "".join(part if type(part) is str else _written(part) for part in parts)


def _is_expression(text: str) -> bool:
    try:
        parse(text)
    except ExpressionError:
        return False
    return True


def _written(value: Any) -> str:
    return encode(value).decode()
