"""How well the runs of a store went, counted."""

from __future__ import annotations

import asyncio
import time

import pytest

import kedge
from kedge.base.errors import BadInput
from kedge.control.numbers import By, numbers
from kedge.control.tally import Tally, percentile
from kedge.journal.entry import Entry
from kedge.journal.memory import MemoryJournal
from kedge.testing import Fail, Late, Use, VirtualClock, run_virtually, scripted


def plan(*steps, goal="g", **more):
    return kedge.Plan.parse({"goal": goal, "steps": list(steps), **more})


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def played(*runs, by: By = "tool", **asked):
    """What is counted after these runs: each a plan and a script."""
    journal = MemoryJournal()

    async def main():
        for number, (made, script) in enumerate(runs):
            async with kedge.Engine(scripted(script), journal, clock=VirtualClock()) as engine:
                run = await engine.start(made, run_id=f"run{number}")
                await run.result()
        async with kedge.Engine((), journal, clock=VirtualClock()) as engine:
            return engine.numbers(by, **asked)

    return run_virtually(main())


TWICE = step("a", retry={"attempts": 2, "backoff_s": 60})


def test_calls_are_counted_by_tool():
    found = played(
        (plan(TWICE, step("b", "u")), {"t": [Fail("transient"), Late(2, 1)], "u": Use(10, 0.5, 1)}),
        (plan(step("a")), {"t": [Late(4, 1)]}),
        (plan(step("a")), {"t": [Fail("permanent")]}),
    )
    assert (found.by, found.runs, found.of, found.unreadable) == ("tool", 3, 3, ())
    t, u = found.rows
    assert (t.name, t.runs, t.done, t.failed, t.success, t.retries) == ("t", 3, 2, 2, 0.5, 1)
    assert (t.p50_s, t.p95_s, t.cost, t.tokens) == (2.0, 4.0, 0.0, 0)
    assert (u.name, u.runs, u.done, u.success, u.cost, u.tokens) == ("u", 1, 1, 1.0, 0.5, 10)


def test_items_rounds_and_children_are_calls_of_their_tool_and_their_holders_are_none():
    inner = {"id": "c", "steps": [step("x"), step("nap", "sleep", args={"seconds": 1})]}
    found = played(
        (
            plan(step("a", foreach=[1, 2]), step("b", loop={"times": 3}), inner | {"loop": {"times": 2}}),
            {"t": 1},
        )
    )
    assert [(row.name, row.done, row.failed) for row in found.rows] == [("t", 7, 0)]


def test_calls_that_undo_steps_are_calls_of_their_tool():
    undo = {"tool": "u", "args": {"was": "${result}"}}

    async def main():
        made = plan(step("a", compensate=undo, foreach=[1, 2]), step("b", "v", after=["a"]))
        script = scripted({"t": 1, "u": Late(2, 1), "v": Fail("permanent")})
        async with kedge.Engine(script, clock=VirtualClock()) as engine:
            await (await engine.start(made, settings=kedge.RunSettings(undo="failure"))).result()
            return engine.numbers("tool")

    found = run_virtually(main())
    assert [(row.done, row.p50_s) for row in found.rows if row.name == "u"] == [(2, 2.0)]


def test_what_could_not_be_called_is_no_call():
    found = played((plan(step("n", "u"), step("a", args={"x": "${n.y}"})), {"u": {"x": 1}, "t": 1}))
    assert [(row.name, row.done, row.failed) for row in found.rows if row.name == "u"] == [("u", 1, 0)]
    assert [(row.success, row.failed, row.p50_s) for row in found.rows if row.name == "t"] == [
        (None, 0, None)
    ]


def test_a_changed_plan_is_followed():
    journal = MemoryJournal()

    async def main():
        async with kedge.Engine(scripted({"t": Late(1, 1), "u": 1}), journal, clock=VirtualClock()) as engine:
            run = await engine.start(plan(step("a")))
            await run.send(kedge.commands.Inject(step=kedge.Step(id="b", tool="u")))
            await run.result()
            return engine.numbers()

    assert {row.name for row in run_virtually(main()).rows} == {"t", "u"}


