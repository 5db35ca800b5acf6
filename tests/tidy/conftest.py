"""What the tidy tests look at: every file of the project, and every Python module parsed once.

Style is a test, so that a review is about ideas. A tidy test reports *all* offenders as `file:line`
with what is allowed. A limit is loosened by an entry in its exceptions table, with a reason.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEFT_OUT = {
    ".git",
    ".venv",
    "node_modules",
    "__pycache__",
    ".hypothesis",
    ".pytest_cache",
    ".ruff_cache",
    ".kedge",
}


@dataclass(frozen=True)
class Module:
    """One Python file: where it is (`src/kedge/flow/state.py`), what it is called, and its syntax tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def shipped(self) -> bool:
        return self.path.startswith("src/")

    @property
    def name(self) -> str:
        """Its import name: `kedge.flow.state`, `kedge.flow` for the room itself."""
        parts = list(Path(self.path).with_suffix("").parts[1:])
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def room(self) -> str:
        """The folder right below the package, or the name of a file that stands there."""
        return Path(self.path).with_suffix("").parts[2]

    @property
    def package(self) -> str:
        """What relative imports count from."""
        return self.name if self.path.endswith("__init__.py") else self.name.rpartition(".")[0]


def project_files() -> list[Path]:
    """Every file that belongs to the project: as git sees it, or all there are where there is no git."""
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode == 0 and listed.stdout:
        names = listed.stdout.rstrip("\0").split("\0")
        return sorted(ROOT / name for name in names if (ROOT / name).is_file())
    return sorted(p for p in ROOT.rglob("*") if p.is_file() and not LEFT_OUT & set(p.relative_to(ROOT).parts))


@pytest.fixture(scope="session")
def root() -> Path:
    return ROOT


@pytest.fixture(scope="session")
def texts() -> dict[str, str]:
    """Every text file of the project by its path."""
    found: dict[str, str] = {}
    for path in project_files():
        try:
            found[path.relative_to(ROOT).as_posix()] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # pictures and stores are no text
            continue
    return found


@pytest.fixture(scope="session")
def modules(texts: dict[str, str]) -> list[Module]:
    return [Module(path, text, ast.parse(text, path)) for path, text in texts.items() if path.endswith(".py")]


@pytest.fixture(scope="session")
def shipped(modules: list[Module]) -> list[Module]:
    """The modules of the package."""
    return [module for module in modules if module.shipped]


@pytest.fixture
def blame() -> Callable[[Iterable[str]], None]:
    """Fails the test with the list of offenders, if there are any."""

    def fail(wrong: Iterable[str]) -> None:
        lines = sorted(wrong)
        if lines:
            pytest.fail("\n  ".join([f"{len(lines)} to mend:", *lines]), pytrace=False)

    return fail
