"""One test for each rule about failures, doubt, crashes, commands and limits."""

from __future__ import annotations

import pytest

import kedge.flow.due
from kedge.base.errors import BadInput, NotFound, Refused
from kedge.base.limits import Limits
from kedge.flow.events import (
    QuestionAnswered,
    QuestionAsked,
    RetryScheduled,
    StepExpanded,
    StepStarted,
    StepSucceeded,
)
from kedge.flow.inputs import Exhausted, Raised, Reported, Returned
from kedge.flow.words import Failure
from kedge.plan.expr import evaluate_condition
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring

EFFECTS: dict[str, Effect] = {"read": "read", "put": "idempotent", "send": "effect"}
ONCE_MORE = {"attempts": 2, "backoff_s": 0}


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, limits=None, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, EFFECTS, limits=limits or Limits()).start()


# --- failure


@pytest.mark.parametrize(
    ("category", "again"),
    [
        ("transient", True), ("timeout", True), ("rate_limited", True),
        ("invalid_input", False), ("permission", False), ("missing_tool", False), ("permanent", False),
        ("limit", False), ("bug", False), ("cancelled", False),
    ],
)  # fmt: skip
def test_the_category_of_a_failure_picks_the_reaction(category, again):
    run = ring(step("a", retry=ONCE_MORE))
    run.fail("a", category)
    assert (run.calls == ["a"], run.status("a") == "failed") == (again, not again)


def test_backoff_doubles_up_to_its_maximum_and_is_a_deadline_in_an_event():
    run = ring(step("a", retry={"attempts": 5, "backoff_s": 2, "max_backoff_s": 5}))
    for wait_ms in (2_000, 4_000, 5_000, 5_000):
        run.fail("a")
        assert run.of(RetryScheduled)[-1].at == run.now_ms + wait_ms
        run.crash().resume()
        assert run.tick(wait_ms - 1).calls == []
        assert run.tick(1).calls == ["a"]
    assert run.fail("a").status("a") == "failed"


def test_jitter_spreads_the_backoff_by_up_to_half():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 10}))
    error = Failure(category="transient", code="x", message="x")
    run.put(Raised("a", 1, error, jitter=1.0))
    assert run.next_wake_ms == run.now_ms + 15_000


def test_a_tool_that_names_a_time_is_not_asked_before():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 1, "max_backoff_s": 60}))
    run.fail("a", "rate_limited", retry_after_s=30)
    assert run.next_wake_ms == run.now_ms + 30_000


def test_a_retry_gets_the_same_arguments_path_generation_and_iteration():
    run = ring(step("x"), step("a", "put", args={"x": "${x}"}, retry=ONCE_MORE))
    run.finish("x", [1]).fail("a").crash().resume()
    starts = run.of(StepStarted, "a")
    assert {(bytes(e.args), e.generation, e.iteration) for e in starts} == {(b'{"x":[1]}', 0, 0)}
    assert [e.attempt for e in starts] == [1, 2, 2]


@pytest.mark.parametrize("category", ["timeout", "cancelled", "transient", "bug"])
def test_an_effect_attempt_that_ended_unclassified_is_in_doubt_and_never_retried(category):
    run = ring(step("a", "send", retry=ONCE_MORE))
    run.fail("a", category)
    assert (run.status("a"), run.calls, run.status()) == ("in_doubt", [], "waiting")
    (question,) = run.of(QuestionAsked)
    assert (question.path, question.options) == ("a", ("done", "failed", "retry"))


def test_an_effect_that_says_that_nothing_was_done_may_be_tried_again():
    run = ring(step("a", "send", retry=ONCE_MORE))
    assert run.fail("a", "transient", classified=True, not_done=True).calls == ["a"]


def test_an_effect_error_the_tool_itself_classified_is_known_and_not_retried():
    run = ring(step("a", "send", retry=ONCE_MORE), step("b", fallback_for="a"))
    assert run.fail("a", "transient", classified=True).calls == ["b"]


def test_a_required_step_in_doubt_keeps_the_run_open_and_its_siblings_running():
    run = ring(step("a", "send"), step("b"), step("c", after=["b"]))
    run.fail("a", "timeout").finish("b")
    assert (run.calls, run.status()) == (["c"], "running")
    run.finish("c")
    assert run.status() == "waiting"
    run.crash()
    assert run.status() == "waiting"  # also for those who only look at it
    assert run.resume().status() == "waiting"
    assert len(run.of(QuestionAsked)) == 1  # asked once, not once for each resume


def test_the_answer_done_takes_the_value_as_the_result():
    run = ring(step("a", "send"), step("b", args={"x": "${a}"}))
    run.fail("a", "timeout").answer("done", {"id": 7})
    assert run.args("b") == {"x": {"id": 7}}


