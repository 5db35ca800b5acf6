"""Bugs of others about who drives a run. One at a time, and nothing it writes is lost."""

# pyright: reportOptionalMemberAccess=none

from __future__ import annotations

import asyncio
import threading

import pytest
from bugs_stage import plan

import kedge
from kedge.journal.memory import MemoryJournal
from kedge.testing.journal_cases import Driver


async def test_starting_one_id_many_times_at_once_runs_it_once(tmp_path):
    """dbos-py 544: concurrent starts of one workflow id all ran its body."""
    calls = []

    @kedge.tool(effect="effect")
    async def pay() -> str:
        calls.append(1)
        await asyncio.sleep(0.02)
        return "paid"

    async with kedge.Engine([pay], store=tmp_path / "k.db") as engine:
        document = plan("id: a, tool: pay")
        runs = await asyncio.gather(*(engine.start(document, run_id="one") for _ in range(10)))
        results = await asyncio.gather(*(run.result() for run in runs))
    assert {result.status for result in results} == {"done"}
    assert calls == [1]


def test_a_driver_that_was_replaced_can_write_nothing_more():
    """langgraph 8796: two processes drove one thread, both succeeded, and one's work was unreachable."""
    journal = MemoryJournal()
    old = Driver(journal)
    old.write(2)
    old.release()  # as the end of its process does
    new = Driver(journal)
    new.write(1)
    with pytest.raises(kedge.NotOwner, match="another driver took it over"):
        old.write(1)
    assert [entry.epoch for entry in journal.read("run")] == [1, 1, 2]


async def test_results_that_come_at_the_same_moment_are_all_kept():
    """langgraph 8115: parallel tasks that ended together overwrote each other's results, without an error."""
    count = 48
    barrier = threading.Barrier(count)

    @kedge.tool(effect="read")
    def answer(n: int) -> int:
        barrier.wait(30)
        return n * n

    document = plan(f"id: each, tool: answer, foreach: {list(range(count))}, args: {{n: '${{item}}'}}")
    limits = kedge.Limits(parallel=count)
    async with kedge.Engine([answer], limits=limits) as engine:
        for _ in range(3):
            result = await (await engine.start(document)).result()
            assert result.outputs == {"each": [n * n for n in range(count)]}
