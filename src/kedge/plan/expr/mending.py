"""Guessing what a text should have been: the spelling of other languages, written as it is here.

A guess is never acted on. It is parsed, and offered with the error if it is right; a text that
means something here never gets this far.
"""

from __future__ import annotations

import re
import unicodedata

from kedge.plan.expr.lexer import FOREIGN_WORDS, OPERATORS, QUOTED, TOKEN

_WRAPPED = re.compile(
    rf"{QUOTED}|[\"'][\s\S]*+|\$\{{(?P<ours>[^{{}}]*+)\}}|\{{\{{(?P<theirs>[^{{}}]*+)\}}\}}"
)
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*+")
_TERNARY = re.compile(r"([^?:'\"]++)\?([^?:'\"]++):([^?:'\"]++)")
_QUOTES = str.maketrans("\u201c\u201d\u201e\u2018\u2019`", "\"\"\"'''")


def mended(text: str) -> str:
    """`text` as it was probably meant. Texts in quotes keep their characters."""
    if not text.isascii():
        plain = unicodedata.normalize("NFKC", text.translate(_QUOTES))
        text = plain if plain.isascii() else text
    ternary = _TERNARY.fullmatch(text)
    if ternary:
        test, then, otherwise = (part.strip() for part in ternary.groups())
        text = f"{then} if {test} else {otherwise}"
    whole = text.strip()
    return _respelled(_WRAPPED.sub(lambda match: _unwrapped(match, whole), text.replace("`", "'")))


def _unwrapped(match: re.Match[str], whole: str) -> str:
    """What is inside `${…}`, `{{…}}` or `'${…}'`."""
    inner = match["ours"] if match["ours"] is not None else match["theirs"]
    if inner is None:
        quoted = _WRAPPED.fullmatch(match.group()[1:-1])
        if quoted is None or quoted["ours"] is None:
            return match.group()
        inner = quoted["ours"]
    inner = inner.strip()
    return inner if match.group() == whole or _PATH.fullmatch(inner) else f"({inner})"


def _respelled(text: str) -> str:
    """Words and operators of other languages, one by one."""
    out: list[str] = []
    before = ""
    for match in TOKEN.finditer(text):
        raw = match.group()
        if match.lastgroup == "word" and before != ".":
            if raw == "not" and before == "==":  # `is not`
                while out.pop() != "==":
                    pass
                raw = "!="
            raw = FOREIGN_WORDS.get(raw, raw)
        elif match.lastgroup in ("foreign", "other"):
            raw = "" if raw in "$;" else OPERATORS.get(raw) or raw
            if raw in ("and", "or", "not"):
                raw = _apart(
                    raw, text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
                )
        if match.lastgroup != "space":
            before = raw
        out.append(raw)
    return "".join(out)


def _apart(word: str, left: str, right: str) -> str:
    """A word that stands for a sign, with the spaces a sign does not need."""
    joined = left.isalnum() or (left != "" and left in "_)]}'\"")
    return (" " if joined else "") + word + ("" if right.isspace() else " ")
