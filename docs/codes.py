"""Every stable code in the source, found by reading the source, and what each means (codes.txt).

Codes are written where they are raised, so there is no list of them that could be wrong. This
module makes the list; a test fails while a code has no meaning or a meaning no code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_CODE = re.compile(r"[a-z][a-z0-9_]{2,40}", re.ASCII)
_POSITIONAL = {"finding", "fault", "fail", "_fault", "_broken", "Fault", "Trouble"}
"""Functions that take a code as their first text that looks like one, no other text before it."""
_NO_CODES = {"neither"}
"""Words that look like a code where they stand, and are none."""
_KIND = {
    "plan/expr": "expressions",
    "plan": "reading",
    "checks": "checking",
    "flow": "running",
    "engine": "running",
    "journal": "store",
    "tools": "tools",
    "base": "asking",
    "control": "asking",
    "surface": "asking",
    "api": "asking",
    "assemble": "asking",
    "testing": "testing",
}


def found_codes(source: Path) -> dict[str, set[str]]:
    """Code -> the kinds of occasion it is raised on."""
    found: dict[str, set[str]] = {}
    for file in sorted(source.rglob("*.py")):
        path = file.relative_to(source).with_suffix("").as_posix()
        kind = next(
            (kind for room, kind in _KIND.items() if path == room or path.startswith(f"{room}/")), None
        )
        if kind is None or path.startswith("tools/builtin/"):
            continue
        for code in _codes_in(ast.parse(file.read_text(encoding="utf-8"))):
            found.setdefault(code, set()).add(kind)
    return found


def _codes_in(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            for keyword in node.keywords:
                if keyword.arg == "code":
                    yield from _texts(keyword.value)
            if _name(node.func) in _POSITIONAL:
                yield from _first_text(node.args)
        elif isinstance(node, ast.Assign) and any("code" in _targets(target) for target in node.targets):
            yield from _texts(node.value)
        elif isinstance(node, ast.Dict):
            for value in node.values:
                yield from (text for text in _in_tuple(value) if text.startswith("expr_"))
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple):
            yield from _returned(node.value)


def _first_text(args: list[ast.expr]) -> Iterator[str]:
    for arg in args:
        texts = list(_texts(arg))
        if texts or isinstance(arg, ast.Constant | ast.JoinedStr):
            yield from texts
            return


def _returned(value: ast.Tuple) -> Iterator[str]:
    """`return "the_code", "the message"`."""
    match value.elts:
        case [ast.Constant(value=str(code)), ast.JoinedStr() | ast.Constant(value=str())] if _is_code(code):
            yield code
        case _:
            return


def _in_tuple(value: ast.expr) -> Iterator[str]:
    """`"operator": ("the_code", "the message", "the remedy")`."""
    if isinstance(value, ast.Tuple):
        yield from _texts(value)


def _texts(value: ast.expr) -> Iterator[str]:
    match value:
        case ast.Constant(value=str(code)) if _is_code(code):
            yield code
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body)
            yield from _texts(orelse)
        case ast.Tuple(elts=[first, *_]):
            yield from _texts(first)
        case _:
            return


def _targets(target: ast.expr) -> set[str]:
    names = target.elts[:1] if isinstance(target, ast.Tuple) else [target]
    return {name.id for name in names if isinstance(name, ast.Name)}


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _is_code(text: str) -> bool:
    return _CODE.fullmatch(text) is not None and text not in _NO_CODES


def meanings(file: Path) -> dict[str, str]:
    """Code -> meaning."""
    lines = file.read_text(encoding="utf-8").splitlines()
    return dict(line.split(": ", 1) for line in lines if line and not line.startswith("#"))


def unsaid(found: dict[str, set[str]], said: dict[str, str]) -> list[str]:
    """What is missing in the meanings, and what is left over."""
    return [
        *(f"{code} has no meaning" for code in sorted(found.keys() - said.keys())),
        *(f"{code} is raised nowhere" for code in sorted(said.keys() - found.keys())),
    ]
