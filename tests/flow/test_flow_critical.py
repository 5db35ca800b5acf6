"""The critical path: what the end had to wait for, through rounds, attempts, fallbacks and equal times."""

from __future__ import annotations

from kedge.flow.critical import critical_path
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps):
    return Ring({"goal": "g", "steps": list(steps)}, {}).start()


def path(run):
    found = critical_path(run.state)
    return found.seconds, [step.path for step in found.steps]


def test_steps_that_end_in_the_same_millisecond_keep_their_order():
    run = ring(step("c", after=["b"]), step("b", after=["a"]), step("a")).tick(50)
    run.finish("a").finish("b").fail("c", "permanent")
    assert path(run) == (0.05, ["a", "b", "c"])


def test_it_goes_through_all_rounds_of_a_composite_and_the_delays_between_them():
    run = ring(group("y", step("p"), step("q"), loop={"times": 3, "delay_s": 1}))
    for number in range(3):
        run.tick(100).finish(f"y#{number}/p").tick(200).finish(f"y#{number}/q").tick(1000)
    assert run.status() == "done"
    assert path(run) == (2.9, ["y#0/q", "y#1/q", "y#2/q"])


def test_a_long_round_counts_even_if_the_last_one_was_short():
    run = ring(group("y", step("p"), loop={"times": 2}))
    run.tick(5000).finish("y#0/p").tick(10).finish("y#1/p")
    assert path(run)[0] == 5.01


def test_it_goes_through_all_attempts_of_a_composite_and_the_backoff_between_them():
    run = ring(group("y", step("p"), step("q", after=["p"]), retry={"attempts": 2, "backoff_s": 1}))
    run.tick(100).finish("y/p").tick(100).fail("y/q").tick(1000)
    run.tick(100).finish("y/p").tick(100).finish("y/q")
    assert path(run) == (1.4, ["y/p", "y/q", "y/p", "y/q"])
    assert critical_path(run.state).top == ["y"]


def test_rounds_count_after_attempts_that_others_replaced():
    loop = {"times": 2}
    run = ring(
        group("y", step("p"), loop=loop, retry={"attempts": 2, "backoff_s": 0}), step("z", after=["y"])
    )
    run.tick(100).fail("y#0/p").tick(100).finish("y#0/p").tick(100).finish("y#1/p").tick(100).finish("z")
    run.crash()
    assert path(run) == (0.4, ["y#0/p", "y#0/p", "y#1/p", "z"])
    assert run.state.total == 4  # attempts that were replaced are no steps of the run


def test_what_a_join_went_without_is_not_on_it():
    run = ring(step("a"), step("b"), step("c", join="any", after=["a", "b"]))
    run.tick(100).finish("a").tick(500).finish("b").tick(600).finish("c")
    assert path(run) == (1.2, ["a", "c"])


def test_waiting_for_a_place_does_not_count_and_waiting_for_a_time_does():
    run = Ring({"goal": "g", "limits": {"parallel": 1}, "steps": [step("a"), step("b"), nap()]}, {}).start()
    run.tick(1000).finish("a").tick(500).finish("b")
    assert path(run) == (1.5, ["n"])  # not a and b, one after the other
    run.tick(500)
    assert path(run) == (2.0, ["n"])


def nap():
    return step("n", "sleep", args={"seconds": 2})


def test_what_is_under_way_for_longest_ends_the_path_of_a_live_run():
    run = ring(step("a"), step("b", after=["a"]), step("c"))
    run.tick(100).finish("a")
    assert path(run) == (0.1, ["c"])