def test_the_answer_done_is_held_against_expect_and_loop_like_a_result():
    run = ring(step("a", "send", expect="result != 3", loop={"times": 2}))
    run.fail("a", "timeout").answer("done", 1)
    assert run.calls == ["a"]
    run.fail("a", "timeout").answer("done", 3)
    assert run.error("a").code == "expect_not_met"


def test_the_answer_failed_goes_to_the_fallback():
    run = ring(step("a", "send"), step("b", fallback_for="a"))
    assert run.fail("a", "timeout").answer("failed").calls == ["b"]


def test_the_answer_retry_starts_it_again_although_no_attempts_are_left():
    run = ring(step("a", "send"))
    assert run.fail("a", "timeout").answer("retry").calls == ["a"]
    assert run.finish("a").status() == "done"


def test_a_late_result_settles_the_doubt():
    run = ring(step("a", "send"))
    run.fail("a", "timeout").finish("a", 5)
    assert (run.status(), run.value("a"), run.questions) == ("done", 5, [])
    assert run.of(QuestionAnswered)[-1].by == "late result"


def test_a_late_classified_failure_settles_the_doubt_and_an_unclassified_one_does_not():
    run = ring(step("a", "send"))
    run.fail("a", "timeout").fail("a", "bug")
    assert run.status("a") == "in_doubt"
    assert run.fail("a", "permanent", classified=True).status("a") == "failed"


def test_a_late_word_that_nothing_was_done_lets_it_be_tried_again():
    run = ring(step("a", "send", retry=ONCE_MORE))
    assert run.fail("a", "timeout").fail("a", "transient", classified=True, not_done=True).calls == ["a"]


def test_questions_are_answered_once_with_what_they_allow():
    run = ring(step("a", "send"), step("b"))
    run.fail("a", "timeout")
    with pytest.raises(BadInput) as wrong:
        run.answer("perhaps")
    assert wrong.value.allowed == ("done", "failed", "retry")
    with pytest.raises(NotFound):
        run.answer("done", question="q9")
    with pytest.raises(BadInput):
        run.answer("done", float("nan"))
    run.answer("done")
    with pytest.raises(Refused) as twice:
        run.answer("failed", question="q1")
    assert twice.value.code == "already_answered"


def test_a_late_or_repeated_result_means_nothing():
    run = ring(step("a", retry=ONCE_MORE), step("b", after=["a"]), step("c", after=["b"]))
    run.fail("a", "timeout")
    before = len(run.log)
    run.finish("a", "old", starts=1)
    assert len(run.log) == before
    run.finish("a", "new").finish("a", "again").put(Returned("nobody", 1, b"1"))
    assert run.value("a") == "new"
    assert len(run.of(StepSucceeded)) == 1


def test_a_discovery_is_taken_while_the_step_runs_and_not_after():
    run = ring(step("a"), step("b"))
    run.put(Reported("a", 1, "xml files found", "parse xml")).finish("a").put(Reported("a", 1, "late"))
    assert run.state.discoveries == [("a", "xml files found", "parse xml")]


# --- after a crash


@pytest.mark.parametrize(
    ("tool", "status"), [("t", "running"), ("read", "running"), ("put", "running"), ("send", "in_doubt")]
)
def test_after_a_crash_what_is_repeatable_runs_again_and_effects_are_in_doubt(tool, status):
    run = ring(step("a", tool), step("b"))
    run.finish("b").crash().resume()
    assert run.status("a") == status
    assert (run.calls == ["a"]) == (status == "running")


def test_after_a_crash_finished_steps_never_run_again():
    run = ring(step("a"), step("b", after=["a"]), step("c", after=["b"]))
    for path in "abc":
        run.crash().resume().finish(path)
    assert [path for path, _ in run.launched].count("a") == 2  # started twice, finished once
    assert run.status() == "done"


def test_an_interrupted_attempt_does_not_use_up_a_retry():
    run = ring(step("a", retry=ONCE_MORE))
    run.crash().resume().fail("a")
    assert run.calls == ["a"]


# --- large values


def test_large_values_are_blobs_and_come_back_whole_or_by_path():
    run = ring(step("a"), step("b", args={"all": "${a}", "n": "${len(a.text)}", "one": "${a.text[0]}"}))
    value = {"text": "x" * 20_000}
    run.finish("a", value)
    (event,) = run.of(StepSucceeded)
    assert bytes(event.result) == b""
    assert event.blob.sha in run.blobs
    assert run.args("b") == {"all": value, "n": 20_000, "one": "x"}
    started = run.of(StepStarted, "b")[0]
    assert bytes(started.args) == b""
    assert len(started.args_hash) == 64
    run.crash().resume()
    assert run.args("b")["all"] == value


