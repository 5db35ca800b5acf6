"""Changing the plan of a run while it runs: what may be changed, and what follows."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import InvalidPlan, KedgeError, Refused
from kedge.plan.parts import Step
from kedge.plan.patch import Addition, Patch
from kedge.testing.programs import check_program
from kedge.testing.ring import Ring


def ring(*steps: dict[str, Any], **more: Any) -> Ring:
    return Ring({"goal": "g", "steps": list(steps), **more}, {"send": "effect"}).start()


def step(id_: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "tool": "t", **fields}


def made(id_: str, **fields: Any) -> Step:
    more: Any = {"tool": "t", **fields}
    return Step(id=id_, **more)


def test_an_injected_step_runs_when_what_it_reads_is_there():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("inject", step=made("c", args={"x": "${a}"}))
    check_program(run.state)
    run.finish("a", 1)
    assert run.calls == ["b", "c"]
    assert run.args("c") == {"x": 1}


def test_an_injected_step_of_which_all_is_there_starts_at_once():
    run = ring(step("a"), step("b", after=["a"])).finish("a", 1)
    run.send("inject", step=made("c", args={"x": "${a}"}))
    assert run.calls == ["b", "c"]


def test_a_removed_step_never_runs_and_nothing_waits_for_it():
    run = ring(step("a"), step("b", after=["a"]), step("c", after=["b", "a"]))
    run.send("edit", patch=Patch(remove=("b",), change={"c": {"after": ["a"]}}))
    check_program(run.state)
    run.finish("a")
    assert run.calls == ["c"]
    assert "b" not in run.state.steps


def test_a_rewired_step_waits_for_the_other_one():
    run = ring(step("a"), step("b"), step("c", args={"x": "${a}"}))
    run.send("rewire", step="c", reads={"a": "b"})
    check_program(run.state)
    run.finish("a", 1)
    assert run.calls == ["b"]
    run.finish("b", 2)
    assert run.args("c") == {"x": 2}


def test_a_paused_run_is_changed_and_goes_on_by_the_new_plan():
    run = ring(step("a"), step("b"))
    run.send("pause")
    run.finish("a")
    run.send("inject", step=made("c"))
    run.send("inject", step=made("d", after=("b",)))
    run.send("rewire", step="d", reads={"b": "a"})
    run.send("unpause")
    assert sorted(run.calls) == ["b", "c", "d"]


def test_a_failed_step_gets_its_fallback_before_it_counts():
    run = ring(step("a", retry={"attempts": 2}), step("b", args={"x": "${a}"}))
    run.fail("a")
    run.send("inject", step=made("c", fallback_for="a"))
    run.tick(10_000)
    run.fail("a")
    assert run.calls == ["c"]
    run.finish("c", 7)
    assert run.args("b") == {"x": 7}


def test_steps_come_to_every_item_that_is_open_and_to_those_to_come():
    run = ring(step("each", tool=None, foreach=[1, 2], steps=[step("in1")]))
    run.finish("each[0]/in1")
    with pytest.raises(KeyError):
        run.step("each[0]/in2")
    run.send("inject", step=made("in2", args={"x": "${item}"}), into="each")
    check_program(run.state)
    assert run.calls == ["each[1]/in1", "each[1]/in2"]
    run.finish("each[1]/in1").finish("each[1]/in2")
    assert run.status() == "done"


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        (Patch(remove=("a",)), "fixed_step"),
        (Patch(change={"a": {"args": {"x": 1}}}), "fixed_step"),
        (Patch(rewire={"a": {"b": "c"}}), "fixed_step"),
        (Patch(remove=("b",)), "fixed_step"),
        (Patch(cancel=("c",)), "not_running"),
        (Patch(remove=("nobody",)), "unknown_step"),
        (Patch(add=(Addition(step=made("c")),)), "duplicate_id"),
        (Patch(add=(Addition(step=made("d"), into="a"),)), "unknown_step"),
        (Patch(add=(Addition(step=made("e", after=("nobody",))),)), "unknown_after"),
        (Patch(add=(Addition(step=made("e", tool="no tool")),)), "unknown_tool"),
        (Patch(change={"c": {"after": ["c"]}}), "cycle"),
        (Patch(change={"c": {"after": ["d"]}, "d": {"after": ["c"]}}), "cycle"),
        (Patch(change={"c": {"id": "x"}}), "fixed_field"),
        (Patch(change={"c": {"tol": "x"}}), "wrong_type"),
        (Patch(add=(Addition(step=made("e", fallback_for="a")),)), "fixed_step"),
        (Patch(plan={"inputs": {}}), "fixed_field"),
    ],
)
def test_what_has_run_and_what_cannot_work_is_refused_and_nothing_changes(patch, code):
    run = ring(step("a"), step("b", after=["a"]), step("c", after=["b"]), step("d", after=["b"])).finish("a")
    before = len(run.log)
    with pytest.raises(InvalidPlan) as refused:
        run.send("edit", patch=patch)
    assert code in {finding.code for finding in refused.value.findings}
    assert len(run.log) == before


def test_a_stale_patch_is_refused():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("set_goal", goal="other")
    with pytest.raises(Refused) as refused:
        run.send("edit", patch=Patch(base=1, remove=("b",)))
    assert refused.value.code == "stale_patch"


def test_a_running_step_is_stopped_by_name_and_fails_nothing():
    run = ring(step("a"), step("b"), step("c", after=["a", "b"]))
    run.send("edit", patch=Patch(cancel=("a",)))
    run.fail("a", "cancelled")
    assert run.status("a") == "cancelled"
    run.finish("b")
    assert run.calls == ["c"]
    run.finish("c")
    assert run.status() == "done"


def test_a_result_that_came_before_the_stop_counts():
    run = ring(step("a"), step("c", args={"x": "${a}"}))
    run.send("edit", patch=Patch(cancel=("a",)))
    run.finish("a", 5)
    assert run.args("c") == {"x": 5}


def test_rollback_follows_the_earlier_plan_and_keeps_what_is_finished():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("inject", step=made("c"))
    run.send("inject", step=made("d", after=("b",)))
    run.finish("c")
    run.send("rollback", version=1)
    assert [one.cause for one in run.state.versions] == ["start", "inject", "inject", "rollback"]
    assert run.state.version == 4
    assert set(run.state.steps) == {"a", "b", "c"}
    check_program(run.state)


def test_a_failed_step_is_tried_again_on_command():
    run = ring(step("a"), step("b", after=["a"]), step("c", args={"x": "${b}"}), step("z"))
    run.fail("a", "permanent")
    assert run.status("c") == "skipped"
    run.send("retry", step="a")
    assert run.calls == ["z", "a"]
    run.finish("a").finish("b", 3)
    assert run.args("c") == {"x": 3}


def test_a_skipped_step_counts_as_absent():
    run = ring(step("a"), step("b", after=["a"]), step("c", after=["b"], join="settled"))
    run.send("skip", step="b", reason="not now")
    run.finish("a")
    assert run.calls == ["c"]
    with pytest.raises(Refused):
        run.send("skip", step="c")


def test_a_command_of_one_key_is_taken_once():
    run = ring(step("a"))
    run.send("inject", step=made("b"), key="k1")
    run.send("inject", step=made("b"), key="k1")
    with pytest.raises(KedgeError):
        run.send("inject", step=made("b"), key="k2")
    with pytest.raises(Refused):
        run.send("inject", step=made("b"), key="k2")
    assert run.kinds.count("CommandTaken") == 1
    assert run.kinds.count("CommandRefused") == 1


def test_versions_survive_a_crash():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("inject", step=made("c", after=("a",)), why="because")
    run.crash().resume()
    check_program(run.state)
    assert run.state.versions[1].why == "because"
    run.finish("a")
    assert run.calls == ["b", "c"]


def test_a_composite_goes_together_with_the_step_that_its_children_read():
    inner = {"id": "o", "after": ["a"], "steps": [{"id": "p", "steps": [step("i", args={"x": "${b}"})]}]}
    run = ring(step("a"), step("b", after=["a"]), inner)
    run.send("edit", patch=Patch(remove=("b", "o")))
    check_program(run.state)
    assert run.finish("a").status() == "done"


def test_a_step_goes_together_with_one_further_in_that_reads_it():
    reader = {"id": "p", "steps": [step("i", args={"x": "${b}"}), step("j")]}
    outer = {"id": "o", "after": ["a"], "steps": [step("b"), step("c"), reader]}
    for remove in (("o/p/i", "o/b"), ("o/b", "o/p/i"), ("o/p", "o/b"), ("o/b", "o/p")):
        run = ring(step("a"), outer)
        run.send("edit", patch=Patch(remove=remove))
        check_program(run.state)
        run.finish("a").finish("o/c")
        assert (run.finish("o/p/j") if "o/p" not in remove else run).status() == "done"
