"""One test for each rule about a step and what it waits for."""

from __future__ import annotations

import pytest

from kedge.base.errors import InvalidPlan
from kedge.base.limits import Limits
from kedge.flow.events import StepStarted
from kedge.testing.ring import Places, Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, effects=None, gate=None, limits=None, inputs=None, **plan):
    document = {"goal": "g", "steps": list(steps), **plan}
    return Ring(document, effects, gate=gate, limits=limits or Limits(), inputs=inputs).start()


# --- scheduling


def test_a_step_starts_when_its_own_inputs_are_ready_and_waits_for_no_layer():
    run = ring(step("a"), step("b"), step("c", args={"x": "${a}"}), step("d", after=["b"]))
    assert run.calls == ["a", "b"]
    run.finish("a", 1)
    assert run.calls == ["b", "c"]


def test_a_finish_and_the_starts_of_its_successors_are_one_append():
    run = ring(step("a"), step("b", after=["a"]), step("c", after=["a"]))
    before = len(run.log)
    run.finish("a")
    assert run.kinds[before:] == ["StepSucceeded", "StepStarted", "StepStarted"]


def test_among_ready_steps_priority_goes_first_then_the_longest_remaining_path():
    limits = Limits(parallel=1)
    run = ring(
        step("short"),
        step("long", estimate={"seconds": 2}),
        step("head"), step("tail", after=["head"], estimate={"seconds": 9}),
        step("urgent", priority=1),
        limits=limits,
    )  # fmt: skip
    order = []
    while run.calls:
        order += run.calls
        run.finish(run.calls[0])
    assert order == ["urgent", "head", "tail", "long", "short"]


def test_sleeps_and_rounds_count_in_the_remaining_path():
    run = ring(
        step("plain"), step("after_plain", after=["plain"], estimate={"seconds": 3}),
        step("early"), step("nap", "sleep", args={"seconds": 60}, after=["early"]),
        step("head"), step("rounds", after=["head"], loop={"times": 3, "delay_s": 5}),
        limits=Limits(parallel=1),
    )  # fmt: skip
    order = []
    while run.calls and len(order) < 3:
        order += run.calls
        run.finish(run.calls[0])
    assert order == ["early", "head", "rounds"]


def test_no_more_calls_run_than_the_parallel_limit_allows():
    run = ring(*(step(f"s{i}") for i in range(5)), limits=Limits(parallel=2))
    assert len(run.calls) == 2
    run.finish(run.calls[0])
    assert len(run.calls) == 2


def test_calls_beyond_a_tools_own_limit_wait_and_hold_up_no_other_tool():
    run = ring(*(step(f"s{i}", "narrow") for i in range(3)), step("other"), gate=Places({"narrow": 1}))
    assert run.calls == ["s0", "other"]
    run.finish("s0")
    assert run.calls == ["other", "s1"]
    run.finish("s1").finish("s2")
    assert run.finish("other").status() == "done"


def test_a_place_taken_for_a_call_whose_arguments_fail_is_given_back():
    gate = Places({"narrow": 1})
    run = ring(
        step("a"),
        step("bad", "narrow", args={"x": "${a.nothing}"}),
        step("good", "narrow", after=["a"]),
        gate=gate,
    )
    run.finish("a", {})
    assert run.status("bad") == "failed"
    assert run.calls == ["good"]
    run.finish("good")
    assert gate.left == {"narrow": 1}


# --- order in a step


def test_order_in_a_step_is_when_then_foreach_then_loop_then_render_then_expect():
    run = ring(
        step("a"),
        step(
            "b",
            when="present(a)",
            foreach="${a}",
            loop={"times": 2},
            args={"item": "${item}", "round": "${loop.index}", "before": "${loop.previous}"},
            expect="result != 13",
        ),
    )
    run.finish("a", [7])
    assert run.args("b[0]") == {"item": 7, "round": 0, "before": None}
    run.finish("b[0]", 12)
    assert run.args("b[0]") == {"item": 7, "round": 1, "before": 12}
    run.finish("b[0]", 13)
    assert run.error("b[0]").code == "expect_not_met"
    assert run.kinds[4:] == [
        "StepExpanded",
        "StepStarted",
        "RoundEnded",
        "StepStarted",
        "StepFailed",
        "StepFailed",
        "RunEnded",
    ]


