"""What is to happen now and what next: places, ranks, timers, and where a run stands meanwhile."""

from __future__ import annotations

import pytest

from kedge.base.errors import InternalError
from kedge.base.limits import Limits
from kedge.flow.events import StepExpanded, StepStarted, plain
from kedge.flow.inputs import Exhausted
from kedge.flow.names import item_bytes
from kedge.flow.program import compile_plan
from kedge.plan.model import Plan
from kedge.plan.tools import Catalog, ToolSpec
from kedge.testing.ring import Places, Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, gate=None, limits=None, **plan):
    document = {"goal": "g", "steps": list(steps), **plan}
    return Ring(document, {"send": "effect"}, gate=gate, limits=limits or Limits()).start()


def in_order(run, most=100):
    order = []
    while run.calls and len(order) < most:
        order.append(run.calls[0])
        run.finish(run.calls[0])
    return order


# --- who goes first


def test_steps_alike_go_as_they_are_written():
    assert in_order(ring(step("c"), step("a"), step("b"), limits=Limits(parallel=1))) == ["c", "a", "b"]


def test_priority_counts_more_than_the_remaining_path_and_may_be_below_none():
    run = ring(
        step("low", priority=-1, estimate={"seconds": 100}), step("none"), step("high", priority=2),
        limits=Limits(parallel=1),
    )  # fmt: skip
    assert in_order(run) == ["high", "none", "low"]


def test_the_longest_of_several_paths_counts():
    run = ring(
        step("a"), step("a1", after=["a"]), step("a2", after=["a"], estimate={"seconds": 8}),
        step("b"), step("b1", after=["b"], estimate={"seconds": 5}), step("b2", after=["b"]),
        step("c"), step("c1", after=["c"], estimate={"seconds": 2}), step("c2", after=["c1"]),
        step("x"),
        limits=Limits(parallel=1),
    )  # fmt: skip
    order = in_order(run)
    assert [path for path in order if path in "abcx"] == ["a", "b", "c", "x"]
    assert order[:2] == ["a", "a2"]


@pytest.mark.parametrize("turned", [False, True])
def test_the_whole_way_to_the_end_counts_whatever_the_order_in_which_it_is_written(turned):
    way = [
        step("head"), step("mid", after=["head"]), step("fork", after=["mid"]),
        step("long", after=["fork"], estimate={"seconds": 9}), step("short", after=["fork"]),
    ]  # fmt: skip
    other = step("other", estimate={"seconds": 9.5})
    run = ring(other, *(way[::-1] if turned else way), limits=Limits(parallel=1))
    assert in_order(run) == ["head", "mid", "fork", "other", "long", "short"]


def test_what_comes_before_a_composite_counts_what_is_in_it():
    inside = step("k", estimate={"seconds": 5}), step("l", estimate={"seconds": 2})
    run = ring(
        step("x", estimate={"seconds": 5}), step("y", estimate={"seconds": 7}), step("a"),
        group("p", *inside, after=["a"]), limits=Limits(parallel=1),
    )  # fmt: skip
    assert in_order(run) == ["y", "a", "x", "p/k", "p/l"]


def test_a_composite_weighs_what_is_in_it_and_what_hangs_on_it():
    run = ring(
        step("x", estimate={"seconds": 6}),
        group("p", step("k", estimate={"seconds": 2}), step("l", after=["k"], estimate={"seconds": 3})),
        step("y", after=["p"], estimate={"seconds": 4}),
        step("z", estimate={"seconds": 8}),
        limits=Limits(parallel=1),
    )
    assert in_order(run) == ["p/k", "z", "p/l", "x", "y"]


def test_a_loop_weighs_all_its_rounds_and_the_delays_between_them():
    run = ring(
        step("x", estimate={"seconds": 7}),
        step("a", estimate={"seconds": 1}, loop={"times": 3, "delay_s": 2}),
        step("b", estimate={"seconds": 2}, loop={"times": 4}),
        limits=Limits(parallel=1),
    )
    assert in_order(run, 2) == ["b", "b"]
    assert [run.step(id_).node.weight_s for id_ in "xab"] == [7.0, 7.0, 8.0]


def test_ranks_run_through_all_scopes():
    run = ring(step("a"), group("p", step("k"), group("q", step("l"))))
    nodes = [run.step(path).node for path in ("a", "p")]
    assert sorted(node.rank for node in run.state.program.nodes) == list(range(5))
    assert nodes[0].rank == 0 or nodes[1].rank == 0


# --- places


def test_a_tool_with_two_places_runs_two_at_once():
    run = ring(*(step(f"s{number}", "narrow") for number in range(4)), gate=Places({"narrow": 2}))
    assert run.calls == ["s0", "s1"]
    assert run.finish("s0").calls == ["s1", "s2"]
    assert run.finish("s1").finish("s2").calls == ["s3"]


