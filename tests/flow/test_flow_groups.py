"""One test for each rule about foreach, loops and composites."""

from __future__ import annotations

import pytest

from kedge.flow.events import RoundEnded, StepExpanded, StepStarted
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, effects=None, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}, effects).start()


# --- foreach


def test_foreach_fans_out_at_run_time_and_its_result_is_the_list_of_theirs():
    run = ring(
        step("a"),
        step("b", foreach="${a}", args={"x": "${item}", "i": "${index}"}),
        step("c", args={"all": "${b}"}),
    )
    run.finish("a", ["p", "q"])
    assert run.calls == ["b[0]", "b[1]"]
    assert run.args("b[1]") == {"x": "q", "i": 1}
    run.finish("b[1]", "Q").finish("b[0]", "P")
    assert run.args("c") == {"all": ["P", "Q"]}


def test_foreach_over_nothing_is_done_with_an_empty_list():
    run = ring(step("b", foreach=[]), step("c", args={"all": "${b}"}))
    assert run.status("b") == "done"
    assert run.args("c") == {"all": []}


def test_foreach_over_what_is_no_list_fails_the_step():
    run = ring(step("a"), step("b", foreach="${a}"))
    run.finish("a", {"no": "list"})
    assert run.error("b").code == "foreach"


def test_a_foreach_fails_when_one_item_does_and_names_it():
    run = ring(step("b", foreach=[1, 2]))
    run.fail("b[0]", "permanent")
    assert run.status("b") == "running"  # the others are not stopped
    run.finish("b[1]")
    assert run.status("b") == "failed"
    assert "1 of 2 items failed: b[0]" in run.error("b").message


def test_a_foreach_that_may_fail_gives_null_for_items_that_did():
    run = ring(step("b", foreach=[1, 2], on_error="continue"), step("c", args={"all": "${b}"}))
    run.fail("b[0]", "permanent").finish("b[1]", 2)
    assert run.args("c") == {"all": [None, 2]}
    assert run.finish("c").status() == "done"


def test_a_foreach_that_may_fail_and_of_which_every_item_did_has_failed():
    run = ring(step("b", foreach=[1], on_error="continue"), step("x"))
    run.fail("b[0]", "permanent").finish("x")
    assert (run.status("b"), run.status()) == ("failed", "done")


def test_step_expanded_journals_items_and_generation():
    run = ring(step("b", foreach=[1, 2]))
    (event,) = run.of(StepExpanded)
    assert (event.count, event.generation, bytes(event.items)) == (2, 0, b"[1,2]")


def test_items_are_resumed_on_their_own():
    run = ring(step("b", foreach=[1, 2, 3]))
    run.finish("b[1]", 2).crash().resume()
    assert run.calls == ["b[0]", "b[2]"]
    run.finish("b[0]", 1).finish("b[2]", 3)
    assert run.value("b") == [1, 2, 3]


def test_items_too_large_for_an_event_are_a_blob():
    run = ring(step("a"), step("b", foreach="${a}", args={"n": "${len(item)}", "i": "${index}"}))
    run.finish("a", ["x" * 20_000, "y" * 10])
    (event,) = run.of(StepExpanded)
    assert event.blob.sha in run.blobs
    assert [args for _, args in run.launched[1:]] == [{"n": 20_000, "i": 0}, {"n": 10, "i": 1}]
    run.crash().resume()
    assert run.args("b[1]") == {"n": 10, "i": 1}


def test_item_and_index_are_seen_inside_nested_composites():
    run = ring(
        group(
            "p", group("q", step("k", args={"x": "${item.n}", "i": "${index}"})), foreach=[{"n": 1}, {"n": 2}]
        )
    )
    assert run.calls == ["p[0]/q/k", "p[1]/q/k"]
    assert run.args("p[1]/q/k") == {"x": 2, "i": 1}
    run.finish("p[0]/q/k", "a").finish("p[1]/q/k", "b")
    assert run.value("p") == [{"q": {"k": "a"}}, {"q": {"k": "b"}}]