def test_when_is_looked_at_before_foreach():
    run = ring(step("a"), step("b", when="a.go", foreach="${a.items}"))
    run.finish("a", {"go": False})  # no items: with the orders swapped this were an error
    assert run.status("b") == "skipped"
    assert run.step("b").reason == "condition"


def test_retries_count_per_iteration():
    run = ring(step("a", loop={"times": 2}, retry={"attempts": 2, "backoff_s": 0}))
    run.fail("a").finish("a", 1).fail("a")
    assert run.calls == ["a"]
    assert [(e.iteration, e.attempt) for e in run.of(StepStarted)] == [(0, 1), (0, 2), (1, 1), (1, 2)]
    assert run.fail("a").status("a") == "failed"


def test_until_not_met_after_times_fails_the_step():
    run = ring(step("a", loop={"times": 2, "until": "loop.previous > 9"}))
    run.finish("a", 1).finish("a", 2)
    assert run.status("a") == "failed"
    assert run.error("a").code == "until_not_met"


def test_until_ends_the_loop_as_soon_as_it_is_met():
    run = ring(step("a", loop={"times": 5, "until": "loop.previous > 9"}))
    run.finish("a", 1).finish("a", 10)
    assert run.value("a") == 10
    assert run.status() == "done"


@pytest.mark.parametrize(
    "field", [{"when": "a"}, {"foreach": "${a}"}, {"loop": {"times": 1, "until": "a"}}, {"expect": "a"}]
)
def test_names_used_in_when_foreach_until_and_expect_are_dependencies(field):
    run = ring(step("a"), step("b", **field))
    assert run.calls == ["a"]
    assert run.step("b").node.deps == (0,)


def test_expect_may_name_its_own_step_by_result_and_that_is_no_dependency():
    run = ring(step("a", expect="result.n > 1"))
    assert run.step("a").node.deps == ()
    assert run.finish("a", {"n": 1}).status("a") == "failed"


def test_an_error_in_a_condition_is_an_error_and_never_true():
    run = ring(step("a"), step("b", when="a.missing"))
    run.finish("a", {})
    assert run.status("b") == "failed"
    assert run.calls == []


# --- absent dependencies


def skipped(id_="a"):
    return step(id_, when="false")


def test_an_absent_dependency_renders_null_in_args_only_with_join_any_or_settled():
    run = ring(
        skipped(),
        step("b"),
        step("every", args={"a": "${a}", "b": "${b}"}),
        step("some", args={"a": "${a}", "b": "${b}", "key": "${a.x.y}", "text": "<${a}> <${b}>"}, join="any"),
        step("settled", args={"list": ["${a}"]}, after=["b"], join="settled"),
    )
    run.finish("b", 1)
    assert run.status("every") == "failed"
    assert "a has no value" in run.error("every").message
    assert run.args("some") == {"a": None, "b": 1, "key": None, "text": "<null> <1>"}
    assert run.args("settled") == {"list": [None]}


def test_an_absent_dependency_in_an_expression_is_an_error_unless_asked_with_present():
    run = ring(
        skipped(),
        step("bad", args={"n": "${len(a)}"}, join="settled"),
        step("good", args={"n": "${len(a) if present(a) else 0}"}, join="settled"),
    )
    assert run.status("bad") == "failed"
    assert run.args("good") == {"n": 0}


def test_results_is_the_result_itself_of_one_dependency_and_a_map_of_several():
    run = ring(
        step("a"),
        step("b"),
        step("one", args={"x": "${results}"}, after=["a"]),
        step("two", args={"x": "${results}"}, after=["a", "b"]),
    )
    run.finish("a", [1]).finish("b", 2)
    assert run.args("one") == {"x": [1]}
    assert run.args("two") == {"x": {"a": [1], "b": 2}}


def test_results_of_one_absent_dependency_is_null_where_absence_is_allowed():
    run = ring(skipped(), step("b", args={"x": "${results}"}, after=["a"], join="settled"))
    assert run.args("b") == {"x": None}


# --- join


def test_join_all_counts_one_skipped_by_its_own_condition_as_absent():
    run = ring(skipped(), step("b"), step("c", after=["a", "b"]))
    assert run.finish("b").calls == ["c"]


@pytest.mark.parametrize("join", ["all", "any"])
def test_a_step_all_of_whose_dependencies_are_absent_is_skipped(join):
    run = ring(skipped(), skipped("b"), step("x"), step("c", after=["a", "b"], join=join))
    assert run.status("c") == "skipped"
    assert run.step("c").reason == "absent"
    assert run.finish("x").status() == "done"  # which is no failure


