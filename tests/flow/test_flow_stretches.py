"""What a step did when: attempts, and the waits before and between them."""

from __future__ import annotations

from kedge.flow.stretches import stretches
from kedge.testing.ring import Ring


def ring(*steps, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}).start()


def told(run, path):
    return [
        (one.what, one.end - one.start, one.status.value) for one in stretches(run.step(path), run.now_ms)
    ]


def test_attempts_and_the_backoff_between_them():
    run = ring({"id": "a", "tool": "t", "retry": {"attempts": 2, "backoff_s": 1}})
    run.tick(10).fail("a").tick(1000).tick(20)
    assert told(run, "a") == [("run", 10, "failed"), ("wait", 1000, "running"), ("run", 20, "running")]


def test_what_is_not_known_to_have_had_its_effect_and_what_was_cut_off():
    run = ring({"id": "a", "tool": "send"}, {"id": "b", "tool": "t"})
    run.tick(10).fail("a", "timeout").send("cancel").fail("b", "cancelled")
    assert told(run, "a") == [("run", 10, "in_doubt")]
    assert told(run, "b") == [("run", 10, "cancelled")]


def test_a_call_whose_driver_was_lost_waits_for_a_place_not_for_a_time():
    run = ring({"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}, limits={"parallel": 1})
    run.tick(10).crash().resume().tick(5)
    assert told(run, "a") == [("run", 10, "cancelled"), ("run", 5, "running")]
    assert told(run, "b") == []


def test_rounds_of_a_composite_are_groups():
    run = ring({"id": "y", "steps": [{"id": "p", "tool": "t"}], "loop": {"times": 2, "delay_s": 1}})
    run.tick(10).finish("y#0/p").tick(1000).tick(20).finish("y#1/p")
    assert told(run, "y") == [("group", 10, "done"), ("wait", 1000, "done"), ("group", 20, "done")]


def test_a_sleep_is_a_wait():
    run = ring({"id": "n", "tool": "sleep", "args": {"seconds": 1}, "loop": {"times": 2}})
    run.tick(1000).tick(400)
    assert told(run, "n") == [("wait", 1000, "done"), ("wait", 400, "waiting")]
