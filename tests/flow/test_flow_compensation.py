"""Undoing what a run did: when, in which order, and what becomes of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kedge.base.errors import BadInput, InternalError, NotFound, Refused
from kedge.flow.events import (
    CompensationEnded,
    CompensationStarted,
    QuestionAsked,
    RunEnded,
    StepStarted,
)
from kedge.flow.evolve import evolve
from kedge.flow.settings import RunSettings
from kedge.flow.undoing import refuse_redoing
from kedge.plan.parts import Step
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring

EFFECTS: dict[str, Effect] = {"put": "idempotent", "pay": "effect", "unput": "idempotent", "refund": "effect"}


def ring(*steps: dict[str, Any], undo: Any = "never", ask: Any = "never", **more: Any) -> Ring:
    settings = RunSettings(undo=undo, ask=ask)
    return Ring({"goal": "g", "steps": list(steps), **more}, EFFECTS, settings=settings).start()


def put(id_: str, *after: str, **more: Any) -> dict[str, Any]:
    undo = {"tool": "unput", "args": {"id": "${result.id}"}}
    return {"id": id_, "tool": "put", "after": list(after), "compensate": undo, **more}


def pay(id_: str, *after: str, **more: Any) -> dict[str, Any]:
    undo = {"tool": "refund", "args": {"id": "${result.id}"}}
    return {"id": id_, "tool": "pay", "after": list(after), "compensate": undo, **more}


def think(id_: str, *after: str, **more: Any) -> dict[str, Any]:
    return {"id": id_, "tool": "think", "after": list(after), **more}


def done(run: Ring, *paths: str) -> Ring:
    for path in paths:
        run.finish(path, {"id": f"of {path}"})
    return run


def undone(run: Ring) -> list[str]:
    """What was undone, in the order in which it began."""
    return [event.path for event in run.of(StepStarted) if event.path.endswith(".undo")]


def cancelled(*steps: dict[str, Any], finish: tuple[str, ...], **more: Any) -> Ring:
    run = done(ring(*steps, **more), *finish)
    run.send("cancel", compensate=True, by="anna")
    for path in run.calls:
        if not path.endswith(".undo"):
            run.fail(path, "cancelled", not_done=True)
    return run


def test_a_cancelled_run_undoes_what_it_did_last_thing_first():
    run = cancelled(put("a"), put("b", "a"), put("c", "b"), finish=("a", "b"))
    assert run.status() == "compensating"
    assert run.calls == ["b.undo"]
    assert run.args("b.undo") == {"id": "of b"}
    run.finish("b.undo")
    assert run.calls == ["a.undo"]
    run.finish("a.undo")
    assert run.status() == "cancelled"
    assert run.statuses() == {"a": "compensated", "b": "compensated", "c": "cancelled"}
    assert run.result.undone == ("b", "a")
    assert run.result.not_undone == {}
    assert run.result.counts.compensated == 2
    assert run.of(CompensationEnded) == [CompensationEnded(undone=2)]


def test_without_a_wish_for_it_nothing_is_undone():
    run = done(ring(put("a"), put("b", "a")), "a").send("cancel").fail("b", "cancelled", not_done=True)
    assert run.status() == "cancelled"
    assert undone(run) == []


def test_what_is_independent_is_undone_side_by_side_and_what_was_used_after_its_users():
    run = cancelled(
        put("top"), put("left", "top"), put("right", "top"),
        put("join", "left", "right"), think("end", "join"),
        finish=("top", "left", "right", "join"),
    )  # fmt: skip
    assert run.calls == ["join.undo"]
    assert done(run, "join.undo").calls == ["right.undo", "left.undo"]
    run.finish("right.undo")
    assert run.calls == ["left.undo"]
    assert done(run, "left.undo").calls == ["top.undo"]


def test_the_order_holds_through_steps_that_have_nothing_to_undo():
    run = cancelled(
        put("a"), think("b", "a"), think("c", "b", when="1 > 2"),
        put("d", "b", "c", join="settled"), think("e", "d"),
        finish=("a", "b", "d"),
    )  # fmt: skip
    assert run.calls == ["d.undo"]
    assert done(run, "d.undo").calls == ["a.undo"]


def test_a_run_that_fails_undoes_what_it_did_if_that_was_asked_for():
    run = done(ring(put("a"), think("b", "a"), undo="failure"), "a").fail("b", "permanent", classified=True)
    assert run.status() == "compensating"
    done(run, "a.undo")
    assert run.status() == "failed"
    assert run.error().message == "step b failed: b failed: permanent"
    assert run.result.outputs == {}


def test_a_run_that_fails_with_nothing_done_just_fails():
    run = ring(think("b"), undo="failure").fail("b", "permanent", classified=True)
    assert run.status() == "failed"
    assert run.of(CompensationStarted) == []


def test_a_run_that_ends_well_undoes_nothing():
    assert done(ring(put("a"), undo="failure"), "a").status() == "done"


def test_stopping_at_a_limit_undoes_what_was_done_and_needs_no_more_calls_for_it():
    run = done(ring(put("a"), put("b", "a"), undo="failure", limits={"calls": 1}), "a")
    run.answer("stop")
    assert run.calls == ["a.undo"]
    done(run, "a.undo")
    assert run.status() == "failed"
    assert run.error().code == "stopped"


def test_what_nothing_undoes_is_told():
    run = cancelled({"id": "a", "tool": "pay"}, put("b", "a"), think("c", "b"), finish=("a", "b"))
    done(run, "b.undo")
    assert run.result.not_undone == {"a": "nothing undoes pay"}
    assert run.status("a") == "done"
    assert run.of(CompensationEnded) == [CompensationEnded(undone=1, left=1)]
    assert "1 not undone" in run.result.summary()


def test_one_that_cannot_be_undone_is_not_the_end_of_the_others():
    run = cancelled(put("a"), put("b", "a"), think("c", "b"), finish=("a", "b"))
    run.fail("b.undo", "permanent", classified=True)
    done(run, "a.undo")
    assert run.statuses() == {"a": "compensated", "b": "done", "c": "cancelled"}
    assert run.result.undone == ("a",)
    assert run.result.not_undone == {"b": "unput failed: b.undo failed: permanent"}


def test_undoing_is_tried_again_as_its_tool_allows():
    run = cancelled(put("a"), think("b", "a"), finish=("a",))
    for _ in range(4):
        run.fail("a.undo", "transient", classified=True).tick(60_000)
    run.fail("a.undo", "transient", classified=True)
    assert "unput failed" in run.result.not_undone["a"]
    assert run.status() == "cancelled"


def test_a_call_with_effects_that_may_have_undone_it_asks():
    run = cancelled(pay("a"), think("b", "a"), finish=("a",))
    run.fail("a.undo", "timeout")
    assert run.status() == "waiting"
    assert run.result.not_undone == {"a": "nobody knows whether refund had its effect"}
    run.crash().resume().answer("done")
    assert run.status("a") == "compensated"
    assert run.status() == "cancelled"


@pytest.mark.parametrize(("answer", "kept"), [("failed", ["a"]), ("retry", [])])
def test_the_answer_about_it_may_be_that_it_is_not_undone(answer: str, kept: list[str]):
    run = cancelled(pay("a"), think("b", "a"), finish=("a",)).fail("a.undo", "timeout").answer(answer)
    if answer == "retry":
        done(run, "a.undo")
    assert list(run.result.not_undone) == kept
    assert run.status() == "cancelled"


def test_after_a_crash_it_is_gone_on_with_and_nothing_is_undone_twice():
    run = cancelled(put("a"), put("b", "a"), think("c", "b"), finish=("a", "b"))
    done(run, "b.undo").crash().resume()
    assert run.calls == ["a.undo"]
    assert undone(run) == ["b.undo", "a.undo", "a.undo"]  # idempotent: with the same key
    done(run, "a.undo")
    assert run.status() == "cancelled"


def test_a_crash_while_a_call_with_effects_undoes_asks():
    run = cancelled(pay("a"), think("b", "a"), finish=("a",)).crash().resume()
    assert run.status("a.undo") == "in_doubt"
    assert run.answer("done").status("a") == "compensated"


def test_a_step_in_doubt_is_asked_about_before_it_and_what_it_used_is_undone():
    run = cancelled(put("a"), pay("b", "a"), put("other"), think("c", "b"), finish=("a", "other"))
    assert run.status("b") == "cancelled"  # it certainly did nothing
    run = done(ring(put("a"), pay("b", "a"), put("other")), "a", "other")
    run.fail("b", "timeout").send("cancel", compensate=True)
    assert run.calls == ["other.undo"]
    done(run, "other.undo")
    assert run.status() == "waiting"
    with pytest.raises(Refused, match="what it may have done is to be undone"):
        run.answer("retry")
    run.answer("done", {"id": "7"})
    assert run.args("b.undo") == {"id": "7"}
    done(run, "b.undo", "a.undo")
    assert run.result.undone == ("other", "b", "a")


def test_a_step_in_doubt_that_did_nothing_has_nothing_to_undo():
    run = done(ring(put("a"), pay("b", "a")), "a").fail("b", "timeout").send("cancel", compensate=True)
    run.crash().resume().answer("failed")
    assert run.calls == ["a.undo"]


def test_items_are_undone_each_on_their_own_the_last_one_first():
    run = ring(put("each", foreach=[1, 2, 3]), think("z", "each"))
    done(run, "each[0]", "each[1]")
    run.send("cancel", compensate=True).fail("each[2]", "cancelled", not_done=True)
    assert run.calls == ["each[1].undo", "each[0].undo"]
    done(run, "each[0].undo", "each[1].undo")
    assert run.status("each") == "cancelled"
    assert run.status("each[0]") == "compensated"


def test_a_foreach_step_of_which_all_is_undone_is_undone():
    run = cancelled(
        put("a"), put("each", "a", foreach=[1, 2]), think("z", "each"), finish=("a", "each[0]", "each[1]")
    )
    done(run, "each[1].undo")
    assert run.status("each") == "done"
    done(run, "each[0].undo")
    assert run.status("each") == "compensated"
    assert run.calls == ["a.undo"]


def test_a_composite_is_undone_through_its_children():
    inner = [put("x"), put("y", "x")]
    run = cancelled(
        put("a"),
        {"id": "job", "after": ["a"], "steps": inner},
        think("z", "job"),
        finish=("a", "job/x", "job/y"),
    )
    assert run.calls == ["job/y.undo"]
    done(run, "job/y.undo", "job/x.undo")
    assert run.status("job") == "compensated"
    done(run, "a.undo")
    assert run.status() == "cancelled"


def test_each_round_of_a_loop_is_undone_the_last_one_first():
    run = ring(put("turn", loop={"times": 3}), think("z", "turn"))
    for number in range(3):
        run.finish("turn", {"id": number})
    run.send("cancel", compensate=True).fail("z", "cancelled", not_done=True)
    assert [
        run.args(done(run, path) and path)["id"] for path in ("turn#2.undo", "turn#1.undo", "turn#0.undo")
    ] == [2, 1, 0]
    assert run.status("turn") == "compensated"


def test_rounds_of_a_loop_that_collects_are_undone_with_their_own_results():
    undo = {
        "tool": "unput",
        "args": {"id": "${result.id}", "n": "${loop.index}", "before": "${loop.previous}"},
    }
    run = ring(
        {"id": "turn", "tool": "put", "loop": {"times": 2, "collect": "all"}, "compensate": undo},
        think("z", "turn"),
    )
    run.finish("turn", {"id": 0}).finish("turn", {"id": 1})
    run.send("cancel", compensate=True).fail("z", "cancelled", not_done=True)
    assert run.args("turn#1.undo") == {"id": 1, "n": 1, "before": {"id": 0}}
    done(run, "turn#1.undo")
    assert run.args("turn#0.undo") == {"id": 0, "n": 0, "before": None}


def test_rounds_of_a_composite_are_undone_the_last_one_first():
    run = ring({"id": "job", "loop": {"times": 2}, "steps": [put("x")]}, think("z", "job"))
    done(run, "job#0/x", "job#1/x")
    run.send("cancel", compensate=True).fail("z", "cancelled", not_done=True)
    assert run.calls == ["job#1/x.undo"]
    done(run, "job#1/x.undo", "job#0/x.undo")
    assert run.status("job") == "compensated"


def test_the_fallback_that_stood_in_undoes_itself():
    run = ring(
        put("a"), put("try", "a"), put("instead", fallback_for="try"), put("b", "try"), think("z", "b")
    )
    done(run, "a").fail("try", "permanent", classified=True)
    done(run, "instead", "b").send("cancel", compensate=True).fail("z", "cancelled", not_done=True)
    assert run.calls == ["b.undo"]
    assert done(run, "b.undo").calls == ["instead.undo"]
    assert done(run, "instead.undo").calls == ["a.undo"]


def test_what_the_step_itself_refused_is_undone_all_the_same():
    run = ring(put("a", expect="result.ok"), undo="failure")
    run.finish("a", {"id": 5, "ok": False}).crash().resume()
    assert run.args("a.undo") == {"id": 5}
    done(run, "a.undo")
    assert run.status("a") == "failed"
    assert run.result.undone == ("a",)


def test_its_arguments_are_made_of_what_the_step_saw():
    undo = {"tool": "unput", "args": {"was": "${a.id}", "own": "${b.id}", "of": "${inputs.who} ${result.id}"}}
    run = ring(
        put("a"), {"id": "b", "tool": "put", "compensate": undo}, think("z", "b"),
        inputs={"who": {"type": "string", "default": "me"}},
    )  # fmt: skip
    run.state.inputs = b'{"who":"me"}'
    assert run.calls == ["a"]  # what undoes a step is a reason to wait, too


def test_arguments_that_cannot_be_made_leave_it_not_undone():
    run = ring(
        {**put("a"), "compensate": {"tool": "unput", "args": {"id": "${result.none}"}}}, think("b", "a")
    )
    done(run, "a").send("cancel", compensate=True).fail("b", "cancelled", not_done=True)
    assert "none" in run.result.not_undone["a"]


# --- when the run has ended


def test_a_run_that_is_done_can_be_undone_later_and_is_not_done_then():
    run = done(ring(put("a"), put("b", "a")), "a", "b").crash()
    run.send("compensate", by="anna", reason="wrong month")
    assert run.result.outputs == {}
    done(run, "b.undo", "a.undo")
    assert run.status() == "cancelled"
    assert run.error().message == "2 steps were undone by anna: wrong month"
    assert run.result.outputs == {}


def test_one_step_of_a_run_that_has_ended_is_undone_with_what_used_it():
    run = done(ring(put("a"), put("b", "a"), put("c", "b"), put("other")), "a", "b", "c", "other")
    run.send("compensate", step="b")
    done(run, "c.undo", "b.undo")
    assert run.statuses() == {"a": "done", "b": "compensated", "c": "compensated", "other": "done"}
    run.send("compensate")
    assert sorted(run.calls) == ["a.undo", "other.undo"]


def test_a_run_of_which_nothing_could_be_undone_is_what_it_was():
    run = done(ring(put("a"), outputs={"id": "a.id"}), "a").send("compensate")
    run.fail("a.undo", "permanent", classified=True)
    assert run.status() == "done"
    assert run.result.outputs == {"id": "of a"}
    run.send("compensate")  # and once more
    done(run, "a.undo")
    assert run.status() == "cancelled"


def test_a_failed_run_stays_failed():
    run = done(ring(put("a"), think("b", "a")), "a").fail("b", "permanent", classified=True)
    done(run.send("compensate"), "a.undo")
    assert run.status() == "failed"
    assert [event.status for event in run.of(RunEnded)] == ["failed", "failed"]


def test_an_item_of_a_run_that_has_ended_is_undone_with_what_used_the_list():
    run = done(ring(put("each", foreach=[1, 2]), put("z", "each")), "each[0]", "each[1]", "z")
    run.send("compensate", step="each[1]")
    done(run, "z.undo", "each[1].undo")
    assert run.statuses() == {"each": "done", "z": "compensated", "each[0]": "done", "each[1]": "compensated"}


def test_what_is_undone_is_not_undone_again():
    run = done(done(ring(put("a")), "a").send("compensate"), "a.undo")
    with pytest.raises(Refused, match="nothing of it can be undone"):
        run.send("compensate")
    with pytest.raises(NotFound):
        run.send("compensate", step="b")
    with pytest.raises(Refused, match="the run has ended"):
        run.send("pause")


def test_cancelling_a_compensation_stops_it():
    run = cancelled(put("a"), put("b", "a"), think("c", "b"), finish=("a", "b"))
    run.send("cancel", compensate=True)
    assert run.calls == ["b.undo"]
    run.send("cancel").fail("b.undo", "cancelled")
    assert run.status() == "cancelled"
    assert run.result.not_undone == dict.fromkeys("ab", "the compensation was stopped before")
    run.crash().send("compensate")
    done(run, "b.undo", "a.undo")
    assert run.result.undone == ("b", "a")


def test_a_compensation_can_be_paused_and_takes_no_other_commands():
    run = cancelled(put("a"), put("b", "a"), think("c", "b"), finish=("a", "b"))
    run.send("pause")
    done(run, "b.undo")
    assert (run.status(), run.calls) == ("paused", [])
    with pytest.raises(Refused, match="being undone"):
        run.send("skip", step="c")
    with pytest.raises(Refused, match="being undone"):
        run.send("compensate")
    assert run.crash().resume().send("unpause").calls == ["a.undo"]


def test_a_person_is_asked_before_undoing_as_before_each_call():
    run = ring(put("a"), think("b", "a"), ask="effects").answer("approve")
    done(run, "a").send("cancel", compensate=True).fail("b", "cancelled", not_done=True)
    assert run.status() == "waiting"
    assert run.of(QuestionAsked)[-1].text == "May unput be called to undo a?"
    assert run.crash().resume().answer("approve").calls == ["a.undo"]
    done(run, "a.undo")
    assert run.status("a") == "compensated"


def test_what_a_person_refuses_is_not_undone():
    run = ring(put("a"), think("b", "a"), ask="effects").answer("approve")
    done(run, "a").send("cancel", compensate=True).fail("b", "cancelled", not_done=True).answer("refuse")
    assert run.result.not_undone == {"a": "unput failed: anna refused it"}


# --- while the run goes on


def test_a_step_of_a_run_that_goes_on_is_undone_and_those_to_come_find_it_absent():
    run = done(ring(put("a"), think("slow"), think("b", "a", "slow", args={"x": "${a.id}"})), "a")
    run.send("compensate", step="a")
    assert sorted(run.calls) == ["a.undo", "slow"]
    done(run, "a.undo", "slow")
    assert run.status("a") == "compensated"
    assert run.status("b") == "failed"
    assert "compensated" in run.error("b").message


@pytest.mark.parametrize("more", [{}, {"foreach": [1]}, {"foreach": "${slow}"}])
def test_not_even_a_plain_reference_reads_what_is_taken_back(more: dict[str, Any]):
    run = done(ring(put("a"), think("slow"), think("b", "slow", args={"x": "${a}"}, **more)), "a")
    done(run.send("compensate", step="a"), "a.undo")
    run.finish("slow", [1])
    assert (run.status("b"), [path for path, _ in run.launched]) == ("failed", ["a", "slow", "a.undo"])


def test_one_that_comes_later_does_not_read_it_either():
    run = done(ring(put("a"), think("slow")), "a")
    done(run.send("compensate", step="a"), "a.undo")
    run.send("inject", step=Step(id="b", tool="think", args={"x": "${a}"}))
    assert run.status("b") == "skipped"


def test_what_undoes_a_step_reads_what_is_taken_back_with_it():
    inner = [put("x"), put("y", "x")]
    undo = {"tool": "unput", "args": {"all": "${job}", "a": "${a.id}", "results": "${results}"}}
    last = {"id": "last", "tool": "put", "after": ["a"], "args": {"x": "${job}"}, "compensate": undo}
    run = done(
        ring(put("a"), {"id": "job", "after": ["a"], "steps": inner}, last, think("z")), "a", "job/x", "job/y"
    )
    done(run, "last").send("compensate", step="a")
    job = {"x": {"id": "of job/x"}, "y": {"id": "of job/y"}}
    assert run.args("last.undo") == {"all": job, "a": "of a", "results": {"a": {"id": "of a"}, "job": job}}
    done(run, "last.undo", "job/y.undo", "job/x.undo", "a.undo", "z")
    assert run.status("job") == "compensated"
    assert run.status() == "done"


def test_one_that_was_about_to_start_does_not_read_what_is_taken_back():
    run = done(ring(put("a"), think("b", "a", retry={"attempts": 2}), limits={"parallel": 1}), "a")
    run.fail("b", "transient", classified=True)
    with pytest.raises(Refused, match="b used it and is under way"):
        run.send("compensate", step="a")
    run = done(ring(put("a"), think("c"), think("b", "a"), limits={"parallel": 1}), "a")
    assert run.calls == ["c"]
    run.send("compensate", step="a")
    done(run, "c", "a.undo")
    assert run.statuses() == {"a": "compensated", "b": "skipped", "c": "done"}
    assert run.status() == "done"


def test_a_run_does_not_end_before_its_compensation_has():
    run = done(ring(put("a"), think("b")), "a")
    run.send("compensate", step="a")
    done(run, "b")
    assert run.status() == "running"
    run.crash().resume()
    done(run, "a.undo")
    assert run.status() == "done"


def test_a_compensation_that_cannot_be_is_refused():
    run = done(
        ring(put("a"), put("b", "a"), {"id": "job", "steps": [put("x"), think("y")]}), "a", "job/x", "job/y"
    )
    with pytest.raises(Refused, match="not all that it does"):
        run.send("compensate")
    with pytest.raises(Refused, match="it is running, not done"):
        run.send("compensate", step="b")
    with pytest.raises(Refused, match="job, which it is part of, has ended"):
        run.send("compensate", step="job/x")
    with pytest.raises(Refused, match="under way"):
        run.send("compensate", step="a")
    run.send("compensate", step="job")
    with pytest.raises(Refused, match="a compensation is under way"):
        run.send("compensate", step="job")
    with pytest.raises(Refused, match="cannot be changed meanwhile"):
        run.send("set_goal", goal="h")


def test_cancelling_a_run_that_undoes_a_step_undoes_the_rest_with_it():
    run = done(ring(put("a"), put("b"), think("c")), "a", "b").send("compensate", step="a")
    run.send("cancel", compensate=True)
    run.fail("c", "cancelled", not_done=True).fail("a.undo", "cancelled")
    assert sorted(run.calls) == ["a.undo", "b.undo"]
    done(run, "a.undo", "b.undo")
    assert run.status() == "cancelled"


def test_going_back_to_a_version_undoes_what_it_does_not_have():
    run = done(ring(think("a"), think("z")), "a")
    run.send("inject", step=_step(put("extra", "a")))
    run.send("inject", step=_step(put("more", "extra")))
    done(run, "extra")
    with pytest.raises(Refused, match="under way"):
        run.send("rollback", version=1, compensate=True)
    done(run, "more")
    run.send("rollback", version=1, compensate=True)
    done(run, "more.undo", "extra.undo", "z")
    assert run.status() == "done"
    assert run.status("extra") == "compensated"


def test_going_back_with_nothing_to_undo_is_going_back():
    run = done(ring(think("a"), think("z", "a")), "a").send("set_goal", goal="h")
    run.send("rollback", version=1, compensate=True)
    assert run.state.plan.goal == "g"


def test_going_back_removes_and_undoes():
    run = done(ring(think("a"), think("z")), "a")
    run.send("inject", step=_step(put("extra", "a"))).send("inject", step=_step(think("later", "z")))
    done(run, "extra")
    run.send("rollback", version=1, compensate=True)
    assert "later" not in run.statuses()
    assert sorted(run.calls) == ["extra.undo", "z"]


def _step(fields: dict[str, Any]) -> Step:
    return msgspec.convert(fields, Step)


# --- corners


def test_the_fallback_that_is_taken_back_takes_its_target_with_it():
    run = ring(put("try"), put("instead", fallback_for="try"), think("slow"), think("b", "try", "slow"))
    run.fail("try", "permanent", classified=True)
    done(run, "instead").send("compensate", step="instead")
    done(run, "instead.undo", "slow")
    assert run.status("b") == "running"  # with `slow` alone: `try` is absent
    run.finish("b")
    assert run.status() == "done"


def test_a_loop_in_doubt_goes_no_further_once_all_is_undone():
    run = ring(pay("turn", loop={"times": 3})).finish("turn", {"id": 0}).fail("turn", "timeout")
    run.send("cancel", compensate=True).crash().resume().answer("done", {"id": 1})
    assert run.calls == ["turn#1.undo"]
    done(run, "turn#1.undo", "turn#0.undo")
    assert run.status() == "cancelled"
    assert run.result.undone == ("turn",)


def test_rounds_before_one_that_did_not_happen_are_undone():
    run = ring(pay("turn", loop={"times": 3})).finish("turn", {"id": 0}).fail("turn", "timeout")
    run.send("cancel", compensate=True).answer("failed")
    assert run.calls == ["turn#0.undo"]


def test_what_was_absent_for_the_step_is_null_for_what_undoes_it():
    undo = {"tool": "unput", "args": {"x": "${x}", "item": "${item}", "all": "${results}"}}
    step = {"id": "b", "tool": "put", "foreach": [7], "join": "settled", "after": ["y"], "compensate": undo}
    run = ring(think("x"), think("y"), step, think("z", "b", join="settled"))
    run.fail("x", "permanent", classified=True).finish("y", 1)
    done(run, "b[0]").send("cancel", compensate=True).fail("z", "cancelled", not_done=True)
    assert run.args("b[0].undo") == {"x": None, "item": 7, "all": {"y": 1}}


def test_attempts_that_others_replaced_are_no_rounds_to_undo():
    again = {"attempts": 2, "on": ["permanent"], "backoff_s": 0}
    job = {"id": "job", "after": ["a"], "loop": {"times": 2}, "retry": again, "steps": [think("x")]}
    run = done(ring(put("a"), job, think("slow")), "a", "job#0/x")
    run.fail("job#1/x", "permanent", classified=True).tick()
    done(run, "job#1/x").send("compensate", step="a")
    done(run, "a.undo", "slow")
    assert run.status("a") == "compensated"
    assert run.status() == "done"


def test_one_whose_end_was_not_written_any_more_ends_when_it_is_taken_up():
    run = done(cancelled(put("a"), think("b", "a"), finish=("a",)), "a.undo")
    run.salvage(len(run.log) - 1)
    assert run.status() == "cancelled"


def test_what_is_undone_cannot_be_done_again():
    run = done(cancelled(put("a"), think("b", "a"), finish=("a",)), "a.undo")
    with pytest.raises(Refused, match="has been undone"):
        refuse_redoing(run.state)
    refuse_redoing(ring(put("a")).state)


def test_a_question_about_going_on_is_void_once_nobody_wants_to():
    run = done(ring(put("a"), put("b", "a"), limits={"calls": 1}), "a")
    assert run.questions == ["q1"]
    run.send("cancel", compensate=True)
    assert (run.questions, run.calls) == ([], ["a.undo"])


def test_a_doubt_about_undoing_outlives_a_compensation_that_was_stopped():
    run = cancelled(pay("a"), put("other"), think("c", "a"), finish=("a", "other"))
    run.fail("a.undo", "timeout")
    run.send("cancel").fail("other.undo", "cancelled")
    assert run.status() == "cancelled"
    assert "nobody knows" in run.result.not_undone["a"]
    run.crash().send("compensate")
    assert run.calls == ["other.undo"]  # never once more before somebody has said
    done(run, "other.undo").answer("done")
    assert run.result.undone == ("other", "a")


def test_a_doubt_about_undoing_another_step_is_settled_all_the_same():
    run = cancelled(pay("a"), put("other"), think("c", "a"), finish=("a", "other"))
    run.fail("a.undo", "timeout").send("cancel").fail("other.undo", "cancelled")
    run.send("compensate", step="other").answer("done")
    assert run.status("a") == "compensated"
    done(run, "other.undo")
    assert run.status() == "cancelled"


@pytest.mark.parametrize(("answer", "calls"), [("done", []), ("failed", ["a.undo"])])
def test_a_doubt_that_is_settled_before_the_turn_of_its_step_comes(answer: str, calls: list[str]):
    run = done(ring(pay("a"), put("b"), put("z", "a", "b"), think("slow")), "a")
    run.send("compensate", step="a")
    done(run, "b", "z").send("cancel", compensate=True)
    run.fail("slow", "cancelled", not_done=True).fail("a.undo", "timeout")
    assert run.calls == ["z.undo"]
    run.answer(answer)
    done(run, "z.undo", "b.undo")
    assert run.calls == calls
    if calls:
        done(run, "a.undo")
    assert run.status("a") == "compensated"
    assert run.status() == "cancelled"


def test_a_compensation_that_ends_without_a_beginning_makes_no_sense():
    run = ring(put("a"))
    with pytest.raises(InternalError, match="has not begun"):
        evolve(run.state, CompensationEnded(), 0)


def test_when_to_undo_is_a_known_word():
    with pytest.raises(BadInput, match="is no time to undo") as refused:
        RunSettings(undo="always")  # type: ignore[arg-type]
    assert refused.value.code == "undo"
