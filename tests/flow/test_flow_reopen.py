"""One test for each rule about taking up a run that had ended."""

from __future__ import annotations

import pytest

from kedge.base.limits import Limits
from kedge.flow.events import RunEnded
from kedge.flow.stretches import stretches
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, limits=None, **plan):
    return Ring(
        {"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}, limits=limits or Limits()
    ).start()


def failed_run():
    run = ring(
        step("a"), step("b"), step("c", args={"b": "${b}"}), step("d", after=["a"]),
        step("e", after=["c", "d"]), step("f", fallback_for="b"),
    )  # fmt: skip
    return run.finish("a").fail("b", "permanent").fail("f", "permanent").finish("d")


def test_retry_failed_does_again_only_what_failed_and_what_was_skipped_for_it():
    run = failed_run()
    assert run.status() == "failed"
    run.crash().resume(retry_failed=True)
    assert (run.calls, run.status()) == (["b"], "running")
    run.finish("b", 1).finish("c").finish("e")
    assert run.status() == "done"
    assert run.step("f").reason == "not_needed"
    assert [path for path, _ in run.launched if path in "ad"] == ["a", "d"]


def test_retry_failed_keeps_what_was_tried_before_and_counts_no_time_between():
    run = ring(step("a"), step("b", after=["a"]), step("w", loop={"times": 2, "delay_s": 50}))
    run.tick(20).finish("w").fail("a", "permanent").send("cancel")
    assert run.status() == "cancelled"
    run.crash().tick(60_000).resume(retry_failed=True).tick(30).finish("a").tick(10).finish("b")
    run.finish("w")
    assert run.status() == "done"
    tried = [(one.what, one.end - one.start, one.status) for one in stretches(run.step("a"), run.now_ms)]
    assert tried == [("run", 20, "failed"), ("run", 30, "done")]
    whats = [(one.what, one.end - one.start) for one in stretches(run.step("w"), run.now_ms)]
    assert whats == [("run", 20), ("run", 0), ("run", 40)]  # cut off as it began to wait for its round
    result = run.result
    assert result.steps["a"].seconds == 0.05
    assert result.critical_path_s == 0.06
    assert result.parallel_efficiency == pytest.approx(1 - 60 / 120)
    assert result.groups == [["a", "w"], ["a", "w", "b"]]


def test_retry_failed_twice_keeps_every_attempt_once():
    run = ring(step("a"), {"id": "p", "steps": [step("x")]})
    for _ in range(2):
        run.tick(10).fail("a", "permanent").fail("p/x", "permanent").tick(500).resume(retry_failed=True)
    run.tick(10).finish("a").finish("p/x")
    for path in ("a", "p", "p/x"):
        assert [one.end - one.start for one in stretches(run.step(path), run.now_ms)] == [10, 10, 10]


def test_retry_failed_tries_the_fallback_again_after_its_target():
    run = failed_run().resume(retry_failed=True)
    assert run.fail("b", "permanent").calls == ["f"]
    assert run.finish("f", 1).calls == ["c"]


def test_retry_failed_takes_composites_and_items_up_where_they_were():
    run = ring({"id": "p", "steps": [step("a"), step("b")]}, step("each", foreach=[1, 2]))
    run.finish("p/a").fail("p/b", "permanent").finish("each[0]").fail("each[1]", "permanent")
    assert run.status() == "failed"
    run.crash().resume(retry_failed=True)
    assert sorted(run.calls) == ["each[1]", "p/b"]
    run.crash().resume()
    run.finish("p/b", 2).finish("each[1]")
    assert run.status() == "done"


def test_retry_failed_does_again_what_was_optional_and_skipped_for_a_failure():
    run = ring(step("a"), step("b", after=["a"], on_error="continue"), step("c", after=["b"]))
    run.fail("a", "permanent")
    assert run.statuses() == {"a": "failed", "b": "skipped", "c": "skipped"}
    run.resume(retry_failed=True).finish("a").finish("b").finish("c")
    assert run.status() == "done"


def test_retry_failed_takes_a_cancelled_run_up():
    run = ring(
        step("a"),
        step("b", after=["a"]),
        {"id": "p", "loop": {"times": 2, "delay_s": 9}, "steps": [step("k")]},
    )
    run.finish("p#0/k", 1).send("cancel").fail("a", "cancelled")
    assert run.status() == "cancelled"
    run.crash().resume(retry_failed=True)
    assert run.calls == ["a", "p#1/k"]  # its second round, not the first again
    run.finish("a").finish("b").finish("p#1/k", 2)
    assert run.status() == "done"


def test_retry_failed_of_a_run_cancelled_between_target_and_fallback_ends():
    run = ring(*(step("a"), step("b", fallback_for="a"), step("c", after=["a"])))
    run.fail("a", "permanent").send("cancel").fail("b", "cancelled")
    assert run.status() == "cancelled"
    run.resume(retry_failed=True)
    assert run.calls == ["a"]
    assert run.fail("a", "permanent").finish("b").finish("c").status() == "done"


def test_retry_failed_leaves_doubts_to_their_question():
    run = ring(step("a", "send"), step("b", fallback_for="a"), step("c", after=["a"]))
    run.send("cancel").fail("a", "cancelled")
    run.crash().resume(retry_failed=True)
    assert (run.status(), run.status("a"), run.calls) == ("waiting", "in_doubt", [])
    assert run.answer("done").calls == ["c"]


def test_retry_failed_after_a_stop_asks_again():
    run = ring(*(step(f"s{i}") for i in range(3)), limits=Limits(calls=2))
    run.answer("stop").finish("s0").finish("s1").resume(retry_failed=True)
    assert (run.status(), len(run.questions)) == ("waiting", 1)


@pytest.mark.parametrize(
    ("steps", "plan", "status"),
    [((step("a"),), {"outputs": {"x": "a.n"}}, "failed"), ((step("a", when="false"),), {}, "empty")],
)
def test_retry_failed_with_nothing_to_do_again_ends_again(steps, plan, status):
    run = ring(*steps, **plan)
    if run.calls:
        run.finish("a", {})
    assert run.status() == status
    assert run.resume(retry_failed=True).status() == status
    assert len(run.of(RunEnded)) == 2


@pytest.mark.parametrize(("answer", "calls"), [("done", ["c"]), ("failed", ["b"]), ("retry", ["a"])])
def test_a_doubt_in_a_composite_can_be_answered_before_the_run_goes_on(answer, calls):
    inside = [step("a", "send"), step("b", fallback_for="a"), step("c", after=["a"])]
    run = ring({"id": "p", "steps": inside}, step("d", "send", after=["p"]))
    run.send("cancel").fail("p/a", "cancelled")
    run.crash().resume(retry_failed=True, changed_tools={"send": "new"})
    doubt, tools = run.questions
    run.answer(answer, question=doubt).answer("go on", question=tools)
    assert run.calls == [f"p/{path}" for path in calls]
    while run.calls:
        run.finish(run.calls[0])
    assert run.status() == "done"


def test_a_fallback_in_doubt_keeps_its_target_from_being_tried_again():
    run = ring(step("a"), step("b", "send", fallback_for="a"), step("c", after=["a"]))
    run.fail("a", "permanent").send("cancel").fail("b", "cancelled")
    run.crash().resume(retry_failed=True)
    assert (run.calls, run.status()) == ([], "waiting")
    assert run.answer("done").calls == ["c"]


def test_a_composite_that_serves_as_fallback_is_taken_up_inside_only_once_its_target_failed_again():
    run = ring(step("a"), {"id": "b", "fallback_for": "a", "steps": [step("k", "send"), step("l")]})
    run.fail("a", "permanent").finish("b/k").fail("b/l", "permanent")
    run.resume(retry_failed=True)
    assert run.calls == ["a"]
    assert run.fail("a", "permanent").calls == ["b/l"]
    assert run.finish("b/l").status() == "done"


@pytest.mark.parametrize(("answer", "called"), [("done", ["c"]), ("failed", ["a"]), ("retry", ["b"])])
def test_a_fallback_in_doubt_in_a_composite_can_be_answered_before_the_run_goes_on(answer, called):
    inside = [step("a"), step("b", "send", fallback_for="a"), step("c", after=["a"])]
    run = ring({"id": "p", "steps": inside}, step("d", "send", after=["p"]))
    run.fail("p/a", "permanent").send("cancel").fail("p/b", "cancelled")
    run.crash().resume(retry_failed=True, changed_tools={"send": "new"})
    doubt, tools = run.questions
    run.answer(answer, question=doubt).answer("go on", question=tools)
    assert run.calls == [f"p/{id_}" for id_ in called]
