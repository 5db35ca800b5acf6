"""What a failure says, to programs and to people: on steps, on what holds them, and on the run."""

from __future__ import annotations

import pytest

from kedge.base.limits import Limits
from kedge.flow.events import StepFailed, plain
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, limits=None, **plan):
    effects: dict[str, Effect] = {"send": "effect", "put": "idempotent"}
    return Ring({"goal": "g", "steps": list(steps), **plan}, effects, limits=limits or Limits()).start()


def failure(run, path=""):
    """All that is known about it, defaults left out."""
    event = run.of(StepFailed, path)[-1] if path else run.events[-1]
    return plain(event)["error"]


def known(code, category, message):
    return {"category": category, "code": code, "message": message, "classified": True}


# --- what a step comes to


def test_a_result_that_does_not_meet_expect():
    run = ring(step("a", expect="result > 1")).finish("a", 1)
    said = "the result does not meet `expect`: result > 1"
    assert failure(run, "a") == known("expect_not_met", "permanent", said)


def test_an_expect_that_cannot_be_evaluated():
    told = failure(ring(step("a", expect="result.n > 1")).finish("a", {}), "a")
    assert told["message"].startswith("expect: ")
    assert (told["category"], told["classified"]) == ("invalid_input", True)
    assert told["code"]


def test_an_until_that_cannot_be_evaluated():
    told = failure(ring(step("a", loop={"times": 2, "until": "loop.previous.n"})).finish("a", {}), "a")
    assert told["message"].startswith("until: ")
    assert (told["category"], told["classified"]) == ("invalid_input", True)
    assert told["code"]


def test_an_until_that_is_not_met():
    run = ring(step("a", loop={"times": 2, "until": "false"})).finish("a").finish("a")
    assert failure(run, "a") == known("until_not_met", "permanent", "`until` was not met after 2 rounds")


@pytest.mark.parametrize(
    ("broken", "code", "words"),
    [
        (step("b", args={"x": "${a.n}"}), None, "n"),
        (step("b", foreach="${a}"), "foreach", "step b"),
        (step("b", "sleep", args={"seconds": "${a}"}), "sleep", "a number from 0 to 31622400"),
        (step("b", when="a.n"), None, "n"),
    ],
)
def test_what_cannot_be_begun_was_not_done(broken, code, words):
    told = failure(ring(step("a"), broken).finish("a", {}), "b")
    assert (told["category"], told["classified"], told["not_done"]) == ("invalid_input", True, True)
    assert words in told["message"]
    assert code is None or told["code"] == code


def test_arguments_over_their_limit():
    run = ring(step("a"), step("b", args={"x": "${a}"}), limits=Limits(args_bytes=2_000))
    told = failure(run.finish("a", "x" * 3_000), "b")
    assert (told["category"], told["code"], told["not_done"]) == ("limit", "args_bytes", True)
    assert "the arguments are 3,008 bytes, the limit args_bytes is 2,000" in told["message"]
    assert "write a file and pass its path" in told["message"]


def test_arguments_that_just_fit_are_taken():
    run = ring(step("a"), step("b", args={"x": "${a}"}), limits=Limits(args_bytes=100))
    assert run.finish("a", "x" * 92).calls == ["b"]


def test_more_items_than_may_be():
    run = ring(step("a"), step("b", foreach="${a}"), limits=Limits(expansions=2)).finish("a", [1, 2, 3])
    told = failure(run, "b")
    assert told["code"] == "foreach"
    assert "foreach over 3 items, the limit expansions is 2" in told["message"]
    assert "not longer" in told["message"]


def test_as_many_items_as_may_be():
    run = ring(step("a"), step("b", foreach="${a}"), limits=Limits(expansions=2)).finish("a", [1, 2])
    assert run.calls == ["b[0]", "b[1]"]


@pytest.mark.parametrize("seconds", [0, 366 * 86_400])
def test_a_sleep_of_no_time_and_of_a_year(seconds):
    run = ring(step("a", "sleep", args={"seconds": seconds}))
    assert run.tick(seconds * 1000).status() == "done"


def test_a_sleep_of_more_than_a_year_whose_number_comes_late():
    run = ring(step("a"), step("b", "sleep", args={"seconds": "${a}"}))
    assert failure(run.finish("a", 366 * 86_400 + 1), "b")["code"] == "sleep"


def test_a_sleep_that_goes_wrong_in_a_later_round():
    seconds = "${1 if loop.index == 0 else 'soon'}"
    run = ring(step("a", "sleep", args={"seconds": seconds}, loop={"times": 2})).tick(1_000)
    assert (run.status("a"), failure(run, "a")["code"]) == ("failed", "sleep")


