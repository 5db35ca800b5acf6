"""A share of the damaged stores and failed calls that `make prove` looks at."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def prove(part, *options):
    return subprocess.run(
        [sys.executable, str(ROOT / "proof" / "run.py"), "--only", part, *options],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


@pytest.mark.parametrize(("part", "count"), [("damage", "300"), ("calls", "62"), ("repairs", "200")])
def test_every_fact_is_as_it_should_be(part, count):
    done = prove(part, "--count", count)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "FAILED" not in done.stdout
    assert "\n0 facts" not in done.stdout
