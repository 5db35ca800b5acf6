"""Asking before a call, and after a failure."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import BadInput, InvalidPlan, Refused
from kedge.flow.commands import Answer
from kedge.flow.decide import decide
from kedge.flow.settings import RunSettings
from kedge.flow.turn import Turn
from kedge.plan.patch import Patch
from kedge.testing.ring import Ring

EFFECTS: Any = {"send": "effect", "put": "idempotent"}


def ring(*steps: dict[str, Any], ask: Any = "never", **more: Any) -> Ring:
    plan = {"goal": "g", "steps": list(steps), **more}
    return Ring(plan, EFFECTS, settings=RunSettings(ask=ask)).start()


def step(id_: str, tool: str = "t", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, **fields}


def asks(id_: str, tool: str = "send", expires_s: float | None = None, **fields: Any) -> dict[str, Any]:
    approval = {"ask": "May it?"} | ({"expires_s": expires_s} if expires_s else {})
    return step(id_, tool, approval=approval, **fields)


def test_a_call_waits_for_its_approval_and_siblings_go_on():
    run = ring(asks("a", args={"x": 1}), step("b"), step("c", after=["a"]))
    assert run.calls == ["b"]
    asked = run.state.questions["q1"].asked
    assert (asked.reason, asked.path, bytes(asked.args)) == ("approval", "a", b'{"x":1}')
    run.finish("b")
    assert run.status() == "waiting"
    run.answer("approve")
    assert run.args("a") == {"x": 1}
    run.finish("a")
    assert run.calls == ["c"]


def test_an_approval_with_edits_calls_with_what_was_approved():
    run = ring(asks("a", args={"x": 1}))
    with pytest.raises(BadInput):
        run.answer("approve", value=[1])
    run.answer("approve", value={"x": 2})
    assert run.args("a") == {"x": 2}


def test_a_refusal_fails_the_step_and_tells_why():
    run = ring(asks("a"), step("b", fallback_for="a"))
    run.send("answer", question="q1", answer="refuse", by="anna", reason="too late")
    assert run.error("a").message == "anna refused it: too late"
    assert run.calls == ["b"]
    assert run.launched[0][0] == "b"


def test_silence_is_no_consent():
    run = ring(asks("a", expires_s=60))
    run.tick(59_999)
    assert run.questions == ["q1"]
    run.tick(1)
    assert run.error("a").code == "approval_expired"
    assert not run.questions
    assert run.status() == "failed"


def test_the_same_call_is_asked_once_and_each_round_and_item_on_its_own():
    run = ring(asks("a", "put", retry={"attempts": 2, "backoff_s": 0}))
    run.answer("approve").fail("a")
    assert run.calls == ["a"]
    rounds = ring(asks("a", loop={"times": 2}))
    rounds.answer("approve").finish("a").tick()
    assert rounds.questions == ["q2"]
    items = ring(asks("a", foreach=[1, 2], args={"x": "${item}"}))
    assert [items.state.questions[id_].asked.path for id_ in items.questions] == ["a[0]", "a[1]"]
    items.answer("approve", question="q2")
    assert items.calls == ["a[1]"]


def test_a_changed_call_is_asked_anew_and_the_old_answer_counts_for_nothing():
    run = ring(asks("a", args={"x": 1}))
    run.send("edit", patch=Patch(change={"a": {"args": {"x": 2}}}))
    assert run.questions == ["q2"]
    with pytest.raises(Refused):
        run.answer("approve", question="q1")
    run.answer("approve")
    assert run.args("a") == {"x": 2}


def test_what_was_approved_and_not_made_yet_is_asked_about_again_if_its_arguments_are_others():
    run = ring(asks("a", args={"x": "${context.n}"}), context={"n": 1})
    run.send("pause").answer("approve")
    run.send("set_context", values={"n": 2}).send("unpause")
    assert run.questions == ["q2"]
    assert bytes(run.state.questions["q2"].asked.args) == b'{"x":2}'
    run.answer("approve")
    assert run.args("a") == {"x": 2}


def test_what_was_approved_and_not_made_yet_is_asked_about_again_if_its_step_is_another():
    run = ring(asks("a", args={"x": 1}))
    run.send("pause").answer("approve")
    change = {"a": {"approval": {"ask": "May it, five times?"}, "retry": {"attempts": 5}}}
    run.send("edit", patch=Patch(change=change)).send("unpause")
    assert (run.questions, run.calls) == (["q2"], [])
    assert run.state.questions["q2"].asked.text == "May it, five times?"
    run.answer("approve")
    assert run.args("a") == {"x": 1}


def test_an_approval_is_used_up_by_a_call_that_failed():
    run = ring(asks("a", on_error="ask")).answer("approve")
    run.fail("a", "permanent", classified=True).answer("retry")
    assert run.calls == []
    assert run.state.questions[run.questions[0]].asked.reason == "approval"
    assert run.answer("approve").calls == ["a"]


def test_an_approval_survives_a_crash_and_so_does_the_question():
    run = ring(asks("a"))
    run.crash().resume()
    assert run.questions == ["q1"]
    run.answer("approve")
    run.crash().resume()
    assert run.status("a") == "in_doubt"


def test_an_agent_cannot_answer_for_a_person():
    run = ring(asks("a"))
    with pytest.raises(Refused) as refused:
        run.send("answer", question="q1", answer="approve", by="bot", role="agent")
    assert refused.value.code == "not_a_person"
    assert run.questions == ["q1"]


@pytest.mark.parametrize(
    ("ask", "asked"), [("never", []), ("effects", ["b", "c"]), ("every_step", ["a", "b", "c"])]
)
def test_the_settings_ask_where_the_plan_does_not(ask, asked):
    run = ring(
        step("a"), step("b", "put"), step("c", "send"), step("d", "sleep", args={"seconds": 1}), ask=ask
    )
    assert [run.state.questions[id_].asked.path for id_ in run.questions] == asked


def test_a_composite_can_ask_before_anything_in_it_starts():
    run = ring({"id": "p", "steps": [step("a")], "approval": {"ask": "All of it?"}})
    assert run.calls == []
    run.answer("approve")
    assert run.calls == ["p/a"]


def test_a_cancelled_run_asks_nothing_any_more():
    run = ring(asks("a"))
    run.send("cancel")
    assert run.status() == "cancelled"
    assert not run.questions


# --- on_error: ask


@pytest.mark.parametrize(
    ("answer", "calls", "end"),
    [("retry", ["a"], "running"), ("skip", ["c"], "running"), ("fail", [], "failed")],
)
def test_a_failed_step_can_ask_what_to_do(answer, calls, end):
    run = ring(step("a", on_error="ask"), step("c", after=["a"], join="settled"))
    run.fail("a", "permanent")
    assert (run.status("a"), run.status("c"), run.status()) == ("failed", "pending", "waiting")
    run.crash().resume().answer(answer)
    if answer == "fail":
        run.finish("c")
    else:
        assert run.calls == calls
    assert run.status() == end


def test_the_fallback_is_tried_before_anybody_is_asked():
    run = ring(step("a", on_error="ask"), step("b", fallback_for="a"), step("c", args={"x": "${a}"}))
    run.fail("a", "permanent")
    assert run.calls == ["b"]
    run.fail("b", "permanent")
    assert run.questions == ["q1"]
    run.answer("retry").finish("b", 4)
    assert run.args("c") == {"x": 4}


def test_a_whole_foreach_or_composite_asks_once():
    run = ring(step("a", foreach=[1, 2], on_error="ask"))
    run.fail("a[0]", "permanent").finish("a[1]")
    assert run.questions == ["q1"]
    run.answer("retry")
    assert run.calls == ["a[0]"]
    run.finish("a[0]")
    assert run.status() == "done"


def test_what_is_asked_after_a_failure_ends_with_the_run():
    run = ring(step("a", on_error="ask"), step("b"))
    run.fail("a", "permanent").send("cancel").fail("b", "cancelled")
    assert run.status() == "cancelled"
    assert not run.questions
    run.resume(retry_failed=True)
    assert run.calls == ["a", "b"]


def test_edited_arguments_must_fit_the_tool():
    from kedge.plan.tools import Catalog, ToolSpec

    schema = {"type": "object", "properties": {"x": {"type": "integer"}}, "additionalProperties": False}
    run = Ring(
        {"goal": "g", "steps": [asks("a", args={"x": 1})]},
        catalog=Catalog([ToolSpec(name="send", parameters=schema)]),
    )
    run.start()
    with pytest.raises(InvalidPlan):
        run.answer("approve", value={"x": "one"})
    with pytest.raises(InvalidPlan):
        run.answer("approve", value={"y": 1})
    assert run.questions == ["q1"]


def answered(run: Ring, sent_ms: int, question: str = "q1") -> Turn:
    """The answer is decided on long after the question had expired, and was sent at that time."""
    turn = Turn(run.state, run.state.at + 500_000)
    turn.asked_at = run.state.at + sent_ms
    decide(turn, Answer(question=question, answer="approve"))
    return turn


@pytest.mark.parametrize("sent_ms", [0, 60_000])
def test_an_answer_that_was_sent_in_time_counts_however_late_it_is_taken(sent_ms):
    run = ring(asks("a", expires_s=60))
    assert [type(event).__name__ for event in answered(run, sent_ms).events] == ["QuestionAnswered"]


def test_an_answer_that_was_sent_too_late_counts_for_nothing():
    with pytest.raises(Refused) as refused:
        answered(ring(asks("a", expires_s=60)), 60_001)
    assert refused.value.code == "expired"
    assert answered(ring(asks("a")), 10**9).events, "it never expires"


def test_a_late_answer_to_what_is_answered_or_was_never_asked_is_told_so():
    run = ring(asks("a", expires_s=60), asks("b"))
    run.answer("approve", question="q1")
    with pytest.raises(Refused) as again:
        answered(run, 10**9)
    assert again.value.code == "already_answered"
    with pytest.raises(BadInput) as unknown:
        answered(run, 10**9, "q9")
    assert unknown.value.code == "unknown_question"


def test_nothing_is_written_after_the_end_of_a_run():
    run = ring(step("a"))
    run.finish("a")
    before = run.kinds
    with pytest.raises(Refused) as refused:
        run.send("pause", key="k")
    assert refused.value.code == "run_ended"
    assert run.kinds == before