def test_join_all_skips_the_step_with_the_reason_when_a_dependency_failed():
    run = ring(step("a"), step("b"), step("c", after=["a", "b"]), step("d", after=["c"]))
    run.finish("a").fail("b", "permanent")
    assert (run.status("c"), run.step("c").reason, run.step("c").because) == ("skipped", "dependency", ("b",))
    assert run.step("d").because == ("c",)
    assert run.status() == "failed"


def test_join_any_starts_with_the_first_success():
    run = ring(step("a"), step("b"), step("c", args={"a": "${a}", "b": "${b}"}, join="any"))
    run.finish("b", 2)
    assert run.args("c") == {"a": None, "b": 2}
    assert run.finish("a", 1).finish("c").status() == "done"


def test_join_any_fails_over_a_failure_to_the_success_that_follows():
    run = ring(step("a", on_error="continue"), step("b"), step("c", after=["a", "b"], join="any"))
    assert run.fail("a", "permanent").calls == ["b"]
    assert run.finish("b").calls == ["c"]


def test_join_any_is_skipped_once_nothing_can_succeed_any_more():
    run = ring(step("a"), step("b"), step("c", after=["a", "b"], join="any"))
    run.fail("a", "permanent").fail("b", "permanent")
    assert run.step("c").because == ("a", "b")


def test_join_any_gives_a_second_attempt_the_arguments_of_the_first():
    run = ring(
        step("a"), step("b"),
        step("c", args={"a": "${a}"}, after=["b"], join="any", when="not present(a)",
             retry={"attempts": 3, "backoff_s": 0}),
    )  # fmt: skip
    run.finish("b").finish("a", 1).fail("c")
    run.crash().resume()
    assert [args for path, args in run.launched if path == "c"] == [{"a": None}] * 3


def test_join_settled_waits_for_all_and_goes_whatever_became_of_them():
    run = ring(
        step("a", on_error="continue"), step("b"), step("c", args={"a": "${a}", "b": "${b}"}, join="settled")
    )
    run.finish("b", 2)
    assert run.calls == ["a"]
    run.fail("a", "permanent")
    assert run.args("c") == {"a": None, "b": 2}


# --- required, optional, empty


def test_on_error_continue_makes_a_step_optional():
    run = ring(step("a", on_error="continue"), step("b"))
    run.fail("a", "permanent").finish("b")
    assert (run.status("a"), run.status()) == ("failed", "done")


def test_required_is_every_other_step_not_skipped_by_its_own_condition():
    run = ring(skipped(), step("b"), step("c"))
    run.finish("b").fail("c", "permanent")
    assert run.status() == "failed"


def test_all_skipped_is_empty_and_not_success():
    run = ring(skipped(), step("b", after=["a"]))
    assert run.status() == "empty"
    assert not run.result.ok


# --- fallback


def pair(**more):
    return step("a"), step("b", fallback_for="a", **more)


def test_a_fallback_runs_only_after_the_final_failure_of_its_target():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 0}), step("b", fallback_for="a"))
    run.fail("a")
    assert run.calls == ["a"]
    run.fail("a")
    assert run.calls == ["b"]


def test_a_fallback_never_runs_because_its_target_was_skipped():
    run = ring(skipped(), step("b", fallback_for="a"), step("x"))
    assert run.step("b").reason == "not_needed"
    assert run.finish("x").status() == "done"


def test_a_fallback_never_runs_because_its_target_was_skipped_for_a_failed_dependency():
    run = ring(step("x"), step("a", after=["x"]), step("b", fallback_for="a"))
    run.fail("x", "permanent")
    assert (run.status("b"), run.status()) == ("skipped", "failed")


def test_dependents_wait_until_the_pair_settles_and_read_the_targets_id():
    run = ring(*pair(), step("c", args={"x": "${a}"}))
    run.fail("a", "permanent")
    assert run.calls == ["b"]
    run.finish("b", "instead")
    assert run.args("c") == {"x": "instead"}
    assert run.finish("c").status() == "done"
    assert run.result.steps["a"].replaced_by == "b"


