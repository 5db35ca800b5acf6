"""Steps that wait for something from outside."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import Refused
from kedge.flow import steer
from kedge.testing.ring import Ring


def ring(*steps: dict[str, Any], **more: Any) -> Ring:
    return Ring({"goal": "g", "steps": list(steps), **more}, {"send": "effect"}).start()


def waits(id_: str, signal: str = "paid", expires_s: float | None = None, **fields: Any) -> dict[str, Any]:
    wait = {"signal": signal} | ({"expires_s": expires_s} if expires_s else {})
    return {"id": id_, "wait": wait, **fields}


def step(id_: str, **fields: Any) -> dict[str, Any]:
    return {"id": id_, "tool": "t", **fields}


def test_a_signal_is_the_result_of_the_step_that_waits_for_it():
    run = ring(waits("a"), step("b", args={"x": "${a.sum}"}))
    assert run.status("a") == "waiting"
    assert run.status() == "waiting"
    run.send("signal", name="paid", data={"sum": 7})
    assert run.args("b") == {"x": 7}


def test_a_signal_that_comes_early_is_kept():
    run = ring(step("first"), waits("a", after=["first"]))
    run.send("signal", name="paid", data=1).crash().resume()
    run.finish("first")
    assert run.value("a") == 1
    assert run.status() == "done"


def test_each_signal_is_taken_once_the_oldest_first_by_who_waited_longest():
    run = ring(waits("a"), waits("b"), waits("c", "other"))
    run.send("signal", name="paid", data=1)
    assert (run.status("a"), run.status("b")) == ("done", "waiting")
    run.send("signal", name="paid", data=2)
    assert run.value("b") == 2
    assert run.status("c") == "waiting"


def test_no_signal_in_time_is_a_failure():
    run = ring(waits("a", expires_s=60), step("b", fallback_for="a"))
    run.tick(59_000)
    assert run.status("a") == "waiting"
    run.tick(2_000)
    assert run.error("a").code == "signal_expired"
    assert run.calls == ["b"]


def test_a_signal_is_named_by_an_expression():
    run = ring(step("a"), waits("b", "order-${a}"), waits("bad", "${a}", after=["b"]))
    run.finish("a", 12).send("signal", name="order-12")
    assert run.status("b") == "done"
    assert run.error("bad").code == "signal_name"


def test_a_loop_waits_anew_in_each_round():
    run = ring(waits("a", loop={"times": 3, "until": "loop.previous == 2", "delay_s": 1, "collect": "all"}))
    run.send("signal", name="paid", data=1).tick(1_000)
    assert run.status("a") == "waiting"
    run.send("signal", name="paid", data=2)
    assert run.value("a") == [1, 2]


def test_every_item_waits_on_its_own():
    run = ring(waits("a", "paid-${item}", foreach=[1, 2]))
    run.send("signal", name="paid-2", data="two").send("signal", name="paid-1", data="one")
    assert run.value("a") == ["one", "two"]


def test_siblings_go_on_while_a_step_waits():
    run = ring(waits("a"), step("b"))
    assert run.status() == "running"
    run.finish("b")
    assert run.status() == "waiting"


def test_a_skipped_or_cancelled_wait_takes_no_signal():
    run = ring(waits("a"), waits("b"))
    run.send("skip", step="a").send("signal", name="paid", data=1)
    assert (run.status("a"), run.status("b")) == ("skipped", "done")
    other = ring(waits("a"))
    other.send("cancel")
    assert other.status() == "cancelled"


def test_kept_signals_are_bounded(monkeypatch):
    monkeypatch.setattr(steer, "SIGNALS_MAX", 2)
    run = ring(step("a"))
    run.send("signal", name="x").send("signal", name="y")
    with pytest.raises(Refused) as refused:
        run.send("signal", name="z")
    assert refused.value.code == "too_many_signals"


def test_waiting_survives_a_crash():
    run = ring(waits("a", expires_s=60), step("b", after=["a"]))
    run.crash().resume()
    assert run.status() == "waiting"
    run.send("signal", name="paid", data=[1])
    assert run.value("a") == [1]
    assert run.calls == ["b"]
