"""What may stand in no file: unfinished marks, addresses, other people's papers, code made of data.

The brackets in the patterns keep this file from finding itself.
"""

from __future__ import annotations

import ast
import re

import pytest

UNFINISHED = "an unfinished mark"
REGISTRY = "a registry's address (the user's own settings name it)"
OUTSIDE = "a path outside the project"
DISCUSSION = "a reference to a discussion elsewhere (give the reason itself)"
PAPER = "a paper that is not part of the project"
BANNED_TEXT = {
    UNFINISHED: r"\b(TOD[O]|FIXM[E]|XX[X])\b",
    REGISTRY: r"pypi[.]org|python[h]osted|npmjs[.](org|com)|yarn[p]kg",
    OUTSIDE: r"[.][.]/shared\b|(?<![\w.])/work[/]",
    DISCUSSION: r"(?i)\bissues?\s+#?\d|\b(fixes|closes|refs?|see)\s+#\d",
    PAPER: r"\b(DESIGN|ECOSYSTEM|FIELD|MEASURED|RELIABILITY|STYLE|USERS)[.]md\b",
}
LOCKS = (
    "requirements/core.txt",
    "requirements/build.txt",
    "requirements/dev.txt",
    ".ci/mermaid/package-lock.json",
)

BANNED_CALLS = {
    "eval": "untrusted text is never code: use the expression language",
    "exec": "untrusted text is never code",
    "compile": "untrusted text is never code",
    "__import__": "use importlib.import_module",
    "breakpoint": "left over from debugging",
}
BANNED_IMPORTS = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib"}
UNSAFE = "loading it can run anything; use the codec"

INVARIANT = "# invariant:"


@pytest.mark.parametrize("what", BANNED_TEXT)
def test_no_file_holds(what, texts, blame):
    pattern = re.compile(BANNED_TEXT[what])
    wrong = [
        f"{path}:{number} {line.strip()[:100]}"
        for path, text in texts.items()
        if path not in LOCKS or what is REGISTRY
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    blame(f"{what}: {line}" for line in wrong)


def test_data_never_becomes_code(modules, blame):
    """Tests may: Python itself is a good judge of an expression language that looks like Python."""
    wrong = []
    for module in (m for m in modules if not m.path.startswith("tests/")):
        for node in ast.walk(module.tree):
            names: list[str] = []
            match node:
                case ast.Call(func=ast.Name(id=name)) if name in BANNED_CALLS:
                    wrong.append(f"{module.path}:{node.lineno} {name}(): {BANNED_CALLS[name]}")
                case ast.Import(names=aliases):
                    names = [alias.name for alias in aliases]
                case ast.ImportFrom(module=str(name)):
                    names = [name]
                case _:
                    continue
            wrong += [
                f"{module.path}:{node.lineno} imports {n}: {UNSAFE}" for n in names if n in BANNED_IMPORTS
            ]
    blame(wrong)


def test_asserts_in_the_package_are_our_own_invariants(shipped, blame):
    """People's mistakes are errors with a code and a remedy; an assert says what *we* know, and why."""
    wrong = []
    for module in shipped:
        lines = module.text.splitlines()
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Assert):
                near = lines[node.lineno - 1], lines[node.lineno - 2] if node.lineno > 1 else ""
                if not any(INVARIANT in line for line in near):
                    wrong.append(f"{module.path}:{node.lineno} assert without `{INVARIANT} why`")
    blame(wrong)


@pytest.mark.parametrize(
    ("what", "example"),
    [
        (UNFINISHED, f"# TOD{'O'} later"),
        (REGISTRY, f"--index-url https://pypi{'.'}org/simple"),
        (OUTSIDE, f"see ..{'/'}shared/x"),
        (OUTSIDE, f"cd /work{'/'}main"),
        (DISCUSSION, f"as in issue {'#'}12"),
        (PAPER, f"see DESIGN{'.'}md"),
    ],
)
def test_a_banned_word_is_found(what, example):
    assert re.search(BANNED_TEXT[what], example)
