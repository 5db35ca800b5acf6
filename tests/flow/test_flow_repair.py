"""Repairs: what is held for them, what a patch may do, and when a planner is not asked again."""

from __future__ import annotations

import msgspec
import pytest

from kedge.base.errors import BadInput, NotFound, Refused
from kedge.base.limits import Limits
from kedge.flow.commands import Edit, Inject
from kedge.flow.events import FailureSettled, PlanAdopted, RepairAsked, RepairRefused, StepFailed
from kedge.flow.evolve import evolve
from kedge.flow.inputs import Repaired, RepairFailed, Reported
from kedge.flow.settings import RunSettings
from kedge.plan.model import Step
from kedge.plan.patch import Patch
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring

REPAIR = RunSettings(repair=True)


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, limits=None, settings=REPAIR, **plan):
    effects: dict[str, Effect] = {"send": "effect", "put": "idempotent", "other": "read"}
    document = {"goal": "g", "steps": list(steps), **plan}
    return Ring(document, effects, limits=limits or Limits(), settings=settings).start()


def broken(**more):
    """A chain of which the second step has failed, and a sibling that runs on."""
    run = ring(step("a"), step("b", args={"x": "${a}"}), step("c", args={"x": "${b}"}), step("d"), **more)
    return run.finish("a", 1).fail("b", "permanent")


def patch(**fields):
    return msgspec.convert(fields, Patch)


# --- what is held


def test_a_failure_is_held_for_a_repair_and_siblings_go_on():
    run = broken()
    assert (run.status("b"), run.status("c"), run.status("d")) == ("failed", "pending", "running")
    assert run.step("b").held
    (asked,) = run.of(RepairAsked)
    assert (asked.repair, asked.round, asked.version) == (1, 1, 1)
    assert [(one.kind, one.path, one.severity) for one in asked.troubles] == [("failed", "b", 1.0)]
    assert run.finish("d").status() == "running"  # the planner is at work
    assert not run.questions


def test_without_repair_a_failure_counts_at_once():
    run = broken(settings=RunSettings(repair=False))
    assert run.status("c") == "skipped"
    assert not run.of(RepairAsked)
    assert [one.path for one in run.result.troubles] == ["b"]


def test_an_optional_steps_failure_is_too_small_for_a_repair():
    run = ring(step("a", on_error="continue"), step("b")).fail("a", "permanent")
    assert not run.of(RepairAsked)
    assert [one.severity for one in run.result.troubles] == [0.5]
    run = ring(
        step("a", on_error="continue"), step("b"),
        settings=RunSettings(repair=True, adaptation_sensitivity=0.5),
    ).fail("a", "permanent")  # fmt: skip
    assert len(run.of(RepairAsked)) == 1


def test_nothing_is_trouble_that_has_a_fallback_or_another_attempt():
    run = ring(step("a", retry={"attempts": 2}), step("b", fallback_for="a"))
    run.fail("a", "transient").tick(1000).fail("a", "transient")
    assert not run.result.troubles
    assert run.status("b") == "running"
    run.fail("b", "permanent")
    assert [one.path for one in run.result.troubles] == ["b"]
    assert run.step("b").held


def test_inside_a_composite_the_child_is_the_trouble():
    run = ring(step("b"), {"id": "o", "steps": [step("i")]}).fail("o/i", "permanent")
    assert [one.path for one in run.result.troubles] == ["o/i"]
    run.mend(None)
    assert run.status("o") == "failed"
    assert [one.path for one in run.result.troubles] == ["o/i"]  # the composite adds nothing to it
    assert run.finish("b").status() == "failed"


def test_a_composite_with_another_attempt_is_tried_again_before_any_repair():
    run = ring({"id": "o", "retry": {"attempts": 2, "backoff_s": 0}, "steps": [step("i")]})
    run.fail("o/i", "transient")
    assert not run.result.troubles
    run.tick().fail("o/i", "transient")
    assert run.step("o/i").held


