"""What went wrong in other products, from the tests that hold it cannot happen here."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from pages import code, table

FOLDER = Path(__file__).resolve().parent.parent / "tests" / "others_bugs"


def others_bugs() -> str:
    """One row for each test: where, what went wrong there, what holds here."""
    rows = [(where, what, code(name.removeprefix("test_"))) for where, what, name in sorted(bugs())]
    return table(("where", "what went wrong there", "what holds here (a test of that name)"), rows)


def bugs() -> Iterator[tuple[str, str, str]]:
    """(Product and number, what went wrong, test) of each test in the folder."""
    for file in sorted(FOLDER.glob("test_*.py")):
        for node in ast.parse(file.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                where, _, what = (ast.get_docstring(node) or "").partition(": ")
                yield where, what, node.name
