"""Small enough to read: limits on files, functions, arguments and classes.

An exception names what it excuses and why. One that excuses nothing any more fails, so the tables shrink.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

FILE_LINES = 500
TEST_FILE_LINES = 1_000
ASSEMBLE_LINES = 200
FUNCTION_LINES = 70
ARGUMENTS = 7
PUBLIC_METHODS = 20

LONG_FILES: dict[str, str] = {}
LONG_FUNCTIONS: dict[str, str] = {}
MANY_ARGUMENTS: dict[str, str] = {
    "src/kedge/tools/function.py::tool": "the public decorator: one optional keyword per property of a tool",
}
_PORT = "a store is one port: events, large values, commands, and who drives a run, in one transaction"
BIG_CLASSES: dict[str, str] = {
    "src/kedge/flow/result.py::RunResult": "a run's account: each is one fact, worked out when asked for",
    "src/kedge/engine/ports.py::Journal": _PORT,
    "src/kedge/journal/memory.py::MemoryJournal": _PORT,
    "src/kedge/journal/sqlite.py::SqliteJournal": _PORT,
    "src/kedge/testing/world/disk.py::SimulatedJournal": _PORT,
}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def test_files_are_short(modules, settle):
    def limit(path: str) -> int:
        if path == "src/kedge/assemble.py":
            return ASSEMBLE_LINES
        return TEST_FILE_LINES if path.startswith("tests/") else FILE_LINES

    sizes = {m.path: len(m.text.splitlines()) for m in modules}
    over = {
        path: f"{size} lines, {limit(path)} allowed" for path, size in sizes.items() if size > limit(path)
    }
    settle(over, LONG_FILES)


def test_functions_are_short(modules, settle):
    over = {}
    for module in modules:
        for name, node in functions(module.tree):
            size = (node.end_lineno or 0) - node.lineno + 1
            if size > FUNCTION_LINES:
                over[f"{module.path}::{name}"] = f"line {node.lineno}: {size} lines, {FUNCTION_LINES} allowed"
    settle(over, LONG_FUNCTIONS)


def test_functions_take_few_arguments(shipped, settle):
    over = {}
    for module in shipped:
        for name, node in functions(module.tree):
            every = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
            own = every[1:] if every[:1] in (["self"], ["cls"]) else every
            if len(own) > ARGUMENTS:
                over[f"{module.path}::{name}"] = (
                    f"line {node.lineno}: {len(own)} arguments, {ARGUMENTS} allowed"
                )
    settle(over, MANY_ARGUMENTS)


def test_classes_have_few_public_methods(shipped, settle):
    over = {}
    for module in shipped:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                public = [n for n in node.body if isinstance(n, Function) and not n.name.startswith("_")]
                if len(public) > PUBLIC_METHODS:
                    found = f"line {node.lineno}: {len(public)} public methods, {PUBLIC_METHODS} allowed"
                    over[f"{module.path}::{node.name}"] = found
    settle(over, BIG_CLASSES)


def functions(tree: ast.AST, around: str = "") -> Iterator[tuple[str, Function]]:
    """Every function with its qualified name: `Driver.run`, `outer.inner`."""
    for node in ast.iter_child_nodes(tree):
        name = around
        if isinstance(node, Function | ast.ClassDef):
            name = f"{around}.{node.name}".lstrip(".")
        if isinstance(node, Function):
            yield name, node
        yield from functions(node, name)


@pytest.fixture
def settle(blame):
    """Blames what is over its limit and not excused, and excuses that nothing needs."""

    def judge(over: dict[str, str], excused: dict[str, str]) -> None:
        wrong = [f"{where}: {what}" for where, what in over.items() if where not in excused]
        for where, reason in excused.items():
            if where not in over:
                wrong.append(f"{where}: excused, but within the limit: delete the exception")
            if len(reason) < 20:
                wrong.append(f"{where}: an exception needs a reason")
        blame(wrong)

    return judge