def test_runs_are_counted_by_plan():
    one, other = plan(TWICE, goal="One"), plan(step("a"), goal="Other")
    found = played(
        (one, {"t": [Fail("transient"), Use(5, 0.25, Late(3, 1))]}),
        (one, {"t": [Fail("permanent")]}),
        (other, {"t": 1}),
        by="plan",
    )
    first, second = found.rows
    assert (first.goal, first.runs, first.done, first.failed, first.success) == ("One", 2, 1, 1, 0.5)
    assert (first.retries, first.cost, first.tokens) == (1, 0.25, 5)
    assert first.p95_s is not None
    assert first.p95_s > 63
    assert (second.goal, second.runs, second.success) == ("Other", 1, 1.0)
    assert len(first.name) == 64


@pytest.mark.parametrize(("by", "name"), [("day", "2026-01-01"), ("week", "2026-W01")])
def test_runs_are_counted_by_day_and_week(by, name):
    found = played((plan(step("a")), {"t": 1}), (plan(step("a", when="false")), {"t": []}), by=by)
    (row,) = found.rows
    assert (row.name, row.runs, row.done, row.failed, row.goal) == (name, 2, 1, 1, "")


def test_only_the_newest_runs_are_counted_and_it_is_said_of_how_many():
    runs = [(plan(step("a")), {"t": 1})] * 3
    found = played(*runs, by="day", last=2)
    assert (found.runs, found.of, found.rows[0].runs) == (2, 3, 2)
    found = played(*runs, by="tool", last=1)
    assert (found.runs, found.of, found.rows[0].done) == (1, 3, 1)


def test_only_runs_that_began_lately_are_counted():
    runs = (plan(step("a")), {"t": Late(100, 1)}), (plan(step("a")), {"t": 1})
    assert played(*runs, by="day", since_s=50).of == 1
    assert played(*runs, by="day", since_s=500).of == 2


class Unreadable(MemoryJournal):
    """The log of one run is nothing that a version could have written."""

    def read(self, run_id, after_seq=0, limit=None):
        found = super().read(run_id, after_seq, limit)
        return [*found[:2], Entry(3, 1, 1, b"{", 0)] if run_id == "bad" else found


def test_a_damaged_run_is_named_and_hides_no_other():
    journal = Unreadable()
    for name in ("whole", "bad"):
        kedge.run_sync(plan(step("a")), run_id=name, tools=scripted({"t": 1}), store=journal)  # type: ignore[arg-type]

    async def main():
        async with kedge.Engine((), journal) as engine:
            return engine.numbers()

    found = asyncio.run(main())
    assert found.unreadable == ("bad",)
    assert [(row.name, row.done) for row in found.rows] == [("t", 1)]


@pytest.mark.parametrize(("by", "last", "code"), [("year", None, "count_by"), ("day", 0, "setting_value")])
def test_what_cannot_be_counted_is_refused(by, last, code):
    with pytest.raises(BadInput) as refused:
        numbers(MemoryJournal(), [], by, 0, last=last)
    assert refused.value.code == code


def test_nothing_is_counted_of_nothing():
    assert played(by="tool").rows == played(by="day").rows == ()


@pytest.mark.parametrize(
    ("took", "share", "found"),
    [([], 0.5, None), ([4_000], 0.5, 4.0), ([3, 1, 2], 0.5, 0.002), ([3, 1, 2, 4], 0.5, 0.002),
     (list(range(1, 101)), 0.95, 0.095)],
)  # fmt: skip
def test_percentiles_are_values_that_there_were(took, share, found):
    assert percentile(took, share) == found


def test_a_log_is_read_without_a_state():
    made = plan(*(step(f"s{n}", after=[f"s{n - 1}"] if n else []) for n in range(1_000)))
    started = b'{"kind":"StepStarted","path":"s%d"}'
    done = b'{"kind":"StepSucceeded","path":"s%d","result":1}'
    entries = [Entry(n + 1, 1, n, (done if n % 2 else started) % (n // 2), 0) for n in range(2_000)]
    tally = Tally()
    tally.add("r", "p", made, entries)
    began = time.perf_counter()
    for number in range(10):
        tally.add(f"r{number}", "p", made, entries)
    assert (time.perf_counter() - began) / 20_000 < 50e-6
    assert tally.tools["t"].done == 11_000
