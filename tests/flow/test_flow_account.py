"""What a result tells of a run and its steps, while it goes on and after."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kedge.flow.events import RunEnded
from kedge.flow.result import Counts
from kedge.flow.words import RunStatus, StepStatus
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}).start()


def at(ms):
    return datetime.fromtimestamp(ms / 1000, UTC)


def category(run, path):
    error = run.result.steps[path].error
    return error and error.category


# --- of a step


def test_a_step_that_has_not_begun():
    told = ring(step("a"), step("b", after=["a"])).result.steps["b"]
    assert (told.path, told.status, told.attempt, told.calls) == ("b", StepStatus.PENDING, 0, 0)
    assert (told.result, told.error, told.replaced_by, told.skipped_because) == (None, None, "", "")
    assert (told.started_at, told.ended_at, told.seconds) == (None, None, None)
    assert repr(told) == "<step b: pending>"


def test_a_step_that_runs_has_begun_and_took_no_time_yet():
    told = ring(step("a")).tick(500).result.steps["a"]
    assert (told.started_at, told.ended_at, told.seconds) == (at(1_000), None, None)
    assert (told.result, told.attempt, told.calls) == (None, 1, 1)


def test_a_step_that_is_done():
    run = ring(step("a", loop={"times": 2})).tick(250).finish("a", 1).tick(250).finish("a", {"n": 2})
    told = run.result.steps["a"]
    assert (told.result, told.error, told.attempt, told.calls) == ({"n": 2}, None, 1, 2)
    assert (told.started_at, told.ended_at, told.seconds) == (at(1_000), at(1_500), 0.5)


def test_a_step_that_waits_after_its_first_round_has_no_result_yet():
    run = ring(step("a", loop={"times": 2, "collect": "all"})).finish("a", 1)
    assert run.result.steps["a"].result is None


def test_a_step_whose_large_result_is_a_blob():
    assert len(ring(step("a")).finish("a", "x" * 20_000).result.steps["a"].result) == 20_000


def test_a_composite_a_foreach_and_their_parts():
    run = ring(group("p", step("a")), step("e", foreach=[1])).finish("p/a", 1).finish("e[0]", 2)
    assert {path: told.result for path, told in run.result.steps.items()} == {
        "p": {"a": 1}, "p/a": 1, "e": [2], "e[0]": 2,
    }  # fmt: skip
    assert len(run.result.steps) == 4


def test_a_step_that_failed_tells_why_and_one_that_is_tried_again_does_not():
    once_more = {"attempts": 2, "backoff_s": 1}
    run = ring(step("a", retry=once_more), step("d", "send")).fail("a", "timeout").fail("d", "timeout")
    assert run.result.steps["a"].error is None
    assert category(run, "d") == "timeout"  # in doubt, and why
    run.tick(1_000).fail("a", "permanent")
    assert category(run, "a") == "permanent"
    assert run.result.steps["a"].result is None


def test_a_step_whose_fallback_stands_in_for_it():
    run = ring(step("a"), step("b", fallback_for="a")).fail("a", "permanent")
    assert (run.result.steps["a"].result, run.result.steps["a"].replaced_by) == (None, "")
    run.finish("b", 2)
    assert (run.result.steps["a"].result, run.result.steps["a"].replaced_by) == (2, "b")


@pytest.mark.parametrize(
    ("steps", "path", "said"),
    [
        ((step("a", when="1 > 2"),), "a", "its condition is false: 1 > 2"),
        (
            (step("a", when="false"), step("b", when="false"), step("c", after=["a", "b"])),
            "c",
            "nothing it depends on is there: a, b",
        ),
        ((step("x"), step("y", after=["x"])), "y", "it depends on what failed: x"),
        ((step("a", when="false"), step("f", fallback_for="a")), "f", "a did not fail"),
        ((group("p", step("a", when="false")),), "p", "none of its steps was done"),
    ],
)
def test_a_step_that_was_skipped_tells_why(steps, path, said):
    run = ring(*steps)
    if "x" in run.calls:
        run.fail("x", "permanent")
    assert run.result.steps[path].skipped_because == said


def test_milestones_are_steps_and_not_their_items():
    run = ring(step("a", foreach=[1], milestone=True), step("b"))
    told = run.result.steps
    assert [told[path].milestone for path in ("a", "a[0]", "b")] == [True, False, False]


# --- of the run


def test_a_run_that_goes_on():
    told = ring(step("a"), answer="${a}").tick(1_500).result
    assert (told.run_id, told.plan_id, told.version) == ("r", "p", 1)
    assert (told.status, told.ok, told.outputs, told.answer) == (RunStatus.RUNNING, False, {}, None)
    assert (told.started_at, told.ended_at, told.now_ms, told.seconds) == (at(1_000), None, 1_000, 0.0)
    assert (told.error, told.questions) == (None, {})
    assert repr(told) == "<result of run r: running>"


def test_a_run_that_has_not_begun():
    told = Ring({"goal": "g", "steps": [step("a")]}).result
    assert (told.started_at, told.seconds, told.critical_path_s) == (None, 0.0, 0.0)
    assert (told.parallel_efficiency, told.groups) == (0.0, [])


def test_a_run_that_is_done():
    run = ring(step("a"), step("b", after=["a"]), step("f", fallback_for="b"), outputs={"n": "a"})
    told = run.tick(250).finish("a", 1).tick(250).finish("b", 2).result
    assert (told.ok, told.outputs, told.error) == (True, {"n": 1}, None)
    assert (told.ended_at, told.seconds, told.critical_path_s) == (at(1_500), 0.5, 0.5)
    assert told.now_ms == 1_500


def test_without_outputs_a_run_gives_the_ends_and_no_fallbacks():
    run = ring(
        step("a"), step("f", fallback_for="a"), step("s", when="false"), step("x", on_error="continue")
    )
    run.fail("a", "permanent").finish("f", 1).fail("x", "permanent")
    assert run.result.outputs == {"a": 1}


def test_outputs_too_large_for_an_event_are_a_blob():
    run = ring(step("a"), outputs={"text": "a"}).finish("a", "x" * 20_000)
    assert run.of(RunEnded)[-1].blob is not None
    assert len(run.result.outputs["text"]) == 20_000
    assert len(run.crash().result.outputs["text"]) == 20_000


def test_what_a_plan_returns_may_use_all_that_a_run_has():
    run = Ring(
        {
            "goal": "g",
            "context": {"who": "anna"},
            "inputs": {"n": {"type": "integer"}},
            "steps": [step("a"), step("b", when="false")],
            "outputs": {"n": "inputs.n", "who": "context.who", "all": "results", "b": "present(b)"},
            "answer": "${results}",
        },
        inputs={"n": 3},
    ).start()
    run.finish("a", 1)
    assert run.result.outputs == {"n": 3, "who": "anna", "all": {"a": 1}, "b": False}
    assert run.result.answer == '{"a":1}'  # an answer is text


@pytest.mark.parametrize(("answer", "text"), [("done", "done"), ("${a}", "words"), ("${a}!", "words!")])
def test_an_answer_that_is_text_is_given_as_it_is(answer, text):
    assert ring(step("a"), answer=answer).finish("a", "words").result.answer == text


def test_open_questions_are_told_until_the_run_has_ended():
    run = ring(step("a", "send"), step("b", "send")).fail("a", "timeout").fail("b", "timeout")
    first, _ = run.questions
    run.answer("failed", question=first)
    assert list(run.result.questions) == run.questions
    assert run.result.questions[run.questions[0]].path == "b"
    assert run.send("cancel").result.questions == {}


def test_counts_say_what_became_of_every_step():
    run = ring(
        step("d"), step("f", on_error="continue", retry={"attempts": 2, "backoff_s": 0}),
        step("s", when="false"), step("q", "send"), step("r"), group("g1", step("k")),
    )  # fmt: skip
    run.finish("d").fail("f").fail("f").fail("q", "timeout").send("cancel")
    run.fail("r", "cancelled").fail("g1/k", "cancelled")
    assert run.result.counts == Counts(
        total=7, done=1, failed=1, skipped=1, cancelled=3, in_doubt=1, attempts=7, tool_calls=6
    )
    assert run.result.summary().startswith(
        "cancelled: 1 of 7 steps done, 1 failed, 1 skipped, 3 cancelled, 1 in doubt in 0.0 s"
    )


def test_a_summary_says_what_counts_and_no_more():
    run = ring(step("a"), step("b")).tick(2_000).finish("a").finish("b")
    assert run.result.summary() == "done: 2 of 2 steps done in 2.0 s, parallel efficiency 50%"
    run = ring(step("a")).tick(2_000).fail("a", "permission")
    said = "failed: 0 of 1 steps done, 1 failed in 2.0 s\nstep a failed: a failed: permission"
    assert run.result.summary() == said


# --- how the work was spread


def test_efficiency_is_what_was_saved_by_doing_things_at_once():
    run = ring(step("a"), step("b"), step("c", after=["a"]))
    run.tick(1_000).finish("a").tick(1_000).finish("b").finish("c")
    assert run.result.parallel_efficiency == 0.5  # four seconds of work in two
    assert ring(step("a")).finish("a").result.parallel_efficiency == 0.0


def test_efficiency_of_a_run_that_mostly_waited_is_none():
    run = ring(step("a"), limits={"calls": 1}, outputs={}).tick(100).finish("a")
    assert run.result.parallel_efficiency == 0.0


def test_groups_end_when_nothing_runs():
    run = ring(
        step("a"),
        step("b", loop={"times": 2}),
        step("c", after=["a", "b"]),
        group("p", step("k"), after=["c"]),
    )
    run.tick(10).finish("a").tick(10).finish("b").tick(10).finish("b").tick(10).finish("c").tick(5)
    assert run.result.groups == [["a", "b"], ["c"], ["p/k"]]


def test_items_and_rounds_and_attempts_that_were_replaced_are_all_work():
    run = ring(
        step("e", foreach=[1, 2]),
        group("p", step("k"), loop={"times": 2}, retry={"attempts": 2, "backoff_s": 0}),
    )
    run.tick(10).finish("e[0]").finish("e[1]").fail("p#0/k").tick(10).finish("p#0/k").tick(10).finish("p#1/k")
    assert run.result.groups == [["e[0]", "e[1]", "p#0/k"], ["p#0/k"], ["p#1/k"]]
    assert run.result.parallel_efficiency == pytest.approx(1 - 30 / 50)


def test_a_step_that_waits_for_another_attempt_is_in_its_group_once():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 1})).tick(10).fail("a").tick(1_000).tick(10)
    run.finish("a")
    assert run.result.groups == [["a"]]
    assert run.result.parallel_efficiency == 0.0


def test_time_without_a_driver_is_no_work():
    run = ring(step("a")).tick(10).crash().resume().tick(20).finish("a")
    assert run.result.steps["a"].seconds == 0.03
    assert run.result.groups == [["a"]]
