"""Taking up a run that had ended, in its corners: chains of fallbacks, doubts, what came to nothing."""

from __future__ import annotations

import pytest

from kedge.flow.critical import critical_path
from kedge.testing.ring import Ring

TWO_WAYS = pytest.mark.parametrize("turned", [False, True], ids=["as usual", "fallbacks written first"])


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, turned=False, **plan):
    written = list(steps)[::-1] if turned else list(steps)
    return Ring({"goal": "g", "steps": written, **plan}, {"send": "effect"}).start()


def again(run):
    return run.crash().tick(5_000).resume(retry_failed=True)


# --- chains of fallbacks


@TWO_WAYS
def test_a_chain_of_fallbacks_begins_with_its_target_again(turned):
    run = ring(step("a"), step("b", fallback_for="a"), step("c", fallback_for="b"), turned=turned)
    for path in "abc":
        run.fail(path, "permanent")
    assert run.status() == "failed"
    again(run)
    for path in "ab":
        assert run.calls == [path]
        run.fail(path, "permanent")
    assert run.finish("c", 3).value("a") == 3
    assert run.status() == "done"


@TWO_WAYS
def test_what_was_done_by_its_fallback_is_not_done_again(turned):
    run = ring(step("x"), step("a"), step("b", fallback_for="a"), turned=turned)
    run.fail("a", "permanent").finish("b", 1).fail("x", "permanent")
    assert again(run).calls == ["x"]
    assert run.finish("x").status() == "done"
    assert run.value("a") == 1


@TWO_WAYS
def test_a_doubt_that_is_answered_failed_goes_to_the_fallback_that_was_cut_off(turned):
    run = ring(step("a", "send"), step("b", fallback_for="a"), step("c", fallback_for="b"), turned=turned)
    run.send("cancel").fail("a", "cancelled")
    assert again(run).answer("failed").calls == ["b"]
    assert run.fail("b", "permanent").finish("c").status() == "done"


@TWO_WAYS
def test_a_doubt_of_a_fallback_that_is_answered_failed_goes_to_the_next_one(turned):
    run = ring(step("a"), step("b", "send", fallback_for="a"), step("c", fallback_for="b"), turned=turned)
    run.fail("a", "permanent").send("cancel").fail("b", "cancelled")
    assert again(run).calls == []
    assert run.answer("failed").calls == ["c"]
    assert run.finish("c", 3).value("a") == 3
    assert run.status() == "done"


@TWO_WAYS
@pytest.mark.parametrize(("answer", "calls"), [("done", ["d"]), ("failed", ["c"]), ("retry", ["b/k"])])
def test_a_doubt_inside_a_fallback_keeps_its_target_from_being_tried_again(turned, answer, calls):
    inside = group("b", step("k", "send"), fallback_for="a")
    run = ring(step("a"), inside, step("c", fallback_for="b"), step("d", args={"a": "${a}"}), turned=turned)
    run.fail("a", "permanent").send("cancel").fail("b/k", "cancelled")
    assert run.status() == "cancelled"
    assert (again(run).calls, run.status()) == ([], "waiting")
    assert run.answer(answer, 5).calls == calls
    while run.calls:
        run.finish(run.calls[0])
    assert run.status() == "done"


@TWO_WAYS
def test_a_doubt_in_an_item_of_a_fallback_keeps_its_target_from_being_tried_again(turned):
    run = ring(step("a"), step("b", "send", foreach=[1, 2], fallback_for="a"), turned=turned)
    run.fail("a", "permanent").send("cancel").fail("b[0]", "cancelled").finish("b[1]", 2)
    assert (again(run).calls, run.status()) == ([], "waiting")
    assert run.answer("done", 1).value("a") == [1, 2]
    assert run.status() == "done"


@TWO_WAYS
@pytest.mark.parametrize("answer", ["done", "failed"])
def test_a_doubt_inside_a_composite_that_was_answered_before_it_is_taken_up_stays_answered(turned, answer):
    inside = [step("a", "send"), step("b", fallback_for="a"), step("c", fallback_for="b")]
    run = ring(group("p", *(inside[::-1] if turned else inside)), step("z", "send", after=["p"]))
    run.send("cancel").fail("p/a", "cancelled").crash()
    run.resume(retry_failed=True, changed_tools={"send": "new"})
    doubt, tools = run.questions
    run.answer(answer, 1, question=doubt).answer("go on", question=tools)
    if answer == "failed":
        assert run.calls == ["p/b"]
        run.fail("p/b", "permanent").finish("p/c", 1)
    assert run.calls == ["z"]
    assert run.value("p/a") == 1


# --- what came to nothing


def test_what_had_nothing_to_go_on_may_have_it_now():
    run = ring(
        step("a", on_error="continue"), step("b", after=["a"]), step("c", after=["b"]), step("x"),
        step("s", when="false"), step("t", after=["s"]),
    )  # fmt: skip
    run.fail("a", "permanent").fail("x", "permanent")
    assert run.statuses() == {
        "a": "failed", "b": "skipped", "c": "skipped", "x": "failed", "s": "skipped", "t": "skipped",
    }  # fmt: skip
    assert sorted(again(run).calls) == ["a", "x"]
    assert run.result.steps["b"].skipped_because == ""
    run.finish("a").finish("x").finish("b").finish("c")
    assert run.status() == "done"
    assert run.step("t").reason == "absent"  # its condition was false, and nobody asks it again


