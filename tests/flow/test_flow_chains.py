"""Who is told that a step has settled: dependents, watchers inside composites, fallbacks; and what keeps."""

from __future__ import annotations

import pytest

from kedge.flow.critical import critical_path
from kedge.flow.events import StepStarted
from kedge.testing.ring import Ring

ONCE_MORE = {"attempts": 2, "backoff_s": 0}


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}).start()


# --- steps inside that wait for steps outside


def test_a_child_with_join_any_starts_with_the_first_success_outside():
    args = {"a": "${a}", "b": "${b}"}
    run = ring(step("a"), step("b"), group("p", step("k", args=args, join="any"), step("l")))
    run.finish("b", 2)
    assert run.calls == ["a", "p/l", "p/k"]
    assert run.args("p/k") == {"a": None, "b": 2}
    run.finish("a", 1).finish("p/k").finish("p/l")
    assert run.status() == "done"


def test_a_child_with_join_all_waits_for_the_last_success_outside():
    run = ring(step("a"), step("b"), group("p", step("k", after=["a", "b"])))
    assert run.finish("a").calls == ["b"]
    assert run.finish("b").calls == ["p/k"]


def test_a_child_with_join_any_that_had_nothing_to_go_on_outside_goes_on_waiting():
    run = ring(step("a", on_error="continue"), step("b"), group("p", step("k", after=["a", "b"], join="any")))
    assert run.fail("a", "permanent").calls == ["b"]
    assert run.finish("b").calls == ["p/k"]


def test_a_child_whose_outer_dependency_had_failed_before_it_came_into_being():
    run = ring(step("a", on_error="continue"), step("b"), group("p", step("k", after=["a"]), after=["b"]))
    run.fail("a", "permanent").finish("b")
    assert (run.status("p/k"), run.step("p/k").reason) == ("skipped", "absent")


def test_a_child_that_waits_outside_and_inside_waits_for_both():
    run = ring(step("a"), group("p", step("x"), step("k", after=["a", "x"])))
    assert run.finish("a").calls == ["p/x"]
    assert run.finish("p/x").calls == ["p/k"]


# --- fallbacks, wherever they are written


def test_a_fallback_may_be_written_before_its_target():
    run = ring(step("f", fallback_for="a"), step("a"), step("c", args={"a": "${a}"}))
    assert run.calls == ["a"]
    assert run.fail("a", "permanent").calls == ["f"]
    assert run.finish("f", 1).args("c") == {"a": 1}


def test_a_fallback_with_join_any_does_not_start_with_a_failure():
    run = ring(
        step("a"), step("x", on_error="continue"), step("y"),
        step("f", fallback_for="a", after=["x", "y"], join="any"),
    )  # fmt: skip
    run.fail("x", "permanent").fail("a", "permanent")
    assert run.calls == ["y"]
    assert run.finish("y").calls == ["f"]


def test_a_fallback_with_join_any_whose_target_is_the_first_step_waits_for_its_failure():
    run = ring(step("a"), step("x"), step("y"), step("f", fallback_for="a", after=["x", "y"], join="any"))
    assert "f" not in run.finish("x").calls
    assert run.finish("a").finish("y").step("f").reason == "not_needed"


def test_a_fallback_for_one_that_may_fail_lets_go_what_may_do_without():
    run = ring(
        step("a", on_error="continue"),
        step("f", fallback_for="a"),
        step("c", args={"a": "${a}"}, join="any"),
        step("x"), step("d", args={"a": "${a}"}, after=["x"], join="settled"),
    )  # fmt: skip
    run.finish("x").fail("a", "permanent").fail("f", "permanent")
    assert run.args("d") == {"a": None}
    assert run.step("c").reason == "absent"


# --- another attempt of a composite


def test_another_attempt_counts_the_calls_of_a_step_on_and_of_a_new_one_from_the_start():
    run = ring(group("p", step("b", after=["a"]), step("a"), retry=ONCE_MORE))
    run.fail("p/a").finish("p/a")
    assert (run.step("p/a").starts, run.step("p/b").starts) == (2, 1)


def test_a_late_word_of_an_item_of_the_attempt_before_is_not_taken_for_the_new_ones():
    run = ring(
        step("x"), group("p", step("e", foreach=[1, 2]), step("b", after=["e"]), after=["x"], retry=ONCE_MORE)
    )
    run.finish("x").finish("p/e[0]", "old").finish("p/e[1]").fail("p/b")
    assert run.calls == ["p/e[0]", "p/e[1]"]
    run.finish("p/e[0]", "late", starts=1)
    assert run.status("p/e[0]") == "running"
    assert [e.generation for e in run.of(StepStarted, "p/e[0]")] == [0, 1]
    run.crash().resume().finish("p/e[0]", "new").finish("p/e[1]").finish("p/b")
    assert (run.value("p/e"), run.step("p/e").generation) == (["new", None], 1)
    assert run.state.total == len(run.state.steps) == 6


