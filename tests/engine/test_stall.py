"""A blocked event loop is noticed while it is blocked, and the tool is named."""

from __future__ import annotations

import asyncio
import linecache
import logging
import threading
import time

import pytest

from kedge.engine.stall import BEAT_S, StallWatch
from kedge.tools.function import tool

WARN_S = 0.25


@tool(effect="pure")
async def blocks(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - the fault that is looked for


@tool(effect="pure")
async def blocks_deeper(seconds: float) -> None:
    helper(seconds)


@tool(effect="pure")
async def spins(seconds: float) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        pass


@tool(effect="pure")
async def polite(seconds: float) -> None:
    await asyncio.sleep(seconds)


def helper(seconds):
    time.sleep(seconds)


def threads():
    return [t for t in threading.enumerate() if t.name == "kedge-stall"]


async def threads_end(seconds=3.0):
    deadline = time.monotonic() + seconds
    while threads():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


@pytest.fixture
def flight():
    return {}


@pytest.fixture
async def watch(flight):
    made = StallWatch(flight.items, WARN_S)
    yield made
    made.close()
    await threads_end()


@pytest.fixture
def warnings_of(caplog):
    caplog.set_level(logging.WARNING, "kedge.stall")
    return lambda: [r for r in caplog.records if getattr(r, "action", "") == "loop_stalled"]


@pytest.mark.parametrize(
    ("culprit", "line"),
    [(blocks, "time.sleep(seconds)  #"), (blocks_deeper, "helper(seconds)"), (spins, "until")],
)
async def test_the_blocking_tool_is_named_with_step_line_and_remedy(
    watch, flight, warnings_of, culprit, line
):
    flight.update({"polite[0]": polite, "outer/step": culprit})
    watch.start()
    await asyncio.sleep(0)
    await culprit(seconds=WARN_S * 2)
    (warning,) = warnings_of()
    text = warning.getMessage()
    assert f"{culprit.spec.name!r} (step outer/step)" in text
    assert warning.tool == culprit.spec.name
    assert "a plain `def`" in text
    assert "isolation='process'" in text
    file, _, number = warning.place.rpartition(":")
    assert file == __file__
    assert line in linecache.getline(file, int(number))


async def test_it_is_said_while_the_loop_still_stands(watch, flight, warnings_of):
    flight["a"] = blocks
    watch.start()
    await blocks(seconds=WARN_S * 4)
    ended_s = time.time()  # a record's own clock
    assert warnings_of()[0].created < ended_s - WARN_S


async def test_one_stall_is_told_once_and_the_next_again(watch, flight, warnings_of):
    flight["a"] = blocks
    watch.start()
    await blocks(seconds=WARN_S * 4)
    assert len(warnings_of()) == 1
    await asyncio.sleep(BEAT_S * 2)
    await blocks(seconds=WARN_S * 3)
    assert len(warnings_of()) == 2


async def test_steps_of_the_same_tool_are_all_named(watch, flight, warnings_of):
    flight.update({f"each[{n}]": blocks for n in range(5)})
    watch.start()
    await blocks(seconds=WARN_S * 2)
    (warning,) = warnings_of()
    assert "one of the steps each[0], each[1], each[2], …" in warning.getMessage()
    assert len(warning.paths) == 5


async def test_code_that_belongs_to_no_tool_is_named_by_its_line(watch, flight, warnings_of):
    flight["a"] = polite
    watch.start()
    helper(WARN_S * 2)
    (warning,) = warnings_of()
    assert "no tool" in warning.getMessage()
    assert warning.place.startswith(__file__)


async def test_tools_that_wait_properly_cause_no_warning(watch, flight, warnings_of):
    flight["a"] = polite
    watch.start()
    await polite(seconds=WARN_S * 3)
    assert warnings_of() == []


async def test_a_process_that_stood_still_as_a_whole_is_no_stall(watch, flight, warnings_of):
    flight["a"] = polite
    watch.start()
    watch._beat_s -= 60  # as after SIGSTOP and SIGCONT; the loop waits for something
    await asyncio.sleep(WARN_S * 2)
    assert warnings_of() == []


async def test_without_calls_in_flight_there_is_neither_timer_nor_thread(watch, flight):
    flight["a"] = polite
    watch.start()
    watch.start()
    assert len(threads()) == 1
    flight.clear()
    await asyncio.sleep(BEAT_S * 1.5)
    assert watch._timer is None
    await threads_end(0.5)
    flight["b"] = polite
    watch.start()
    assert len(threads()) == 1


async def test_a_registry_that_changes_while_it_is_read_does_no_harm(warnings_of):
    def changing():
        yield "a", blocks
        if threading.current_thread().name == "kedge-stall":
            raise RuntimeError("dictionary changed size during iteration")

    watch = StallWatch(changing, WARN_S)
    watch.start()
    try:
        await blocks(seconds=WARN_S * 2)
    finally:
        watch.close()
    (warning,) = warnings_of()
    assert "no tool" in warning.getMessage()
    await threads_end()
