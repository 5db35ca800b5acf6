"""A log cut between what happened and its question: it is asked anew. And what a run's end cuts off."""

from __future__ import annotations

import pytest

from kedge.base.limits import Limits
from kedge.flow.events import QuestionAsked, StepFailed, StepInDoubt, StepWaiting
from kedge.plan.tools import Effect
from kedge.testing.ring import Places, Ring

EFFECTS: dict[str, Effect] = {"send": "effect"}


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, gate=None, limits=None):
    return Ring({"goal": "g", "steps": list(steps)}, EFFECTS, gate=gate, limits=limits or Limits()).start()


def cut_after(run, kind):
    """Nothing is left after the last event of this kind; what is asked then, by its reason."""
    last = max(number for number, event in enumerate(run.events, 1) if isinstance(event, kind))
    before = len(run.salvage(last).events)
    assert before > last
    return {run.state.questions[id_].asked.reason: run.state.questions[id_].asked for id_ in run.questions}


def test_a_doubt_is_asked_about_anew():
    run = ring(step("a", "send")).fail("a", "timeout")
    asked = cut_after(run, StepInDoubt)
    assert asked["in_doubt"].path == "a"
    assert "The part of the log that would tell is lost" in asked["in_doubt"].text


def test_a_failure_is_asked_about_anew_with_its_reason():
    run = ring(step("a", on_error="ask")).fail("a", "permission")
    asked = cut_after(run, StepFailed)
    assert asked["failed"].text.startswith("Step a failed: a failed: permission.")
    assert run.answer("retry").calls == ["a"]


def test_an_approval_is_asked_for_anew_with_its_arguments():
    run = ring(step("a", args={"x": 1}, approval={"ask": "May it?"}))
    asked = cut_after(run, StepWaiting)
    assert (asked["approval"].path, bytes(asked["approval"].args)) == ("a", b'{"x":1}')
    assert run.answer("approve").args("a") == {"x": 1}


def test_the_approval_of_a_composite_is_asked_for_anew():
    run = ring(group("p", step("k"), approval={"ask": "May it?"}))
    asked = cut_after(run, StepWaiting)
    assert (asked["approval"].path, bytes(asked["approval"].args)) == ("p", b"{}")
    assert run.answer("approve").calls == ["p/k"]


def test_what_is_still_asked_is_not_asked_twice():
    run = ring(step("a", "send"), step("b")).fail("a", "timeout").finish("b")
    run.salvage(len(run.log) - 1)
    assert [question.reason for question in run.of(QuestionAsked)] == ["in_doubt", "salvaged"]


@pytest.mark.parametrize(("count", "more"), [(20, False), (21, True)])
def test_the_first_few_steps_with_effects_are_named(count, more):
    run = ring(*(step(f"s{number}", "send") for number in range(count))).salvage(2)
    said = run.of(QuestionAsked)[-1].text
    assert ", ".join(f"s{number}" for number in range(20)) in said
    assert ("…" in said, "s20" in said) == (more, False)


def test_the_place_of_a_call_that_is_doubted_first_goes_to_others():
    gate = Places({"send": 1})
    run = ring(step("a", "send"), step("b", "send"), gate=gate).salvage(2).answer("ask")
    assert [run.status(path) for path in "ab"] == ["in_doubt", "in_doubt"]
    assert gate.left == {"send": 1}


def test_what_was_doubted_first_says_so():
    run = ring(step("a", "send")).salvage(2).answer("ask")
    error = run.of(StepInDoubt)[-1].error
    assert (error.category, error.code) == ("in_doubt", "salvaged")


# --- what the end cuts off


def test_items_that_had_not_begun_are_cut_off_and_done_when_the_run_is_taken_up():
    run = ring(step("e", foreach=[1, 2, 3]), limits=Limits(parallel=1))
    run.finish("e[0]", 1).send("cancel").fail("e[1]", "cancelled")
    assert [run.status(f"e[{index}]") for index in range(3)] == ["done", "cancelled", "cancelled"]
    assert run.step("e").open == 0
    run.crash().resume(retry_failed=True).finish("e[1]", 2).finish("e[2]", 3)
    assert run.value("e") == [1, 2, 3]


@pytest.mark.parametrize("turned", [False, True])
def test_what_waits_for_a_fallback_in_doubt_is_not_cut_off(turned):
    steps = [step("a"), step("b", "send", fallback_for="a")]
    run = ring(*(steps[::-1] if turned else steps))
    run.fail("a", "permanent").send("cancel").fail("b", "cancelled")
    assert (run.step("a").outcome, run.step("b").outcome) == (None, None)
    assert run.crash().resume(retry_failed=True).answer("done", 1).value("a") == 1


def test_a_step_that_is_skipped_is_not_asked_about_any_more():
    run = ring(step("a", approval={"ask": "May it?"}), step("b")).send("skip", step="a")
    assert (run.questions, run.finish("b").status()) == ([], "done")


# --- what goes first in a turn


def test_what_has_waited_for_its_time_goes_before_what_is_less_urgent():
    run = ring(
        step("a", priority=5, retry={"attempts": 2, "backoff_s": 1}), step("b"), step("c"),
        limits=Limits(parallel=1),
    )  # fmt: skip
    run.fail("a")
    assert run.calls == ["b"]
    run.now_ms += 1_000
    assert run.finish("b").calls == ["a"]


def test_an_approved_call_with_a_condition_is_made():
    run = ring(
        step("a", when="true", approval={"ask": "May it?"}), step("b", foreach=[1], approval={"ask": "?"})
    )
    for id_ in run.questions:
        run.answer("approve", question=id_)
    assert sorted(run.calls) == ["a", "b[0]"]
