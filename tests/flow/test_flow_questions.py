"""What a run asks and records, word for word, and what it refuses with which reason."""

from __future__ import annotations

import pytest

from kedge.base.errors import BadInput, NotFound, Refused
from kedge.base.limits import Limits
from kedge.flow.events import (
    LimitReached,
    QuestionAnswered,
    QuestionAsked,
    RetryScheduled,
    RunResumed,
    StepFailed,
    StepInDoubt,
    plain,
)
from kedge.flow.inputs import Exhausted, Reported
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, limits=None, **plan):
    effects: dict[str, Effect] = {"send": "effect", "put": "idempotent"}
    return Ring({"goal": "g", "steps": list(steps), **plan}, effects, limits=limits or Limits()).start()


def told(run, kind):
    return plain(run.of(kind)[-1])


# --- doubt


def test_what_is_asked_about_a_doubt():
    run = ring(step("a", "send")).fail("a", "timeout")
    assert told(run, QuestionAsked) == {
        "kind": "QuestionAsked", "question": "q1", "reason": "in_doubt", "path": "a",
        "text": "Did send (step a) have its effect? The attempt ended without an answer: a failed: timeout",
        "options": ["done", "failed", "retry"],
    }  # fmt: skip
    assert told(run, StepInDoubt)["error"]["category"] == "timeout"


def test_what_is_asked_after_a_crash():
    run = ring(step("a", "send")).crash().resume()
    error = {
        "category": "in_doubt", "code": "driver_lost",
        "message": "the process that drove the run ended during the call",
    }  # fmt: skip
    assert told(run, StepInDoubt) == {"kind": "StepInDoubt", "path": "a", "error": error}


def test_each_question_has_a_number_of_its_own():
    run = ring(step("a", "send"), step("b", "send")).fail("a", "timeout").fail("b", "timeout")
    assert run.questions == ["q1", "q2"]
    run.fail("b", "permanent", classified=True)
    assert run.questions == ["q1"]  # the late word was about the other one


def test_the_answer_is_kept_with_the_name_of_who_gave_it():
    run = ring(step("a", "send")).fail("a", "timeout").answer("done", [1])
    assert (run.state.questions["q1"].answer, run.state.questions["q1"].by) == ("done", "anna")
    assert told(run, QuestionAnswered) == {
        "kind": "QuestionAnswered", "question": "q1", "answer": "done", "by": "anna", "result": [1],
    }  # fmt: skip


def test_when_a_question_was_asked_and_answered():
    run = ring(step("a", "send")).tick(10).fail("a", "timeout").tick(20).answer("failed")
    kept = run.state.questions["q1"]
    assert (kept.asked_at, kept.answered_at) == (1_010, 1_030)


def test_the_answer_failed_is_a_failure_with_the_name_of_who_said_so():
    run = ring(step("a", "send")).fail("a", "timeout").answer("failed")
    assert told(run, StepFailed)["error"] == {
        "category": "in_doubt", "code": "answered_failed", "message": "anna says that it did not happen",
        "classified": True,
    }  # fmt: skip
    assert "result" not in told(run, QuestionAnswered)
    run = ring(step("a", "send")).fail("a", "timeout").send("answer", question="q1", answer="failed")
    assert told(run, StepFailed)["error"]["message"] == "a person says that it did not happen"


def test_the_answer_retry_keeps_why_the_attempt_before_ended():
    run = ring(step("a", "send")).fail("a", "timeout").answer("retry")
    event = told(run, RetryScheduled)
    assert (event["attempt"], event["at"], event["error"]["category"]) == (2, 1_000, "timeout")


def test_a_late_failure_says_so_in_the_answer():
    run = ring(step("a", "send")).fail("a", "timeout").fail("a", "permanent", classified=True)
    assert (told(run, QuestionAnswered)["answer"], told(run, QuestionAnswered)["by"]) == (
        "failed",
        "late failure",
    )
    run = ring(step("a", "send")).fail("a", "timeout").finish("a", 1)
    assert (told(run, QuestionAnswered)["answer"], told(run, QuestionAnswered)["by"]) == (
        "done",
        "late result",
    )


