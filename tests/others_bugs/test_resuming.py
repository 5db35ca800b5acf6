"""Bugs of others about taking a run up again. What is done is never done twice, and nothing is left out."""

# pyright: reportOptionalMemberAccess=none, reportPossiblyUnboundVariable=none

from __future__ import annotations

import asyncio
import random

import pytest
from bugs_stage import Stage, cut, plan

import kedge
from kedge.testing import Fail, Hang, Late, virtual

SENDS = plan(*(f"id: s{n}, tool: send, args: {{n: {n}}}, timeout_s: 5" for n in range(5)))


@virtual
async def test_a_step_with_an_open_question_is_not_called_again_when_another_is_answered():
    """langgraph 6208: a node with two open questions ran again from its top after only one was answered."""
    stage = Stage({"send": "effect"})
    async with stage.engine({"send": Hang()}) as engine:
        run = await engine.start(SENDS)
        result = await run.result()
        assert len(result.questions) == 5
        await run.answer("q2", "done", value="sent")
        result = await run.result()
        assert list(result.questions) == ["q1", "q3", "q4", "q5"]
    assert sorted(stage.steps_called()) == ["s0", "s1", "s2", "s3", "s4"]


@virtual
async def test_an_answered_question_is_never_asked_again():
    """langgraph 5952: answered questions of parallel branches were asked again at each later answer."""
    stage = Stage({"send": "effect"})
    async with stage.engine({"send": Hang()}) as engine:
        run = await engine.start(SENDS, run_id="r")
        await run.result()
        for question in ("q4", "q1"):
            await run.answer(question, "failed")
            await run.result()
    async with stage.engine({"send": []}) as engine:
        run = await engine.resume("r")
        result = await run.result()
        assert sorted(result.questions) == ["q2", "q3", "q5"]
        with pytest.raises(kedge.Refused) as refused:
            await run.answer("q4", "retry")
    assert refused.value.code == "already_answered"


@virtual
async def test_questions_are_answered_in_any_order_over_restarts_each_for_its_own_step():
    """langgraph 4028: of several questions open at once only the first could be answered in one call."""
    stage = Stage({"send": "effect"})
    async with stage.engine({"send": Hang()}) as engine:
        run = await engine.start(SENDS, run_id="r")
        asked = {asked.path: id_ for id_, asked in (await run.result()).questions.items()}
    order = list(asked)
    random.Random(3).shuffle(order)
    for path in order:
        async with stage.engine({"send": []}) as engine:
            run = await engine.resume("r")
            await run.answer(asked[path], "done", value=f"answer for {path}")
            result = await run.result()
    assert result.status == "done"
    assert result.outputs == {path: f"answer for {path}" for path in asked}
    assert len(stage.steps_called()) == 5


@virtual
async def test_a_fallback_that_ran_does_not_run_again_when_the_run_is_taken_up():
    """langgraph 9002: an error handler that had run and stored its result ran a second time on resume."""
    stage = Stage()
    document = plan(
        "id: pay, tool: pay",
        "id: refund, tool: refund, fallback_for: pay",
        "id: other, tool: other",
        "id: end, tool: end, args: {pay: '${pay}', other: '${other}'}",
    )
    async with stage.engine({"pay": Fail(), "refund": "refunded", "other": Fail(), "end": []}) as engine:
        run = await engine.start(document, run_id="r")
        assert (await run.result()).status == "failed"
    async with stage.engine({"pay": [], "refund": [], "other": "now it works", "end": "ended"}) as engine:
        run = await engine.resume("r", retry_failed=True)
        result = await run.result()
    assert result.status == "done"
    assert stage.calls("end") == [{"pay": "refunded", "other": "now it works"}]
    assert (len(stage.calls("pay")), len(stage.calls("refund"))) == (1, 1)