def test_places_that_come_free_are_filled_in_one_turn():
    gate = Places({"narrow": 2})
    run = ring(*(step(f"s{number}", "narrow") for number in range(5)), gate=gate)
    run.send("pause").finish("s0").finish("s1")
    assert (run.calls, gate.left) == ([], {"narrow": 2})
    assert run.send("unpause").calls == ["s2", "s3"]


def test_a_call_that_waits_for_a_place_is_started_once_after_a_crash():
    gate = Places({"narrow": 1})
    run = ring(step("a", "narrow"), step("b", "narrow"), gate=gate)
    run.crash().resume()
    assert run.calls == ["a"]
    run.finish("a")
    assert (run.calls, run.finish("b").status()) == (["b"], "done")
    assert [path for path, _ in run.launched] == ["a", "a", "b"]


@pytest.mark.parametrize("size", [10, 3_000])
def test_the_place_of_a_call_that_failed_before_it_was_made_goes_to_the_next(size):
    gate = Places({"narrow": 1})
    run = ring(
        step("a"), step("bad", "narrow", args={"x": "${a}"}), step("good", "narrow", after=["a"]),
        gate=gate, limits=Limits(args_bytes=100 if size > 100 else 10),
    )  # fmt: skip
    run.finish("a", "x" * size)
    assert (run.status("bad"), run.calls) == ("failed", ["good"])
    run.finish("good")
    assert gate.left == {"narrow": 1}


def test_a_step_that_failed_before_its_call_ends_the_run_in_the_same_turn():
    run = ring(step("a"), step("b", args={"x": "${a.n}"})).finish("a", {})
    assert run.status() == "failed"


# --- the limit of calls


def test_the_limit_of_calls_is_asked_about_after_those_that_may_be_made():
    run = ring(step("a"), step("b"), step("c"), limits=Limits(calls=2))
    assert (run.calls, run.kinds[-2:]) == (["a", "b"], ["LimitReached", "QuestionAsked"])
    assert run.state.status == "running"
    assert run.answer("raise", 3).calls == ["a", "b", "c"]


# --- timers


def test_the_next_wake_is_the_first_timer_that_still_means_something():
    run = ring(step("n", "sleep", args={"seconds": 5}), step("r", retry={"attempts": 2, "backoff_s": 2}))
    assert run.next_wake_ms == 6_000
    run.fail("r")
    assert run.next_wake_ms == 3_000
    run.tick(2_000)
    assert run.next_wake_ms == 6_000
    assert run.send("cancel").finish("r").next_wake_ms is None


def test_two_timers_of_the_same_time_go_off_together_and_in_their_order():
    run = ring(*(step(id_, retry={"attempts": 2, "backoff_s": 1}) for id_ in "ab"))
    assert run.fail("b").fail("a").tick(1_000).calls == ["a", "b"]
    run = ring(*(step(id_, "sleep", args={"seconds": 1}) for id_ in "ab")).tick(1_000)
    assert run.status() == "done"


def test_a_sleep_ends_at_its_millisecond():
    run = ring(step("n", "sleep", args={"seconds": 0.25}), step("b", after=["n"]))
    assert run.tick(249).calls == []
    assert run.tick(1).calls == ["b"]
    assert (run.step("n").attempt, run.value("n")) == (1, None)


def test_a_loop_that_sleeps_tells_its_sleeps_from_its_delays():
    run = ring(step("n", "sleep", args={"seconds": 2}, loop={"times": 2, "delay_s": 3}))
    wakes = []
    while run.next_wake_ms is not None:
        wakes.append(run.next_wake_ms)
        run.tick(run.next_wake_ms - run.now_ms)
    assert (wakes, run.status()) == ([3_000, 6_000, 8_000], "done")


# --- what is stored with what


def test_values_up_to_16_kib_are_in_their_events_and_larger_ones_are_not():
    run = ring(step("a"), step("b", args={"x": "${a}"}), step("e", foreach="${a}", on_error="continue"))
    run.finish("a", "x" * (16 * 1024 - 2))
    assert run.blobs == {}
    run = ring(step("a"))
    run.finish("a", "x" * (16 * 1024 - 1))
    assert len(run.blobs) == 1


def test_arguments_of_16_kib_are_in_the_event_and_larger_ones_by_their_hash():
    run = ring(step("a"), step("b", args={"x": "${a}"}))
    run.finish("a", "x" * (16 * 1024 - 8))
    assert "args_hash" not in plain(run.of(StepStarted, "b")[0])
    run = ring(step("a"), step("b", args={"x": "${a}"}))
    run.finish("a", "x" * (16 * 1024 - 7))
    assert "args" not in plain(run.of(StepStarted, "b")[0])
    assert len(plain(run.of(StepStarted, "b")[0])["args_hash"]) == 64


def test_items_up_to_16_kib_are_in_the_event():
    run = ring(step("a"), step("b", foreach="${a}")).finish("a", ["x" * (16 * 1024 - 4)])
    assert run.of(StepExpanded)[0].blob is None
    run = ring(step("a"), step("b", foreach="${a}")).finish("a", ["x" * (16 * 1024 - 3)])
    assert run.of(StepExpanded)[0].blob is not None


