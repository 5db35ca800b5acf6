"""The critical path and the stretches of a step's time, in their corners."""

from __future__ import annotations

from kedge.flow.critical import around, critical_path
from kedge.flow.stretches import spent_ms, stretches
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}).start()


def path(run):
    found = critical_path(run.state)
    return found.seconds, [one.path for one in found.steps]


def told(run, name):
    found = stretches(run.step(name), run.now_ms)
    return [(one.what, one.end - one.start, str(one.status)) for one in found]


# --- the path


def test_before_anything_began_there_is_none():
    run = Ring({"goal": "g", "steps": [step("a")]})
    assert path(run) == (0.0, [])
    assert path(ring(step("a", "sleep", args={"seconds": 1}), step("b", after=["a"]))) == (0.0, ["a"])


def test_it_leads_into_items_and_composites_to_what_ended_last_in_them():
    run = ring(
        step("e", foreach=[1, 2]), group("p", step("k"), step("l"), after=["e"]), step("z", after=["p"])
    )
    run.tick(10).finish("e[1]").tick(10).finish("e[0]").tick(10).finish("p/l").tick(10).finish("p/k")
    run.tick(10).finish("z")
    assert path(run) == (0.05, ["e[0]", "p/k", "z"])
    assert critical_path(run.state).top == ["e", "p", "z"]


def test_it_leads_past_a_composite_that_began_early():
    run = ring(step("a"), group("p", step("k"), step("l", after=["a"])), step("z", after=["p"]))
    run.tick(10).finish("p/k").tick(10).finish("a").tick(10).finish("p/l").tick(10).finish("z")
    assert path(run) == (0.04, ["a", "p/l", "z"])


def test_it_leads_through_what_a_composite_waited_for():
    run = ring(step("a"), group("p", step("k"), after=["a"]))
    run.tick(10).finish("a").tick(10).finish("p/k")
    assert path(run) == (0.02, ["a", "p/k"])


def test_it_leads_through_a_target_to_its_fallback_and_to_who_reads_them():
    run = ring(step("f", fallback_for="a"), step("a"), step("z", after=["a"]))
    run.tick(10).fail("a", "permanent").tick(10).finish("f").tick(10).finish("z")
    assert path(run) == (0.03, ["a", "f", "z"])


def test_a_chain_of_fallbacks_is_gone_through_one_by_one():
    run = ring(step("a"), step("b", fallback_for="a"), step("c", fallback_for="b"), step("z", after=["a"]))
    run.tick(10).fail("a", "permanent").tick(10).fail("b", "permanent").tick(10).finish("c").tick(10).finish(
        "z"
    )
    assert path(run) == (0.04, ["a", "b", "c", "z"])


def test_what_was_skipped_is_not_on_it():
    run = ring(
        step("a"),
        step("b", when="a", after=["a"]),
        step("c", after=["a", "b"]),
        group("p", step("k", when="false")),
        step("z", after=["c", "p"]),
    )
    run.tick(10).finish("a", False).tick(10).finish("c").tick(10).finish("z")
    assert path(run) == (0.03, ["a", "c", "z"])


def test_a_round_in_which_nothing_was_done_is_passed_over_with_its_delay():
    inside = step("k", when="loop.index != 1")
    run = ring(group("p", inside, loop={"times": 3, "delay_s": 1}), step("z", after=["p"]))
    run.tick(10).finish("p#0/k").tick(1_000).tick(1_000).tick(10).finish("p#2/k").tick(10).finish("z")
    assert run.status() == "done"
    seconds, steps = path(run)
    assert steps == ["p#0/k", "p#2/k", "z"]
    assert seconds in (1.03, 2.03)


def test_pauses_of_an_inner_loop_and_of_the_one_around_it_add_up():
    inner = group("q", step("k", when="loop.index == 0"), loop={"times": 2, "delay_s": 1})
    run = ring(group("p", inner, loop={"times": 2, "delay_s": 5}))
    run.tick(10).finish("p#0/q#0/k").tick(1_000).tick(5_000).tick(10).finish("p#1/q#0/k").tick(1_000)
    assert run.status() == "done"
    assert path(run) == (6.02, ["p#0/q#0/k", "p#1/q#0/k"])


def test_a_last_round_in_which_nothing_was_done_is_passed_over():
    run = ring(group("p", step("k", when="loop.index == 0"), loop={"times": 2}), step("z", after=["p"]))
    run.tick(10).finish("p#0/k").tick(10).finish("z")
    assert path(run) == (0.02, ["p#0/k", "z"])


def test_the_wait_for_another_attempt_of_a_call_counts():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 1}), step("z", after=["a"]))
    run.tick(10).fail("a").tick(1_000).tick(10).finish("a").tick(10).finish("z")
    assert path(run) == (1.03, ["a", "z"])


def test_what_runs_is_later_than_what_has_ended():
    run = ring(step("a"), step("b"), step("c", after=["a"]))
    run.tick(10).finish("a").tick(10).finish("b")
    assert path(run)[1] == ["a", "c"]


def test_around_a_step_is_all_that_holds_it_outward():
    run = ring(group("p", group("q", step("e", foreach=[1])), foreach=[1]))
    names = [one.path for one in around(run.step("p[0]/q/e[0]"))]
    assert names == ["p[0]/q/e[0]", "p[0]/q/e", "p[0]/q", "p[0]", "p"]