def test_the_inner_foreach_hides_the_outer_ones_item():
    run = ring(group("p", step("k", foreach="${item}", args={"x": "${item}"}), foreach=[[1, 2], [3]]))
    assert [(path, args["x"]) for path, args in run.launched] == [
        ("p[0]/k[0]", 1),
        ("p[0]/k[1]", 2),
        ("p[1]/k[0]", 3),
    ]
    for path in run.calls:
        run.finish(path, path)
    assert run.value("p") == [{"k": ["p[0]/k[0]", "p[0]/k[1]"]}, {"k": ["p[1]/k[0]"]}]


def test_the_steps_inside_an_item_read_their_siblings_of_the_same_item():
    run = ring(group("p", step("a"), step("b", args={"x": "${a}"}), foreach=[1, 2]))
    run.finish("p[1]/a", "one")
    assert run.args("p[1]/b") == {"x": "one"}
    assert run.status("p[0]/b") == "pending"


def test_a_foreach_none_of_whose_items_did_anything_is_skipped_as_empty():
    run = ring(group("p", step("k", when="item > 9"), foreach=[1, 2]), step("x"))
    assert (run.status("p[0]"), run.status("p"), run.step("p").reason) == ("skipped", "skipped", "empty")
    assert run.finish("x").status() == "done"


# --- loop


def test_a_loop_gives_the_last_result_or_all():
    run = ring(step("a", loop={"times": 3}), step("b", loop={"times": 2, "collect": "all"}))
    for value in (1, 2, 3):
        run.finish("a", value)
    run.finish("b", 1).finish("b", 2)
    assert (run.value("a"), run.value("b")) == (3, [1, 2])


def test_a_collected_list_too_large_for_an_event_is_a_blob():
    run = ring(step("a", loop={"times": 2, "collect": "all"}), step("b", args={"n": "${len(a[0])}"}))
    run.finish("a", "x" * 20_000).crash().resume().finish("a", "y")
    assert run.args("b") == {"n": 20_000}


def test_the_delay_of_a_loop_is_durable():
    run = ring(step("a", loop={"times": 2, "delay_s": 60}))
    run.finish("a", 1)
    assert (run.calls, run.status("a"), run.next_wake_ms) == ([], "waiting", 61_000)
    run.tick(30_000)
    run.crash().resume()
    assert (run.calls, run.next_wake_ms) == ([], 61_000)
    assert run.tick(30_000).calls == ["a"]


def test_a_loop_without_delay_begins_its_next_round_in_the_same_turn():
    run = ring(group("p", step("k"), loop={"times": 2}))
    before = len(run.log)
    run.finish("p#0/k")
    assert run.kinds[before:] == ["StepSucceeded", "RoundEnded", "StepStarted", "StepStarted"]


def test_the_rounds_of_a_composite_loop_have_paths_of_their_own():
    run = ring(
        group("p", step("k", args={"i": "${loop.index}", "before": "${loop.previous}"}), loop={"times": 2})
    )
    assert run.calls == ["p#0/k"]
    run.finish("p#0/k", "one")
    assert run.calls == ["p#1/k"]
    assert run.args("p#1/k") == {"i": 1, "before": {"k": "one"}}
    run.finish("p#1/k", "two")
    assert run.value("p") == {"k": "two"}
    assert run.value("p#0/k") == "one"
    assert (run.state.total, run.state.settled) == (3, 3)


def test_an_item_loops_on_its_own():
    run = ring(group("p", step("k"), foreach=[1, 2], loop={"times": 2, "collect": "all"}))
    run.finish("p[0]#0/k", "a")
    assert run.calls == ["p[1]#0/k", "p[0]#1/k"]
    run.finish("p[0]#1/k", "b").finish("p[1]#0/k", "c").finish("p[1]#1/k", "d")
    assert run.value("p") == [[{"k": "a"}, {"k": "b"}], [{"k": "c"}, {"k": "d"}]]