def test_items_that_were_never_started_count_from_the_start():
    run = ring(group("p", step("a"), step("e", foreach=[1, 2, 3]), retry=ONCE_MORE), limits={"parallel": 2})
    run.finish("p/e[0]").finish("p/e[1]").finish("p/e[2]").fail("p/a")
    run.finish("p/a").finish("p/e[0]").finish("p/e[1]")
    assert [run.step(f"p/e[{index}]").starts for index in range(3)] == [2, 2, 2]


def test_another_attempt_replaces_composites_inside_too():
    run = ring(group("p", group("q", step("k")), step("b", after=["q"]), retry=ONCE_MORE))
    run.finish("p/q/k", "old").fail("p/b").finish("p/q/k", "late", starts=1)
    assert run.status("p/q/k") == "running"
    run.finish("p/q/k", "new").finish("p/b", 1)
    assert (run.value("p"), run.state.total) == ({"q": {"k": "new"}, "b": 1}, 4)


def test_another_attempt_replaces_all_rounds_of_a_composite_inside():
    inner = group("q", step("k"), loop={"times": 2, "collect": "all"})
    run = ring(group("p", inner, step("b", after=["q"]), retry=ONCE_MORE))
    run.finish("p/q#0/k", "old").finish("p/q#1/k", "old").fail("p/b")
    assert run.calls == ["p/q#0/k"]
    run.finish("p/q#0/k", "late", starts=1).finish("p/q#0/k", 1).finish("p/q#1/k", 2).finish("p/b")
    assert run.value("p/q") == [{"k": 1}, {"k": 2}]
    assert run.state.total == len(run.state.steps)


# --- ends have a time and a number


def test_every_end_has_its_time_and_its_number():
    run = ring(
        step("d"), step("f", on_error="continue"), step("s", when="d"), step("i"), group("p", step("k")),
        step("e", foreach=[1]),
    )  # fmt: skip
    run.tick(10).finish("d", False).tick(10).fail("f", "permanent").send("cancel")
    run.tick(10).fail("i", "cancelled").tick(10).finish("p/k").tick(10).fail("e[0]", "cancelled")
    told = enumerate(zip(run.events, run.log, strict=True), 1)
    ends = {getattr(event, "path", ""): (at, seq) for seq, (event, (_, at)) in told}
    del ends[""]  # what was about the run
    last = run.log[-1][1], len(run.log)
    ends |= {"p": last, "e": last}  # the run's end is theirs
    told = {path: (one.ended_at, one.ended_seq) for path, one in run.state.steps.items()}
    assert told == ends
    assert run.result.steps["s"].ended_at is not None


def test_an_attempt_that_failed_is_told_while_the_next_one_is_waited_for():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 1})).fail("a", "timeout")
    assert (run.status("a"), run.error("a").category) == ("waiting", "timeout")


@pytest.mark.parametrize("more", [{}, {"foreach": [1]}])
def test_when_a_step_and_its_items_began_is_kept_through_attempts(more):
    path = "a[0]" if more else "a"
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 1}, **more)).tick(10).fail(path).tick(1_000)
    assert run.step(path).started_at == 1_000
    assert run.step("a").started_at == 1_000
    assert run.finish(path).result.steps[path].seconds == 1.01


# --- what was cut off


def test_a_composite_that_waited_for_its_round_when_the_run_ended_did_not_wait_on():
    run = ring(step("a"), group("p", step("k"), loop={"times": 2, "delay_s": 9}))
    run.tick(10).finish("p#0/k").send("cancel").fail("a", "cancelled")
    run.crash().tick(60_000).resume(retry_failed=True)
    run.tick(20).finish("a").finish("p#1/k")
    assert critical_path(run.state).seconds == 0.03


def test_a_composite_in_its_second_attempt_is_taken_up_where_it_was():
    run = ring(group("p", step("a"), step("b"), retry={"attempts": 2, "backoff_s": 1}))
    run.finish("p/a").fail("p/b").tick(1_000).finish("p/a", 1)
    run.crash().resume().fail("p/b", "permanent")
    assert run.status() == "failed"
    run.crash().resume(retry_failed=True)
    assert run.calls == ["p/b"]  # and not `a` again, which is done
    assert run.finish("p/b", 2).value("p") == {"a": 1, "b": 2}