def test_items_fail_as_one():
    run = ring(step("a", foreach=[1, 2])).fail("a[0]", "permanent").finish("a[1]", 2)
    assert [(one.path, one.code) for one in run.result.troubles] == [("a", "items_failed")]
    run.mend(patch(retry=["a"], change={"a": {"args": {"x": 1}}})).finish("a[0]", 1)
    assert run.value("a") == [1, 2]
    assert [path for path, _ in run.launched] == ["a[0]", "a[1]", "a[0]"]


def test_children_of_items():
    run = ring({"id": "o", "foreach": [1, 2], "steps": [step("i")]})
    run.fail("o[1]/i", "permanent").finish("o[0]/i", 1)
    run.mend(patch(retry=["o[1]/i"], change={"o/i": {"args": {"x": 2}}}))
    # the other item's child is done, and the same step of the plan
    assert run.state.repairs[0].refusals[0].code == "fixed_step"
    run.mend(patch(add=[{"into": "o", "step": step("j", fallback_for="i")}]))
    assert [f.code for f in run.state.repairs[0].refusals[1].findings] == ["fixed_step"]
    run.mend(patch(waive=["o[1]/i"]))
    assert run.status() == "done"


# --- what a patch may do


def test_a_held_step_is_tried_again_with_other_arguments():
    run = broken().mend(patch(retry=["b"], change={"b": {"args": {"x": 5}}}, why="smaller"))
    assert run.args("b") == {"x": 5}
    run.finish("b", 2).finish("c").finish("d")
    assert run.status() == "done"
    assert [(one.cause, one.by, one.why) for one in run.result.versions] == [
        ("start", "", ""), ("repair", "planner", "smaller"),
    ]  # fmt: skip
    (repair,) = run.result.repairs
    assert (repair.outcome, repair.became, repair.by) == ("adopted", 2, "planner")
    assert [path for path, _ in run.launched].count("a") == 1


def test_a_held_step_gets_another_tool():
    run = broken().mend(patch(retry=["b"], change={"b": {"tool": "other"}}))
    run.finish("b", 7).finish("c").finish("d")
    assert (run.status(), run.value("b")) == ("done", 7)


def test_a_held_step_gets_a_fallback():
    run = broken().mend(patch(add=[{"step": step("e", "other", fallback_for="b")}]))
    run.finish("e", 9).finish("c").finish("d")
    assert (run.status(), run.value("b")) == ("done", 9)


def test_a_held_step_is_tried_again_and_gets_a_fallback_for_then():
    run = broken().mend(
        patch(
            retry=["b"],
            change={"b": {"args": {"x": 2}}},
            add=[{"step": step("e", "other", fallback_for="b")}],
        )
    )
    assert (run.status("b"), run.status("e")) == ("running", "pending")
    run.fail("b", "permanent").finish("e", 4).finish("c").finish("d")
    assert (run.status(), run.value("b"), len(run.of(RepairAsked))) == ("done", 4, 1)


def test_a_held_step_is_tried_again_after_a_new_one_that_it_reads():
    run = broken().mend(
        patch(retry=["b"], change={"b": {"args": {"x": "${e}"}}}, add=[{"step": step("e", "other")}])
    )
    assert (run.status("b"), run.status("e")) == ("pending", "running")
    assert run.finish("e", 4).args("b") == {"x": 4}


def test_a_held_step_is_waived_and_others_read_something_else():
    run = broken().mend(patch(add=[{"step": step("e", "other")}], waive=["b"], rewire={"c": {"b": "e"}}))
    run.finish("e", 3).finish("c").finish("d")
    assert (run.status(), run.args("c")) == ("done", {"x": 3})