def test_an_empty_round_is_a_round_and_a_loop_of_empty_rounds_is_empty():
    run = ring(
        group("some", step("k", when="loop.index == 1"), loop={"times": 3, "collect": "all"}),
        group("none", step("k", when="loop.index > 9"), loop={"times": 3}),
    )
    run.finish("some#1/k", 1)
    assert run.value("some") == [{"k": None}, {"k": 1}, {"k": None}]
    assert (run.status("none"), run.step("none").reason) == ("skipped", "empty")


def test_until_of_a_composite_sees_the_round_just_done():
    run = ring(group("p", step("k"), loop={"times": 5, "until": "loop.previous.k >= 2"}))
    run.finish("p#0/k", 1).finish("p#1/k", 2)
    assert run.status() == "done"
    assert [e.iteration for e in run.of(RoundEnded)] == [0]


# --- composites


def test_a_composite_succeeds_when_its_required_children_do_and_gives_null_for_the_others():
    run = ring(group("p", step("a"), step("b", on_error="continue"), step("c", when="false")))
    run.finish("p/a", 1).fail("p/b", "permanent")
    assert run.value("p") == {"a": 1, "b": None, "c": None}
    assert run.status() == "done"


def test_a_composite_fails_when_a_required_child_does_and_the_others_go_on_first():
    run = ring(group("p", step("a"), step("b")), step("c", after=["p"]))
    run.fail("p/a", "permanent")
    assert run.calls == ["p/b"]
    run.finish("p/b")
    assert (run.status("p"), run.step("c").reason) == ("failed", "dependency")
    assert "p/a failed" in run.error("p").message


def test_composites_nest_and_downstream_reads_the_map_of_results():
    run = ring(group("p", group("q", step("k"))), step("c", args={"x": "${p.q.k}"}))
    run.finish("p/q/k", 1)
    assert run.args("c") == {"x": 1}


def test_a_composite_that_did_nothing_is_skipped():
    run = ring(group("p", step("k", when="false")), step("c", after=["p"]), step("x"))
    assert (run.status("p"), run.step("p").reason) == ("skipped", "empty")
    assert run.step("c").reason == "absent"


def test_names_look_outward_and_wait_for_the_outer_step_alone():
    run = ring(step("slow"), step("a"), group("p", step("k", args={"x": "${a}"}), step("l")))
    assert run.calls == ["slow", "a", "p/l"]  # the composite itself waits for nothing
    run.finish("a", 1)
    assert run.calls == ["slow", "p/l", "p/k"]
    assert run.args("p/k") == {"x": 1}


def test_the_nearest_step_of_a_name_is_meant():
    run = ring(step("a"), group("p", step("a"), step("k", args={"x": "${a}"})))
    run.finish("p/a", "inner")
    assert run.args("p/k") == {"x": "inner"}


def test_a_child_sees_an_outer_step_that_settled_before_its_composite_began():
    run = ring(step("a"), step("b"), group("p", step("k", args={"x": "${a}"}), after=["b"]))
    run.finish("a", 1).finish("b")
    assert run.args("p/k") == {"x": 1}


def test_a_child_with_join_any_starts_at_once_if_an_outer_step_is_done_already():
    run = ring(step("a"), step("b"), group("p", step("k", after=["a", "b"], join="any"), when="a"))
    run.finish("a", True)
    assert run.calls == ["b", "p/k"]


def test_a_child_whose_outer_dependency_fails_is_skipped_with_the_reason():
    run = ring(step("a"), group("p", step("k", args={"x": "${a}"}), step("l")))
    run.finish("p/l").fail("a", "permanent")
    assert run.step("p/k").because == ("a",)
    assert run.status("p") == "failed"