@virtual
async def test_a_condition_that_could_not_be_evaluated_is_looked_at_again_and_never_passed_over():
    """langgraph 8834: after an error in a router, resuming skipped the routing and ended as if done."""
    stage = Stage()
    document = plan("id: ask, tool: ask", "id: go, tool: go, when: 'ask.items > 0', args: {x: '${ask}'}")
    script = {"ask": {"nothing": 1}, "go": []}
    async with stage.engine(script) as engine:
        run = await engine.start(document, run_id="r")
        first = await run.result()
    async with stage.engine({"ask": [], "go": []}) as engine:
        run = await engine.resume("r", retry_failed=True)
        second = await run.result()
    for result in (first, second):
        assert (result.status, result.steps["go"].status) == ("failed", "failed")
        assert "items" in result.steps["go"].error.message
    assert len(stage.calls("ask")) == 1


@virtual
async def test_a_composite_goes_on_inside_and_does_not_begin_anew():
    """langgraph 8458: going back to a point inside a subgraph ran the whole subgraph from its start."""
    stage = Stage()
    inner = "{id: a, tool: one}, {id: b, tool: two, args: {x: '${a}'}}, {id: c, tool: one, args: {x: '${b}'}}"
    document = plan(f"id: outer, steps: [{inner}]", "id: end, tool: two, args: {x: '${outer}'}")
    async with stage.engine({"one": 1, "two": Hang()}) as engine:
        await engine.start(document, run_id="r")
        await asyncio.sleep(5)
    async with stage.engine({"one": 3, "two": 2}) as engine:
        run = await engine.resume("r")
        assert (await run.result()).status == "done"
    assert stage.steps_called() == ["outer/a", "outer/b", "outer/b", "outer/c", "end"]


@virtual
async def test_a_join_waits_for_the_branch_that_was_running_when_the_driver_was_lost():
    """strands 3390: a join whose sibling was still running was taken up as ready, and ran twice."""
    stage = Stage()
    document = plan(
        "id: left, tool: left",
        "id: right, tool: right",
        "id: join, tool: join, args: {left: '${left}', right: '${right}'}",
    )
    async with stage.engine({"left": 1, "right": Hang(), "join": []}) as engine:
        await engine.start(document, run_id="r")
        await asyncio.sleep(5)
    async with stage.engine({"left": [], "right": Late(60, 2), "join": 3}) as engine:
        run = await engine.resume("r")
        assert (await run.result()).status == "done"
    assert stage.calls("join") == [{"left": 1, "right": 2}]
    assert len(stage.calls("left")) == 1


@virtual
async def test_a_run_goes_on_wherever_between_two_events_its_driver_died():
    """dbos-py 805: a recovered workflow stood still for ever between a finished step and the next."""
    whole = Stage()
    document = plan(*("id: a, tool: t", "id: b, tool: t, after: [a]", "id: c, tool: t, after: [b]"))
    async with whole.engine({"t": 1}) as engine:
        await (await engine.start(document, run_id="r")).result()
    events = len(whole.journal.read("r"))
    for number in range(2, events):
        part = Stage()
        part.journal = cut(whole.journal, "r", number)
        finished = [e for e in part.journal.read("r") if b'"StepSucceeded"' in e.data]
        async with part.engine({"t": 1}) as engine:
            run = await engine.resume("r")
            assert (await run.result()).status == "done"
        assert len(part.calls("t")) == 3 - len(finished)


@virtual
async def test_a_store_that_fails_while_runs_are_taken_up_strands_none_of_them(monkeypatch):
    """dbos-py 716: a database restart during recovery left the workflows it met pending for ever."""
    stage = Stage()
    async with stage.engine({"t": Hang()}) as engine:
        for number in range(3):
            await engine.start(plan("id: a, tool: t"), run_id=f"r{number}")
        await asyncio.sleep(1)
    read, failures = stage.journal.read, iter([True, True, False, True])

    def broken(*args, **more):
        if next(failures, False):
            raise kedge.StoreError("the disk does not answer")
        return read(*args, **more)

    monkeypatch.setattr(stage.journal, "read", broken)
    async with stage.engine({"t": "done"}) as engine:
        waiting = ["r0", "r1", "r2"]
        while waiting:
            try:
                run = await engine.resume(waiting[0])
            except kedge.StoreError:
                waiting.append(waiting.pop(0))
            else:
                assert (await run.result()).status == "done"
                waiting.pop(0)
        assert {info.status for info in engine.runs()} == {"done"}