def test_a_held_step_can_become_a_foreach():
    run = ring(step("a", args={"texts": [1, 2, 3]}), step("b", after=["a"])).fail("a", "invalid_input")
    run.mend(patch(retry=["a"], change={"a": {"foreach": [[1, 2], [3]], "args": {"texts": "${item}"}}}))
    assert run.calls == ["a[0]", "a[1]"]
    assert run.finish("a[0]").finish("a[1]").finish("b").status() == "done"


def test_what_a_patch_leaves_alone_settles_as_a_failure():
    run = broken().mend(patch(add=[{"step": step("e")}]))
    (settled,) = run.of(FailureSettled)
    assert (settled.path, settled.waived) == ("b", False)
    assert run.finish("d").finish("e").status() == "failed"


def test_with_on_error_ask_a_person_is_asked_after_the_planner():
    run = ring(step("a", on_error="ask"), step("b", args={"x": "${a}"})).fail("a", "permanent")
    assert not run.questions
    run.mend(None)
    assert run.state.questions["q1"].asked.reason == "failed"
    assert run.answer("retry").finish("a").finish("b").status() == "done"


def test_a_patch_is_refused_with_all_its_faults_and_the_planner_asked_again():
    run = broken()
    run.mend(patch(retry=["nobody"], change={"a": {"args": {}}}, remove=["d"]))
    (refused,) = run.of(RepairRefused)
    assert sorted(fault.code for fault in refused.findings) == ["fixed_step", "fixed_step", "not_held"]
    seen = run.situation
    assert (seen.round, len(seen.findings)) == (2, 3)
    run.mend(patch(retry=["b"], change={"b": {"tool": "nowhere"}}))
    assert run.state.repair is not None
    run.mend(patch(retry=["b"], change={"b": {"args": {"y": 1}}}))
    assert run.result.repairs[0].outcome == "adopted"
    assert [one.round for one in run.of(RepairAsked)] == [1, 2, 3]


def test_after_three_rounds_the_failure_stands():
    run = broken()
    for _ in range(3):
        run.mend(patch(remove=["a"]))
    assert [one.final for one in run.of(RepairRefused)] == [False, False, True]
    assert (run.state.repair, run.status("c")) == (None, "skipped")
    assert run.finish("d").status() == "failed"


def test_a_patch_for_an_older_version_is_refused_and_the_planner_sees_the_new_one():
    run = broken().put(Inject(step=Step(id="e", tool="t")))
    run.mend(patch(retry=["b"], change={"b": {"args": {"y": 1}}}))
    assert run.of(RepairRefused)[0].code == "stale_patch"
    assert run.situation.version == 2
    run.mend(patch(retry=["b"], change={"b": {"args": {"y": 1}}}))
    assert run.state.version == 3


def test_a_repair_that_nobody_needs_any_more_is_dropped():
    run = broken().send("retry", step="b")
    run.mend(patch(add=[{"step": step("e")}]))
    (refused,) = run.of(RepairRefused)
    assert (refused.code, refused.final) == ("not_needed", True)
    assert run.finish("b").finish("c").finish("d").status() == "done"


def test_what_fails_again_while_its_repair_is_open_is_the_next_repairs():
    run = broken().send("retry", step="b").fail("b", "permanent")
    run.mend(None)
    assert [one.code for one in run.of(RepairRefused)] == ["no_patch", "repair_repeats"]
    assert run.status("c") == "skipped"
    assert len(run.of(FailureSettled)) == 1


def test_a_late_or_repeated_answer_means_nothing():
    run = broken().mend(patch(retry=["b"], change={"b": {"args": {"y": 1}}}))
    before = len(run.log)
    run.put(Repaired(1, 1, patch(waive=["b"])), RepairFailed(1, 1, "late", "planner_timeout"))
    run.put(Repaired(2, 1, None))
    assert len(run.log) == before


def test_a_planner_that_fails_is_asked_again_and_one_that_is_missing_is_not():
    run = broken().put(RepairFailed(1, 1, "no answer", "planner_timeout"))
    assert run.situation.round == 2
    run.put(RepairFailed(1, 2, "none here", "no_planner", final=True))
    assert run.state.repair is None
    assert run.status("c") == "skipped"