@pytest.mark.parametrize("more", [{"classified": True}, {"not_done": True}])
def test_a_sure_failure_of_an_effect_while_the_run_is_cancelled_is_no_doubt(more):
    run = ring(step("a", "send")).send("cancel").fail("a", "cancelled", **more)
    assert (run.status("a"), run.status()) == ("cancelled", "cancelled")


def test_an_effect_that_was_not_done_is_tried_again_only_where_retries_are_left():
    run = ring(step("a", "send", retry={"attempts": 2, "backoff_s": 0}))
    run.fail("a", not_done=True)
    assert run.calls == ["a"]
    assert run.fail("a", not_done=True).status("a") == "failed"


# --- limits


def test_what_is_asked_about_a_limit():
    run = ring(step("a"), step("b"), limits=Limits(calls=1))
    assert told(run, LimitReached) == {"kind": "LimitReached", "limit": "calls", "value": 1}
    assert told(run, QuestionAsked) == {
        "kind": "QuestionAsked", "question": "q1", "reason": "limit", "limit": "calls", "used": 1,
        "text": "The run used up its limit calls (1). Raise it, or stop?", "options": ["raise", "stop"],
    }  # fmt: skip
    run.answer("raise", 7)
    assert (told(run, QuestionAnswered)["limit"], told(run, QuestionAnswered)["by"]) == (7, "anna")
    assert run.state.limit("calls") == run.state.max_calls == 7


def test_a_limit_that_was_overrun_is_raised_beyond_what_is_used():
    run = ring(step("a"), limits=Limits(journal_bytes=1_000)).put(Exhausted("journal_bytes", 1_500))
    run.answer("raise")
    assert run.state.limit("journal_bytes") == 3_000


@pytest.mark.parametrize(("value", "asked"), [(999, 0), (1_000, 1)])
def test_a_limit_is_asked_about_once_it_is_reached(value, asked):
    run = ring(step("a"), limits=Limits(journal_bytes=1_000)).put(Exhausted("journal_bytes", value))
    assert len(run.questions) == asked


def test_a_limit_is_asked_about_although_another_question_is_open():
    run = ring(step("a", "send"), step("b"), limits=Limits(journal_bytes=10)).fail("a", "timeout")
    run.put(Exhausted("journal_bytes", 10)).put(Exhausted("run_s", 1e12))
    assert [question.limit for question in run.of(QuestionAsked)] == ["", "journal_bytes", "run_s"]


@pytest.mark.parametrize("before", ["cancel", "the end"])
def test_a_run_that_ends_is_not_asked_about_limits(before):
    run = ring(step("a"), limits=Limits(journal_bytes=10))
    run.send("cancel") if before == "cancel" else run.finish("a")
    assert run.put(Exhausted("journal_bytes", 10)).of(QuestionAsked) == []


@pytest.mark.parametrize("value", [2, 1, "3", True])
def test_what_does_not_raise_a_limit_is_refused_and_told(value):
    run = ring(step("a"), step("b"), step("c"), limits=Limits(calls=2))
    with pytest.raises(BadInput, match="does not raise the limit calls, which is 2") as refused:
        run.answer("raise", value)
    assert refused.value.code == "limit_value"
    assert "give a larger number" in str(refused.value)


def test_the_plans_own_limit_counts_where_it_is_tighter():
    assert ring(step("a"), limits=Limits(calls=5)).state.limit("calls") == 5
    plan = {"goal": "g", "limits": {"calls": 3}, "steps": [step("a")]}
    assert Ring(plan).start().state.limit("calls") == 3


# --- tools that changed


