"""A run that branches off another: it begins as that was, repeats nothing that is known, and is its own."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from kedge.base.errors import InvalidPlan, Refused
from kedge.flow import inputs as inp
from kedge.flow.compensation import not_undone, undone
from kedge.flow.events import Forked, PlanAdopted, ResultKept, ResultReused, RoundEnded, RunCancelling
from kedge.flow.settings import RunSettings
from kedge.plan.parts import Step
from kedge.plan.patch import Addition, Patch
from kedge.plan.tools import Catalog
from kedge.testing.ring import Ring

EFFECTS: Any = {"send": "effect", "put": "idempotent", "read": "read"}


def ring(*steps: dict[str, Any], ask: Any = "never", **more: Any) -> Ring:
    plan = {"goal": "g", "steps": list(steps), **more}
    return Ring(plan, EFFECTS, settings=RunSettings(ask=ask)).start()


def step(id_: str, tool: str = "t", *after: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, "after": list(after), **fields}


CHAIN = (step("a"), step("b", "send", args={"x": "${a}"}), step("c", "put", args={"x": "${b}"}))


def lived() -> Ring:
    return ring(*CHAIN).finish("a", 1).finish("b", 2).finish("c", 3)


def after(run: Ring, kind: str, path: str) -> int:
    """Number of the first event of that kind about that step."""
    found = (
        n for n, e in enumerate(run.events, 1) if type(e).__name__ == kind and getattr(e, "path", "") == path
    )
    return next(found)


def reused(run: Ring) -> list[str]:
    return [event.path for event in run.of(ResultReused)]


@pytest.mark.parametrize("at", range(2, 10))
def test_what_the_other_run_knows_is_taken_over_whatever_its_class(at):
    run = lived()
    values = [run.value(id_) for id_ in "abc"]
    done = [id_ for id_ in "abc" if after(run, "StepSucceeded", id_) <= at]
    run.fork(at)
    assert (run.status(), [run.value(id_) for id_ in "abc"]) == ("done", values)
    assert done + reused(run) == ["a", "b", "c"]
    assert [path for path, _ in run.launched] == ["a", "b", "c"], "no call was made again"
    assert run.state.forked_from == ("r0", at)
    assert run.state.kept == {}


def test_anew_makes_every_call_again():
    run = lived().fork(2, anew=True)
    assert (run.calls, run.of(ResultKept)) == (["a"], [])


def test_another_call_is_made():
    run = lived()
    run.fork(after(run, "StepStarted", "b") - 1, Patch(change={"b": {"args": {"x": 9}}}))
    assert run.args("b") == {"x": 9}
    run.finish("b", 2)
    assert run.status() == "done", "c has what it had, so it need not be called"
    assert reused(run) == ["c"]
    assert [(e.cause, e.version) for e in run.of(PlanAdopted)] == [("start", 1), ("fork", 2)]


def test_an_edit_that_may_not_be_made_is_told():
    run = lived()
    removal = Patch(remove=("a",))
    with pytest.raises(InvalidPlan):
        run.fork(9, removal)


def test_a_fork_at_the_end_goes_on_with_what_is_added():
    more = Addition(step=Step(id="d", tool="send", args={"x": "${c}"}))
    run = lived().fork(9, Patch(add=(more,)))
    assert (run.status(), run.calls, run.args("d")) == ("running", ["d"], {"x": 3})
    run.finish("d", 4)
    assert run.status() == "done"


def test_a_fork_at_the_end_without_an_edit_comes_to_the_same_end():
    assert lived().fork(9).status() == "done"


def test_what_failed_in_a_run_that_did_not_fail_for_it_is_left_alone():
    run = ring(step("a", on_error="continue"), step("b")).fail("a", "permanent").finish("b")
    run.fork(len(run.log))
    assert (run.status("a"), run.status(), run.calls) == ("failed", "done", [])


def test_a_fork_at_the_end_of_a_failed_run_tries_again():
    run = ring(step("a"), step("b", after=["a"])).fail("a", "permanent")
    assert run.status() == "failed"
    run.fork(len(run.log))
    assert run.calls == ["a"]
    run.finish("a").finish("b")
    assert run.status() == "done"


def test_what_was_in_flight_is_ready_again_and_has_what_it_came_to_later():
    run = lived()
    begun = after(run, "StepStarted", "b")
    run.fork(begun)
    assert (reused(run), run.status("b")) == (["b", "c"], "done")
    run = ring(*CHAIN).finish("a", 1)
    run.fork(len(run.log))
    assert run.calls == ["b"], "nobody knows what it came to: the call is made"
    assert run.of(Forked)[0].seq == begun


def test_what_was_in_flight_and_wanted_no_more_is_no_part_of_it():
    run = ring(step("a"), step("b")).send("edit", patch=Patch(cancel=("a",)))
    run.fork(len(run.log))
    assert (run.status("a"), run.calls) == ("cancelled", ["b"])
    run.finish("b")
    assert run.status() == "done"


@pytest.mark.parametrize("at_the_end", [False, True])
def test_a_cancelled_run_goes_on_in_its_fork(at_the_end):
    run = ring(step("a"), step("b", "send")).finish("a").send("cancel")
    if at_the_end:
        run.fail("b", "cancelled", not_done=True)
    run.fork(len(run.log))
    assert (run.status(), run.calls, run.status("a")) == ("running", ["b"], "done")
    assert len(run.of(RunCancelling)) == 1


def test_a_run_that_was_to_stop_at_a_limit_goes_on_in_its_fork():
    run = ring(step("a"), step("b"), limits={"parallel": 1, "calls": 1})
    run.put(inp.Exhausted("run_s", 1e9))
    run.answer("stop").fork(len(run.log))
    assert (run.status(), run.state.stopped_by, len(run.of(RunCancelling))) == ("waiting", "", 1)
    (question,) = run.questions  # its one call was made: it asks for more
    run.answer("raise", question=question)
    assert run.calls == ["a"]


def test_a_pause_is_the_other_runs():
    run = ring(step("a"), step("b", after=["a"])).send("pause")
    run.fork(len(run.log))
    assert (run.status(), run.calls) == ("running", ["a"])


def test_keys_of_commands_are_the_other_runs():
    run = ring(step("a"), step("b", after=["a"])).send("pause", key="k")
    run.fork(len(run.log)).send("pause", key="k")
    assert run.status() == "paused"


def test_each_result_stands_for_one_call_that_of_its_own_step_first():
    same = {"x": 1}
    run = ring(step("a", args=same), step("b", args=same), step("c", "t", "a", "b", args=same))
    run.finish("b", 20).finish("a", 10).finish("c", 30)
    run.fork(2)
    assert [run.value(id_) for id_ in "abc"] == [10, 20, 30]
    assert len({event.source for event in run.of(ResultReused)}) == 3


def test_a_step_with_another_name_makes_the_same_call():
    run = ring(step("a", "send", args={"x": 1})).finish("a", 5)
    again = Addition(step=Step(id="b", tool="send", args={"x": 1}))
    run.fork(2, Patch(remove=("a",), add=(again,)))
    assert (run.value("b"), reused(run)) == (5, ["b"])


def test_another_definition_of_a_tool_is_another_call():
    run = lived()
    kept = run.fork(2).of(ResultKept)
    other = ring(*CHAIN)
    changed = [msgspec.structs.replace(one, definition="x") for one in kept]
    other.crash().put(inp.Branched(run="r", seq=3, kept=changed))
    assert (other.calls, reused(other)) == (["a"], [])


def test_rounds_of_a_loop_come_to_what_they_came_to():
    loop = {"times": 3, "collect": "all"}
    run = ring(step("a", loop=loop)).finish("a", 1).finish("a", 2).finish("a", 3)
    assert run.value("a") == [1, 2, 3]
    run.fork(2)
    assert (run.value("a"), run.calls, len(run.of(RoundEnded))) == ([1, 2, 3], [], 2)
    assert run.step("a").spans is None, "nothing ran"
    run.fork(after(run, "RoundEnded", "a"))
    assert run.value("a") == [1, 2, 3]


def test_the_last_round_is_not_all_of_them():
    loop = {"times": 2, "collect": "last"}
    run = ring(step("a", loop=loop)).finish("a", 1).finish("a", 2).fork(2)
    assert (run.value("a"), run.calls) == (2, [])


def test_large_results_are_taken_over_too():
    run = (
        ring(step("a", loop={"times": 2, "collect": "all"}))
        .finish("a", "x" * 20_000)
        .finish("a", "y" * 20_000)
    )
    value = run.value("a")
    run.fork(2)
    assert (run.value("a"), run.calls) == (value, [])


def test_a_result_that_does_not_meet_what_is_expected_now_is_not_used():
    run = lived()
    run.fork(4, Patch(change={"b": {"expect": "result > 5"}}))
    assert (run.calls, run.args("b")) == (["b"], {"x": 1})
    run = lived()
    run.fork(4, Patch(change={"b": {"expect": "result > 1"}}))
    assert reused(run) == ["b", "c"]


def test_nobody_is_asked_about_a_call_that_is_not_made():
    run = ring(step("a", "send"), step("b", "send", "a"), ask="effects")
    run.answer("approve").finish("a", 1).answer("approve").finish("b", 2)
    run.fork(2)
    assert (run.status(), run.questions, reused(run)) == ("done", [], ["a", "b"])


def test_an_approval_was_for_the_other_runs_call():
    run = ring(step("a", "send"), ask="effects").answer("approve")
    run.fork(len(run.log))
    assert (run.calls, run.questions) == ([], ["q2"])
    run.answer("approve")
    assert run.calls == ["a"]


def test_a_call_that_was_allowed_here_is_made():
    edited = {"x": 7}
    run = ring(step("a", "send"), ask="effects").answer("approve", value=edited).finish("a", 1)
    run.fork(2)
    assert run.questions == ["q1"], "the plan's own call was never made"
    run.answer("approve", value=edited)
    assert (run.calls, run.args("a")) == (["a"], edited)


def test_how_it_is_driven_can_be_changed():
    run = ring(step("a", "send"), step("b", "send", "a")).finish("a", 1)
    run.crash().put(inp.Branched(run="r", seq=5, settings=RunSettings(ask="effects"), by="anna"))
    assert (run.questions, run.state.settings.ask) == (["q1"], "effects")
    assert run.of(Forked)[0].by == "anna"


def test_what_is_not_known_of_a_damaged_run_is_asked_about():
    run = ring(*CHAIN).finish("a", 1)
    run.crash().put(inp.Branched(run="r", seq=5, lost="Something is lost."))
    assert [run.state.questions[id_].asked.reason for id_ in run.questions] == ["salvaged"]


def test_a_question_that_the_cut_left_out_is_asked():
    run = ring(step("a", "send")).fail("a", "timeout")
    run.fork(run.kinds.index("StepInDoubt") + 1)
    assert (run.status("a"), len(run.questions)) == ("in_doubt", 1)
    run.answer("done", 1)
    assert run.status() == "done"


def test_a_fork_of_a_fork_knows_what_both_did():
    run = ring(*CHAIN, step("d", "send", "c")).finish("a", 1).finish("b", 2)
    run.fork(after(run, "StepStarted", "b") - 1)
    run.finish("c", 3).finish("d", 4)
    assert run.status() == "done"
    run.fork(2)
    assert (run.status(), run.state.forked_from, run.calls) == ("done", ("r1", 2), [])
    run.fork(after(run, "ResultReused", "b"))
    assert run.status() == "done"


def test_a_fork_of_a_fork_that_takes_nothing_over_makes_its_calls():
    run = ring(*CHAIN).finish("a", 1).finish("b", 2)
    run.fork(2).fork(len(run.log), anew=True)
    assert run.state.kept == {}


def test_a_tool_that_the_engine_does_not_have_keeps_nothing():
    run = lived()
    run.log[0] = (run.log[0][0].replace(b'"send"', b'"gone"'), run.log[0][1])
    run.fork(2)
    assert [event.path for event in run.of(ResultKept)] == ["a", "c"]


def test_a_tool_that_is_not_there_any_more_has_nothing_taken_over():
    run = lived()
    run._tools = Catalog([])
    run.fork(2)
    assert (run.calls, reused(run)) == (["a"], [])


def test_a_call_that_became_many_keeps_no_result_of_its_own():
    run = ring(step("a"), step("b")).send("pause").crash().resume()
    run.send("edit", patch=Patch(change={"a": {"foreach": [1]}})).send("unpause")
    run.finish("a[0]", 1).finish("b", 2)
    assert [event.path for event in run.fork(2).of(ResultKept)] == ["a[0]", "b"]


def test_the_time_of_the_other_runs_call_is_not_the_forks():
    run = ring(*CHAIN).finish("a", 1)
    run.now_ms += 3_600_000
    run.fork(len(run.log))
    run.now_ms += 2_000
    assert run.finish("b", 2).result.steps["b"].seconds == 2
    run = lived()
    run.now_ms += 3_600_000
    assert run.fork(after(run, "StepStarted", "b")).result.steps["b"].seconds is None
    retried = ring(step("a", retry={"attempts": 2, "backoff_s": 1})).fail("a").tick(1_000)
    begun = retried.step("a").started_at
    assert retried.fork(len(retried.log)).step("a").started_at == begun, "it has a story of its own by then"


UNDOABLE = (
    step("a", "put", compensate={"tool": "send"}),
    step("b", "put", "a", compensate={"tool": "send"}),
    step("c", "t", "b"),
)


def test_a_fork_undoes_what_it_did_itself_and_nothing_of_the_other_run():
    run = ring(*UNDOABLE).finish("a", 1)
    run.fork(len(run.events)).finish("b", 2)
    run.send("cancel", compensate=True).finish("c", 3)
    assert [path for path, _ in run.launched if path.endswith(".undo")] == ["b.undo"]
    run.finish("b.undo")
    assert run.status() == "cancelled"
    assert undone(run.state) == ["b"]
    assert not_undone(run.state) == {"a": "run r0 did it"}


def test_what_a_fork_took_over_is_not_its_own_to_undo():
    run = ring(*UNDOABLE).finish("a", 1).finish("b", 2)
    run.fork(2)
    assert reused(run) == ["a", "b"]
    run.send("cancel", compensate=True).finish("c", 3)
    assert run.status() == "cancelled"
    assert not_undone(run.state) == {"a": "run r0 did it", "b": "run r0 did it"}


def test_a_fork_that_only_took_over_has_nothing_to_undo_whatever_the_class_of_its_tools():
    run = ring(
        step("a", "t", compensate={"tool": "send"}), step("b", "put", "a", compensate={"tool": "send"})
    )
    run.finish("a", 1).finish("b", 2).fork(2)
    assert (run.status(), reused(run)) == ("done", ["a", "b"])
    with pytest.raises(Refused) as refused:
        run.send("compensate")
    assert refused.value.code == "cannot_compensate"


def test_a_fork_of_a_run_that_is_to_be_undone_goes_on():
    run = ring(*UNDOABLE).finish("a", 1)
    run.send("cancel", compensate=True)
    at = after(run, "RunCancelling", "")
    run.fork(at)
    assert not run.state.undo_after
    run.finish("b", 2).finish("c", 3)
    assert run.status() == "done"


def test_what_was_undone_since_is_not_taken_over():
    run = ring(*UNDOABLE).finish("a", 1).finish("b", 2)
    run.send("cancel", compensate=True).finish("c", 3).finish("b.undo").finish("a.undo")
    run.fork(2)
    assert reused(run) == []
    assert run.calls == ["a"]
