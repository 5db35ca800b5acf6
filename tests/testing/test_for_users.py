"""The kit as users meet it: any test runner, no plugin, nothing loaded before it is used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
TESTS = """
import asyncio
from kedge.testing import rehearsal, try_plan, virtual

PLAN = "goal: Wait\\nsteps: [{id: rest, tool: sleep, args: {seconds: 9000}}, {id: a, tool: t, after: [rest]}]"


def test_plain():
    assert try_plan(PLAN, {"t": 1}).status == "done"


@virtual
async def test_steered():
    async with rehearsal(PLAN, {"t": []}) as run:
        await asyncio.sleep(3600)
        await run.cancel()
        assert (await run.result()).status == "cancelled"
"""
IN_A_LOOP = """

async def test_in_a_loop():
    assert try_plan(PLAN, {"t": 1}).status == "done"
"""
WITH_PLUGIN = (
    "-p",
    "pytest_asyncio.plugin",
    "-o",
    "asyncio_mode=auto",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
)


def _python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PYTHONPATH": str(SOURCE), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder, env=environ, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("text", "options", "passed"),
    [(TESTS, (), "2 passed"), (TESTS + IN_A_LOOP, WITH_PLUGIN, "3 passed")],
    ids=["no plugin", "pytest-asyncio"],
)
def test_it_works_under_pytest_alone_and_with_its_asyncio_plugin(tmp_path, text, options, passed):
    (tmp_path / "test_plan.py").write_text(text)
    done = _python("-m", "pytest", "-q", "-W", "error", *options, folder=tmp_path)
    assert passed in done.stdout, done.stdout + done.stderr


def test_importing_it_loads_nothing_before_it_is_used(tmp_path):
    heavy = "{'apsw', 'yaml', 'click', 'rich', 'asyncio', 'kedge.control.engine'}"
    done = _python("-c", f"import sys, kedge.testing; print({heavy} & set(sys.modules))", folder=tmp_path)
    assert done.stdout == "set()\n", done.stderr
