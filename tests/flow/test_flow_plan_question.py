"""Asking about a plan before anything of it starts: bound to that plan, and to a person's word."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import BadInput, InvalidPlan, Refused
from kedge.flow import inputs as inp
from kedge.flow.brief import TEXT_MAX
from kedge.flow.events import PlanAdopted, PlanApproved, QuestionAsked, RunCancelling
from kedge.flow.settings import RunSettings
from kedge.plan.parts import Step
from kedge.plan.patch import Addition, Patch
from kedge.testing.ring import Ring

EFFECTS: Any = {"send": "effect", "put": "idempotent", "read": "read"}


def ring(*steps: dict[str, Any], ask: Any = "plan", **more: Any) -> Ring:
    plan = {"goal": "Pay the rent", "steps": list(steps), **more}
    return Ring(plan, EFFECTS, settings=RunSettings(ask=ask)).start()


def step(id_: str, tool: str = "t", *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, "after": list(after), **fields}


def text(run: Ring) -> str:
    (id_,) = run.questions
    return run.state.questions[id_].asked.text


def inject(run: Ring, role: str) -> Ring:
    return run.send("inject", step=Step(id="more", tool="send"), role=role, by="somebody")


def test_nothing_starts_before_the_plan_is_approved():
    run = ring(step("a"), step("b", "send", "a"))
    assert (run.calls, run.status(), run.questions) == ([], "waiting", ["q1"])
    asked = run.state.questions["q1"].asked
    assert (asked.reason, asked.options, asked.path) == ("plan", ("approve", "refuse"), "")
    assert asked.binding == run.state.unapproved == run.state.versions[0].id
    run.tick(1_000).crash().resume()
    assert (run.calls, run.questions) == ([], ["q1"]), "asked once"
    run.answer("approve")
    assert (run.calls, run.state.approved, run.state.unapproved) == (["a"], (1, asked.binding), "")
    run.finish("a").finish("b")
    assert run.status() == "done"


def test_only_a_person_approves_it():
    run = ring(step("a"))
    with pytest.raises(Refused, match="asks for a person"):
        run.send("answer", question="q1", answer="approve", by="bot", role="agent")


def test_a_plan_that_is_refused_is_not_followed():
    run = ring(step("a"))
    run.send("answer", question="q1", answer="refuse", reason="too dear", by="anna")
    assert (run.status(), run.calls) == ("cancelled", [])
    (cancelling,) = run.of(RunCancelling)
    assert (cancelling.by, cancelling.reason) == ("anna", "the plan's version 1 was refused: too dear")


def test_it_is_approved_with_edits():
    run = ring(step("a"), step("b", "send"))
    run.answer("approve", {"change": {"a": {"args": {"x": 1}}}, "why": "with x"})
    assert (run.args("a"), run.state.version, run.calls) == ({"x": 1}, 2, ["a", "b"])
    assert run.state.approved is not None
    assert run.state.approved[0] == 2
    (_, adopted) = run.of(PlanAdopted)
    assert (adopted.cause, adopted.by, adopted.why) == ("answer", "anna", "with x")
    run = ring(step("a")).answer(
        "approve", Patch(remove=("a",), add=()).__class__(change={"a": {"do": "It"}})
    )
    assert run.calls == ["a"]


@pytest.mark.parametrize("value", [1, {"nope": 1}, [], "x"])
def test_what_is_no_patch_approves_nothing(value):
    run = ring(step("a"))
    with pytest.raises(BadInput) as caught:
        run.answer("approve", value)
    assert caught.value.code == "edited_plan"
    with pytest.raises(InvalidPlan):
        run.answer("approve", {"remove": ["zzz"]})
    assert (run.calls, run.questions) == ([], ["q1"])


def test_a_persons_own_change_of_an_approved_plan_is_consent():
    run = ring(step("a")).answer("approve")
    inject(run, "person")
    assert (run.calls, run.questions) == (["a", "more"], [])
    assert [(e.version, e.by) for e in run.of(PlanApproved)] == [(1, "anna"), (2, "somebody")]


def test_a_change_before_the_approval_is_asked_about_with_the_rest():
    run = ring(step("a"))
    inject(run, "person")
    assert (run.calls, run.questions) == ([], ["q2"])
    assert run.state.questions["q1"].answer == "void"
    with pytest.raises(Refused, match="was answered"):
        run.answer("approve", question="q1")
    run.answer("approve")
    assert run.calls == ["a", "more"]


def test_an_agents_change_is_asked_about_and_what_runs_goes_on():
    run = ring(step("a"), step("b", "t", "a")).answer("approve")
    inject(run, "agent")
    assert (run.calls, run.questions) == (["a"], ["q2"])
    assert "Version 2, inject by somebody" in text(run)
    assert "+ more" in text(run)
    run.finish("a")
    assert (run.calls, run.status()) == ([], "waiting")
    run.answer("approve")
    assert sorted(run.calls) == ["b", "more"]


def test_a_change_that_is_refused_is_taken_back():
    run = ring(step("a"), step("b", "t", "a")).answer("approve")
    inject(run, "agent")
    run.answer("refuse")
    assert (run.state.version, run.questions, "more" in run.state.steps) == (3, [], False)
    adopted = run.of(PlanAdopted)[-1]
    assert (adopted.cause, adopted.why, adopted.by) == ("rollback", "version 2 was refused", "anna")
    run.finish("a").finish("b")
    assert run.status() == "done"


def test_a_refused_word_about_a_call_under_way_is_taken_back_too():
    run = ring(step("a")).answer("approve")
    run.send("edit", patch=Patch(change={"a": {"do": "Otherwise"}}), role="agent")
    run.answer("refuse")
    assert (run.state.plan.steps[0].do, run.questions, run.calls) == ("", [], ["a"])


def test_a_change_that_is_refused_and_cannot_be_taken_back_ends_the_run():
    run = ring(step("a"), step("b", "t", "a"), step("c", "t", "a")).answer("approve")
    moved = Addition(step=run.state.plan.steps[1])
    run.send("edit", patch=Patch(remove=("b",), add=(moved,)), role="agent")
    run.answer("refuse")
    assert run.status() == "cancelling", "nobody knows how to put it back where it was"


def test_a_change_that_comes_while_one_is_asked_about_is_asked_about_with_it():
    run = ring(step("a")).answer("approve")
    inject(run, "agent")
    run.send("edit", patch=Patch(change={"more": {"args": {"x": 1}}}), by="anna")
    assert (run.calls, run.questions) == (["a"], ["q3"]), "the rest is not hers"
    run.answer("approve")
    assert run.args("more") == {"x": 1}


def test_going_back_to_the_plan_that_was_approved_needs_no_word():
    run = ring(step("a")).answer("approve")
    inject(run, "agent")
    run.send("remove", step="more", role="agent")
    assert (run.state.version, run.questions, run.state.unapproved) == (3, [], "")
    assert run.state.questions["q2"].answer == "void"


def test_a_paused_run_asks_too():
    run = ring(step("a")).send("pause")
    assert run.questions == ["q1"]
    run.answer("approve")
    assert (run.calls, run.status()) == ([], "paused")
    run.send("unpause")
    assert run.calls == ["a"]


def test_a_fork_can_ask_or_ask_no_more():
    run = ring(step("a"), ask="never")
    run.crash().put(inp.Branched(run="r", seq=2, settings=RunSettings(ask="plan")))
    assert (run.calls, run.questions) == ([], ["q1"])
    run.crash().put(inp.Branched(run="r", seq=2, settings=RunSettings(ask="never")))
    assert (run.calls, run.questions) == (["a"], [])


def test_the_edit_of_a_fork_is_its_makers_own():
    run = ring(step("a"), step("b", "send", "a")).answer("approve").finish("a")
    run.fork(2, Patch(change={"b": {"args": {"x": 1}}}))
    assert run.questions == ["q1"], "nothing was approved there"
    run = ring(step("a"), step("b", "send", "a")).answer("approve").finish("a")
    run.fork(6, Patch(change={"b": {"args": {"x": 1}}}))
    assert (run.questions, run.calls, run.args("b")) == ([], ["b"], {"x": 1})


def test_the_question_says_what_happens_outside_first():
    asks = {"ask": "May it?"}
    run = ring(
        step("look", "read", do="Look at\nthe bill", estimate={"seconds": 2, "cost": 0.5}),
        step("pay", "send", "look", when="look", approval=asks),
        step("keep", "put", compensate={"tool": "send", "args": {}}),
        {"id": "many", "foreach": [1], "steps": [step("one", "send")]},
        {"id": "nap", "tool": "sleep", "args": {"seconds": 1}},
    )
    assert text(run).splitlines() == [
        "Follow this plan? Pay the rent",
        "5 steps, 3 that change something outside, takes about 3 s, costs about 0.5.",
        "Changes something outside:",
        "- pay (send, effect, if look, asks first)",
        "- keep (put, idempotent)",
        "- many/one (send, effect, for each of a list)",
        "Of these nothing undoes:",
        "pay, many/one",
        "The other steps:",
        "- look: Look at the bill (read, read)",
        "- nap (sleep, pure)",
    ]


def test_an_estimate_without_a_cost_tells_none():
    assert "takes about 2 s.\n" in text(ring(step("a", estimate={"seconds": 2})))


def test_the_question_about_a_large_plan_is_short():
    run = ring(*(step(f"s{n}", "send", do="x" * 300) for n in range(200)))
    assert len(text(run)) < TEXT_MAX + 40
    assert text(run).splitlines()[-1].endswith("lines more")


def test_what_is_otherwise_is_told_step_by_step():
    run = ring(step("a"), step("b", "t", "a"), step("c", "t", "a")).answer("approve")
    patch = Patch(
        why="to save money",
        change={"b": {"args": {"x": 1}}}, remove=("c",), plan={"goal": "Pay less"},
    )  # fmt: skip
    run.send("edit", patch=patch, role="agent")
    lines = text(run).splitlines()
    assert lines[:5] == [
        "Follow this plan? Pay less",
        "Version 2, edit: to save money",
        "- c",
        "~ b: args",
        "~ goal of the plan",
    ]
    assert len(run.of(QuestionAsked)) == 2


def test_a_question_about_a_call_says_what_it_is_for_what_it_gets_and_what_undoes_it():
    undo = {"tool": "put", "args": {}}
    run = ring(
        step("look"),
        step("pay", "send", do="Pay the bill", args={"sum": "${look}"}, approval={"ask": "Pay?"}),
        step("keep", "put", "pay", compensate=undo, approval={"ask": "Keep?"}),
        ask="never",
    ).finish("look", 12)
    assert run.result.brief("q1").splitlines() == [
        "Pay?",
        "The step is to: Pay the bill",
        "It calls send (effect). Nothing undoes it.",
        "With these arguments:",
        '{"sum":12}',
        "Done before it:",
        "- look: 12",
        "Waiting for it: keep",
        "So far 1 of 3 steps are done.",
    ]
    run.answer("approve").finish("pay", 1)
    assert "put undoes it." in run.result.brief("q2")


def test_a_question_with_large_arguments_is_short():
    run = ring(
        step("look", on_error="continue"),
        step("pay", "send", "look", args={"x": "y" * 20_000}, approval={"ask": "Pay?"}, join="settled"),
        ask="never",
    ).fail("look", "permanent")
    text = run.result.brief("q1")
    assert "the first 2,000 of 20,008 characters" in text
    assert "- look: failed" in text
    assert len(text) < TEXT_MAX + 40


def test_a_question_about_the_run_or_a_composite_is_told_as_it_is():
    run = ring({"id": "job", "steps": [step("a")], "approval": {"ask": "All of it?"}}, ask="never")
    assert run.result.brief("q1").splitlines()[0] == "All of it?"
    assert "It calls" not in run.result.brief("q1")
    run = ring(step("a"))
    assert run.result.brief("q1") == text(run)


def test_a_question_about_a_failure_tells_what_failed():
    run = ring(step("a", on_error="ask"), ask="never").fail("a", "permanent")
    assert "With these arguments" not in run.result.brief("q1")
    assert run.result.brief("q1").startswith("Step a failed")
