"""The examples, copied: they may write where they are, and the project stays as it is."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with a copy of examples/, as the current one."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def python(here):
    """Runs Python in that folder, as a user would."""

    def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        own = {name: value for name, value in os.environ.items() if not name.startswith("KEDGE_")}
        return subprocess.run(
            [sys.executable, *arguments],
            cwd=here,
            env={**own, "PYTHONPATH": str(ROOT / "src"), "PYTHONIOENCODING": "utf-8", **environment},
            capture_output=True,
            text=True,
            encoding="utf-8",
            check=False,
            timeout=60,
        )

    return run