def test_a_composites_effect_class_is_its_strongest_childs():
    run = ring(
        group("p", step("a", "read"), group("q", step("b", "send"))),
        effects={"read": "read", "send": "effect"},
    )
    assert run.step("p").node.effect == "effect"
    assert run.step("p").node.effect == run.step("p/q").node.effect


def test_another_attempt_of_a_pure_composite_does_its_children_again_in_a_new_generation():
    run = ring(group("p", step("a"), step("b"), retry={"attempts": 2, "backoff_s": 10}))
    run.finish("p/a", 1).fail("p/b")
    assert (run.status("p"), run.next_wake_ms) == ("waiting", 11_000)
    run.tick(10_000)
    assert run.calls == ["p/a", "p/b"]
    assert [e.generation for e in run.of(StepStarted, "p/a")] == [0, 1]
    run.finish("p/a", 2).finish("p/b", 3)
    assert run.value("p") == {"a": 2, "b": 3}
    assert run.state.total == 3


def test_what_an_attempt_did_that_another_replaced_is_not_done():
    inside = step("a", on_error="continue"), step("b", after=["a"])
    run = ring(group("p", *inside, retry={"attempts": 2, "backoff_s": 0}))
    run.finish("p/a").fail("p/b").fail("p/a", "permanent")
    assert (run.status("p"), run.step("p").reason, run.status()) == ("skipped", "empty", "empty")


def test_a_late_word_of_a_child_of_the_attempt_before_is_not_taken_for_the_new_ones():
    run = ring(group("p", step("a"), step("b", after=["a"]), retry={"attempts": 2, "backoff_s": 0}))
    run.fail("p/a", "timeout")
    assert run.calls == ["p/a"]
    run.finish("p/a", "late", starts=1)
    assert run.status("p/a") == "running"
    run.finish("p/a", "new")
    assert run.value("p/a") == "new"


def test_a_composites_expect_is_held_against_its_map():
    run = ring(group("p", step("a"), expect="result.a > 1"))
    assert run.finish("p/a", 1).error("p").code == "expect_not_met"


# --- sleeps


def test_sleep_is_a_durable_timer_and_no_running_tool():
    run = ring(step("nap", "sleep", args={"seconds": 60}), step("b", after=["nap"]))
    assert (run.calls, run.status("nap"), run.next_wake_ms, run.state.running) == ([], "waiting", 61_000, 0)
    run.tick(20_000).crash().resume()
    assert run.next_wake_ms == 61_000  # what is left of it, not all of it again
    assert run.tick(39_999).calls == []
    assert run.tick(1).calls == ["b"]
    assert run.state.calls == 1


def test_a_sleep_is_over_at_once_when_its_time_passed_while_nobody_drove():
    run = ring(step("nap", "sleep", args={"seconds": 60}))
    run.crash()
    run.now_ms += 3_600_000
    assert run.resume().status() == "done"


def test_a_sleep_loops_and_fans_out_like_any_step():
    run = ring(
        step("again", "sleep", args={"seconds": 1}, loop={"times": 2, "delay_s": 5}),
        step("each", "sleep", args={"seconds": "${item}"}, foreach=[1, 3]),
    )
    ended = {}
    while run.next_wake_ms is not None:
        run.tick(run.next_wake_ms - run.now_ms)
        ended |= {
            path: run.now_ms
            for path, status in run.statuses().items()
            if status == "done" and path not in ended
        }
    assert ended == {"each[0]": 2_000, "each[1]": 4_000, "each": 4_000, "again": 8_000}


@pytest.mark.parametrize("seconds", ["soon", -1, True, None])
def test_a_sleep_without_a_number_of_seconds_fails(seconds):
    run = ring(step("a"), step("nap", "sleep", args={"seconds": "${a}"}))
    assert run.finish("a", seconds).error("nap").code == "sleep"


def test_time_never_goes_back():
    run = ring(step("a"), step("b", after=["a"]))
    run.now_ms = 500
    run.finish("a")
    assert [at for _, at in run.log] == sorted(at for _, at in run.log)
    assert run.state.at == 1_000
