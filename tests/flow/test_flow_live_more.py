"""Changing a live plan: what was about to start is held back, and what is still open stays so."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import BadInput, InternalError, InvalidPlan, Refused
from kedge.checks.change import Known
from kedge.flow.approvals import must_ask
from kedge.flow.events import QuestionAnswered, QuestionAsked, Reopened, StepFailed, StepWaiting, plain
from kedge.flow.evolve import evolve
from kedge.flow.reach import Reach
from kedge.flow.settings import RunSettings
from kedge.plan.parts import Step
from kedge.plan.patch import Addition, Patch
from kedge.testing.programs import check_program
from kedge.testing.ring import Places, Ring


def step(id_: str, tool: str = "t", **more: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, **more}


def group(id_: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": id_, "steps": list(steps), **more}


def made(id_: str, **fields: Any) -> Step:
    fields.setdefault("tool", "t")
    return Step(id=id_, **fields)


def ring(*steps: dict[str, Any], gate: Places | None = None, ask: Any = "never", **plan: Any) -> Ring:
    document = {"goal": "g", "steps": list(steps), **plan}
    return Ring(document, {"send": "effect"}, gate=gate, settings=RunSettings(ask=ask)).start()


def edit(run: Ring, **patch: Any) -> Ring:
    run.send("edit", patch=Patch(**patch))
    check_program(run.state)
    return run


# --- what was about to start


def test_calls_that_wait_for_a_place_are_held_back_and_the_others_are_not():
    gate = Places({"narrow": 1})
    run = ring(*(step(id_, "narrow") for id_ in "abc"), step("x"), gate=gate)
    assert run.calls == ["a", "x"]
    edit(run, change={"b": {"after": ["x"]}})
    assert run.finish("a").calls == ["x", "c"]
    assert run.finish("c").finish("x").calls == ["b"]


def test_the_only_call_that_waits_for_a_place_is_held_back():
    gate = Places({"narrow": 1})
    run = ring(step("a", "narrow"), step("b", "narrow"), step("x"), gate=gate)
    edit(run, change={"b": {"after": ["x"]}})
    assert run.state.parked == {}
    assert run.finish("a").calls == ["x"]
    assert run.finish("x").calls == ["b"]


def test_calls_that_are_ready_are_held_back_and_the_others_are_not():
    run = ring(*(step(id_) for id_ in "abcx"), limits={"parallel": 1})
    edit(run, change={"b": {"after": ["x"]}})
    order: list[str] = []
    while run.calls:
        order += run.calls
        run.finish(run.calls[0])
    assert (sorted(order), order[-1]) == (["a", "b", "c", "x"], "b")


def test_what_is_to_be_looked_at_is_held_back_and_the_others_are_not():
    run = ring(step("a"), group("p", step("k"), after=["a"]), group("q", step("k"), after=["a"]), step("x"))
    run.send("pause").finish("a")
    edit(run, change={"p": {"after": ["x"]}})
    assert run.send("unpause").calls == ["x", "q/k"]
    assert run.finish("x").calls == ["q/k", "p/k"]


def test_an_approval_that_is_waited_for_is_asked_anew_when_what_it_waits_for_is_another_thing():
    run = ring(step("x"), step("a", approval={"ask": "May it?", "expires_s": 60}))
    edit(run, change={"a": {"after": ["x"]}})
    assert (run.questions, run.status("a")) == ([], "pending")
    assert run.tick(60_000).finish("x").questions == ["q2"]
    assert run.answer("approve").calls == ["a"]


def test_a_call_that_was_interrupted_is_looked_at_again():
    run = ring(step("x"), step("a"), limits={"parallel": 2})
    run.send("pause").crash().resume()
    edit(run, change={"a": {"when": "false"}})
    run.send("unpause")
    assert (run.status("a"), run.calls) == ("skipped", ["x"])


# --- fallbacks


def test_a_fallback_that_changes_is_still_waited_for():
    run = ring(step("a"), step("x"), step("b", fallback_for="a", after=["x"]), step("c", args={"a": "${a}"}))
    run.fail("a", "permanent")
    edit(run, change={"b": {"args": {"n": 1}}})
    assert run.status("c") == "pending"
    assert run.finish("x").args("b") == {"n": 1}
    assert run.finish("b", 2).args("c") == {"a": 2}


def test_a_fallback_of_nobody_is_refused():
    with pytest.raises(InvalidPlan):
        edit(ring(step("a")), add=(Addition(step=made("f", fallback_for="nobody")),))
    with pytest.raises(InvalidPlan):
        edit(ring(group("p", step("a"))), add=(Addition(step=made("f", fallback_for="nobody"), into="p"),))


@pytest.mark.parametrize("change", [{"args": {"n": 1}}, {"fallback_for": None}])
def test_a_fallback_that_is_written_first_and_changes(change):
    run = ring(step("b", fallback_for="a", after=["x"]), step("x"), step("a"), step("c", after=["a"]))
    run.fail("a", "permanent")
    edit(run, change={"b": change})
    assert run.status("c") == ("pending" if "args" in change else "skipped")


def test_a_failure_that_is_being_decided_on_stays_so_whatever_else_changes():
    run = ring(step("x"), step("y", after=["x"]), step("a", on_error="ask")).fail("a", "permanent")
    edit(run, change={"y": {"args": {"n": 1}}})
    assert run.questions == ["q1"]
    assert run.answer("retry").calls == ["x", "a"]


def test_a_step_that_waited_for_its_next_attempt_and_went_is_not_called_when_its_time_comes():
    run = ring(step("a"), step("b", retry={"attempts": 2, "backoff_s": 60})).fail("b")
    edit(run, remove=("b",))
    assert run.tick(60_000).calls == ["a"]
    assert run.finish("a").status() == "done"


def test_a_child_that_went_hears_nothing_from_outside():
    run = ring(step("a"), step("z"), group("p", step("k", after=["a", "z"], join="any"), step("l")))
    edit(run, remove=("p/k",))
    assert run.finish("a").finish("z").calls == ["p/l"]
    assert run.finish("p/l").status() == "done"


# --- failures and doubts that are decided on


@pytest.mark.parametrize(
    ("answer", "end", "kind"),
    [
        ("retry", "running", "Reopened"),
        ("skip", "done", "FailureSettled"),
        ("fail", "failed", "FailureSettled"),
    ],
)
def test_what_follows_from_the_answer_about_a_failure(answer, end, kind):
    run = ring(step("a", on_error="ask"), step("b")).fail("a", "permanent").finish("b")
    before = len(run.log)
    run.send("answer", question="q1", answer=answer, by="anna", reason="so it is")
    told = [plain(event) for event in run.events[before:]]
    assert told[0] == {
        "kind": "QuestionAnswered", "question": "q1", "answer": answer, "by": "anna", "reason": "so it is",
    }  # fmt: skip
    assert told[1]["kind"] == kind
    assert told[1]["path"] == "a"
    if answer == "retry":
        assert told[1]["by"] == "anna"
    assert run.status() == end


def test_what_is_asked_about_a_failure():
    run = ring(step("a", on_error="ask")).fail("a", "permission")
    assert plain(run.of(QuestionAsked)[0]) == {
        "kind": "QuestionAsked", "question": "q1", "reason": "failed", "path": "a",
        "text": "Step a failed: a failed: permission. Try again, go on without it, or let it fail?",
        "options": ["retry", "skip", "fail"],
    }  # fmt: skip
    assert plain(run.of(StepFailed)[0])["held"] is True


def test_nobody_is_asked_about_a_failure_of_a_run_that_is_cancelled():
    run = ring(step("a", on_error="ask")).send("cancel").fail("a", "permanent")
    assert (run.questions, run.status()) == ([], "cancelled")


def test_nobody_is_asked_about_a_failure_of_a_run_that_is_stopped():
    run = (
        ring(step("a", on_error="ask"), step("b"), limits={"calls": 1}).answer("stop").fail("a", "permanent")
    )
    assert (run.questions, run.status(), run.status("a")) == ([], "failed", "failed")


def test_a_fallback_that_is_written_first_is_tried_before_anybody_is_asked():
    run = ring(step("b", fallback_for="a"), step("a", on_error="ask")).fail("a", "permanent")
    assert (run.questions, run.calls) == ([], ["b"])
    assert run.fail("b", "permanent").questions == ["q1"]


def test_what_is_asked_before_a_call():
    approval = {"ask": "Send ${goal}?", "expires_s": 60}
    run = ring(step("a", "send", args={"x": 1}, approval=approval))
    told = plain(run.of(QuestionAsked)[0])
    assert len(told.pop("binding")) == 64
    assert told == {
        "kind": "QuestionAsked", "question": "q1", "reason": "approval", "path": "a", "text": "Send g?",
        "options": ["approve", "refuse"], "args": {"x": 1}, "expires_at": 61_000,
    }  # fmt: skip
    assert plain(run.of(StepWaiting)[0]) == {
        "kind": "StepWaiting", "path": "a", "until": 61_000, "reason": "approval",
    }  # fmt: skip
    by_setting = ring(step("a", "send"), ask="effects")
    assert by_setting.of(QuestionAsked)[0].text == "May send be called?"
    assert by_setting.of(QuestionAsked)[0].expires_at == 0


def test_what_an_approval_leaves_in_the_log():
    run = ring(step("a", "send", args={"x": 1}, approval={"ask": "May it?"}))
    run.send("answer", question="q1", answer="approve", value={"x": 2}, by="anna", reason="better")
    assert plain(run.of(QuestionAnswered)[0]) == {
        "kind": "QuestionAnswered", "question": "q1", "answer": "approve", "by": "anna", "reason": "better",
        "result": {"x": 2},
    }  # fmt: skip
    run = ring(step("a", "send", approval={"ask": "May it?"})).send("answer", question="q1", answer="refuse")
    assert plain(run.of(QuestionAnswered)[0]) == {
        "kind": "QuestionAnswered", "question": "q1", "answer": "refuse",
    }  # fmt: skip
    told = plain(run.of(StepFailed)[0])["error"]
    assert told == {
        "category": "permission", "code": "refused", "message": "a person refused it", "classified": True,
        "not_done": True,
    }  # fmt: skip


def test_an_approval_that_expires_says_so():
    run = ring(step("a", "send", approval={"ask": "May it?", "expires_s": 1})).tick(1_000)
    assert plain(run.of(QuestionAnswered)[0]) == {
        "kind": "QuestionAnswered", "question": "q1", "answer": "refuse", "reason": "nobody answered in time",
    }  # fmt: skip
    assert run.error("a").message == "nobody approved it in time"


def test_other_arguments_fit_the_call():
    run = ring(step("a", "send", approval={"ask": "May it?"}))
    with pytest.raises(BadInput, match="these arguments do not fit send: ") as refused:
        run.answer("approve", {"x": "${nobody}"})
    assert (refused.value.code, refused.value.where) == ("edited_args", "step a")
    assert run.status("a") == "waiting"


def test_other_arguments_are_a_map():
    run = ring(
        step("a", "send", approval={"ask": "May it?"}), group("p", step("k"), approval={"ask": "May it?"})
    )
    about = {run.state.questions[id_].asked.path: id_ for id_ in run.questions}
    for path, value in [("a", [1]), ("p", {"x": 1})]:
        with pytest.raises(BadInput, match="other arguments are given as a map") as refused:
            run.answer("approve", value, question=about[path])
        assert refused.value.code == "edited_args"
        assert f"step {path}" in str(refused.value)
        assert "take the arguments of the question" in str(refused.value)
    run.answer("refuse", {"x": 1}, question=about["a"])  # a refusal needs no arguments
    assert run.status("a") == "failed"


def test_other_arguments_are_held_against_the_tool_and_nothing_else_of_the_step():
    run = ring(
        step("x"), step("t"), step("y"),
        step(
            "a", "send", approval={"ask": "May it, ${y}?"}, after=["x"], when="present(y)", foreach="${y}",
            loop={"times": 2, "until": "loop.previous > 1"}, expect="result != 9", fallback_for="t",
        ),
    )  # fmt: skip
    run.finish("x").finish("y", [1]).fail("t", "permanent").answer("approve", {"n": 1})
    assert run.args("a[0]") == {"n": 1}


def test_large_arguments_of_an_approval_are_blobs():
    run = ring(step("x"), step("a", "send", args={"x": "${x}"}, approval={"ask": "May it?"}))
    run.finish("x", "x" * 20_000)
    assert run.of(QuestionAsked)[0].blob is not None
    run.answer("approve", {"x": "y" * 20_000})
    assert run.of(QuestionAnswered)[0].blob is not None
    assert run.args("a") == {"x": "y" * 20_000}


def test_an_agent_is_told_that_a_person_is_asked():
    run = ring(step("a", "send", approval={"ask": "May it?"}))
    for by, said in [("", "an agent is none"), ("bot", "bot is none")]:
        with pytest.raises(Refused, match=said) as refused:
            run.send("answer", question="q1", answer="approve", by=by, role="agent")
        assert "question q1 asks for a person" in str(refused.value)
        assert "let a person answer it" in str(refused.value)


def test_of_two_signals_that_are_kept_the_older_one_is_taken():
    run = ring(step("x"), {"id": "a", "wait": {"signal": "go"}, "after": ["x"]})
    run.send("signal", name="go", data=1).send("signal", name="go", data=2).finish("x")
    assert run.value("a") == 1
    assert {name: len(kept) for name, kept in run.state.signals.items()} == {"go": 1}


@pytest.mark.parametrize("turned", [False, True])
def test_what_had_nothing_to_go_on_may_have_it_after_the_end(turned):
    steps = [step("a", on_error="continue"), step("b", after=["a"]), step("c", after=["b"]), step("x")]
    run = ring(*(steps[::-1] if turned else steps)).fail("a", "permanent").fail("x", "permanent")
    run.crash().resume(retry_failed=True).finish("a").finish("x")
    assert run.calls == ["b"]
    assert run.finish("b").finish("c").status() == "done"


def test_what_has_not_failed_cannot_be_opened_again():
    run = ring(step("a"))
    with pytest.raises(InternalError, match="step a is running and cannot be opened again"):
        evolve(run.state, Reopened(path="a"), 1)


# --- who is asked


@pytest.mark.parametrize(("ask", "asked"), [("never", False), ("effects", True), ("every_step", True)])
def test_composites_and_sleeps_are_asked_about_only_where_the_plan_says_so(ask, asked):
    run = ring(
        group("p", step("k", "send")), step("n", "sleep", args={"seconds": 1}), step("s", "send"), ask=ask
    )
    assert [must_ask(run.state, run.step(path).node) for path in ("p", "n", "s")] == [False, False, asked]


# --- how far a change reaches


def test_what_nobody_knows_reaches_nothing():
    reach = Reach(ring(step("a"), group("p", step("k"))).state.program)
    for path in ("nobody", "a/k", "p/nobody"):
        assert reach.known(path) == Known(())
        assert reach.touched(Patch(rewire={path: {}})) == {path}
        assert reach.touched(Patch(remove=(path,))) <= {"a", "p"}


def test_a_change_reaches_those_that_read_a_step_wherever_they_are():
    inner = group("q", step("k", args={"a": "${a}"}), step("l"))
    program = ring(
        step("a"), step("b", after=["a"]), step("f", fallback_for="a"),
        group("p", inner, step("m", after=["a"])), step("z"),
    ).state.program  # fmt: skip
    reach = Reach(program)
    assert reach.touched(Patch(remove=("a",))) == {"b", "f", "p/q/k", "p/m"}
    assert reach.touched(Patch(change={"a": {"do": "x"}})) == {"a", "b", "f", "p/q/k", "p/m"}
    assert reach.touched(Patch(rewire={"z": {}})) == {"z"}
    added = Addition(step=made("n", tool=None, steps=(made("i"),)), into="p")
    assert reach.touched(Patch(add=(added,))) == {"p/n", "p/n/i"}
    assert reach.touched(Patch(add=(Addition(step=made("i")),))) == {"i"}
    assert reach.known("p/q/k") == Known(("a",))
    assert reach.known("a") == Known((), "f")
    turned = Reach(ring(step("f", fallback_for="a"), step("a")).state.program)
    assert turned.known("a") == Known((), "f")
    assert turned.touched(Patch(remove=("a",))) == {"f"}
    assert reach.known("p/m") == Known(("a",))


def test_what_a_step_waits_for_is_told_by_its_whole_path():
    inner = group("q", step("a"), step("k", after=["a", "b", "c"]), step("f", fallback_for="a"))
    reach = Reach(ring(step("c"), group("p", step("b"), inner)).state.program)
    assert set(reach.known("p/q/k").needs) == {"p/q/a", "p/b", "c"}
    assert reach.known("p/q/a").fallback == "p/q/f"
    assert reach.touched(Patch(remove=("p/b",))) == {"p", "p/q/k"}


# --- composites


def test_a_composite_within_one_that_are_both_tried_again():
    once_more = {"attempts": 2, "backoff_s": 0}
    run = ring(group("p", group("q", step("k"), retry=once_more), retry=once_more))
    for _ in range(3):
        run.fail("p/q/k")
    assert run.step("p/q/k").starts == 4
    assert run.finish("p/q/k", 1).value("p") == {"q": {"k": 1}}
    assert run.state.total == len(run.state.steps) == 3


def test_the_last_step_of_a_composite_cannot_go_but_one_of_two_can():
    run = ring(step("a"), group("p", step("k"), step("l"), after=["a"]))
    edit(run, remove=("p/k",))
    with pytest.raises(InvalidPlan, match="there are no steps in it"):
        edit(run, remove=("p/l",))
    assert edit(run, remove=("p",)).finish("a").status() == "done"


@pytest.mark.parametrize(
    "patch",
    [
        Patch(add=(Addition(step=made("s", tool="send"), into="p"),)),
        Patch(add=(Addition(step=made("s", tool="send"), into="p/q"),)),
        Patch(change={"p/q/k": {"tool": "send"}}),
    ],
)
def test_a_composite_that_is_tried_again_gets_no_effects(patch):
    retry = {"attempts": 2}
    run = ring(step("a"), group("p", group("q", step("k")), step("l"), after=["a"], retry=retry))
    with pytest.raises(InvalidPlan, match="would repeat the effects of its steps"):
        run.send("edit", patch=patch)


def test_a_composite_that_came_to_nothing_is_skipped_whatever_it_expects():
    run = ring(group("p", step("k", when="false"), expect="result.k > 1"), step("x"))
    assert (run.status("p"), run.step("p").reason) == ("skipped", "empty")
    assert run.finish("x").status() == "done"


def test_a_loop_that_comes_to_nothing_goes_through_all_its_rounds():
    run = ring(group("p", step("k", when="false"), loop={"times": 3}), step("x"))
    assert (run.kinds.count("RoundEnded"), run.status("p")) == (2, "skipped")


def test_waiting_for_a_place_is_no_work():
    run = ring(step("a")).tick(10)
    run.send("pause").crash().resume().tick(30)
    run.send("unpause").tick(5).finish("a")
    assert run.result.groups == [["a"], ["a"]]
    assert run.result.steps["a"].seconds == 0.015


# --- what goes wrong in a later round


def test_a_signal_that_cannot_be_named_in_a_later_round_fails_its_step():
    name = "${'x' if loop.index == 0 else loop.previous}"
    run = ring({"id": "a", "wait": {"signal": name}, "loop": {"times": 2}})
    run.send("signal", name="x", data=5)
    assert (run.status(), run.error("a").code) == ("failed", "signal_name")


def test_a_question_that_cannot_be_put_in_a_later_round_fails_its_composite():
    ask = "${'x' if loop.index == 0 else loop.previous.k.n}"
    run = ring(group("p", step("k"), approval={"ask": ask}, loop={"times": 2}))
    run.answer("approve").finish("p#0/k", 5)
    assert (run.status(), run.error("p").category) == ("failed", "invalid_input")


# --- places that shift


@pytest.mark.parametrize("first", [True, False], ids=["fallback first", "fallback last"])
def test_fallbacks_find_each_other_after_steps_before_them_went(first):
    pair = [step("f", fallback_for="a"), step("a")]
    run = ring(
        step("z"), step("y", after=["z"]), *(pair if first else pair[::-1]), step("c", args={"a": "${a}"})
    )
    edit(run, remove=("y",))
    edit(run, add=(Addition(step=made("g", fallback_for="f")),))
    run.fail("a", "permanent").fail("f", "permanent").finish("g", 3)
    assert run.args("c") == {"a": 3}


@pytest.mark.parametrize("first", [True, False], ids=["fallback first", "fallback last"])
def test_a_fallback_comes_to_stand_in_for_another_step(first):
    pair = [step("f", fallback_for="a"), step("a")]
    run = ring(*(pair if first else pair[::-1]), step("b"), step("c", args={"a": "${a}", "b": "${b}"}))
    edit(run, change={"f": {"fallback_for": "b"}})
    run.finish("a", 1).fail("b", "permanent").finish("f", 2)
    assert run.args("c") == {"a": 1, "b": 2}


def test_what_comes_under_a_name_that_is_named_outward_is_meant_by_those_inside():
    run = ring(step("x"), step("n"), group("p", group("q", step("k", args={"n": "${n}"}, after=["x"]))))
    edit(run, add=(Addition(step=made("n", after=("x",)), into="p"),))
    run.finish("n", "outer").finish("x").finish("p/n", "inner")
    assert run.args("p/q/k") == {"n": "inner"}


def test_what_was_skipped_as_not_needed_stays_so():
    run = ring(step("z"), step("f", fallback_for="a", after=["z"]), step("a"))
    run.send("pause").finish("a")
    edit(run, change={"f": {"args": {"n": 1}}})
    run.send("unpause")
    assert run.step("f").reason == "not_needed"
    assert run.finish("z").status() == "done"
