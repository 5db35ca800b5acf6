"""Inputs that nobody gave are asked for: who reads them waits, all others run."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import BadInput
from kedge.flow.events import QuestionAnswered, QuestionAsked, RunCancelling, StepWaiting
from kedge.flow.settings import RunSettings
from kedge.plan.patch import Patch
from kedge.testing.ring import Ring

X = {"x": {"type": "integer", "description": "How many"}}


def step(id_: str, *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "tool": "t", "after": list(after), **fields}


def ring(
    *steps: dict[str, Any], wanted: Any = X, inputs: Any = None, ask: Any = "effects", **more: Any
) -> Ring:
    plan = {"goal": "g", "inputs": wanted, "steps": list(steps), **more}
    return Ring(plan, {"t": "read"}, inputs=inputs, settings=RunSettings(ask=ask)).start()


READS = step("a", args={"n": "${inputs.x}"})


def test_who_reads_it_waits_and_all_others_run():
    run = ring(READS, step("b"), step("c", "a"))
    asked = run.state.questions["q1"].asked
    assert (asked.reason, asked.input, asked.text, asked.options) == (
        "input", "x", "What is the input x (integer): How many?", ("give", "stop"),
    )  # fmt: skip
    assert (run.calls, run.status("a"), run.state.blocked_by) == (["b"], "waiting", 0)
    run.finish("b")
    assert (run.status(), run.questions) == ("waiting", ["q1"])
    run.crash().resume()
    run.answer("give", 7)
    assert (run.calls, run.args("a")) == (["a"], {"n": 7})
    run.finish("a").finish("c")
    assert run.status() == "done"


def test_nothing_is_asked_where_nobody_is_there_to_ask_or_nothing_is_missing():
    assert ring(READS, ask="never").status("a") == "failed"
    assert ring(READS, inputs={"x": 1}).questions == []
    given = {"x": {"default": 1}, "y": {"required": False}}
    assert ring(step("a"), wanted=given, inputs={"x": 1, "y": None}).questions == []


@pytest.mark.parametrize("value", ["7", None, True, 1.5, [1]])
def test_a_value_of_another_type_is_no_answer(value):
    run = ring(READS)
    with pytest.raises(BadInput, match="input x: needs integer") as caught:
        run.answer("give", value)
    assert caught.value.code == "inputs"
    assert run.questions == ["q1"]


def test_without_the_input_the_run_can_be_stopped():
    run = ring(READS).answer("stop")
    assert (run.status(), run.of(RunCancelling)[0].reason) == ("cancelled", "the input x is not given")


def test_each_input_is_asked_for_and_a_step_waits_for_all_that_it_reads():
    wanted = {"x": {}, "y": {"type": "string"}}
    run = ring(
        step("one", args={"n": "${inputs.y}"}),
        step("both", args={"n": "${inputs.x}", "m": "${inputs.y}"}),
        step("map", args={"all": "${inputs}"}),
        wanted=wanted,
    )
    assert run.questions == ["q1", "q2"]
    assert run.state.questions["q1"].asked.text == "What is the input x?"
    run.answer("give", "why", question="q2")
    assert run.calls == ["one"]
    run.answer("give", None, question="q1")
    assert sorted(run.calls) == ["both", "map", "one"]
    assert run.args("map") == {"all": {"x": None, "y": "why"}}


@pytest.mark.parametrize(
    "fields",
    [
        {"when": "inputs.x > 1"},
        {"foreach": "${[inputs.x]}"},
        {"expect": "result < inputs.x"},
        {"args": {"n": "${'none' if not present(inputs.x) else 'some'}"}},
        {"loop": {"times": 2, "until": "inputs.x > 1"}},
        {"approval": {"ask": "May ${inputs.x}?"}},
    ],
)
def test_wherever_it_is_read_nothing_of_the_step_begins(fields):
    run = ring(step("a", **fields))
    assert (run.calls, run.status("a"), run.questions) == ([], "waiting", ["q1"])
    run.answer("give", 5)
    if run.questions:
        assert "May 5?" in run.state.questions["q2"].asked.text
        run.answer("approve")
    (path,) = run.calls
    run.finish(path, 1)
    assert run.status() == "done"


def test_what_is_no_call_waits_too():
    run = ring(
        {"id": "nap", "tool": "sleep", "args": {"seconds": "${inputs.x}"}},
        {"id": "heard", "wait": {"signal": "go-${inputs.x}"}},
        {"id": "job", "when": "inputs.x > 0", "steps": [step("in_it", args={"n": "${inputs.x}"})]},
    )
    assert [run.status(id_) for id_ in ("nap", "heard", "job")] == ["waiting"] * 3
    run.answer("give", 1)
    assert (run.calls, list(run.state.listeners)) == (["job/in_it"], ["go-1"])
    run.finish("job/in_it").send("signal", name="go-1").tick(1_000)
    assert run.status() == "done"


def test_the_run_does_not_end_before_what_it_comes_to_can_be_told():
    run = ring(step("a"), outputs={"n": "inputs.x"}, answer="It is ${inputs.x}").finish("a", 1)
    assert (run.status(), run.questions) == ("waiting", ["q1"])
    run.crash().resume().answer("give", 3)
    assert (run.status(), run.result.outputs, run.result.answer) == ("done", {"n": 3}, "It is 3")
    run = ring(step("a"), step("b", "a"), outputs={"n": "inputs.x"}).answer("give", 3).finish("a").finish("b")
    assert run.status() == "done"


def test_what_nobody_reads_keeps_nobody_waiting():
    run = ring(step("a")).finish("a")
    assert run.status() == "done"
    assert run.state.questions["q1"].open is True


def test_a_plan_that_does_not_read_it_any_more_goes_on():
    run = ring(READS)
    run.send("edit", patch=Patch(change={"a": {"args": {"n": 1}}}))
    assert (run.calls, run.args("a")) == (["a"], {"n": 1})
    run = ring(READS).send("skip", step="a")
    assert run.status() == "empty"


def test_a_large_value_is_an_input_like_any_other():
    run = ring(READS, wanted={"x": {}}).answer("give", "x" * 20_000)
    assert run.args("a") == {"n": "x" * 20_000}
    assert run.of(QuestionAnswered)[0].blob is None
    run.crash().resume()
    assert run.calls == ["a"]


def test_a_question_that_the_cut_left_out_is_asked():
    run = ring(READS).answer("give", 7)
    run.fork(2)
    assert (run.questions, run.status("a")) == (["q1"], "waiting")
    run = ring(READS).salvage(2)
    assert [run.state.questions[id_].asked.reason for id_ in run.questions] == ["input"]


def test_a_fork_asks_again_for_what_was_not_given_there():
    run = ring(READS).answer("give", 7).finish("a", 1)
    run.fork(3)
    assert (run.questions, run.calls) == (["q1"], [])
    run.answer("give", 8)
    assert (run.calls, run.args("a")) == (["a"], {"n": 8})
    assert len(run.of(QuestionAsked)) == 1
    assert len(run.of(StepWaiting, "a")) == 1
