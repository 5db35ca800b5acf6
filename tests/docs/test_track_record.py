"""The track record names tests that exist, and every bug of others that we know of is on it."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import kedge.testing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "track-record.md").read_text(encoding="utf-8")
COMMAND = re.compile(r'make test ARGS="-k ([a-z0-9_]+)"')
ELSEWHERE = {
    "langgraph": (6208, 9002, 8834, 5952, 4028, 8458, 8115, 8796, 5682, 1878, 8606),
    "dbos-py": (716, 805, 544, 744, 371),
    "crewAI": (7154, 3953, 6439),
    "prefect": (17482, 17593, 11380),
    "python-sdk": (332, 428),
    "strands": (3390,),
    "opencode": (16697,),
}


@pytest.fixture(autouse=True)
def _generator_on_the_path(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "docs"))


@pytest.fixture(scope="module")
def tests():
    """Name of every test, with its folder and file, as -k sees it."""
    found = []
    for file in (ROOT / "tests").rglob("test_*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            name = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else ""
            found += [f"{file.relative_to(ROOT)}::{name}"] * name.startswith("test_")
    return found


def test_every_command_on_the_page_runs_a_test(tests):
    words = COMMAND.findall(PAGE)
    assert len(words) > 10
    assert [word for word in words if not any(word in test for test in tests)] == []


def test_every_row_of_ours_has_a_command():
    ours = PAGE.partition("## Found here")[2].partition("## Found elsewhere")[0]
    rows = [line for line in ours.splitlines() if line.startswith("| ")][1:]
    assert [row for row in rows if "`" not in row.split("|")[3]] == []


def test_every_bug_of_others_has_its_test_or_says_what_it_comes_with():
    missing = [
        f"{product} {number}"
        for product, numbers in ELSEWHERE.items()
        for number in numbers
        if f"| {product} {number}" not in PAGE and not re.search(rf"\| {product} [^|]*\b{number}\b", PAGE)
    ]
    assert missing == []
    assert "| SQLite " in PAGE


def test_every_test_of_others_bugs_says_whose_and_what():
    for where, what, name in import_module("others").bugs():
        assert where, name
        assert what.endswith("."), name
    assert len(list(import_module("others").bugs())) >= 24


def test_everything_for_tests_says_what_it_is():
    assert [name for name in kedge.testing.__all__ if not getattr(kedge.testing, name).__doc__] == []
    with pytest.raises(AttributeError):
        _ = kedge.testing.nothing