def test_what_had_nothing_to_go_on_outside_its_composite_may_have_it_now():
    run = ring(
        step("a", on_error="continue"),
        step("s", when="false"),
        group("p", step("k", after=["a"]), step("l"), step("m", after=["s"])),
    )
    run.fail("a", "permanent").fail("p/l", "permanent")
    assert run.status() == "failed"
    assert run.step("p/k").reason == "absent"
    assert sorted(again(run).calls) == ["a", "p/l"]
    run.finish("a").finish("p/l")
    assert (run.calls, run.status("p/m")) == (["p/k"], "skipped")
    assert run.finish("p/k").status() == "done"


def test_a_composite_that_came_to_nothing_for_a_failure_outside_is_taken_up():
    run = ring(
        step("a"),
        group("p", step("k", after=["a"], on_error="continue"), on_error="continue"),
        group("e", step("k", after=["a"], on_error="continue"), foreach=[1], on_error="continue"),
        group("n", step("k", when="false")),
    )
    run.fail("a", "permanent")
    assert [run.step(path).reason for path in ("p", "e", "n")] == ["empty"] * 3
    assert again(run).calls == ["a"]
    assert sorted(run.finish("a").calls) == ["e[0]/k", "p/k"]
    assert run.finish("p/k").finish("e[0]/k").status() == "done"
    assert run.step("n").reason == "empty"


def test_a_composite_that_came_to_nothing_by_conditions_stays_so():
    run = ring(
        step("a"), group("n", step("k", when="false")), group("m", step("k", when="false"), foreach=[1])
    )
    before = run.fail("a", "permanent").kinds.count("StepStarted")
    assert again(run).finish("a").status() == "done"
    assert run.kinds.count("StepStarted") == before + 1


# --- what was cut off


def test_a_foreach_all_of_whose_items_were_done_when_the_run_was_cancelled():
    run = ring(step("a"), step("e", foreach=[1]), group("p", step("k")))
    run.send("cancel").finish("e[0]", 1).finish("p/k", 2).fail("a", "cancelled")
    assert [run.status(path) for path in ("e", "p")] == ["cancelled", "cancelled"]
    assert again(run).calls == ["a"]
    assert (run.value("e"), run.value("p")) == ([1], {"k": 2})
    assert run.finish("a").status() == "done"


def test_items_that_failed_or_were_cut_off_are_done_again_and_no_others():
    run = ring(step("e", foreach=[1, 2, 3]), step("f", fallback_for="e"))
    run.finish("e[0]", 1).fail("e[1]", "permanent").send("cancel").fail("e[2]", "cancelled")
    assert again(run).calls == ["e[1]", "e[2]"]
    run.finish("e[1]", 2)
    assert again(run.send("cancel").fail("e[2]", "cancelled")).calls == ["e[2]"]
    assert run.finish("e[2]", 3).value("e") == [1, 2, 3]
    assert run.status() == "done"


def test_a_loop_is_taken_up_in_its_round():
    run = ring(step("a", loop={"times": 3, "collect": "all"}), step("n", "sleep", args={"seconds": 9}))
    run.finish("a", 1).fail("a", "permanent")
    run.send("cancel")
    assert again(run).calls == ["a"]
    run.finish("a", 2).finish("a", 3)
    assert run.value("a") == [1, 2, 3]
    assert (run.status("n"), run.next_wake_ms) == ("waiting", 15_000)  # its nine seconds begin anew
    assert run.tick(9_000).status() == "done"


def test_a_call_that_waited_for_its_next_attempt_is_called_at_once():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 60})).fail("a").send("cancel")
    assert again(run).calls == ["a"]
    assert run.step("a").attempt == 1


def test_join_any_sees_what_is_done_by_now():
    run = ring(step("a"), step("b"), step("c", args={"b": "${b}"}, after=["a"], join="any"))
    run.finish("a").finish("b", 2).fail("c", "permanent")
    assert run.args("c") == {"b": None}
    assert again(run).args("c") == {"b": 2}


def test_join_any_goes_at_once_with_what_is_done_and_the_rest_is_tried_again():
    run = ring(step("a"), step("b"), step("c", args={"b": "${b}"}, after=["a"], join="any"))
    run.finish("a").fail("c", "permanent").fail("b", "permanent")
    assert again(run).calls == ["b", "c"]
    assert run.args("c") == {"b": None}


# --- what it looks like


def test_what_is_done_again_looks_as_if_it_had_never_been_tried():
    run = ring(step("a"), step("b", after=["a"]))
    run.tick(10).fail("a", "permanent")
    told = again(run).result.steps["a"]
    assert (told.status, told.ended_at, told.error, told.seconds) == ("running", None, None, None)
    assert run.step("a").error is None
    assert run.step("b").because == ()
    assert run.result.error is None
    assert run.result.ended_at is None


def test_what_is_under_way_again_ends_the_critical_path():
    run = ring(step("a"), step("b"))
    run.tick(10).fail("a", "permanent").tick(10).finish("b")
    again(run).tick(50)
    found = critical_path(run.state)
    assert ([one.path for one in found.steps], found.seconds) == (["a"], 0.01)


def test_no_time_counts_in_which_the_run_had_ended():
    run = ring(step("a"), step("b"))
    run.tick(100).finish("b").fail("a", "permanent")
    again(run).tick(100).finish("a")
    assert run.state.idle_ms == 5_000
    assert run.result.parallel_efficiency == pytest.approx(1 - 200 / 300)


def test_a_run_that_was_paused_or_stopped_and_cancelled_goes_on_when_it_is_taken_up():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("pause").send("cancel").fail("a", "cancelled")
    assert (run.status(), again(run).status()) == ("cancelled", "running")
    assert run.finish("a").finish("b").status() == "done"
