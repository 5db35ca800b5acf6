"""How well steps did: what is tested of a result, what is told of it, and what could be better."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from kedge.base.errors import BadInput
from kedge.flow import inputs as inp
from kedge.flow.events import FeedbackGiven
from kedge.flow.settings import RunSettings
from kedge.flow.usage import Usage
from kedge.plan.tools import Catalog, ToolSpec
from kedge.testing.ring import Ring

ANY = {"type": "object", "additionalProperties": True}
WHOLE = {"type": "object", "required": ["n"], "properties": {"n": {"type": "integer"}}}


def step(id_, tool="t", **more) -> dict:
    return {"id": id_, "tool": tool, **more}


def ring(*steps, settings=None, tools=(), **plan):
    catalog = Catalog(
        [
            ToolSpec(name="t", parameters=ANY, effect="pure"),
            ToolSpec(name="slow", parameters=ANY, effect="read", timeout_s=10),
            ToolSpec(name="whole", parameters=ANY, effect="read", returns=WHOLE),
            ToolSpec(name="send", parameters=ANY, effect="effect"),
            *tools,
        ]
    )
    return Ring({"goal": "g", "steps": list(steps), **plan}, catalog=catalog, settings=settings).start()


def told(run, path="a"):
    return run.crash().result.feedback[path]


def codes(run, path="a"):
    return [one.code for one in told(run, path).suggestions]


# --- what is tested of a result


@pytest.mark.parametrize(
    ("fields", "value", "code"),
    [
        ({"output": {"type": "integer"}}, 3, ""),
        ({"output": {"type": "integer"}}, "3", "output_mismatch"),
        ({"output": {"type": "integer"}}, "${x}", "output_mismatch"),
        ({"output": WHOLE}, {"n": "many"}, "output_mismatch"),
        ({"output": {"type": "array", "items": {"type": "string"}}}, [1, 2], "output_mismatch"),
        ({"expect": "result > 1"}, 1, "expect_not_met"),
        ({"expect": "result.x"}, 1, "expr_type"),
        ({"quality": "result"}, 0.1, ""),
        ({"quality": "result"}, 1, ""),
        ({"quality": "result", "quality_min": 0.5}, 0.5, ""),
        ({"quality": "result", "quality_min": 0.5}, 0.4, "quality_low"),
        ({"quality": "result"}, 1.5, "quality_value"),
        ({"quality": "result"}, -0.1, "quality_value"),
        ({"quality": "result"}, True, "quality_value"),
        ({"quality": "result"}, "good", "quality_value"),
        ({"quality": "result.score"}, {}, "expr_missing_key"),
        ({"quality_min": 1}, None, ""),
        ({"tool": "whole", "quality_min": 0.1}, {"n": 1}, ""),
        ({"tool": "whole", "quality_min": 0.1}, {}, "quality_low"),
        ({"tool": "whole"}, {}, ""),
    ],
)
def test_a_result_that_will_not_do_fails_its_step_for_good(fields, value, code):
    run = ring({"id": "a", "tool": "t", "retry": {"attempts": 3}, **fields})
    run.finish("a", value)
    assert run.status("a") == ("failed" if code else "done")
    if code:
        assert (run.error("a").code, run.error("a").classified) == (code, True)


def test_the_form_is_looked_at_first_then_what_is_expected_then_how_good_it_is():
    fields = {"output": {"type": "number"}, "expect": "result > 0", "quality": "result", "quality_min": 0.5}
    for value, code in (("x", "output_mismatch"), (0, "expect_not_met"), (0.3, "quality_low")):
        assert ring({**step("a"), **fields}).finish("a", value).error("a").code == code


def test_a_misfit_says_where_it_is():
    run = ring(step("a", output=WHOLE)).finish("a", {"n": "many"})
    assert run.error("a").message == (
        "the result is not of the form `output`: result.n: 'many' where a whole number is wanted"
    )
    run = ring(step("a", output={"type": "array", "items": {"type": "string"}})).finish("a", [1, 2])
    assert run.error("a").message.endswith("result[0]: 1 where text is wanted (and 1 more)")


def test_a_poor_result_goes_on_to_the_fallback():
    run = ring(
        step("a", quality="result", quality_min=0.5), step("b", fallback_for="a"),
        step("c", args={"x": "${a}"}),
    )  # fmt: skip
    run.finish("a", 0.2).finish("b", 0.9)
    assert run.args("c") == {"x": 0.9}


def test_a_poor_result_is_asked_about():
    run = ring(step("a", quality="result", quality_min=0.5, on_error="ask")).finish("a", 0.2)
    assert run.questions == ["q1"]
    run.answer("retry")
    assert "a" not in run.result.feedback
    run.finish("a", 0.8)
    assert told(run).quality == 0.8


def test_quality_reads_other_steps_too_and_waits_for_them():
    run = ring(step("a", quality="b"), step("b"))
    assert run.calls == ["b"]
    run.finish("b", 0.5).finish("a", None)
    assert told(run).quality == 0.5


def test_each_item_and_each_round_has_its_own_quality():
    run = ring(step("a", foreach=[1, 2], quality="result", quality_min=0.5))
    run.finish("a[0]", 0.6).finish("a[1]", 0.8)
    assert [told(run, path).quality for path in ("a[0]", "a[1]", "a")] == [0.6, 0.8, pytest.approx(0.7)]
    run = ring(step("a", loop={"times": 2}, quality="result"))
    run.finish("a", 0.1).finish("a", 0.9)
    assert [event.quality for event in run.of(FeedbackGiven)] == [0.1, 0.9]
    assert told(run).quality == 0.9


def test_a_foreach_over_nothing_is_as_good_as_can_be():
    assert told(ring(step("a", foreach=[]))).quality == 1.0


# --- what is told of a step


def test_a_step_that_says_nothing_of_its_quality_is_good_if_it_is_done():
    run = ring(step("a"), step("b", on_error="continue"), step("c", when="false"), step("d"))
    run.tick(500).finish("a", 1).fail("b", "permanent")
    assert set(run.result.feedback) == {"a", "b"}, "what was skipped or goes on has none"
    assert len(run.result.feedback) == 2
    a, b = told(run, "a"), told(run, "b")
    assert (a.path, a.quality, a.ok, a.threshold, a.repairable) == ("a", 1.0, True, 0.7, False)
    assert (a.attempts, a.seconds, a.at) == (1, 0.5, datetime.fromtimestamp(1.5, UTC))
    assert (a.estimated_s, a.estimated_cost, a.estimated_tokens) == (None, None, None)
    assert (b.quality, b.ok, b.repairable) == (0.0, False, True)
    with pytest.raises(KeyError):
        _ = run.result.feedback["d"]
    assert run.of(FeedbackGiven) == [], "the log tells it without a word more"


def test_a_result_of_another_form_than_its_tool_promised_is_no_good():
    run = ring(
        step("a", "whole"), step("b", "whole"), step("c", "whole", loop={"times": 2, "collect": "all"})
    )
    run.finish("a", {"n": 1}).finish("b", {"n": "x"}).finish("c", {"n": 1}).finish("c", {})
    assert [told(run, path).quality for path in "abc"] == [1.0, 0.0, 0.0]
    assert (told(run, "b").ok, codes(run, "b")) == (False, ["low_quality"])


def test_the_threshold_is_the_steps_then_the_runs():
    settings = RunSettings(quality_threshold=0.3)
    run = ring(step("a", quality="result"), step("b", quality="result", quality_min=0.1), settings=settings)
    run.finish("a", 0.2).finish("b", 0.2)
    assert (told(run, "a").threshold, told(run, "a").ok) == (0.3, False)
    assert (told(run, "b").threshold, told(run, "b").ok) == (0.1, True)


def test_a_step_that_failed_otherwise_has_not_the_quality_of_an_earlier_try():
    run = ring(step("a", quality="result", quality_min=0.5))
    run.finish("a", 0.4)
    assert told(run).quality == 0.4
    run.resume(retry_failed=True).fail("a", "permanent")
    assert told(run).quality == 0.0


def test_children_of_a_composite_that_begins_anew_forget_their_quality():
    inner = [step("x", quality="result"), step("y", after=["x"])]
    run = ring({"id": "a", "steps": inner, "retry": {"attempts": 2, "backoff_s": 0, "on": ["permanent"]}})
    run.put(inp.Used("a/x", Usage(tokens=3)))
    run.finish("a/x", 0.9).fail("a/y", "permanent").tick(1)
    kept = run.state.told["a/x"]
    assert (kept.quality, kept.usage.tokens) == (None, 3)


@pytest.mark.parametrize(
    ("category", "repairable"), [("permanent", True), ("bug", True), ("permission", False)]
)
def test_whether_another_plan_could_help(category, repairable):
    assert told(ring(step("a")).fail("a", category)).repairable is repairable


@pytest.mark.parametrize("value", [-0.1, 1.1, True, "0.5", None, float("nan")])
def test_a_threshold_is_a_number_from_0_to_1(value):
    with pytest.raises(BadInput, match="quality_threshold is a number from 0 to 1") as refused:
        RunSettings(quality_threshold=value)
    assert (refused.value.code, refused.value.where) == ("setting_value", "quality_threshold")


def test_what_is_asked_before_is_one_of_four():
    with pytest.raises(BadInput, match="'often' cannot be asked for") as refused:
        RunSettings(ask="often")  # type: ignore[arg-type]
    assert refused.value.allowed == ("never", "plan", "effects", "every_step")


def test_settings_ask_for_what_is_asked_besides():
    settings = RunSettings(quality_threshold=0.5)
    whole = settings.completed("effects", repair=False)
    assert whole == RunSettings(quality_threshold=0.5, ask="effects", repair=False)
    assert whole.completed(None, repair=True) == whole


# --- what it used


def test_use_is_added_up_per_step_and_per_run():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 0}, estimate={"cost": 1, "tokens": 5}), step("b"))
    run.put(inp.Used("a", Usage(tokens=10, cost=0.5, cpu_s=1.0, memory_mb=30.0)))
    run.fail("a").tick(1)
    run.put(inp.Used("a", Usage(tokens=1, cost=0.25, memory_mb=20.0)))
    run.finish("a").put(inp.Used("b", Usage(tokens=100)))
    assert told(run).usage == Usage(tokens=11, cost=0.75, cpu_s=1.0, memory_mb=30.0)
    assert (told(run).estimated_cost, told(run).estimated_tokens) == (1, 5)
    assert run.result.usage == Usage(tokens=111, cost=0.75, cpu_s=1.0, memory_mb=30.0)


def test_a_use_of_nothing_and_a_use_after_the_end_are_no_news():
    run = ring(step("a"))
    before = len(run.log)
    run.put(inp.Used("a", Usage()))
    assert len(run.log) == before
    run.finish("a")
    before = len(run.log)
    run.put(inp.Used("a", Usage(tokens=1)))
    assert len(run.log) == before


# --- what could be better


def test_a_step_that_went_as_expected_leaves_nothing_to_say():
    run = ring(step("a", estimate={"seconds": 1}, timeout_s=5)).tick(1_000).finish("a")
    assert codes(run) == []


@pytest.mark.parametrize(
    ("seconds", "expected", "said"),
    [
        (8, 2, "it took 4x its estimate: set estimate.seconds to 8"),
        (0.2, 2, "it took 10 % of its estimate: set estimate.seconds to 0.2"),
        (3, 2, ""),
        (1, 2, ""),
        (0.09, 0.01, ""),
        (0.01, 0.1, ""),
    ],
)
def test_time_far_from_the_estimate(seconds, expected, said):
    run = ring(step("a", estimate={"seconds": expected})).tick(int(seconds * 1000)).finish("a")
    assert [one.text for one in told(run).suggestions] == [said] * bool(said)


def test_the_estimate_of_rounds_is_that_of_each():
    run = ring(step("a", loop={"times": 3, "delay_s": 100}, estimate={"seconds": 2}))
    for _ in range(3):
        run.tick(2_000).finish("a").tick(100_000)
    assert (told(run).seconds, told(run).estimated_s, codes(run)) == (6.0, 6.0, [])


def test_a_sleep_is_expected_to_take_what_it_says():
    run = ring(step("a", "sleep", args={"seconds": 60})).tick(60_000)
    assert (told(run).seconds, told(run).estimated_s, codes(run)) == (60.0, 60.0, [])


def test_what_is_estimated_of_one_call_is_not_held_against_all_items():
    run = ring(step("a", foreach=[1, 2], estimate={"seconds": 1, "cost": 1})).tick(5_000)
    run.finish("a[0]").finish("a[1]")
    assert (told(run).estimated_s, told(run).estimated_cost, codes(run)) == (None, None, [])
    assert codes(run, "a[1]") == ["slow"]
    (one,) = run.result.suggestions
    assert (one.path, one.text[-20:]) == ("a[0]", "(and 1 more like it)")


@pytest.mark.parametrize(
    ("estimate", "used", "said"),
    [
        ({"cost": 1}, Usage(cost=2), "it cost 2, and 1 were expected"),
        ({"tokens": 10}, Usage(tokens=1_000), "it used 1,000 tokens, and 10 were expected"),
        ({"tokens": 10, "cost": 1}, Usage(tokens=12, cost=1.2), ""),
    ],
)
def test_more_used_than_expected(estimate, used, said):
    run = ring(step("a", estimate=estimate)).put(inp.Used("a", used)).finish("a")
    assert [one.text for one in told(run).suggestions] == [said] * bool(said)


@pytest.mark.parametrize(
    ("fields", "seconds", "found"),
    [
        ({"timeout_s": 100}, 90, ["near_timeout"]),
        ({"timeout_s": 100}, 50, []),
        ({"timeout_s": 100}, 3, ["far_from_timeout"]),
        ({"timeout_s": 5}, 0.1, []),
        ({"tool": "slow"}, 9, ["near_timeout"]),
        ({"tool": "slow"}, 0.1, []),
        ({}, 200, []),
    ],
)
def test_a_timeout_that_is_too_short_or_too_long(fields, seconds, found):
    assert codes(ring({**step("a"), **fields}).tick(int(seconds * 1000)).finish("a")) == found


@pytest.mark.parametrize(
    ("attempts", "at", "said"),
    [
        (2, 2, "it succeeded only at attempt 2 of 2: raise retry.attempts"),
        (5, 3, "it succeeded only at attempt 3 of 5: raise retry.backoff_s"),
        (5, 2, ""),
        (5, 1, ""),
    ],
)
def test_a_success_that_came_late(attempts, at, said):
    run = ring(step("a", retry={"attempts": attempts, "backoff_s": 0}))
    for _ in range(at - 1):
        run.fail("a").tick(1)
    assert [one.text for one in told(run.finish("a")).suggestions] == [said] * bool(said)


@pytest.mark.parametrize(
    ("category", "tool", "found"),
    [("transient", "t", "no_retry"), ("permanent", "t", "failed"), ("transient", "send", "failed")],
)
def test_a_failure(category, tool, found):
    run = ring(step("a", tool)).fail("a", category, classified=True)
    assert codes(run) == [found]


def test_a_failure_for_want_of_quality():
    run = ring(step("a", quality="result", quality_min=0.5)).finish("a", 0.25)
    (one,) = told(run).suggestions
    assert (one.code, one.text) == (
        "poor", "quality 0.25 is under quality_min: give it a fallback, or better input",
    )  # fmt: skip


def test_a_failure_inside_says_more_than_that_of_the_whole():
    run = ring({"id": "a", "steps": [step("x")]}, step("b", foreach=[1])).fail("a/x", "permanent")
    run.fail("b[0]", "permanent")
    assert [one.path for one in run.result.suggestions] == ["a/x", "b[0]"]


def test_a_fallback_that_did_the_work():
    run = ring(step("a"), step("b", fallback_for="a")).fail("a", "permanent").finish("b")
    assert codes(run) == ["replaced"]
    assert codes(run, "b") == []


@pytest.mark.parametrize(
    ("steps", "plan", "found"),
    [
        ([step("a"), step("b", after=["a"])], {}, ["a"]),
        ([step("a"), step("b", args={"x": "${a}"})], {}, []),
        ([step("a"), step("b")], {"outputs": {"x": "b"}}, ["a"]),
        ([step("a"), step("b")], {"outputs": {"x": "b"}, "answer": "${a}"}, []),
        ([step("a"), step("b")], {"outputs": {"x": "results"}}, []),
        ([step("a"), step("b", after=["a"], when="present(results)")], {}, []),
        ([step("a", "send"), step("b", after=["a"])], {}, []),
        ([step("a", expect="true or result"), step("b", after=["a"])], {}, []),
        ([step("a", foreach=[1]), step("b", after=["a"])], {}, ["a"]),
        ([{"id": "a", "steps": [step("x"), step("y", after=["x"])]}], {}, []),
        ([step("a"), {"id": "b", "after": ["a"], "steps": [step("a")]}], {}, ["a"]),
    ],
)
def test_a_result_that_nobody_reads(steps, plan, found):
    run = ring(*steps, **plan)
    while run.calls:
        run.finish(run.calls[0], 1)
    assert run.status() == "done"
    assert [one.path for one in run.result.suggestions if one.code == "unread"] == found


def test_the_most_useful_comes_first():
    run = ring(
        step("a", estimate={"seconds": 1}), step("b", quality="result"), step("c", on_error="continue")
    )
    run.tick(9_000).finish("a").finish("b", 0.1).fail("c", "permanent")
    assert [one.code for one in run.result.suggestions] == ["failed", "low_quality", "slow"]
    weights = [one.weight for one in run.result.suggestions]
    assert weights == sorted(weights, reverse=True)
