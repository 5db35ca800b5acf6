"""Which small changes to a module are tried, and which are not worth it."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "proof"))

from mutate import mutants


@pytest.fixture(name="told")
def _told(tmp_path):
    def told(text):
        path = tmp_path / "module.py"
        path.write_text(text, encoding="utf-8")
        found = list(mutants(path))
        changed = {ast.unparse(mutant.source()) for mutant in found}
        assert ast.unparse(ast.parse(text)) not in changed
        assert len(changed) == len({(mutant.line, mutant.what) for mutant in found})
        return [mutant.what for mutant in found]

    return told


@pytest.mark.parametrize(
    ("text", "changes"),
    [
        ("x = a < b", ["lt -> lte"]),
        ("x = a and b", ["and -> or"]),
        ("x = a + 1", ["add -> sub", "1 -> 2"]),
        ("x.y = a", ["y = … left out"]),
        ("x += a", ["add= -> sub=", "an update left out"]),
        ("if a:\n    f(k=b)", ["if x -> if not x", "a call left out", "without k="]),
        ("def f():\n    return a", ["return x -> return None"]),
    ],
)
def test_slips_of_the_hand_are_tried(told, text, changes):
    assert sorted(told(text)) == sorted(changes)


@pytest.mark.parametrize(
    "text",
    [
        '"""Words."""\nimport a',
        "def f(x: int = a) -> str:\n    return",
        "raise E(f'{a} words')",
        "x = zip(a, b, strict=True)",
        "x = cast('T', a)",
        "class A:\n    def __init__(self):\n        self.x = None",
        "assert_never(a)",
    ],
)
def test_what_nobody_could_notice_is_not(told, text):
    assert told(text) == []


def test_a_mutant_is_held_against_what_comes_by_its_statement(tmp_path):
    path = tmp_path / "module.py"
    path.write_text("if (a\n        and b):\n    x = 1\nelse:\n    y = 2\n", encoding="utf-8")
    lines = {mutant.what: mutant.statement() for mutant in mutants(path)}
    assert lines["and -> or"] == {1, 2, 4}
    assert lines["1 -> 2"] == {3}
