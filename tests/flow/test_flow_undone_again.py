"""What comes of a run after it was undone, or while it is: nothing of its plan begins unasked."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import Refused
from kedge.flow import inputs as inp
from kedge.flow.commands import Compensate
from kedge.flow.events import CommandRefused, RepairAsked, StepStarted
from kedge.flow.settings import RunSettings
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring

EFFECTS: dict[str, Effect] = {"put": "idempotent", "pay": "effect", "unput": "idempotent"}


def ring(*steps: dict[str, Any], **settings: Any) -> Ring:
    return Ring({"goal": "g", "steps": list(steps)}, EFFECTS, settings=RunSettings(**settings)).start()


def put(id_: str, *after: str) -> dict[str, Any]:
    return {"id": id_, "tool": "put", "after": list(after), "compensate": {"tool": "unput", "args": {}}}


def pay(id_: str, *after: str) -> dict[str, Any]:
    return {"id": id_, "tool": "pay", "after": list(after)}


def test_a_run_of_which_nothing_could_be_undone_goes_on_if_it_is_tried_again():
    run = ring(put("a"), put("b", "a")).finish("a").send("cancel", compensate=True)
    run.fail("b", "cancelled", not_done=True).fail("a.undo", "permanent", classified=True)
    assert run.status() == "cancelled"
    run.crash().resume(retry_failed=True)
    assert run.calls == ["b"]
    run.finish("b")
    assert run.status() == "done"
    assert run.result.not_undone == {}


def test_a_wish_to_undo_ends_with_the_end_that_it_was_for():
    run = ring(put("a"), put("b", "a")).send("cancel", compensate=True).fail("a", "cancelled", not_done=True)
    run.crash().resume(retry_failed=True).finish("a").fail("b", "permanent", classified=True)
    assert run.status() == "failed"
    assert not [event for event in run.of(StepStarted) if event.path.endswith(".undo")]


def test_what_is_in_doubt_is_not_called_again_in_a_run_that_is_undone():
    run = ring(put("a"), pay("b", "a")).finish("a").fail("b", "timeout").send("cancel", compensate=True)
    with pytest.raises(Refused, match="the run is over, and what it did is being undone"):
        run.answer("retry")
    run.answer("failed")
    assert "b" not in run.calls


def test_what_a_call_discovers_that_undoes_something_mends_nothing():
    run = ring(put("a"), put("b", "a"), repair=True).finish("a").send("cancel", compensate=True)
    run.fail("b", "cancelled", not_done=True)
    run.put(inp.Reported("a.undo", run.state.undos["a.undo"].starts, "something", "somebody"))
    assert [one.need for one in run.state.troubles] == ["somebody"]
    assert not run.of(RepairAsked)
    run.finish("a.undo")
    assert run.status() == "cancelled"


def test_nobody_need_approve_a_plan_of_which_only_what_was_done_is_undone():
    run = ring(put("a"), put("b", "a"), ask="plan").answer("approve").finish("a")
    run.send("set_goal", goal="another", role="agent", by="bot")
    run.send("cancel", compensate=True)
    run.fail("b", "cancelled", not_done=True)
    assert run.questions == []
    assert run.calls == ["a.undo"]
    run.fail("a.undo", "permanent", classified=True)
    assert run.status() == "cancelled"
    run.crash().resume(retry_failed=True)  # the plan goes on: so that is asked
    assert len(run.questions) == 1
    assert run.calls == []


def test_a_run_that_has_ended_is_undone_by_whoever_takes_it_up_and_by_nobody_else():
    run = ring(put("a")).finish("a")
    for command in (Compensate(), Compensate(step="a")):
        with pytest.raises(Refused, match="the run has ended"):
            run.put(command)
    run.send("compensate").finish("a.undo")
    assert run.status() == "cancelled"


def test_what_is_refused_after_the_end_is_no_event():
    run = ring(pay("a")).finish("a")
    with pytest.raises(Refused, match="nothing of it can be undone"):
        run.send("compensate", key="k1")
    assert not run.of(CommandRefused)
