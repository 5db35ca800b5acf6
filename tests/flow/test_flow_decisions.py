"""Agents in the loop: when one is asked, what waits for it, what it may do, and how a run goes on without."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kedge.base.errors import BadInput, Refused
from kedge.flow import commands as cmd
from kedge.flow.events import (
    CommandRefused,
    CommandTaken,
    DecisionAsked,
    DecisionMissed,
    DecisionTaken,
    plain,
)
from kedge.flow.evolve import evolve
from kedge.flow.inputs import Decided, DecisionFailed, Reported
from kedge.flow.settings import RunSettings
from kedge.plan.model import Step
from kedge.plan.patch import Patch
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps: Any, at: Any = "every_step", **settings: Any) -> Ring:
    effects: dict[str, Effect] = {"send": "effect"}
    chosen = RunSettings(decide_at=at, **settings)
    document = {"goal": "g", "steps": list(steps), "context": {"go": True}}
    return Ring(document, effects, settings=chosen).start()


def chain(**settings):
    return ring(step("a"), step("b", args={"x": "${a}"}), step("side"), **settings)


def patch(**fields):
    return msgspec.convert(fields, Patch)


def points(run):
    return [(point.at, point.path) for point in run.state.decision.points]


# --- when it is asked


def test_what_reads_a_step_waits_for_the_decision_and_others_do_not():
    run = chain().finish("a", 1)
    assert points(run) == [("step", "a")]
    assert (run.status("b"), run.status("side")) == ("ready", "running")
    run.finish("side", 2)
    assert run.status("b") == "ready"
    run.decide()
    assert run.calls == ["b"]
    assert points(run) == [("step", "side")]  # it came while the agent thought about the other
    run.decide().finish("b").decide()
    assert run.status() == "done"
    assert len(run.of(DecisionAsked)) == 3


def test_never_is_never():
    run = chain(at="never").finish("a", 1).finish("b").finish("side")
    assert (run.status(), run.of(DecisionAsked)) == ("done", [])


def test_at_milestones_and_trouble_alone():
    run = ring(step("a"), step("m", milestone=True), step("c", after=["a"]), at="milestone")
    run.finish("a")
    assert run.state.decision is None
    run.finish("m")
    assert points(run) == [("milestone", "m")]
    run.decide().fail("c", "permanent")
    assert points(run) == [("trouble", "c")]
    assert run.decide().status() == "failed"


def test_a_condition_is_looked_at_after_the_decision():
    run = ring(step("a"), step("b", when="context.go", after=["a"]), step("c", "t"), at="every_step")
    run.finish("a")
    run.decide(cmd.SetContext(values={"go": False})).finish("c").decide()
    assert (run.status("b"), run.status()) == ("skipped", "done")


def test_a_composite_waits_as_a_whole_and_so_does_a_child_that_reads_outside():
    run = ring(
        step("a"),
        {"id": "o", "steps": [step("i"), step("j", args={"x": "${a}"})]},
        {"id": "p", "after": ["a"], "steps": [step("k")]},
    )
    run.finish("a")
    assert (run.status("o/i"), run.status("o/j"), run.status("p")) == ("running", "ready", "ready")
    run.decide()
    assert (run.status("o/j"), run.status("p/k")) == ("running", "running")


def test_a_failure_is_held_for_the_agent():
    run = chain(at="trouble").fail("a", "permanent")
    assert (points(run), run.status("b")) == ([("trouble", "a")], "pending")
    assert [one.code for one in run.situation.troubles] == ["permanent"]
    run.decide(cmd.Retry(step="a")).finish("a", 1)
    assert run.args("b") == {"x": 1}


def test_a_failure_that_the_agent_leaves_alone_is_one():
    run = chain(at="trouble").fail("a", "permanent").decide().finish("side")
    assert (run.status(), run.status("b")) == ("failed", "skipped")
    run = ring(step("a", on_error="ask"), at="trouble").fail("a", "permanent").decide()
    assert run.state.questions["q1"].asked.reason == "failed"


def test_the_agent_is_asked_after_the_planner():
    run = chain(at="trouble", repair=True).fail("a", "permanent")
    assert run.state.decision is None
    run.mend(None)
    assert points(run) == [("trouble", "a")]
    run.decide(cmd.Edit(patch=patch(waive=["a"]))).finish("side")
    assert run.status() == "done"


def test_a_discovery_is_a_point_too():
    run = ring(step("a"), at="trouble").put(Reported("a", 1, "xml", "parse")).finish("a")
    assert (points(run), run.status()) == ([("trouble", "a")], "running")
    run.decide(cmd.Inject(step=Step(id="p", tool="t")))
    assert run.finish("p").status() == "done"
    run = ring(step("a"), at="trouble", repair=True).put(Reported("a", 1, "xml", "parse")).mend(None)
    assert points(run) == [("trouble", "a")]


def test_the_end_waits_for_the_last_decision():
    run = ring(step("a")).finish("a")
    assert run.status() == "running"
    run.decide(cmd.Inject(step=Step(id="b", tool="t"))).finish("b").decide()
    assert run.status() == "done"


def test_an_open_decision_is_asked_again_after_a_crash():
    run = chain().finish("a", 1).crash().resume()
    assert points(run) == [("step", "a")]
    assert run.status("b") == "ready"
    run.decide()
    assert run.status("b") == "running"


def test_a_plan_changed_meanwhile_moves_what_waits_for_the_decision():
    run = chain().finish("a", 1)
    run.put(cmd.Edit(patch=patch(change={"b": {"args": {"x": 7}}})))
    assert run.args("b") == {"x": 7}  # it reads nothing that is to be decided any more
    run = chain().finish("a", 1)
    run.put(cmd.Edit(patch=patch(change={"b": {"when": "a > 1"}})))
    run.decide().finish("side").decide()
    assert run.status("b") == "skipped"


# --- what it may do


def test_its_commands_are_an_agents_and_each_has_a_key():
    run = chain().finish("a", 1)
    run.decide(cmd.Say(text="well", role="person"), cmd.Remove(step="a"), cmd.Note(values={"n": 1}))
    (taken,) = run.of(DecisionTaken)
    assert taken.commands == ("say", "remove", "note")
    assert [(one.key, one.role, one.by) for one in run.of(CommandTaken)] == [
        ("agent:1:0", "agent", "agent"), ("agent:1:2", "agent", "agent"),
    ]  # fmt: skip
    assert [one.key for one in run.of(CommandRefused)] == ["agent:1:1"]
    run.finish("side")
    (past,) = run.situation.decisions
    assert list(past.refused) == [1]
    assert "a is done" in past.refused[1]


def test_what_fails_again_while_the_agent_thinks_is_held_for_its_next_decision():
    run = ring(step("f"), step("g", args={"x": "${f}"}), at="trouble")
    run.fail("f", "permanent").send("retry", step="f").fail("f", "permanent")
    run.decide()
    assert (run.status("f"), run.step("f").held, run.status("g")) == ("failed", True, "pending")
    assert points(run) == [("trouble", "f")]
    run.decide()
    assert run.status("g") == "skipped"


def test_an_agent_that_uses_its_own_key_again_is_heard_again():
    run = chain().finish("a", 1)
    for text in ("first", "second"):
        run.decide(cmd.Say(text=text, key="mine"))
        if text == "first":
            run.finish("side")
    assert [message.text for message in run.state.messages.kept] == ["first", "second"]


def asked(**more):
    """A run in which a person is asked about a call, and about a failure."""
    run = ring(
        step("s", "send", approval={"ask": "Send?"}),
        step("f", on_error="ask"),
        step("x"), step("y", after=["x"]),
        at="milestone", **more,
    )  # fmt: skip
    run.fail("f", "permanent").decide()
    assert sorted(run.state.asked_about) == ["f", "s"]
    return run


@pytest.mark.parametrize(
    "command",
    [
        cmd.Answer(question="q1", answer="approve"),
        cmd.Skip(step="f"),
        cmd.Retry(step="f"),
        cmd.Unpause(),
        cmd.Edit(patch=patch(waive=["f"])),
        cmd.Edit(patch=patch(retry=["f"])),
        cmd.Edit(patch=patch(change={"s": {"approval": None}})),
        cmd.Edit(patch=patch(change={"y": {"priority": 1}, "s": {"approval": {"ask": "?"}}})),
        cmd.Edit(patch=patch(remove=["s"], add=[{"step": step("s", "send")}])),
    ],
    ids=str,
)
def test_what_asks_for_a_person_is_not_an_agents(command):
    run = asked()
    before = run.statuses()
    with pytest.raises((Refused, BadInput)) as refused:
        run.put(msgspec.structs.replace(command, role="agent"))
    assert refused.value.code == "not_a_person"
    assert run.statuses() == before


def test_what_was_taken_out_by_a_person_is_not_put_back_otherwise_by_an_agent():
    run = asked()
    run.put(cmd.Remove(step="s"))
    with pytest.raises(BadInput, match="asks a person"):
        run.put(cmd.Inject(step=Step(id="s", tool="send"), role="agent"))
    with pytest.raises(BadInput, match="asks a person"):
        ring(step("y", on_error="ask"), step("x")).put(
            cmd.Edit(patch=patch(change={"y": {"on_error": "fail"}}), role="agent")
        )


def test_going_back_to_a_version_that_asked_less_is_a_persons():
    run = ring(step("a"), step("s", "send", after=["a"]), at="milestone")
    run.put(cmd.Edit(patch=patch(change={"s": {"approval": {"ask": "?"}}})))
    with pytest.raises(BadInput, match="asks a person"):
        run.put(cmd.Rollback(version=1, role="agent"))
    run.put(cmd.Rollback(version=1))


def test_what_an_agent_may():
    run = asked()
    run.put(cmd.Skip(step="s", role="agent"))  # what is not done need not be approved
    run.put(cmd.Pause(role="agent"))
    run.put(cmd.Cancel(role="agent"))
    assert run.state.cancelling


def test_a_planner_opens_nothing_either():
    run = ring(step("a"), step("s", "send", approval={"ask": "?"}), at="never", repair=True)
    run.fail("a", "permanent").mend(patch(waive=["a"], change={"s": {"approval": None}}))
    assert run.state.repairs[0].refusals[0].code == "not_a_person"


# --- without an answer


def test_without_an_answer_the_run_goes_on():
    run = chain().finish("a", 1).put(DecisionFailed(1, "no answer", "agent_timeout"))
    assert run.status("b") == "running"
    assert run.of(DecisionMissed)[0].ask is False
    run = chain(at="trouble").fail("a", "permanent").put(DecisionFailed(1, "no answer", "agent_timeout"))
    assert run.status("b") == "skipped"


@pytest.mark.parametrize(("answer", "status"), [("go on", "done"), ("stop", "failed"), ("again", "running")])
def test_without_an_answer_a_person_is_asked(answer, status):
    run = chain(agent_default="ask").finish("a", 1).put(DecisionFailed(1, "no answer", "agent_timeout"))
    (question,) = run.questions
    said = run.state.questions[question].asked
    assert (said.reason, said.path, said.options) == ("decision", "a", ("go on", "again", "stop"))
    run.finish("side").decide()  # nothing else stands still
    assert (run.status(), run.status("b")) == ("waiting", "ready")
    run.crash().resume()
    assert run.status() == "waiting"
    run.answer(answer)
    if answer == "go on":
        run.finish("b").decide()
    assert run.status() == status
    if answer == "again":
        assert points(run) == [("step", "a")]


def test_without_an_answer_a_person_decides_on_the_failure():
    run = chain(at="trouble", agent_default="ask").fail("a", "permanent")
    run.put(DecisionFailed(1, "no answer", "agent_timeout"))
    assert run.state.questions["q1"].asked.reason == "failed"
    run.answer("skip").finish("side")
    assert run.status() == "done"


def test_the_end_waits_for_the_person_who_is_asked_instead():
    run = ring(step("a"), agent_default="ask").finish("a").put(DecisionFailed(1, "no", "agent_timeout"))
    assert run.status() == "waiting"
    assert run.answer("go on").status() == "done"


def test_a_salvaged_run_asks_what_was_to_be_asked():
    run = chain(agent_default="ask").finish("a", 1).put(DecisionFailed(1, "no answer", "agent_timeout"))
    missed = run.kinds.index("DecisionMissed")
    run.salvage(missed + 1)
    assert [run.state.questions[id_].asked.reason for id_ in run.questions] == ["decision"]
    run.answer("go on")
    assert run.status("b") == "running"


def test_a_late_decision_means_nothing():
    run = chain().finish("a", 1).decide()
    before = len(run.log)
    run.put(Decided(1, (cmd.Cancel(),)), DecisionFailed(1, "late", "agent_timeout"))
    assert len(run.log) == before


def test_cancelling_leaves_no_decision_open():
    run = chain().finish("a", 1).send("cancel").fail("side", "cancelled")
    assert (run.status(), run.state.decision) == ("cancelled", None)
    assert run.result.decisions[0].outcome == "ended"
    assert run.put(Decided(1, ())).status() == "cancelled"


def test_a_paused_run_asks_nobody():
    run = chain().send("pause").finish("a", 1)
    assert run.state.decision is None
    run.send("unpause")
    assert points(run) == [("step", "a")]


# --- what is said and kept


def test_words_and_notes_are_shown_to_the_next_decision():
    run = chain().send("say", text="be quick", by="anna").finish("a", 1)
    run.decide(cmd.Note(values={"seen": [1], "gone": 2}), cmd.Say(text="I am"), by="bot")
    run.send("note", values={"gone": None, "more": {"x": 1}}).crash().resume()
    run.finish("side")
    seen = run.situation
    assert [(one.by, one.role, one.text) for one in seen.messages] == [
        ("anna", "person", "be quick"), ("bot", "agent", "I am"),
    ]  # fmt: skip
    assert seen.notes == {"seen": [1], "more": {"x": 1}}


def test_of_many_messages_the_last_are_kept_and_of_long_ones_the_beginning():
    run = ring(step("a"), at="never")
    for number in range(60):
        run.send("say", text=f"{number} " + "x" * 3_000)
    kept = run.state.messages
    assert (len(kept.kept), kept.dropped) == (50, 10)
    assert kept.kept[0].text.startswith("10 ")
    assert len(kept.kept[0].text) == 2_000
    said = plain(run.events[kept.kept[0].seq - 1])
    assert len(said["text"]) == 3_003  # all of it is in the log


def test_positions_have_names():
    run = ring(step("a"), at="never").send("mark", name="before")
    assert run.state.positions.kept == {"before": run.state.seq}
    run.send("mark", name="before")
    assert run.state.positions.kept == {"before": run.state.seq}


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (cmd.Say(text="x" * 70_000), "message_too_long"),
        (cmd.Note(values={"x": "y" * 70_000}), "too_many_notes"),
        (cmd.Note(values={str(n): n for n in range(1_001)}), "too_many_notes"),
        (cmd.Mark(name=""), "position_name"),
        (cmd.Mark(name="x" * 201), "position_name"),
    ],
    ids=["say", "note", "notes", "mark", "long mark"],
)
def test_what_is_too_much_is_refused(command, code):
    with pytest.raises(BadInput) as refused:
        ring(step("a"), at="never").put(command)
    assert refused.value.code == code


def test_what_is_shown_is_bounded():
    run = ring(step("a", foreach=list(range(1_500))), at="trouble")
    for path in list(run.calls):
        run.finish(path, "z" * 400)
    seen = run.situation
    assert (len(seen.steps), seen.left_out) == (1_000, 501)
    assert sum(len(view.result) for view in seen.steps) <= 60_000


@pytest.mark.parametrize(
    "wrong",
    [{"decide_at": "often"}, {"agent_default": "sing"}, {"agent_timeout_s": 0}, {"agent_timeout_s": True}],
)
def test_settings_that_mean_nothing(wrong):
    with pytest.raises(BadInput):
        RunSettings(**wrong)


def test_a_run_that_ends_asks_nobody_in_the_agents_place():
    run = chain(agent_default="ask").finish("a", 1).put(DecisionFailed(1, "no answer", "agent_timeout"))
    run.send("cancel").fail("side", "cancelled")
    assert (run.status(), run.questions) == ("cancelled", [])
    assert not run.state.deciding


def test_a_change_of_no_step_is_refused_as_anybodys():
    with pytest.raises(BadInput, match="no step"):
        ring(step("a")).put(cmd.Edit(patch=patch(change={"zz": {"priority": 1}}), role="agent"))


def test_the_log_of_another_version_may_hold_answers_to_nothing():
    run = ring(step("a"))
    for event in (DecisionTaken(decision=1), DecisionMissed(decision=1, code="x", message="y")):
        evolve(run.state, event, run.now_ms)
    assert run.state.decisions == []


def test_an_approval_inside_a_composite_does_not_get_lost_with_it():
    outer = {"id": "o", "after": ["x"], "steps": [step("s", "send", approval={"ask": "?"}), step("t")]}
    bare = {"id": "o", "steps": [step("s", "send")]}
    run = ring(step("x"), outer, at="milestone")
    with pytest.raises(BadInput, match="asks a person"):
        run.put(cmd.Edit(patch=patch(remove=["o"], add=[{"step": bare}]), role="agent"))
    run.put(cmd.Remove(step="o/s")).put(cmd.Remove(step="o"))
    with pytest.raises(BadInput, match="asks a person"):
        run.put(cmd.Edit(patch=patch(add=[{"step": bare}]), role="agent"))
    run.put(cmd.Edit(patch=patch(add=[{"step": outer}]), role="agent"))
    assert "o" in run.state.steps