# --- other troubles


def test_a_discovery_with_a_need_starts_a_repair_and_the_end_waits_for_it():
    run = ring(step("a")).put(Reported("a", 1, "xml files", "parse xml")).finish("a", 1)
    assert run.status() == "running"
    assert run.situation.troubles[0].need == "parse xml"
    run.mend(patch(add=[{"step": step("p", args={"x": "${a}"})}]))
    assert run.finish("p").status() == "done"


def test_the_same_need_is_mended_once():
    run = ring(step("a", foreach=[1, 2, 3]))
    for index in range(3):
        run.put(Reported(f"a[{index}]", 1, "xml", "parse xml"))
    run.mend(None).finish("a[0]").finish("a[1]").finish("a[2]")
    assert run.status() == "done"
    assert (len(run.of(RepairAsked)), len(run.result.troubles)) == (1, 3)


def test_a_discovery_without_a_need_is_kept():
    run = ring(step("a")).put(Reported("a", 1, "xml files")).finish("a")
    assert run.status() == "done"
    assert [(one.kind, one.severity) for one in run.result.troubles] == [("discovery", 0.3)]


def test_a_person_demands_a_repair():
    run = ring(step("a"), step("b", args={"x": "${a}"})).send("repair", need="parse XML", step="b", by="anna")
    assert run.situation.troubles[0].path == "b"
    run.mend(patch(change={"b": {"args": {"y": 1}}})).finish("a").finish("b")
    assert (run.status(), run.args("b")) == ("done", {"y": 1})


def test_what_cannot_be_demanded():
    with pytest.raises(Refused, match="is not repaired"):
        ring(step("a"), settings=RunSettings()).send("repair", need="x")
    with pytest.raises(NotFound, match="no step"):
        ring(step("a")).send("repair", need="x", step="zz")


def test_a_changed_context_may_be_trouble():
    run = ring(step("a"), step("b", after=["a"])).send("set_context", values={"lang": "de"})
    assert not run.result.troubles
    run.send("set_context", values={"lang": "fr"}, need="translate")
    assert run.of(RepairAsked)[0].troubles[0].kind == "context"


def test_time_far_over_the_estimate_is_kept():
    run = ring(step("a", estimate={"seconds": 1}), step("b", estimate={"seconds": 1}), step("c"))
    run.tick(2_000).finish("a").tick(1_000).finish("b").tick(9_000).finish("c")
    assert [(one.path, one.severity) for one in run.result.troubles] == [("b", 0.4)]


# --- bounds


def test_the_same_trouble_under_the_same_plan_is_not_repaired_again():
    run = broken().mend(None)
    run.send("retry", step="b").fail("b", "permanent")
    assert run.of(RepairRefused)[-1].code == "repair_repeats"
    assert run.status("c") == "skipped"


def test_a_patch_that_only_tries_again_is_refused():
    run = broken().mend(patch(retry=["b"]))
    assert run.of(RepairRefused)[0].code == "repair_repeats"


def test_ping_pong_between_two_plans_is_refused_and_said_so():
    run = ring(step("a", args={"x": 0})).fail("a", "permanent")
    run.mend(patch(retry=["a"], change={"a": {"args": {"x": 1}}})).fail("a", "permanent")
    run.mend(patch(retry=["a"], change={"a": {"args": {"x": 0}}}))
    refused = run.of(RepairRefused)[0]
    assert (refused.code, refused.final) == ("repair_repeats", False)
    assert "same trouble came before" in refused.message


