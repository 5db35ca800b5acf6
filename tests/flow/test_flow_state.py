"""What others read of a state: values, spans, limits, and what it says about what is not there."""

from __future__ import annotations

import pytest

from kedge.base.errors import InternalError, NotFound
from kedge.base.limits import Limits
from kedge.flow.closing import run_resolver
from kedge.flow.state import RunState
from kedge.flow.words import Blob
from kedge.plan.expr import Absent
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, limits=None, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, limits=limits or Limits()).start()


def test_a_steps_value_is_that_of_who_stands_in_for_it():
    run = ring(step("a"), step("b", fallback_for="a"), step("c", fallback_for="b"))
    assert run.step("a").value is None
    run.fail("a", "permanent").fail("b", "permanent").finish("c", 3)
    assert [run.step(path).value for path in "abc"] == [b"3"] * 3


def test_a_large_value_is_the_name_of_its_bytes():
    value = ring(step("a")).finish("a", "x" * 20_000).step("a").value
    assert isinstance(value, Blob)
    assert value.size == 20_002


def test_attempts_and_rounds_that_are_over_are_kept_with_what_they_came_to():
    run = ring(step("a", loop={"times": 2}, retry={"attempts": 2, "backoff_s": 1}))
    run.tick(10).fail("a", "timeout").tick(1_000).tick(5).finish("a").tick(5).crash().resume()
    spans = run.step("a").spans or []
    assert [(s.start, s.end, s.attempt, s.iteration, s.outcome, s.final) for s in spans] == [
        (1_000, 1_010, 2, 0, "timeout", False),
        (2_010, 2_015, 2, 0, "done", False),
        (2_015, 2_020, 1, 1, "interrupted", False),
    ]


def test_a_run_has_its_inputs_before_its_first_event():
    plan = {"goal": "g", "inputs": {"n": {"type": "integer"}}, "steps": [step("a")]}
    assert Ring(plan, inputs={"n": 3}).state.inputs_value() == {"n": 3}


def test_the_limits_that_are_looked_at_often_are_at_hand():
    state = ring(step("a"), limits=Limits(parallel=3, calls=4, journal_bytes=50, args_bytes=60)).state
    assert (state.parallel, state.max_calls) == (3, 4)
    assert (state.max_journal_bytes, state.max_args_bytes) == (50, 60)


def test_a_blob_that_is_not_at_hand_is_told_by_its_name():
    state = RunState("r", ring(step("a")).state.program, b"{}")
    with pytest.raises(NotFound, match="blob abc is not at hand") as missing:
        state.fetch("abc")
    assert missing.value.code == "blob"


def test_a_name_that_leads_out_of_the_plan_is_our_bug():
    run = ring(step("a"))
    run.step("a").node.places["b"] = (1, 0)
    with pytest.raises(InternalError, match="step a looks for b further out than the plan goes"):
        run.step("a").needed("b")


def test_a_name_that_means_nothing_to_the_run_is_absent():
    with pytest.raises(Absent, match="item"):
        run_resolver(ring(step("a")).state)("item")
    with pytest.raises(Absent, match="step a was running"):
        run_resolver(ring(step("a")).state)("a")