def test_arguments_over_their_limit_fail_the_step_before_the_call():
    run = ring(step("a"), step("b", args={"x": "${a}"}), limits=Limits(args_bytes=100))
    run.finish("a", "x" * 200)
    assert (run.error("b").category, run.error("b").code) == ("limit", "args_bytes")
    assert run.calls == []


# --- pause and cancel


def test_pause_starts_nothing_new_and_lets_what_runs_go_on():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("pause").finish("a")
    assert (run.calls, run.status(), run.status("a")) == ([], "paused", "done")
    run.crash().resume()
    assert run.status() == "paused"
    assert run.send("unpause").calls == ["b"]


@pytest.mark.parametrize(
    ("first", "then"), [("", "unpause"), ("pause", "pause"), ("cancel", "pause"), ("cancel", "unpause")]
)
def test_pause_and_unpause_are_refused_where_they_mean_nothing(first, then):
    run = ring(step("a"))
    if first:
        run.send(first)
    with pytest.raises(Refused):
        run.send(then)


def test_a_timer_that_goes_off_during_a_pause_waits_for_its_end():
    run = ring(step("nap", "sleep", args={"seconds": 1}))
    run.send("pause").tick(5_000)
    assert run.status("nap") == "waiting"
    assert run.send("unpause").status() == "done"


def test_cancel_waits_for_what_runs_and_then_ends_with_all_the_rest_cancelled():
    run = ring(
        step("a"),
        step("b", after=["a"]),
        step("nap", "sleep", args={"seconds": 9}),
        {"id": "p", "steps": [step("k")]},
    )
    run.send("cancel", by="anna", reason="enough")
    assert run.status() == "cancelling"
    run.fail("a", "cancelled").fail("p/k", "cancelled")
    assert run.status() == "cancelled"
    assert set(run.statuses().values()) == {"cancelled"}


def test_a_result_taken_before_step_cancelled_wins_and_its_dependents_do_not_start():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("cancel").finish("a", 1)
    assert (run.status("a"), run.status("b"), run.status()) == ("done", "cancelled", "cancelled")
    assert run.calls == []


def test_cancel_leaves_an_interrupted_effect_in_doubt():
    run = ring(step("a", "send"), step("b", "put"))
    run.send("cancel").fail("a", "cancelled").fail("b", "cancelled")
    assert (run.status("a"), run.status("b"), run.status()) == ("in_doubt", "cancelled", "cancelled")


@pytest.mark.parametrize("before", ["pause", "doubt", "sleep", "retry"])
def test_cancel_ends_a_run_that_waits(before):
    run = ring(
        step("a", "send"),
        step("nap", "sleep", args={"seconds": 9}),
        step("r", retry={"attempts": 2, "backoff_s": 9}),
    )
    run.fail("r")
    run.fail("a", "timeout") if before == "doubt" else run.finish("a")
    if before == "pause":
        run.send("pause")
    assert run.send("cancel").status() == "cancelled"
    with pytest.raises(Refused):
        run.send("cancel")


# --- limits


def test_the_calls_limit_asks_before_the_call_that_is_too_many():
    run = ring(*(step(f"s{i}") for i in range(3)), limits=Limits(calls=2))
    assert len(run.calls) == 2
    assert (run.status(), len(run.questions)) == ("running", 1)
    run.finish("s0").finish("s1")
    assert run.status() == "waiting"
    run.answer("raise")
    assert (run.calls, run.state.limit("calls")) == (["s2"], 4)
    assert run.finish("s2").status() == "done"


def test_a_run_that_needs_no_more_calls_than_its_limit_is_not_asked():
    run = ring(step("a"), step("b"), limits=Limits(calls=2))
    run.put(Exhausted("calls", 2)).finish("a").finish("b")
    assert (run.status(), run.of(QuestionAsked)) == ("done", [])


def test_a_limit_the_driver_measures_pauses_with_one_question_and_keeps_the_state():
    run = ring(step("a"), step("b", after=["a"]), limits=Limits(journal_bytes=1_000))
    run.put(Exhausted("journal_bytes", 1_200)).put(Exhausted("journal_bytes", 1_300)).finish("a")
    assert (run.status(), len(run.questions), run.calls) == ("waiting", 1, [])
    run.crash().resume().answer("raise", 5_000)
    assert (run.calls, run.state.max_journal_bytes) == (["b"], 5_000)
    assert run.put(Exhausted("journal_bytes", 1_400)).questions == []  # measured before it was raised


@pytest.mark.parametrize("value", [2, 1, "3", True])
def test_a_limit_is_raised_by_a_larger_number_only(value):
    run = ring(*(step(f"s{i}") for i in range(3)), limits=Limits(calls=2))
    with pytest.raises(BadInput):
        run.answer("raise", value)
    assert run.answer("raise", 2.5).calls == ["s0", "s1", "s2"]


