"""Where parts of the core meet: changes and groups, undoing and repair, agents and people."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import InternalError, Refused
from kedge.flow import commands as cmd
from kedge.flow.events import CommandRefused, CompensationStarted, RepairAsked, StepStarted
from kedge.flow.settings import RunSettings
from kedge.flow.undoing import refuse_redoing
from kedge.plan.parts import Step
from kedge.plan.patch import Addition, Patch
from kedge.testing.ring import Ring

EFFECTS: Any = {"put": "idempotent", "pay": "effect", "unput": "idempotent", "refund": "effect"}
REFUND = {"tool": "refund", "args": {"was": "${result}"}}
UNPUT = {"tool": "unput", "args": {"was": "${result}"}}


def step(id_: str, tool: str = "t", **more: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, **more}


def group(id_: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps: dict[str, Any], plan: dict[str, Any] | None = None, **settings: Any) -> Ring:
    document = {"goal": "g", "steps": list(steps), **(plan or {})}
    return Ring(document, EFFECTS, settings=RunSettings(**settings)).start()


def inject(run: Ring, id_: str, into: str, **more: Any) -> Ring:
    return run.send("inject", step=Step(id=id_, tool="t", **more), into=into)


# --- groups that change, or are tried again


def test_a_step_that_is_added_between_two_rounds_belongs_to_the_next_one():
    run = ring(group("p", step("k"), loop={"times": 2, "delay_s": 10}))
    run.finish("p#0/k")
    inject(run, "n", "p")
    assert run.calls == []
    assert run.tick(10_000).calls == ["p#1/k", "p#1/n"]
    run.finish("p#1/k").finish("p#1/n")
    assert (run.status(), run.calls) == ("done", [])


def test_a_step_that_is_added_between_two_attempts_of_a_group_belongs_to_the_next_one():
    run = ring(group("p", step("k"), retry={"attempts": 2, "backoff_s": 10}))
    run.fail("p/k")
    inject(run, "n", "p")
    assert run.calls == []
    assert run.tick(20_000).calls == ["p/k", "p/n"]


def test_a_step_that_is_added_to_a_group_that_failed_begins_when_the_group_is_tried_again():
    run = ring(group("p", step("k"), on_error="ask")).fail("p/k", "permanent")
    inject(run, "n", "p")
    assert run.calls == []
    assert run.answer("retry").calls == ["p/k", "p/n"]


def test_a_step_that_is_added_while_the_last_result_is_not_looked_at_yet_is_waited_for():
    run = ring(group("p", step("k"))).send("pause").finish("p/k")
    inject(run, "n", "p").send("unpause")
    assert run.calls == ["p/n"]
    assert run.finish("p/n").status() == "done"


@pytest.mark.parametrize("items", [True, False])
def test_a_part_of_what_failed_and_is_decided_on_is_not_tried_again_by_itself(items):
    part = "p[0]" if items else "p/k"
    what = step("p", foreach=[1]) if items else group("p", step("k"))
    run = ring({**what, "on_error": "ask"}).fail(part, "permanent")
    with pytest.raises(Refused, match="retry p"):
        run.send("retry", step=part)
    assert run.answer("retry").calls == [part]


@pytest.mark.parametrize("items", [True, False])
def test_a_part_of_what_a_fallback_stands_in_for_is_not_tried_again(items):
    part = "p[0]" if items else "p/k"
    what = step("p", foreach=[1]) if items else group("p", step("k"))
    run = ring(what, step("f", fallback_for="p")).fail(part, "permanent")
    with pytest.raises(Refused):
        run.send("retry", step=part)
    assert run.finish("f").status() == "done"


def test_a_part_of_a_group_that_waits_for_its_next_attempt_is_not_tried_again_by_itself():
    run = ring(group("p", step("k"), retry={"attempts": 2, "backoff_s": 10})).fail("p/k")
    with pytest.raises(Refused):
        run.send("retry", step="p/k")
    assert run.tick(20_000).finish("p/k").status() == "done"


def test_a_part_of_a_round_that_is_over_is_not_tried_again():
    run = ring(group("p", step("k", on_error="continue"), step("l"), loop={"times": 2}))
    run.fail("p#0/k", "permanent").finish("p#0/l")
    with pytest.raises(Refused):
        run.send("retry", step="p#0/k")
    run.finish("p#1/k").finish("p#1/l")
    assert (run.status(), run.calls) == ("done", [])


# --- undoing


def test_a_run_of_which_nothing_could_be_undone_can_be_taken_up_again():
    run = ring(step("a", "pay"), step("b"), undo="failure").finish("a").fail("b", "permanent")
    assert (run.status(), run.result.not_undone) == ("failed", {"a": "nothing undoes pay"})
    refuse_redoing(run.state)
    run.crash().resume(retry_failed=True)
    assert (run.status(), run.calls) == ("running", ["b"])
    assert run.finish("b").status() == "done"


def test_a_run_that_may_have_been_undone_is_not_taken_up_again():
    run = ring(step("a", "pay", compensate=REFUND), step("b"), undo="failure")
    run.finish("a").fail("b", "permanent").crash().resume().send("cancel")
    assert run.status("a.undo") == "in_doubt"
    with pytest.raises(Refused):
        refuse_redoing(run.state)


@pytest.mark.parametrize("late", [True, False])
def test_what_a_plan_did_that_nobody_wants_any_more_can_be_undone(late):
    run = ring(step("a", "put", compensate=UNPUT), step("b"), ask="plan").answer("approve")
    run.finish("a").put(cmd.Inject(step=Step(id="n", tool="t"), role="agent"))
    if late:
        run.send("cancel").fail("b", "cancelled").resume()
        run.put(cmd.Compensate(by="anna"))
    else:
        run.send("cancel", compensate=True).fail("b", "cancelled")
    assert run.calls == ["a.undo"]
    assert (run.finish("a.undo").status(), run.questions) == ("cancelled", [])


def test_a_plan_that_nobody_approved_is_asked_about_when_the_run_goes_on_after_it_was_to_be_undone():
    run = ring(step("a", "pay"), step("b"), ask="plan", undo="failure").answer("approve").finish("a")
    run.put(cmd.Inject(step=Step(id="n", tool="t"), role="agent"))
    run.send("cancel", compensate=True).fail("b", "cancelled")
    run.crash().resume(retry_failed=True)
    assert (run.calls, len(run.questions)) == ([], 1)
    assert run.answer("approve").calls == ["b", "n"]


def test_a_failure_that_is_decided_on_is_not_undone_meanwhile():
    run = ring(
        step("a", "put", compensate=UNPUT),
        step("b", "pay", compensate=REFUND, expect="result > 0", args={"a": "${a}"}, on_error="ask"),
        step("c", "t"),
    )
    run.finish("a", 1).finish("b", 0)
    with pytest.raises(Refused, match="b used it"):
        run.send("compensate", step="a")
    run.answer("fail").send("compensate", step="a")
    assert run.calls == ["c", "b.undo"]


def test_a_call_that_was_undone_is_not_made_again():
    run = ring(
        step("a", "put", compensate=UNPUT),
        step("b", "pay", compensate=REFUND, expect="result > 0", args={"a": "${a}"}),
        step("c", "t"),
    )
    run.finish("a", 1).finish("b", 0).send("compensate", step="a").finish("b.undo")
    with pytest.raises(Refused, match="undone"):
        run.send("retry", step="b")


def test_what_may_have_been_undone_in_the_lost_part_of_a_log_is_asked_about_before_it_is_undone():
    run = ring(step("a", "pay", compensate=REFUND), step("b"), undo="failure")
    run.finish("a").fail("b", "permanent")
    at = run.kinds.index(CompensationStarted.__name__) + 1
    run.finish("a.undo")
    run.salvage(at)
    assert run.calls == []
    run.answer("ask")
    assert (run.calls, run.status("a.undo")) == ([], "in_doubt")
    assert run.answer("done").status() == "failed"
    assert run.result.undone == ("a",)


# --- agents


def test_an_agent_does_not_take_back_what_a_person_allowed():
    run = ring(
        step("a", "pay", compensate=REFUND, approval={"ask": "Pay?"}),
        step("b", "put", compensate=UNPUT),
        step("c"),
    )
    run.answer("approve").finish("a").finish("b")
    for wanted in (
        cmd.Compensate(step="a", role="agent", key="1"),
        cmd.Cancel(compensate=True, role="agent", key="2"),
    ):
        with pytest.raises(Refused) as refused:
            run.put(wanted)
        assert refused.value.code == "not_a_person"
    assert len(run.of(CommandRefused)) == 2
    run.put(cmd.Compensate(step="b", role="agent"))
    assert run.calls == ["c", "b.undo"]


def test_an_agent_may_want_undone_what_a_person_is_asked_about_anyway():
    run = ring(step("a", "pay", compensate=REFUND), step("c"), ask="effects")
    run.answer("approve").finish("a").put(cmd.Compensate(step="a", role="agent"))
    assert (run.status("a.undo"), len(run.questions)) == ("waiting", 1)
    assert "a.undo" in run.answer("approve").calls


def test_a_step_that_is_added_between_two_rounds_is_begun_once_after_a_crash():
    run = ring(group("p", step("k"), loop={"times": 2, "delay_s": 10})).finish("p#0/k")
    inject(run, "n", "p").crash().resume().tick(10_000)
    assert len(run.of(StepStarted, "p#1/n")) == 1


# --- attempts in attempts


def test_each_attempt_of_a_call_inside_two_groups_that_are_tried_again_is_another_call():
    inner = group("q", step("k"), retry={"attempts": 2, "backoff_s": 0})
    run = ring(group("p", inner, retry={"attempts": 2, "backoff_s": 0}))
    for _ in range(4):
        assert run.calls == ["p/q/k"]
        run.fail("p/q/k")
    calls = [(event.path, event.generation) for event in run.of(StepStarted, "p/q/k")]
    assert len(set(calls)) == 4


def test_a_group_that_was_to_be_tried_again_when_the_run_ended_makes_other_calls_after_that():
    run = ring(group("p", step("k"), retry={"attempts": 2, "backoff_s": 10}))
    run.fail("p/k").send("cancel").crash().resume(retry_failed=True)
    assert [event.generation for event in run.of(StepStarted, "p/k")] == [0, 1]


# --- repair beside undoing


def test_a_plan_is_not_mended_while_something_is_undone_and_is_after_that():
    run = ring(step("a", "put", compensate=UNPUT), step("b"), repair=True)
    run.finish("a").send("compensate", step="a").fail("b", "permanent")
    assert (run.calls, run.of(RepairAsked)) == (["a.undo"], [])
    run.finish("a.undo")
    assert len(run.of(RepairAsked)) == 1
    assert run.mend(Patch(retry=("b",), change={"b": {"args": {"n": 1}}})).calls == ["b"]


def test_a_planner_that_answers_while_something_is_undone_is_asked_again_after_that():
    run = ring(step("a", "put", compensate=UNPUT), step("b"), repair=True)
    run.finish("a").fail("b", "permanent").send("compensate", step="a")
    patch = Patch(retry=("b",), change={"b": {"args": {"n": 1}}})
    run.mend(patch)
    assert len(run.of(RepairAsked)) == 1
    run.finish("a.undo")
    assert [one.round for one in run.of(RepairAsked)] == [1, 2]
    assert run.mend(patch).calls == ["b"]


def test_a_run_that_waits_for_a_person_to_undo_before_it_is_mended_waits():
    run = ring(step("a", "put", compensate=UNPUT), step("b"), repair=True, ask="effects")
    run.answer("approve").finish("a").send("compensate", step="a").fail("b", "permanent")
    assert (run.status("a.undo"), run.status()) == ("waiting", "waiting")
    assert run.answer("approve").finish("a.undo").status() == "running"
    assert len(run.of(RepairAsked)) == 1


# --- repair beside people who approve the plan


def repaired(**patch: Any) -> Ring:
    run = ring(step("a", "pay"), step("b", args={"a": "${a}"}), ask="plan", repair=True).answer("approve")
    run.fail("a", "permanent", classified=True)
    return run.mend(Patch(**patch))


def test_a_call_with_effects_is_not_made_again_by_refusing_its_repair():
    run = repaired(retry=("a",), change={"a": {"args": {"n": 1}}})
    assert (run.calls, len(run.questions)) == ([], 1)
    run.answer("refuse")
    assert (run.calls, run.state.version) == ([], 3)
    assert run.error("a").code == "refused"
    assert run.mend(None).status() == "failed"


def test_a_failure_that_a_refused_repair_waived_counts():
    run = repaired(waive=("a",), add=(Addition(step=Step(id="n", tool="t")),)).answer("refuse")
    assert run.mend(None).status() == "failed"
    assert run.statuses() == {"a": "failed", "b": "skipped"}


def test_what_an_approved_repair_tries_again_is_tried_again():
    run = repaired(retry=("a",), change={"a": {"args": {"n": 1}}}).answer("approve")
    assert run.args("a") == {"n": 1}
    run.crash().resume().answer("done", 1)
    assert run.finish("b").status() == "done"


def test_a_bug_that_a_command_of_an_agent_meets_is_not_taken_for_a_refusal(monkeypatch: pytest.MonkeyPatch):
    run = ring(step("a"), step("b", after=["a"]), decide_at="every_step").finish("a")

    def broken(*_: object) -> None:
        raise InternalError("it is broken")

    monkeypatch.setattr("kedge.flow.consulting.steer", broken)
    with pytest.raises(InternalError):
        run.decide(cmd.Pause())
