"""What a step waits for from outside, in its corners: names, times, who takes what."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.flow.events import SignalReceived, SignalTaken, StepFailed, StepWaiting, plain
from kedge.testing.ring import Places, Ring


def step(id_: str, tool: str = "t", **more: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, **more}


def waits(id_: str, signal: str = "go", expires_s: float | None = None, **more: Any) -> dict[str, Any]:
    wait = {"signal": signal} | ({"expires_s": expires_s} if expires_s else {})
    return {"id": id_, "wait": wait, **more}


def ring(*steps: dict[str, Any], gate: Places | None = None, **plan: Any) -> Ring:
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}, gate=gate).start()


def test_what_a_wait_leaves_in_the_log():
    run = ring(waits("a", expires_s=1.5)).send("signal", name="go", data=[1])
    assert plain(run.of(StepWaiting)[0]) == {
        "kind": "StepWaiting", "path": "a", "until": 2_500, "reason": "signal", "signal": "go",
    }  # fmt: skip
    assert plain(run.of(SignalReceived)[0]) == {"kind": "SignalReceived", "name": "go", "data": [1]}
    assert plain(run.of(SignalTaken)[0]) == {"kind": "SignalTaken", "path": "a", "name": "go"}
    assert run.state.signals == {}


def test_a_wait_without_an_end_has_no_timer():
    run = ring(waits("a"))
    assert run.next_wake_ms is None
    assert plain(run.of(StepWaiting)[0])["until"] == 0


def test_a_wait_that_was_in_vain_says_for_what():
    run = ring(waits("a", expires_s=1)).tick(1_000)
    assert plain(run.of(StepFailed)[0])["error"] == {
        "category": "timeout", "code": "signal_expired", "message": "no signal 'go' came in time",
        "classified": True,
    }  # fmt: skip
    assert run.status() == "failed"


@pytest.mark.parametrize(
    ("name", "status"), [("x", "waiting"), ("x" * 200, "waiting"), ("", "failed"), ("x" * 201, "failed")]
)
def test_a_name_has_1_to_200_characters(name, status):
    run = ring(step("n"), waits("a", "${n}")).finish("n", name)
    assert run.status("a") == status


def test_a_name_that_cannot_be_says_where_and_what_to_do():
    run = ring(step("n"), waits("a", "${n}")).finish("n", 5)
    said = run.error("a").message
    assert "step a" in said
    assert "this is 5" in said
    assert "name it in text" in said


def test_a_signal_that_expired_is_not_taken_when_it_comes_late():
    run = ring(waits("a", expires_s=1, on_error="continue"), step("b")).tick(1_000)
    run.send("signal", name="go", data=1)
    assert (run.status("a"), len(run.state.signals["go"])) == ("failed", 1)
    assert run.finish("b").status() == "done"


def test_one_signal_serves_one_of_those_that_wait():
    run = ring(waits("a"), waits("b"), waits("c"))
    run.send("signal", name="go", data=1).send("signal", name="go", data=2)
    assert [run.status(path) for path in "abc"] == ["done", "done", "waiting"]
    assert [run.value(path) for path in "ab"] == [1, 2]
    assert run.state.listening == 1


def test_signals_kept_are_taken_by_those_that_come_to_wait_in_one_turn():
    run = ring(step("x"), waits("a", after=["x"]), waits("b", after=["x"]))
    run.send("signal", name="go", data=1).send("signal", name="go", data=2).finish("x")
    assert sorted([run.value("a"), run.value("b")]) == [1, 2]
    assert run.status() == "done"


def test_a_signal_does_not_end_a_pause():
    run = ring(waits("a"), step("b", after=["a"])).send("pause").send("signal", name="go")
    assert (run.status("a"), run.status()) == ("waiting", "paused")
    assert run.send("unpause").calls == ["b"]


def test_a_loop_that_waits_tells_its_waits_from_its_delays():
    run = ring(waits("a", expires_s=5, loop={"times": 2, "delay_s": 3}))
    run.send("signal", name="go", data=1)
    assert run.next_wake_ms == 4_000
    run.send("signal", name="go", data=2)  # kept: it is not waited for yet
    assert run.status("a") == "waiting"
    assert run.tick(3_000).value("a") == 2


def test_the_place_of_a_call_that_is_asked_about_goes_to_others():
    gate = Places({"send": 1})
    run = ring(step("a", "send", approval={"ask": "May it?"}, priority=1), step("b", "send"), gate=gate)
    assert run.calls == ["b"]
    run.finish("b")
    assert gate.left == {"send": 1}
    assert run.answer("approve").calls == ["a"]
    assert gate.left == {"send": 0}


def test_an_expect_and_an_until_see_what_came():
    run = ring(waits("a", expect="result > 1", loop={"times": 3, "until": "loop.previous > 5"}))
    run.send("signal", name="go", data=2).send("signal", name="go", data=6)
    assert run.value("a") == 6
    run = ring(waits("a", expect="result > 1")).send("signal", name="go", data=1)
    assert run.error("a").code == "expect_not_met"
