"""Bugs of others about stopping. Cancelled means that nothing runs any more, and dead that nobody waits."""

# pyright: reportOptionalMemberAccess=none

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from pathlib import Path

import pytest
from bugs_stage import Stage, plan

import kedge
from kedge.testing import Late, virtual
from kedge.tools.load import load_tools

PROCESS_TOOLS = str(Path(__file__).parent / "process_tools.py")


@virtual
async def test_cancelling_stops_the_rounds_inside_a_composite():
    """langgraph 5682: a subgraph went on with its loop after the run around it was cancelled."""
    stage = Stage()
    inner = "{id: think, tool: think, loop: {times: 1000}}"
    async with stage.engine({"think": Late(1, "hm")}) as engine:
        run = await engine.start(plan(f"id: outer, steps: [{{id: deep, steps: [{inner}]}}]"))
        await asyncio.sleep(10.5)
        await run.cancel()
        result = await run.result()
        calls = len(stage.calls("think"))
        await asyncio.sleep(3600)
    assert result.status == "cancelled"
    assert len(stage.calls("think")) == calls <= 11


async def test_a_cancelled_run_has_nothing_running():
    """prefect 17482: a flow that was shown as cancelled went on running."""
    beats = []
    begun = threading.Event()

    @kedge.tool(effect="read")
    def work(ctx: kedge.Context) -> None:
        while not ctx.cancelled:
            beats.append(time.monotonic())
            begun.set()
            time.sleep(0.005)
        raise kedge.ToolError("stopped", "cancelled")

    async with kedge.Engine([work]) as engine:
        run = await engine.start(plan("id: a, tool: work", "id: b, tool: work, after: [a]"))
        await asyncio.to_thread(begun.wait, 10)
        await run.cancel()
        result = await run.result()
        over_s = time.monotonic()
        await asyncio.sleep(0.1)
    assert {path: step.status for path, step in result.steps.items()} == {"a": "cancelled", "b": "cancelled"}
    assert max(beats) <= over_s


async def test_cancelling_ends_the_processes_that_a_tool_started(tmp_path):
    """prefect 17593: the process of a subflow was left running when its flow was cancelled."""
    note = tmp_path / "pids"
    async with kedge.Engine(load_tools(PROCESS_TOOLS)) as engine:
        run = await engine.start(plan(f"id: a, tool: start_another, args: {{note: '{note}'}}"))
        async with asyncio.timeout(30):
            while not (note.exists() and len(note.read_text().split()) == 2):  # noqa: ASYNC110
                await asyncio.sleep(0.02)
        pids = [int(pid) for pid in note.read_text().split()]
        await run.cancel()
        assert (await run.result()).status == "cancelled"
    async with asyncio.timeout(10):
        while any(map(_runs, pids)):  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _runs(pid: int) -> bool:
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs process groups")
async def test_a_call_whose_process_died_fails_at_once():
    """python-sdk 332: a request waited for ever when the server's process had died."""
    async with kedge.Engine(load_tools(PROCESS_TOOLS)) as engine:
        began_s = time.monotonic()
        result = await (await engine.start(plan("id: a, tool: die"))).result()
        assert time.monotonic() - began_s < 15  # a process starts in a fraction of it; step_s is 300
    assert result.status == "failed"
    assert "ended" in result.error.message or "died" in result.error.message


async def test_a_process_that_ends_while_it_starts_fails_the_call_at_once(monkeypatch):
    """python-sdk 428: initialising waited for ever when the server's process ended right away."""
    tools = load_tools(PROCESS_TOOLS)
    monkeypatch.setenv("DIE_AT_IMPORT", "1")
    async with kedge.Engine(tools) as engine:
        began_s = time.monotonic()
        result = await (await engine.start(plan("id: a, tool: die"))).result()
        assert time.monotonic() - began_s < 15
    assert result.status == "failed"