def test_growth_by_one_ends_at_the_limit_of_repairs():
    run = ring(step("a"))
    for number in range(3):
        run.fail("a", "permanent")
        extra = {"step": step(f"h{number}")}
        run.mend(patch(add=[extra], retry=["a"], change={"a": {"after": [f"h{number}"]}}))
        run.finish(f"h{number}")
    run.fail("a", "permanent")
    (question,) = [q.asked for q in run.state.questions.values()]
    assert (question.reason, question.limit, run.status()) == ("limit", "repairs", "waiting")
    assert run.step("a").held  # nothing is lost meanwhile
    run.answer("raise")
    assert run.state.repair is not None
    run.mend(None)
    assert run.status() == "failed"


def test_stopping_at_the_limit_of_repairs_ends_the_run():
    run = ring(step("a"), limits=Limits(repairs=1)).fail("a", "permanent")
    run.mend(patch(retry=["a"], change={"a": {"args": {"x": 1}}})).fail("a", "permanent")
    assert run.answer("stop").status() == "failed"


def test_a_storm_is_one_repair_after_the_other():
    run = ring(*(step(f"s{number}") for number in range(40)))
    run.fail("s0", "permanent")
    for number in range(1, 40):
        run.fail(f"s{number}", "permanent")
    assert len(run.of(RepairAsked)) == 1
    run.mend(None)
    asked = run.of(RepairAsked)[1]
    assert (len(asked.troubles), asked.more, len(run.state.repairs[1].troubles)) == (20, 19, 39)
    run.mend(patch(waive=[f"s{number}" for number in range(1, 40)]))
    assert run.status() == "failed"  # s0


def test_two_troubles_at_once_are_mended_one_after_the_other():
    run = ring(step("a"), step("b")).fail("a", "permanent").fail("b", "permanent")
    assert [one.path for one in run.state.unmended] == ["b"]
    run.mend(patch(retry=["a"], change={"a": {"args": {"x": 1}}}))
    assert run.situation.held == ("b",)
    run.mend(patch(retry=["b"], change={"b": {"args": {"x": 1}}})).finish("a").finish("b")
    assert (run.status(), run.state.version) == ("done", 3)


def test_a_repair_during_an_approval_voids_it_if_its_step_changed():
    run = ring(step("a"), step("s", "send", args={"x": 1}, approval={"ask": "Send?"}), step("r", "send",
        args={"x": 1}, approval={"ask": "Really?"}))  # fmt: skip
    run.fail("a", "permanent")
    before = dict(run.state.asked_about)
    run.mend(patch(waive=["a"], change={"s": {"args": {"x": 2}}}))
    after = run.state.asked_about
    assert (after["r"], after["s"] == before["s"]) == (before["r"], False)
    assert run.state.questions[before["s"]].answer == "void"
    run.answer("approve", question=after["s"])
    assert run.args("s") == {"x": 2}


# --- life goes on


def test_an_open_repair_is_asked_again_after_a_crash():
    run = broken().crash().resume()
    assert run.situation.round == 1
    run.mend(patch(retry=["b"], change={"b": {"args": {"x": 5}}})).finish("b").finish("c").finish("d")
    assert run.status() == "done"


def test_cancelling_leaves_no_repair_open():
    run = broken().send("cancel").fail("d", "cancelled")
    assert (run.status(), run.state.repair, run.result.repairs[0].outcome) == ("cancelled", None, "ended")
    assert run.put(Repaired(1, 1, patch(waive=["b"]))).status() == "cancelled"


def test_a_paused_run_asks_for_nothing_and_takes_what_comes():
    run = ring(step("a"), step("b")).send("pause").fail("a", "permanent")
    assert not run.of(RepairAsked)
    run.send("unpause").send("pause").mend(patch(retry=["a"], change={"a": {"args": {"x": 1}}}))
    assert run.state.version == 2
    assert run.send("unpause").finish("a").finish("b").status() == "done"


def test_a_run_taken_up_after_its_end_may_be_repaired_again():
    run = broken().mend(None).finish("d")
    assert run.status() == "failed"
    run.resume(retry_failed=True).fail("b", "permanent")
    assert run.situation.repair == 2


