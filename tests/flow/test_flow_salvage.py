"""A run whose log was cut goes on, and nothing that may have had its effect is done again unasked."""

from __future__ import annotations

import pytest

from kedge.flow.events import QuestionAsked, StepInDoubt, StepStarted
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring

EFFECTS: dict[str, Effect] = {"read": "read", "put": "idempotent", "send": "effect"}
ONCE_MORE = {"attempts": 2, "backoff_s": 0}


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps):
    return Ring({"goal": "g", "steps": list(steps)}, EFFECTS).start()


PLAN = (
    step("a"),
    step("b", "send", after=["a"], args={"x": "${a}"}),
    step("c", "put", after=["b"]),
    step("d", "send", after=["c"], args={"x": "${b}"}),
)


def lived():
    """A run of PLAN to its end, and the number of events after which `b` was ready and not begun."""
    run = ring(*PLAN).finish("a", 1).finish("b", 2).finish("c", 3).finish("d", 4)
    begun = next(
        n for n, event in enumerate(run.events) if isinstance(event, StepStarted) and event.path == "b"
    )
    return run, begun


def test_nothing_starts_before_somebody_has_looked():
    run, begun = lived()
    run.salvage(begun)
    (asked,) = run.of(QuestionAsked)
    assert (asked.reason, asked.options) == ("salvaged", ("ask", "go on", "stop"))
    assert f"after event {begun} is lost" in asked.text
    assert "b, d" in asked.text
    assert (run.status(), run.calls, run.statuses()["b"]) == ("waiting", [], "ready")


def test_the_answer_ask_puts_each_call_with_effects_in_doubt_before_it_is_made():
    run, begun = lived()
    run.salvage(begun)
    run.launched.clear()
    run.answer("ask")
    assert (run.status("b"), run.calls) == ("in_doubt", [])
    assert "The part of the log that would tell is lost" in run.of(QuestionAsked)[-1].text
    run.answer("done", 20)
    assert run.calls == ["c"]  # idempotent: made again, under the same key
    run.finish("c", 3)
    assert (run.status("d"), bytes(run.of(StepStarted, "d")[-1].args)) == ("in_doubt", b'{"x":20}')
    run.answer("retry")
    assert run.calls == ["d"]  # somebody said that it did not happen
    run.finish("d", 4)
    assert (run.status(), [path for path, _ in run.launched]) == ("done", ["c", "d"])


def test_the_answer_go_on_makes_them_all():
    run, begun = lived()
    run.salvage(begun).answer("go on")
    assert run.calls == ["b"]
    run.finish("b", 2).finish("c").finish("d")
    assert run.status() == "done"
    assert run.of(StepInDoubt) == []


def test_the_answer_stop_ends_the_run():
    run, begun = lived()
    run.salvage(begun).answer("stop")
    assert (run.status(), run.error().code, run.error().message) == (
        "failed",
        "stopped",
        "stopped at salvaged",
    )


def test_what_was_running_is_in_doubt_as_after_any_crash_and_asked_about_once():
    run, begun = lived()
    run.salvage(begun + 1)
    doubt, salvaged = sorted(run.questions, reverse=True)
    assert run.status("b") == "in_doubt"
    run.answer("ask", question=salvaged).answer("retry", question=doubt)
    assert run.calls == ["b"]


def test_a_call_that_waited_for_another_attempt_may_have_been_made():
    run = ring(step("b", "send", retry=ONCE_MORE)).fail("b", not_done=True)
    waits = run.kinds.index("RetryScheduled") + 1
    run.salvage(waits).answer("ask")
    assert (run.calls, run.status("b")) == ([], "in_doubt")
    assert run.answer("retry").calls == ["b"]


def test_each_round_of_a_loop_is_another_call():
    run = ring(step("b", "send", loop={"times": 2}))
    run.salvage(2).answer("ask").answer("done", 1)
    assert run.status("b") == "in_doubt"
    assert run.answer("done", 2).status() == "done"


def test_a_second_salvage_makes_doubtful_again_what_was_asked_about():
    run = ring(step("a"), step("b", "send"))
    run.salvage(2).answer("ask").finish("a")
    before = len(run.log)
    run.answer("retry")
    assert run.calls == ["b"]
    scheduled = before + 2
    assert run.kinds[scheduled - 1] == "RetryScheduled"
    run.salvage(scheduled).answer("ask")
    assert (run.calls, run.status("b")) == ([], "in_doubt")


@pytest.mark.parametrize("tool", ["t", "read", "put"])
def test_a_run_without_effects_to_come_goes_on_by_itself(tool):
    run = ring(step("a", "send"), step("b", tool, after=["a"])).finish("a").finish("b")
    done = run.kinds.index("StepSucceeded") + 1
    assert run.salvage(done).calls == ["b"]
    assert run.finish("b").status() == "done"


def test_a_run_that_had_failed_asks_once_it_is_taken_up_again():
    run = ring(step("b", "send")).fail("b", classified=True)
    run.salvage(len(run.log))
    assert (run.status(), len(run.questions)) == ("failed", 1)
    run.resume(retry_failed=True)
    assert (run.status(), run.calls) == ("waiting", [])
    assert run.answer("ask").status("b") == "in_doubt"


def test_wherever_the_log_is_cut_no_effect_is_repeated_unasked():
    steps = (
        step("a"),
        {
            "id": "each",
            "foreach": [1, 2],
            "steps": [step("k", "send", args={"i": "${item}"})],
            "after": ["a"],
        },
        step("again", "send", loop={"times": 2}, after=["a"]),
        step("last", "send", after=["each", "again"]),
    )
    whole = ring(*steps)
    while whole.calls:
        whole.finish(whole.calls[0], whole.calls[0])
    for intact in range(2, len(whole.log)):
        run = ring(*steps)
        while run.calls:
            run.finish(run.calls[0], run.calls[0])
        assert run.log == whole.log
        run.salvage(intact)
        known = {path for path, status in run.statuses().items() if status == "done"}
        run.launched.clear()
        for _ in range(100):
            if run.state.end is not None:
                break
            if run.calls:
                run.finish(run.calls[0], run.calls[0])
            else:
                first = run.state.questions[run.questions[0]].asked
                run.answer("ask" if first.reason == "salvaged" else "done", 0, question=first.question)
        assert run.status() == "done"
        assert {path for path, _ in run.launched} <= {"a"}
        assert known <= {path for path, status in run.statuses().items() if status == "done"}