# --- stretches


def test_what_has_not_begun_has_none():
    run = ring(step("a"), step("b", after=["a"])).tick(10)
    assert told(run, "b") == []
    assert spent_ms(run.step("b"), run.now_ms) == 0


def test_a_wait_for_a_place_comes_first():
    run = ring(step("a"), step("b"), limits={"parallel": 1}).tick(10).finish("a").tick(20)
    assert told(run, "b") == [("queue", 10, "running"), ("run", 20, "running")]
    assert spent_ms(run.step("b"), run.now_ms) == 20
    run.finish("b")
    assert told(run, "b") == [("queue", 10, "done"), ("run", 20, "done")]


def test_a_step_that_waits_for_its_next_attempt_waits():
    run = ring(step("a", retry={"attempts": 3, "backoff_s": 5})).tick(10).fail("a").tick(7)
    assert told(run, "a") == [("run", 10, "failed"), ("wait", 7, "waiting")]
    assert spent_ms(run.step("a"), run.now_ms) == 17


def test_a_step_whose_next_attempt_waits_for_a_place():
    run = ring(step("a"), step("b"), limits={"parallel": 2}).tick(10)
    run.send("pause").crash().resume().tick(30)
    assert told(run, "a") == [("run", 10, "cancelled"), ("queue", 30, "ready")]
    assert spent_ms(run.step("a"), run.now_ms) == 10
    run.send("unpause").tick(5).finish("a")
    assert told(run, "a") == [("run", 10, "cancelled"), ("queue", 30, "done"), ("run", 5, "done")]


def test_rounds_of_a_call_and_the_delays_between_them():
    run = (
        ring(step("a", loop={"times": 2, "delay_s": 1})).tick(10).finish("a").tick(1_000).tick(5).finish("a")
    )
    assert told(run, "a") == [("run", 10, "done"), ("wait", 1_000, "done"), ("run", 5, "done")]


def test_waits_between_the_first_attempts_are_told_too():
    run = ring(step("a", retry={"attempts": 3, "backoff_s": 1})).tick(10).fail("a").tick(1_000).tick(20)
    run.fail("a").tick(2_000).tick(30).finish("a")
    assert told(run, "a") == [
        ("run", 10, "failed"), ("wait", 1_000, "done"), ("run", 20, "failed"), ("wait", 2_000, "done"),
        ("run", 30, "done"),
    ]  # fmt: skip


def test_the_pause_before_a_sleep_is_told_apart_from_it():
    run = ring(step("n", "sleep", args={"seconds": 2}, loop={"times": 2, "delay_s": 3}))
    run.tick(2_000).tick(3_000).tick(500)
    assert told(run, "n") == [("wait", 2_000, "done"), ("wait", 3_000, "waiting"), ("wait", 500, "waiting")]


def test_a_call_that_was_cut_off_at_once_waits_for_its_place():
    run = ring(step("a")).send("pause").crash().resume().tick(30)
    assert told(run, "a") == [("run", 0, "cancelled"), ("queue", 30, "ready")]


def test_a_group_of_no_time_is_one():
    run = ring(group("p", step("k")), step("e", foreach=[1])).finish("p/k").finish("e[0]")
    assert (told(run, "p"), told(run, "e")) == ([("group", 0, "done")], [("group", 0, "done")])


def test_a_foreach_and_a_composite_are_groups():
    run = ring(step("e", foreach=[1]), group("p", step("k"))).tick(10).finish("e[0]").finish("p/k").tick(10)
    assert (told(run, "e"), told(run, "p")) == ([("group", 10, "done")], [("group", 10, "done")])


def test_an_attempt_of_no_time_is_one():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 0})).fail("a").finish("a")
    assert told(run, "a") == [("run", 0, "failed"), ("run", 0, "done")]


def test_after_a_run_was_taken_up_a_wait_for_a_place_comes_before_the_next_attempt():
    run = ring(step("b"), step("a"), limits={"parallel": 1})
    run.tick(10).fail("b", "permanent").tick(10).fail("a", "permanent")
    run.crash().tick(60_000).resume(retry_failed=True).tick(30)
    assert told(run, "a") == [("run", 10, "failed"), ("queue", 30, "ready")]
    run.finish("b").tick(5).finish("a")
    assert told(run, "a") == [("run", 10, "failed"), ("queue", 30, "done"), ("run", 5, "done")]
    assert spent_ms(run.step("a"), run.now_ms) == 15


def test_after_a_run_was_taken_up_what_waits_for_others_does_nothing():
    run = ring(step("a"), step("b", after=["a"]))
    run.tick(10).finish("a").tick(10).fail("b", "permanent").tick(50).resume(retry_failed=True).tick(5)
    assert told(run, "b") == [("run", 10, "failed"), ("run", 5, "running")]
    run = ring(step("x"), step("a", fallback_for="x")).tick(10).fail("x", "permanent").tick(10)
    run.fail("a", "permanent").resume(retry_failed=True).tick(30)
    assert told(run, "a") == [("run", 10, "failed")]
    assert spent_ms(run.step("a"), run.now_ms) == 10
