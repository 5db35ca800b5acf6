"""Within one turn: who goes before whom among equals, what a freed place starts, what is passed over."""

from __future__ import annotations

import pytest

from kedge.flow.events import StepFailed, StepStarted, StepSucceeded, plain
from kedge.testing.ring import Places, Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, gate=None, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}, gate=gate).start()


# --- first come, first served


def test_items_go_in_their_order():
    assert ring(step("e", foreach=[1, 2, 3])).calls == ["e[0]", "e[1]", "e[2]"]


def test_the_same_step_of_several_items_goes_in_the_order_of_the_items():
    run = ring(group("p", step("k", when="item > 0"), foreach=[1, 2, 3]))
    assert run.calls == ["p[0]/k", "p[1]/k", "p[2]/k"]


def test_items_that_wait_for_another_attempt_go_in_the_order_in_which_they_failed():
    run = ring(step("e", foreach=[1, 2, 3], retry={"attempts": 2, "backoff_s": 1}))
    run.fail("e[2]").fail("e[0]").fail("e[1]").tick(1_000)
    assert run.calls == ["e[2]", "e[0]", "e[1]"]


def test_sleeps_of_the_same_time_end_in_their_order():
    run = ring(step("e", "sleep", foreach=[1, 2, 3], args={"seconds": 1})).tick(1_000)
    assert [event.path for event in run.of(StepSucceeded)][:3] == ["e[0]", "e[1]", "e[2]"]


# --- places


def test_a_place_that_was_not_needed_goes_to_one_that_waits_for_it_in_the_same_turn():
    gate = Places({"narrow": 1})
    run = ring(
        step("a"), step("x", "narrow", priority=1), step("bad", "narrow", args={"x": "${a.n}"}),
        step("good", "narrow", after=["a"]), step("more", "narrow", after=["a"]), gate=gate,
    )  # fmt: skip
    run.finish("a", {})
    assert (run.calls, run.status("bad")) == (["x"], "ready")
    run.finish("x")
    assert (run.calls, run.status("bad")) == (["good"], "failed")
    assert run.finish("good").finish("more").status() == "failed"


def test_items_that_wait_for_a_place_and_for_another_attempt():
    gate = Places({"narrow": 1})
    run = ring(step("e", "narrow", foreach=[1, 2], retry={"attempts": 2, "backoff_s": 1}), gate=gate)
    run.fail("e[0]")
    assert run.calls == ["e[1]"]
    assert run.tick(1_000).calls == ["e[1]"]  # its time has come, and its place has not
    assert run.crash().resume().calls == ["e[0]"]  # the place of the call that is gone
    run.finish("e[0]")
    assert run.calls == ["e[1]"]
    assert run.finish("e[1]").status() == "done"


# --- what is skipped is not begun


@pytest.mark.parametrize("why", ["condition", "dependency", "absent"])
@pytest.mark.parametrize(
    "what",
    [
        group("b", step("k")),
        step("b", foreach=[1]),
        step("b", "sleep", args={"seconds": 1}),
        step("b", loop={"times": 2}),
        step("b"),
    ],
    ids=["composite", "foreach", "sleep", "loop", "call"],
)
def test_what_is_skipped_is_not_begun(why, what):
    first = step("a", when="false") if why == "absent" else step("a")
    more = {"when": "false"} if why == "condition" else {"after": ["a"]}
    run = ring(first, {**what, **more})
    if why == "dependency":
        run.fail("a", "permanent")
    assert (run.status("b"), run.step("b").reason) == ("skipped", why)
    assert run.of(StepStarted, "b") == []
    assert list(run.statuses()) == ["a", "b"]


def test_join_any_goes_on_with_a_success_although_a_required_step_failed():
    run = ring(step("a"), step("b"), step("c", after=["a", "b"], join="any"))
    run.fail("a", "permanent").finish("b")
    assert run.calls == ["c"]
    assert run.finish("c").status() == "failed"


def test_join_all_is_skipped_for_a_failure_although_others_are_done():
    run = ring(step("a"), step("b"), step("c", after=["a", "b"]))
    assert run.finish("b").fail("a", "permanent").step("c").because == ("a",)


# --- what a start says


def test_the_start_of_a_composite_says_its_attempt_round_and_generation():
    run = ring(group("p", step("k"), loop={"times": 2}, retry={"attempts": 2, "backoff_s": 0}))
    run.finish("p#0/k").fail("p#1/k").fail("p#1/k", "permanent").crash().resume(retry_failed=True)
    assert [plain(event) for event in run.of(StepStarted, "p")] == [
        {"kind": "StepStarted", "path": "p"},
        {"kind": "StepStarted", "path": "p", "iteration": 1},
        {"kind": "StepStarted", "path": "p", "attempt": 2, "iteration": 1, "generation": 1},
        {"kind": "StepStarted", "path": "p", "iteration": 1, "generation": 1, "cause": "again"},
    ]


def test_the_start_of_a_call_says_the_same_of_its_generation():
    run = ring(group("p", step("k", loop={"times": 2}), retry={"attempts": 2, "backoff_s": 0}))
    run.fail("p/k").finish("p/k").finish("p/k")
    assert [plain(event) for event in run.of(StepStarted, "p/k")] == [
        {"kind": "StepStarted", "path": "p/k", "args": {}},
        {"kind": "StepStarted", "path": "p/k", "generation": 1, "args": {}},
        {"kind": "StepStarted", "path": "p/k", "iteration": 1, "generation": 1, "args": {}},
    ]


def test_a_second_attempt_has_arguments_of_16_kib_in_its_event_too():
    run = ring(step("a"), step("b", args={"x": "${a}"}, retry={"attempts": 2, "backoff_s": 0}))
    run.finish("a", "x" * (16 * 1024 - 8)).fail("b")
    assert [len(event.args) for event in run.of(StepStarted, "b")] == [16 * 1024] * 2


def test_a_sleep_that_cannot_be_says_where_and_what_to_do():
    run = ring(step("a"), step("nap", "sleep", args={"seconds": "${a}"})).finish("a", "soon")
    said = run.of(StepFailed, "nap")[0].error.message
    assert "nap" in said
    assert "pass a number within a year" in said


# --- how long an attempt is waited for


@pytest.mark.parametrize(("asked_s", "waited_ms"), [(1, 5_000), (30, 30_000), (86_400, 60_000)])
def test_a_tool_that_names_a_time_is_believed_within_the_steps_own_bounds(asked_s, waited_ms):
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 5, "max_backoff_s": 60}))
    run.fail("a", "rate_limited", retry_after_s=asked_s)
    assert run.next_wake_ms == run.now_ms + waited_ms


def test_the_backoff_doubles_without_end_up_to_its_maximum():
    run = ring(step("a", retry={"attempts": 40, "backoff_s": 0.001, "max_backoff_s": 1e7}))
    for number in range(36):
        run.fail("a")
        assert run.next_wake_ms is not None
        wait_s = min(0.001 * 2**number, 1e7)
        assert run.next_wake_ms - run.now_ms == int(wait_s * 1000)
        run.tick(run.next_wake_ms - run.now_ms)


def test_what_has_waited_for_its_place_goes_before_what_is_less_urgent():
    gate = Places({"narrow": 1})
    run = ring(
        step("x", "narrow", priority=9), step("a", "narrow", priority=5), step("y", priority=1), step("c"),
        gate=gate, limits={"parallel": 2},
    )  # fmt: skip
    assert run.calls == ["x", "y"]
    assert run.finish("x").calls == ["y", "a"]