def test_what_is_asked_about_tools_that_changed():
    run = ring(step("a")).crash().resume(changed_tools={"send": "1", "put": "2"})
    assert told(run, QuestionAsked) == {
        "kind": "QuestionAsked", "question": "q1", "reason": "tool_changed",
        "text": "These tools with effects are not what they were when the run began: send, put. "
        "Go on with them?",
        "options": ["go on", "stop"], "tools": {"send": "1", "put": "2"},
    }  # fmt: skip
    assert told(run, RunResumed) == {"kind": "RunResumed", "changed_tools": ["send", "put"]}
    run.answer("go on")
    assert run.state.accepted_tools == {"send": "1", "put": "2"}
    assert run.status() == "running"


def test_other_changes_of_tools_are_asked_about_anew():
    run = ring(step("a")).crash().resume(changed_tools={"send": "1"})
    assert len(run.crash().resume(changed_tools={"send": "2"}).questions) == 2


def test_tools_that_changed_are_not_asked_about_once_the_run_has_ended():
    run = ring(step("a")).finish("a").crash().resume(changed_tools={"send": "1"})
    assert (run.questions, run.status()) == ([], "done")


# --- discoveries


def test_a_discovery_says_where_what_and_what_it_needs():
    run = ring(step("a")).put(Reported("a", 1, "xml", "parse xml"))
    assert plain(run.events[-1]) == {"kind": "Discovered", "path": "a", "what": "xml", "need": "parse xml"}


# --- refusals


@pytest.mark.parametrize(
    ("before", "then", "code", "words", "allowed"),
    [
        (["pause"], "pause", "cannot_pause", "the run is paused", ["unpause", "cancel"]),
        (["cancel"], "pause", "cannot_pause", "the run is cancelling", ["unpause", "cancel"]),
        ([], "unpause", "not_paused", "the run is running, not paused", ["pause"]),
    ],
)
def test_what_means_nothing_now_is_refused(before, then, code, words, allowed):
    run = ring(step("a"))
    for kind in before:
        run.send(kind)
    with pytest.raises(Refused, match=words) as refused:
        run.send(then)
    assert refused.value.code == code
    assert list(refused.value.allowed) == allowed


def test_a_run_that_has_ended_takes_no_commands():
    run = ring(step("a")).finish("a")
    with pytest.raises(Refused, match=r"the run has ended \(done\)") as refused:
        run.send("pause")
    assert refused.value.code == "run_ended"
    assert "run r" in str(refused.value)


def test_a_second_cancel_changes_nothing():
    run = ring(step("a")).send("cancel", by="anna", reason="enough")
    before = len(run.log)
    assert len(run.send("cancel").log) == before
    assert plain(run.events[-1]) == {"kind": "RunCancelling", "by": "anna", "reason": "enough"}


def test_who_paused_and_unpaused_is_kept():
    run = ring(step("a")).send("pause", by="anna").send("unpause", by="ben")
    assert [plain(event) for event in run.events[-2:]] == [
        {"kind": "RunPaused", "by": "anna"}, {"kind": "RunUnpaused", "by": "ben"},
    ]  # fmt: skip


def test_a_wrong_answer_is_told_what_is_allowed():
    run = ring(step("a", "send"), step("b", "send")).fail("a", "timeout").fail("b", "timeout")
    run.answer("failed", question="q1")
    with pytest.raises(NotFound, match="run r has no question 'q9'") as unknown:
        run.answer("done", question="q9")
    assert (unknown.value.code, list(unknown.value.allowed)) == ("unknown_question", ["q2"])
    with pytest.raises(Refused, match="question q1 was answered 'failed' by anna"):
        run.answer("done", question="q1")
    with pytest.raises(BadInput, match="'no' does not answer question q2") as wrong:
        run.answer("no", question="q2")
    assert wrong.value.code == "unknown_answer"
    run.send("answer", question="q2", answer="failed")
    with pytest.raises(Refused, match="run has ended"):
        run.answer("done", question="q2")


def test_an_answer_without_a_name_is_told_without_one():
    run = ring(step("a", "send"), step("b")).fail("a", "timeout")
    run.send("answer", question="q1", answer="failed")
    with pytest.raises(Refused) as twice:
        run.answer("done", question="q1")
    assert str(twice.value).count(" by ") == 0
