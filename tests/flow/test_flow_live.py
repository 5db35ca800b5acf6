"""Changing a live plan, in its corners: what comes and goes with a step, and what is left of it."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import InvalidPlan, NotFound, Refused
from kedge.flow.events import PlanAdopted, plain
from kedge.plan.parts import Step, Wait
from kedge.plan.patch import Addition, Patch
from kedge.testing.programs import check_program
from kedge.testing.ring import Ring


def step(id_: str, tool: str = "t", **more: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, **more}


def group(id_: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": id_, "steps": list(steps), **more}


def made(id_: str, **fields: Any) -> Step:
    fields.setdefault("tool", "t")
    return Step(id=id_, **fields)


def ring(*steps: dict[str, Any], **plan: Any) -> Ring:
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}).start()


def edit(run: Ring, **patch: Any) -> Ring:
    run.send("edit", patch=Patch(**patch))
    check_program(run.state)
    return run


def faults(run: Ring, **patch: Any) -> list[tuple[str, str, str]]:
    """Code, place and message of each fault that a patch is refused for."""
    before = len(run.log)
    with pytest.raises(InvalidPlan) as refused:
        run.send("edit", patch=Patch(**patch))
    assert len(run.log) == before
    return [(one.code, one.path, one.message) for one in refused.value.findings]


# --- steps that go


def test_of_the_steps_that_go_together_none_is_left():
    run = ring(step("a"), step("b", after=["a"]), step("c", after=["b"]), step("d", after=["a"]))
    edit(run, remove=("b", "c"))
    assert set(run.statuses()) == {"a", "d"}
    assert run.finish("a").finish("d").status() == "done"


def test_a_step_that_waited_for_its_next_attempt_can_go_and_come_back_and_counts_on():
    run = ring(step("a"), step("b", retry={"attempts": 2, "backoff_s": 60}))
    run.fail("b")
    edit(run, remove=("b",))
    edit(run, add=(Addition(step=made("b")),))
    assert run.calls == ["a", "b"]
    run.finish("b", "late", starts=1)
    assert run.status("b") == "running"
    assert run.finish("b", "new").value("b") == "new"


def test_the_last_open_step_of_a_composite_can_go_and_ends_it():
    run = ring(group("p", step("a"), step("b", after=["x"])), step("x"), step("c", after=["p"]))
    run.finish("p/a", 1)
    edit(run, remove=("p/b",))
    assert (run.value("p"), run.calls) == ({"a": 1}, ["x", "c"])


def test_the_last_open_step_of_a_run_can_go_and_ends_it():
    run = ring(step("a"), {"id": "w", "wait": {"signal": "go"}}).finish("a")
    assert edit(run, remove=("w",)).status() == "done"
    assert run.state.listening == 0


def test_what_was_asked_about_a_step_that_goes_means_nothing_any_more():
    run = ring(step("a"), step("b", approval={"ask": "May it?"}))
    assert run.questions == ["q1"]
    edit(run, remove=("b",))
    assert run.questions == []
    assert run.finish("a").status() == "done"


def test_a_composite_that_has_not_begun_goes_with_all_that_is_in_it():
    run = ring(step("a"), group("p", step("k"), step("l", after=["a"]), after=["a"]), step("z", after=["a"]))
    edit(run, remove=("p",))
    assert run.finish("a").calls == ["z"]
    assert set(run.statuses()) == {"a", "z"}


def test_a_fallback_that_goes_leaves_its_target_failed():
    run = ring(step("a"), step("x"), step("b", fallback_for="a", after=["x"]), step("c", after=["a"]))
    run.fail("a", "permanent")
    assert (run.status("c"), run.calls) == ("pending", ["x"])
    edit(run, remove=("b",))
    assert (run.status("c"), run.step("c").because) == ("skipped", ("a",))
    assert run.finish("x").status() == "failed"


def test_a_fallback_that_goes_leaves_a_target_that_may_fail_absent():
    run = ring(
        step("a", on_error="continue"),
        step("x"),
        step("b", fallback_for="a", after=["x"]),
        step("y", after=["x"]),
    )
    run.fail("a", "permanent")
    edit(run, remove=("b",))
    assert run.finish("x").finish("y").status() == "done"


def test_a_fallback_that_goes_before_its_target_failed_is_no_longer_waited_for():
    run = ring(step("a"), step("b", fallback_for="a"), step("c", after=["a"]))
    edit(run, remove=("b",))
    run.fail("a", "permanent")
    assert run.status() == "failed"


def test_a_step_among_others_can_go_and_places_close_up():
    inner = group("p", step("k", args={"c": "${c}"}), after=["a"])
    run = ring(
        step("a"), step("b", after=["a"]), step("c"), step("d", args={"c": "${c}", "a": "${a}"}), inner,
        step("f", fallback_for="c"),
    )  # fmt: skip
    edit(run, remove=("b",))
    run.finish("a", 1).fail("c", "permanent").finish("f", 3)
    assert run.args("d") == {"c": 3, "a": 1}
    assert run.args("p/k") == {"c": 3}
    assert run.finish("d").finish("p/k").status() == "done"


# --- steps that come


def test_a_composite_that_comes_brings_its_steps():
    run = ring(step("a"), step("z", after=["a"]))
    inside = made(
        "p", tool=None, steps=(made("k", args={"a": "${a}"}), made("q", tool=None, steps=(made("l"),)))
    )
    edit(run, add=(Addition(step=inside),))
    assert run.calls == ["a", "p/q/l"]
    assert run.finish("a", 1).args("p/k") == {"a": 1}
    run.finish("z").finish("p/k", 2).finish("p/q/l", 3)
    assert run.value("p") == {"k": 2, "q": {"l": 3}}


def test_a_step_that_comes_into_a_composite_that_waits_is_there_when_it_begins():
    run = ring(step("a"), group("p", step("k"), after=["a"]))
    edit(run, add=(Addition(step=made("l"), into="p"),))
    assert run.finish("a").calls == ["p/k", "p/l"]


def test_a_step_that_comes_into_a_nested_scope_of_items():
    run = ring(group("p", group("q", step("k")), foreach=[1, 2])).finish("p[0]/q/k")
    edit(run, add=(Addition(step=made("l", args={"k": "${k}"}), into="p/q"),))
    run.finish("p[1]/q/k", 5)
    assert run.calls == ["p[1]/q/l"]
    assert run.args("p[1]/q/l") == {"k": 5}
    assert "p[0]/q/l" not in run.statuses()  # that item had ended


def test_a_step_that_comes_into_a_loop_is_in_this_round_and_those_that_follow():
    run = ring(group("p", step("k"), loop={"times": 2}))
    edit(run, add=(Addition(step=made("l"), into="p"),))
    assert run.finish("p#0/k").calls == ["p#0/l"]
    assert run.finish("p#0/l").calls == ["p#1/k", "p#1/l"]


def test_a_nearer_step_of_the_same_name_is_meant_from_then_on():
    run = ring(step("x"), step("a"), group("p", step("k", args={"a": "${a}"}, after=["x"])))
    edit(run, add=(Addition(step=made("a"), into="p"),))
    run.finish("x").finish("a", "outer").finish("p/a", "inner")
    assert run.args("p/k") == {"a": "inner"}


def test_a_fallback_that_comes_for_a_failure_that_is_being_decided_on_is_tried():
    run = ring(step("a", on_error="ask"), step("c", args={"a": "${a}"}))
    run.fail("a", "permanent")
    assert run.questions == ["q1"]
    edit(run, add=(Addition(step=made("b", fallback_for="a")),))
    assert (run.questions, run.calls) == ([], ["b"])
    assert run.finish("b", 2).args("c") == {"a": 2}


def test_a_step_that_changes_waits_for_what_it_reads_now():
    run = ring(step("a"), step("b"), step("c", after=["a"]), step("d", after=["c"]))
    edit(run, change={"c": {"after": None, "args": {"b": "${b}"}, "join": "settled"}})
    assert run.finish("a").calls == ["b"]
    assert run.finish("b", 1).args("c") == {"b": 1}


def test_a_ready_step_that_is_changed_waits_again():
    run = ring(step("a"), step("b"), step("c"), limits={"parallel": 2})
    assert run.status("c") == "ready"
    edit(run, change={"c": {"after": ["a", "b"]}})
    assert run.finish("a").calls == ["b"]
    assert run.finish("b").calls == ["c"]


def test_a_child_that_is_rewired_outside_hears_of_the_other_one_only():
    run = ring(step("a"), step("b"), group("p", step("k", after=["a"]), step("l")))
    edit(run, rewire={"p/k": {"a": "b"}})
    assert run.finish("a").calls == ["b", "p/l"]
    assert run.finish("b").calls == ["p/l", "p/k"]


# --- failures that are waived


def test_a_failure_that_is_waived_fails_nothing():
    run = ring(step("a", on_error="ask"), step("b"), step("c", after=["a", "b"]))
    run.fail("a", "permanent")
    edit(run, waive=("a",))
    assert run.questions == []
    assert run.finish("b").calls == ["c"]
    assert run.finish("c").status() == "done"
    assert run.status("a") == "failed"


def test_a_waived_failure_of_a_fallback_is_its_targets_too():
    run = ring(step("a", on_error="ask"), step("b", fallback_for="a"), step("c"))
    run.fail("a", "permanent").fail("b", "permanent")
    assert run.questions == ["q1"]
    edit(run, waive=("b",))
    assert run.finish("c").status() == "done"


# --- what is refused


def test_what_is_wrong_with_a_patch_is_told_with_its_place():
    run = ring(
        step("a"), step("b", after=["a"]), step("c", after=["b"]), group("p", step("k")),
        step("s", when="false"), group("e", step("k"), foreach=[]),
    ).finish("a")  # fmt: skip
    assert faults(run, remove=("c", "a")) == [("fixed_step", "remove[1]", "a is done: it cannot be removed")]
    assert faults(run, change={"b": {"args": {"x": 1}}})[0][2] == "b is running: it cannot be changed"
    assert faults(run, rewire={"b": {"a": "c"}})[0][2] == "b is running: it cannot be rewired"
    assert faults(run, remove=("p",))[0][2] == "p has begun: it cannot be removed"
    assert faults(run, cancel=("c",))[0][1:] == (
        "cancel[0]",
        "c is pending: only a running call can be cancelled",
    )
    assert faults(run, cancel=("x",))[0][2].startswith("x is no step of the run")
    assert faults(run, waive=("b",))[0] == (
        "not_held", "waive[0]", "b is running: only a failure that is being decided on can be waived",
    )  # fmt: skip
    assert faults(run, waive=("x",))[0][2].startswith("x is no step of the run")
    run.finish("p/k")
    assert faults(run, add=(Addition(step=made("l"), into="p"),))[0] == (
        "fixed_step", "add[0].into", "p has ended: nothing can be added to it",
    )  # fmt: skip


def test_a_fault_says_where_what_is_allowed_and_what_to_do():
    run = ring(*(step(f"s{number}") for number in range(12)), step("z", after=["s0"])).finish("s1")
    with pytest.raises(InvalidPlan) as refused:
        run.send("edit", patch=Patch(cancel=("z",)))
    (found,) = refused.value.findings
    assert (found.code, found.step, found.remedy) == ("not_running", "z", "look at how the run stands")
    assert list(found.allowed) == [f"s{number}" for number in (0, *range(2, 11))]
    remedies = []
    for path in ("s0", "s1"):
        with pytest.raises(InvalidPlan) as refused:
            run.send("edit", patch=Patch(change={path: {"args": {"x": 1}}}))
        (found,) = refused.value.findings
        assert (found.path, found.step) == (f"change.{path}", path)
        remedies.append(found.remedy)
    assert remedies == ["name it in `cancel`", "add another step"]
    with pytest.raises(InvalidPlan) as refused:
        run.send("edit", patch=Patch(rewire={"s0": {"z": "s2"}}))
    assert next(iter(refused.value.findings)).path == "rewire.s0"


def test_what_waits_for_a_signal_can_go_and_cannot_be_changed():
    run = ring(step("a"), {"id": "w", "wait": {"signal": "go"}})
    assert (
        faults(run, change={"w": {"wait": {"signal": "stop"}}})[0][2] == "w is waiting: it cannot be changed"
    )
    edit(run, remove=("w",))
    assert run.finish("a").status() == "done"


def test_tools_inside_what_comes_are_marked_too():
    inside = made("p", tool=None, steps=(made("q", tool=None, steps=(made("k", tool="send"),)),))
    run = edit(ring(step("a")), add=(Addition(step=inside),))
    assert plain(run.of(PlanAdopted)[-1])["tools"]["send"]["effect"] == "effect"


def test_what_stands_in_for_a_settled_step_is_refused():
    run = ring(
        step("a"),
        step("b", after=["a"]),
        group("p", step("k"), step("l", after=["k"]), step("m", after=["l"])),
    )
    run.finish("a").finish("p/k")
    said = ("fixed_step", "a is done: it needs no fallback any more")
    found = faults(run, add=(Addition(step=made("f", fallback_for="a")),))[0]
    assert (found[0], found[2]) == said
    assert found[1] == "fallback_for.f"
    found = faults(run, add=(Addition(step=made("f", fallback_for="k"), into="p"),))[0]
    assert found[2] == "p/k is done: it needs no fallback any more"
    found = faults(run, change={"p/m": {"fallback_for": "k", "after": None}})[0]
    assert found[2] == "p/k is done: it needs no fallback any more"


def test_what_a_patch_would_break_elsewhere_is_refused():
    run = ring(
        step("x"), step("a", after=["x"]), step("b", args={"a": "${a}"}), step("f", fallback_for="a"),
        group("p", group("q", step("k", args={"a": "${a}"}))),
    )  # fmt: skip
    with pytest.raises(InvalidPlan, match=r"the plan would have \d+ faults"):
        run.send("edit", patch=Patch(remove=("a",)))
    with pytest.raises(InvalidPlan, match="the plan would have 1 fault:"):
        run.send("edit", patch=Patch(change={"b": {"args": {"z": "${nobody}"}}}))
    with pytest.raises(InvalidPlan):
        run.send("edit", patch=Patch(change={"a": {"after": ["b"]}}))
    with pytest.raises(InvalidPlan):
        run.send("edit", patch=Patch(change={"p": {"after": ["b"]}, "a": {"after": ["p"]}}))


def test_what_means_nothing_to_a_call_can_be_changed_of_steps_that_have_run():
    run = ring(step("a"), step("b"), step("c", after=["b"])).finish("a")
    edit(run, change={"a": {"do": "Something", "priority": 3}, "b": {"milestone": True}})
    assert (run.state.plan.steps[0].do, run.state.plan.steps[0].priority) == ("Something", 3)


@pytest.mark.parametrize("end", ["cancel", "stop"])
def test_a_run_that_ends_keeps_its_plan(end):
    run = ring(step("a"), step("b"), step("c"), limits={"calls": 2})
    run.send("cancel") if end == "cancel" else run.answer("stop")
    with pytest.raises(Refused, match="its plan cannot be changed any more") as refused:
        edit(run, remove=("c",))
    assert refused.value.code == "cannot_change"


def test_a_patch_that_changes_nothing_is_refused():
    with pytest.raises(Refused, match="it changes nothing") as refused:
        edit(ring(step("a")))
    assert refused.value.code == "empty_patch"


def test_a_patch_for_another_version_is_refused_and_one_for_this_is_taken():
    run = ring(step("a"), step("b", after=["a"]))
    with pytest.raises(Refused, match="made for version 2 of the plan, version 1 is followed now") as refused:
        edit(run, base=2, remove=("b",))
    assert "look at the plan as it is" in str(refused.value)
    assert edit(run, base=1, remove=("b",)).state.version == 2


# --- versions


def test_what_a_change_leaves_in_the_log():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("edit", patch=Patch(remove=("b",), why="no need"), by="anna")
    told = plain(run.of(PlanAdopted)[-1])
    assert (told["version"], told["cause"], told["by"], told["why"]) == (2, "edit", "anna", "no need")
    assert told["patch"] == {"why": "no need", "remove": ["b"]}
    kept = run.state.versions[-1]
    assert (kept.number, kept.cause, kept.by, kept.why, kept.at) == (2, "edit", "anna", "no need", 1_000)
    assert kept.plan == run.state.plan


def test_a_tool_that_comes_with_a_step_is_marked():
    run = Ring({"goal": "g", "steps": [step("a")]}, {"send": "effect"}).start()
    run.send("inject", step=made("b", tool="send"), why="it is time")
    told = plain(run.of(PlanAdopted)[-1])
    assert told["tools"]["send"]["effect"] == "effect"
    assert set(run.state.tools) >= {"send"}
    assert run.fail("b", "timeout").status("b") == "in_doubt"


def test_back_to_an_earlier_version_as_far_as_what_has_run_allows():
    run = ring(step("a"), step("b", after=["a"], args={"x": 1}))
    come = Addition(step=made("c")), Addition(step=made("d", after=("a",)))
    edit(run, change={"b": {"args": {"x": 2}}, "a": {"priority": 1}}, add=come)
    run.send("rollback", version=1, by="anna")
    assert run.calls == ["a", "c"]
    assert set(run.state.steps) == {"a", "b", "c"}  # `c` runs: it is stopped and stays
    assert run.state.versions[-1].why == "back to version 1"
    run.fail("c", "cancelled").finish("a")
    assert run.args("b") == {"x": 1}
    assert run.finish("b").status() == "done"
    assert run.status("c") == "cancelled"


def test_back_to_an_earlier_version_leaves_what_has_run_as_it_is_and_takes_out_what_waits():
    run = ring(step("a"), step("b", after=["a"], args={"x": 1}), step("c"))
    wait = made("w", tool=None, wait=Wait(signal="go"))
    edit(run, change={"b": {"args": {"x": 2}}}, add=(Addition(step=wait),))
    run.finish("a").send("rollback", version=1)
    assert run.args("b") == {"x": 2}
    assert set(run.state.steps) == {"a", "b", "c"}
    check_program(run.state)


@pytest.mark.parametrize("version", [0, 2, 9])
def test_back_to_no_version_is_refused(version):
    run = ring(step("a"), step("b", after=["a"]))
    edit(run, remove=("b",))
    with pytest.raises(NotFound, match=f"there is no earlier version {version}") as refused:
        run.send("rollback", version=version)
    assert (refused.value.code, list(refused.value.allowed)) == ("unknown_version", ["1"])