def test_the_answer_stop_lets_what_runs_finish_and_then_fails_the_run():
    run = ring(*(step(f"s{i}") for i in range(3)), limits=Limits(calls=2))
    run.answer("stop").finish("s0")
    assert run.status("s1") == "running"
    run.put(Exhausted("run_s", 1e12)).finish("s1")
    assert (run.status(), run.error().code, run.status("s2")) == ("failed", "stopped", "cancelled")
    assert run.questions == []


def test_changed_tools_with_effects_are_asked_about_once():
    run = ring(step("a"), step("b", "send", after=["a"]))
    run.crash().resume(changed_tools={"send": "new"}).crash().resume(changed_tools={"send": "new"})
    assert (run.calls, run.status(), len(run.questions)) == ([], "waiting", 1)
    assert "send" in run.of(QuestionAsked)[0].text
    assert run.answer("go on").calls == ["a"]


def test_changed_tools_can_stop_the_run():
    run = ring(step("a"), step("b", "send", after=["a"]))
    run.crash().resume(changed_tools={"send": "new"}).answer("stop")
    assert run.status() == "failed"


def test_changed_tools_are_asked_about_although_a_limit_is_too():
    run = ring(*(step(f"s{i}") for i in range(3)), limits=Limits(calls=2))
    run.crash().resume(changed_tools={"send": "new"})
    assert [q.reason for q in run.of(QuestionAsked)] == ["limit", "tool_changed"]


# --- evaluated once


def test_the_idempotency_key_changes_with_path_generation_and_iteration_and_with_no_attempt():
    once_more = {"attempts": 2, "backoff_s": 0}
    run = ring(
        step("a", "put", loop={"times": 2}, retry=once_more),
        {"id": "p", "steps": [step("k", "read")], "retry": once_more},
    )
    run.fail("a").finish("a").fail("p/k").crash().resume()
    keys = [(e.path, e.generation, e.iteration) for e in run.of(StepStarted) if e.path != "p"]
    assert keys == [
        ("a", 0, 0), ("p/k", 0, 0), ("a", 0, 0),  # another attempt: the same key
        ("a", 0, 1), ("p/k", 1, 0),  # another round; another attempt of the whole composite
        ("a", 0, 1), ("p/k", 1, 0),  # after the crash: the same again
    ]  # fmt: skip


def test_what_a_call_was_given_is_in_its_event():
    run = ring(step("a"), step("b", args={"x": "${a.n + 1}", "goal": "${goal}"}))
    run.finish("a", {"n": 1})
    assert bytes(run.of(StepStarted, "b")[0].args) == b'{"goal":"g","x":2}'


def test_text_from_a_tool_is_never_a_template():
    run = ring(step("a"), step("b", args={"x": "${a}", "y": "<${a}>"}))
    run.finish("a", "${goal} ${secret.KEY}")
    assert run.args("b") == {"x": "${goal} ${secret.KEY}", "y": "<${goal} ${secret.KEY}>"}


def test_a_condition_of_a_step_that_waits_for_its_turn_gives_the_same_after_a_crash():
    run = ring(
        step("a"),
        step("b"),
        step("c", when="not present(b)", after=["a"], join="any"),
        limits=Limits(parallel=2),
    )
    run.finish("a").crash()
    run.resume().finish("b")
    assert run.status("c") == "running"


def test_conditions_items_and_bindings_are_evaluated_once_and_the_log_has_what_they_gave(monkeypatch):
    asked = []

    def counted(expression, resolve):
        asked.append(expression.text)
        return evaluate_condition(expression, resolve)

    monkeypatch.setattr(kedge.flow.due, "evaluate_condition", counted)
    run = ring(
        step("list"),
        step("each", foreach="${list}", args={"x": "${item}"}),
        step("guarded", when="len(list) > 1", args={"x": "${len(list)}"}, retry=ONCE_MORE),
    )
    run.finish("list", [7, 8])
    given = sorted(run.launched[1:])
    assert given == [("each[0]", {"x": 7}), ("each[1]", {"x": 8}), ("guarded", {"x": 2})]
    run.crash().resume()
    assert sorted(run.launched[-3:]) == given, "the same calls with the same arguments"
    run.fail("guarded", "transient").tick(0)
    assert run.launched[-1] == ("guarded", {"x": 2})
    assert asked == ["len(list) > 1"]
    (expanded,) = run.of(StepExpanded)
    assert (expanded.count, bytes(expanded.items)) == (2, b"[7,8]")
    assert [bytes(event.args) for event in run.of(StepStarted, "guarded")] == [b'{"x":2}'] * 3