def test_a_chain_of_fallbacks_goes_on_until_one_succeeds():
    run = ring(
        *pair(), step("c", fallback_for="b"), step("d", fallback_for="c"), step("e", args={"x": "${a}"})
    )
    run.fail("a", "permanent").fail("b", "permanent").finish("c", 3)
    assert run.args("e") == {"x": 3}
    assert run.step("d").reason == "not_needed"


def test_a_long_chain_of_fallbacks_settles():
    steps = [step("s0"), *(step(f"s{i}", fallback_for=f"s{i - 1}") for i in range(1, 1200))]
    run = Ring({"goal": "g", "steps": steps})
    run.laws = False
    run.start()
    while run.calls:
        run.fail(run.calls[0], "permanent")
    assert run.status() == "failed"


def test_a_fallback_whose_own_condition_is_false_leaves_the_target_failed():
    run = ring(*pair(when="false"), step("c", after=["a"]))
    run.fail("a", "permanent")
    assert (run.status("b"), run.step("c").reason, run.status()) == ("skipped", "dependency", "failed")


def test_the_fallback_of_an_optional_step_that_fails_too_leaves_it_optional():
    run = ring(step("a", on_error="continue"), step("b", fallback_for="a"), step("x"))
    run.fail("a", "permanent").fail("b", "permanent").finish("x")
    assert run.status() == "done"


def test_a_fallback_waits_for_its_own_dependencies_too():
    run = ring(step("x"), step("a"), step("b", fallback_for="a", args={"x": "${x}"}))
    run.fail("a", "permanent")
    assert run.calls == ["x"]
    assert run.finish("x").calls == ["b"]


def test_a_fallback_inside_a_composite_saves_the_composite():
    run = ring({"id": "p", "steps": [*pair(), step("c", args={"x": "${a}"})]})
    run.fail("p/a", "permanent").finish("p/b", 5).finish("p/c", 6)
    assert run.value("p") == {"a": 5, "c": 6}
    assert run.status() == "done"


@pytest.mark.parametrize(
    ("target", "call"),
    [
        (step("a", foreach=[1]), "a[0]"),
        ({"id": "a", "steps": [step("k")]}, "a/k"),
        (step("a", loop={"times": 2}), "a"),
    ],
)
def test_foreach_composite_and_loop_steps_have_fallbacks_like_others(target, call):
    run = ring(target, step("b", fallback_for="a"), step("c", args={"x": "${a}"}))
    run.fail(call, "permanent")
    assert run.calls == ["b"]
    run.finish("b", 2)
    assert run.args("c") == {"x": 2}


def test_a_second_fallback_for_the_same_step_is_refused():
    with pytest.raises(InvalidPlan):
        ring(*pair(), step("c", fallback_for="a"))


def test_a_fallback_with_join_any_starts_with_the_first_success_once_its_target_failed():
    run = ring(step("x"), step("y"), step("a"), step("b", fallback_for="a", after=["x", "y"], join="any"))
    run.finish("x")
    assert "b" not in run.calls
    run.fail("a", "permanent")
    assert run.calls == ["y", "b"]


# --- outputs


def test_outputs_and_answer_are_evaluated_once_everything_is_settled():
    run = ring(step("a"), outputs={"n": "a.n + 1", "goal": "goal"}, answer="There are ${a.n}.")
    run.finish("a", {"n": 2})
    assert run.result.outputs == {"n": 3, "goal": "g"}
    assert run.result.answer == "There are 2."


def test_without_outputs_the_run_returns_what_nothing_depends_on():
    run = ring(step("a"), step("b", after=["a"]), step("c"))
    run.finish("a", 1).finish("b", 2).finish("c", 3)
    assert run.result.outputs == {"b": 2, "c": 3}


@pytest.mark.parametrize("plan", [{"outputs": {"n": "a.n + 1"}}, {"answer": "${a.n.m}"}])
def test_outputs_that_cannot_be_evaluated_fail_the_run_and_say_why(plan):
    run = ring(step("a"), **plan)
    run.finish("a", {"n": "two"})
    assert run.status() == "failed"
    assert run.error().code == "outputs"


def test_outputs_that_name_what_was_skipped_fail_unless_asked_with_present():
    run = ring(skipped(), step("b"), outputs={"a": "a"})
    assert run.finish("b").status() == "failed"
    run = ring(skipped(), step("b"), outputs={"a": "a if present(a) else 0"})
    assert run.finish("b").result.outputs == {"a": 0}