def test_the_version_of_the_plan_is_kept_with_what_was_done():
    run = ring(step("a"), step("e", foreach=[1]), group("p", step("k")), step("b"))
    run.state.version = run._shadow.version = 3
    run.finish("a").finish("e[0]").finish("p/k").finish("b", "x" * 20_000)
    told = [plain(event) for event in run.events if "Succeeded" in plain(event)["kind"]]
    assert [event["version"] for event in told] == [3] * 6


# --- where a run stands


def test_a_run_waits_where_only_people_can_move_it():
    run = ring(step("a", "send"), step("b"), step("n", "sleep", args={"seconds": 1}))
    run.fail("a", "timeout")
    assert run.status() == "running"
    assert run.finish("b").status() == "running"  # the sleep goes on
    assert run.tick(1_000).status() == "waiting"
    assert run.crash().status() == "waiting"


def test_a_run_that_waits_for_a_place_is_running():
    gate = Places({"narrow": 0})
    run = ring(step("a", "send"), step("b", "narrow"), gate=gate)
    run.fail("a", "timeout")
    assert run.status() == "running"
    gate.left["narrow"] = 1
    assert run.tick().calls == ["b"]


def test_a_run_that_is_blocked_while_calls_are_in_flight_is_running_and_then_waits():
    run = ring(step("a"), step("b", after=["a"]), limits=Limits(journal_bytes=10))
    run.put(Exhausted("journal_bytes", 10))
    assert run.status() == "running"
    assert run.finish("a").status() == "waiting"


def test_a_paused_run_is_paused_whatever_else_it_waits_for():
    run = ring(step("a", "send"), step("b")).send("pause")
    assert run.status() == "paused"
    assert run.fail("a", "timeout").finish("b").status() == "paused"
    assert run.send("unpause").status() == "waiting"


def test_a_cancelled_pause_is_none():
    run = ring(step("a")).send("pause").send("cancel")
    assert run.status() == "cancelling"
    assert not run.state.paused


@pytest.mark.parametrize("what", ["e", "p"])
def test_a_run_whose_last_step_is_still_to_be_closed_can_move(what):
    run = ring(step("a", "send"), step("e", foreach=[1]), group("p", step("k")))
    run.fail("a", "timeout")
    path = {"e": "e[0]", "p": "p/k"}[what]
    other = {"e": "p/k", "p": "e[0]"}[what]
    run.finish(other).send("pause").finish(path).crash()
    assert run.status() == "paused"
    run.state.paused = run._shadow.paused = False  # as if it had been unpaused by one who only looks
    assert run.status() == "running"


# --- a plan made ready


CATALOG = Catalog(
    [
        ToolSpec(name="t", parameters={"type": "object"}, effect="read", resources=("disk",), parallel=None),
        ToolSpec(name="one", parameters={"type": "object"}, effect="pure", parallel=1),
        ToolSpec(name="plain", parameters={"type": "object"}, effect="pure"),
    ]
)


def compiled(*steps, effects=None):
    return compile_plan(Plan.parse({"goal": "g", "steps": list(steps)}), CATALOG, effects)


def test_the_stronger_of_two_effect_classes_counts():
    program = compiled(
        step("a"), step("b", "plain"), step("c", "gone"), group("p", step("k", "plain")),
        effects={"t": "pure", "plain": "idempotent", "gone": "effect"},
    )  # fmt: skip
    assert [node.effect for node in program.root.nodes] == ["read", "idempotent", "effect", "idempotent"]


def test_without_a_run_the_tools_of_today_count():
    program = compiled(step("a"), step("b", "plain"), step("c", "gone"))
    assert [node.effect for node in program.root.nodes] == ["read", "pure", "pure"]


def test_the_tools_of_a_plan_are_those_it_calls():
    program = compiled(step("a"), step("n", "sleep", args={"seconds": 1}), group("p", step("k", "plain")))
    assert program.tools == {"t", "plain"}


def test_what_a_call_takes_is_its_tools_and_its_own_each_once():
    program = compiled(
        step("a", resources=["gpu", "disk"]), step("b", "plain", resources=["gpu"]), step("c", "plain")
    )
    assert [node.resources for node in program.root.nodes] == [("disk", "gpu"), ("gpu",), ()]
    assert [node.bounded for node in program.root.nodes] == [True, True, False]
    assert compiled(step("a", "one")).root.nodes[0].bounded


def test_a_name_that_check_would_have_refused_is_our_bug():
    with pytest.raises(InternalError, match="refers to 'nobody'"):
        compiled(step("a", after=["nobody"]))


# --- what cannot be


def test_what_is_no_item_has_none():
    run = ring(step("a"))
    with pytest.raises(InternalError, match="step a"):
        item_bytes(run.state, run.step("a"))