# --- what holds them


def test_items_that_failed_name_the_first_five_and_its_category():
    run = ring(step("b", foreach=list(range(7)))).finish("b[0]")
    for number in range(1, 6):
        run.fail(f"b[{number}]", "permission" if number == 1 else "permanent", classified=True)
    run.finish("b[6]")
    names = ", ".join(f"b[{number}]" for number in range(1, 6))
    assert failure(run, "b") == known("items_failed", "permission", f"5 of 7 items failed: {names}")


def test_of_more_than_five_items_that_failed_the_rest_is_left_out():
    run = ring(step("b", foreach=list(range(6))))
    for number in range(6):
        run.fail(f"b[{number}]", "permanent")
    assert failure(run, "b")["message"].endswith("6 of 6 items failed: b[0], b[1], b[2], b[3], b[4] …")


def test_a_child_that_failed():
    run = ring(group("p", step("a"), step("b", after=["a"]))).fail("p/a", "permission")
    told = known("child_failed", "permission", "p/a failed: p/a failed: permission")
    assert failure(run, "p") == told


def test_of_children_that_failed_the_one_with_a_failure_of_its_own_is_told():
    run = ring(step("x"), group("p", step("b", after=["x"]), step("c")))
    run.fail("x", "permission").fail("p/c", "timeout")
    assert failure(run, "p") == known("child_failed", "timeout", "p/c failed: p/c failed: timeout")


def test_a_child_that_was_skipped_for_a_failure_outside():
    run = ring(step("x"), group("p", step("b", after=["x"]))).fail("x", "permission")
    assert failure(run, "p") == known("child_failed", "permanent", "p/b failed")


# --- the run


def test_a_run_whose_only_failure_is_a_steps():
    run = ring(step("a")).fail("a", "permission")
    assert failure(run) == known("permission", "permission", "step a failed: a failed: permission")


def test_a_run_in_which_others_were_skipped_because_of_it():
    run = ring(step("b", after=["a"]), step("a")).fail("a", "permission")
    said = "step a failed: a failed: permission (2 steps failed or were skipped because of it)"
    assert failure(run) == known("permission", "permission", said)


def test_a_run_in_which_nothing_but_skips_is_left_of_a_failure():
    run = ring(step("a", on_error="continue"), step("b", after=["a"]), step("c"))
    run.fail("a", "permanent").finish("c")
    assert run.status() == "done"  # what may fail has failed, and what needs it had nothing to go on


def test_a_run_that_did_nothing():
    run = ring(step("a", when="false"))
    assert plain(run.events[-1])["status"] == "empty"
    assert failure(run) == known("nothing_done", "permanent", "every step was skipped")


def test_outputs_that_cannot_be_made():
    told = failure(ring(step("a"), outputs={"n": "a.n"}).finish("a", {}))
    assert told["message"].startswith("outputs: ")
    assert (told["category"], told["code"], told["classified"]) == ("invalid_input", "outputs", True)


def test_a_run_that_was_stopped_at_a_limit():
    run = ring(step("a"), step("b", after=["a"]), limits=Limits(calls=1)).finish("a").answer("stop")
    assert failure(run) == known("stopped", "limit", "stopped at calls")


def test_a_run_that_was_stopped_for_its_tools():
    run = ring(step("a")).crash().resume(changed_tools={"t": "new"}).answer("stop")
    run.tick()
    assert failure(run) == known("stopped", "limit", "stopped at tool_changed")


# --- another attempt of a composite


@pytest.mark.parametrize(
    ("effect", "status"),
    [("pure", "waiting"), ("read", "waiting"), ("idempotent", "failed"), ("effect", "failed")],
)
def test_a_composite_is_tried_again_only_where_that_does_no_harm(effect, status):
    run = ring(group("p", step("a"), retry={"attempts": 2, "backoff_s": 1}))
    run.step("p").node.effect = effect  # a tool became a stronger one after the plan was checked
    assert run.fail("p/a").status("p") == status


def test_the_backoff_of_a_composite_doubles_up_to_its_maximum():
    retry = {"attempts": 4, "backoff_s": 2, "max_backoff_s": 5}
    run = ring(group("p", step("a"), retry=retry))
    for wait_ms in (2_000, 4_000, 5_000):
        run.fail("p/a")
        assert run.next_wake_ms == run.now_ms + wait_ms
        run.tick(wait_ms)
    assert run.fail("p/a").status("p") == "failed"


def test_a_composite_is_not_tried_again_for_what_would_fail_again():
    run = ring(group("p", step("a"), retry={"attempts": 3, "backoff_s": 0})).fail("p/a", "permanent")
    assert run.status("p") == "failed"
