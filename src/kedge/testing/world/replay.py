"""The one command that shows a life again: the seed, and the commit of the code that lived it."""

from __future__ import annotations

import subprocess
from pathlib import Path


def command(seed: int) -> str:
    """To be typed in the root of the project."""
    commit = _commit()
    return f"PYTHONPATH=src python -m kedge.testing.world {seed}" + (f"  # at {commit}" if commit else "")


def _commit() -> str:
    """Empty where this is no checkout."""
    try:
        found = subprocess.run(  # noqa: S603 - the name of a program and constants
            ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty"],  # noqa: S607
            capture_output=True, text=True, timeout=5, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return found.stdout.strip()