def test_a_step_that_a_person_gives_a_fallback_needs_no_repair():
    run = ring(step("a"), step("b")).fail("a", "permanent").fail("b", "permanent")
    run.put(Edit(patch=patch(add=[{"step": step("e", "other", fallback_for="b")}])))
    assert not run.state.unmended
    run.mend(None).finish("e")
    assert (run.status(), len(run.of(RepairAsked))) == ("failed", 1)


def test_a_salvaged_run_goes_on_with_its_repair():
    run = broken()
    asked = next(n for n, kind in enumerate(run.kinds) if kind == "RepairAsked")
    run.salvage(asked)
    assert run.state.repair is not None
    assert not run.questions
    run = broken().mend(patch(add=[{"step": step("e")}]))
    adopted = max(n for n, kind in enumerate(run.kinds) if kind == "PlanAdopted")
    run.salvage(adopted + 1)  # what its failure means for others is lost
    assert run.state.questions["q1"].asked.reason == "failed"


def test_the_log_says_who_waits_for_what():
    run = broken()
    (failed,) = run.of(StepFailed)
    assert (failed.held, failed.repair) == (True, True)
    assert run.of(PlanAdopted)[-1].cause == "start"


def test_a_failure_is_waived_or_tried_again_not_both():
    run = broken().mend(patch(retry=["b"], waive=["b"]))
    assert "cannot be both" in run.state.repairs[0].refusals[0].findings[0].message


def test_the_items_of_a_foreach_that_is_tried_again_stay():
    run = ring(step("a", foreach=[1, 2])).fail("a[0]", "permanent").finish("a[1]", 2)
    run.mend(patch(retry=["a"], change={"a": {"foreach": [3]}}))
    assert "which they are cannot be changed" in run.state.repairs[0].refusals[0].message


def test_a_patch_may_name_the_version_that_it_was_made_for():
    run = broken().mend(patch(base=1, retry=["b"], change={"b": {"args": {"x": 2}}}))
    assert run.state.version == 2


def test_of_very_many_faults_the_first_are_kept_and_the_others_counted():
    run = broken().mend(patch(waive=[f"no{number}" for number in range(130)]))
    findings = run.state.repairs[0].refusals[0].findings
    assert (len(findings), findings[-1].message) == (101, "30 more")


def test_a_settled_fallback_is_not_tried_again_without_its_target():
    run = ring(step("a"), step("b", fallback_for="a"), step("c"), settings=RunSettings())
    run.fail("a", "permanent").fail("b", "permanent")
    with pytest.raises(Refused, match="retry a"):
        run.send("retry", step="b")
    assert run.send("retry", step="a").calls == ["c", "a"]


def test_large_arguments_are_measured_and_very_large_ones_are_not_shown():
    run = ring(step("a", args={"many": ["x" * 100] * 100, "one": 1})).fail("a", "permanent")
    shown = run.situation.calls["a"]
    assert (shown.args, shown.sizes) == (None, {"many": 100})
    run = ring(step("a", args={"text": "x" * 1_100_000})).fail("a", "permanent")
    assert run.situation.calls["a"].sizes == {}
    run = ring(
        step("b", on_error="continue"), step("a", after=["b"], join="settled", args={"x": "${len(b)}"})
    )
    run.fail("b", "permanent")
    assert (run.step("a").held, run.situation.calls["a"].args) == (True, None)  # they could not be made


def test_the_log_of_another_version_may_hold_a_refusal_of_nothing():
    run = ring(step("a"))
    evolve(run.state, RepairRefused(repair=1, code="x", message="y"), run.now_ms)
    assert run.state.repairs == []


@pytest.mark.parametrize("wrong", [{"adaptation_sensitivity": 2}, {"repair": "yes"}, {"ask": "often"}])
def test_settings_that_mean_nothing(wrong):
    with pytest.raises(BadInput):
        RunSettings(**wrong)
