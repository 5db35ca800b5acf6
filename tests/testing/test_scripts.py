"""Scripted tools: what a test wrote down is answered, and nothing else is made up."""

# pyright: reportOptionalMemberAccess=none

from __future__ import annotations

import asyncio
import time

import pytest

import kedge
from kedge.testing import Always, Discover, Fail, Hang, Late, rehearsal, scripted, try_plan, virtual


@kedge.tool(effect="read")
def market(day: int, place: str = "Graz") -> float:
    """The price of a day."""
    raise AssertionError("the real tool was called")


@kedge.tool
async def order(amount: int) -> str:
    """Order something."""
    raise AssertionError("the real tool was called")


@kedge.tool(effect="read")
def day(amount: int):
    """Return a day, in some form."""


def plan(*steps: str, head: str = "") -> str:
    return f"goal: Try it\n{head}\nsteps:\n" + "".join(f"  - {{{step}}}\n" for step in steps)


PRICE = "id: price, tool: market, args: {day: 3}"
ORDER = "id: order, tool: order, args: {amount: 2}, timeout_s: 60"


def test_a_tool_answers_as_it_is_told():
    tools = scripted({"market": 42})
    result = try_plan(plan(PRICE), tools)
    assert result.outputs == {"price": 42}
    assert tools.calls("market") == [{"day": 3}]
    assert (tools.log[0].step, tools.log[0].attempt) == ("price", 1)


def test_answers_come_in_the_order_of_calls_and_failures_are_tried_again():
    tools = scripted({"market": [Fail("transient"), Fail("rate_limited", retry_after_s=3600), 42]})
    result = try_plan(plan(PRICE + ", retry: {attempts: 3}"), tools)
    assert result.outputs == {"price": 42}
    assert len(tools.calls("market")) == 3
    assert 60 < result.seconds < 100  # as long as max_backoff_s at most
    assert len({call.key for call in tools.log}) == 1


def test_a_list_is_answered_each_time_if_it_says_so():
    steps = "id: each, tool: market, foreach: [1, 2], args: {day: '${item}'}"
    assert try_plan(plan(steps), {"market": Always([7])}).outputs == {"each": [[7], [7]]}


def test_a_function_answers_from_the_arguments():
    steps = "id: each, tool: market, foreach: [1, 2, 3], args: {day: '${item}'}"
    odd = {"market": lambda args: Fail() if args["day"] == 2 else args["day"] * 10}
    result = try_plan(plan(steps + ", on_error: continue"), odd)
    assert result.outputs == {"each": [10, None, 30]}


async def test_a_function_may_be_async_and_the_test_too():
    async def answer(args):
        await asyncio.sleep(3600)
        return args["day"]

    result = try_plan(plan(PRICE + ", timeout_s: 7200"), {"market": answer})
    assert result.outputs == {"price": 3}
    assert result.seconds >= 3600


def test_late_hanging_and_discovering_answers():
    tools = {
        "market": Late(3600, Discover("another market", need="its address", answer=4)),
        "order": [Hang(), 1],
    }
    result = try_plan(plan(PRICE + ", timeout_s: 7200", ORDER + ", retry: {attempts: 2}"), tools)
    assert result.outputs == {"price": 4, "order": 1}
    assert result.state.discoveries == [("price", "another market", "its address")]
    assert 3600 <= result.seconds < 3700


def test_three_days_of_sleep_and_hours_of_backoff_take_no_time():
    text = plan(
        "id: rest, tool: sleep, args: {seconds: 259200}",
        PRICE + ", after: [rest], retry: {attempts: 4, backoff_s: 3600, max_backoff_s: 14400}",
        "id: order, tool: order, args: {amount: '${price}'}",
    )
    took_s = []
    for _ in range(5):
        began_s = time.perf_counter()
        result = try_plan(text, {"market": [Fail("transient"), Fail("timeout"), 42], "order": "ordered"})
        took_s.append(time.perf_counter() - began_s)
        assert result.status == "done"
        assert result.seconds > 259200 + 2 * 3600
    assert min(took_s) < 0.050


def test_a_call_that_nobody_scripted_is_told_by_step_tool_and_arguments():
    with pytest.raises(AssertionError) as told:
        try_plan(plan(PRICE + ", on_error: continue", "id: b, tool: order"), {"market": [], "order": 1})
    for word in ("step price", "market", "{'day': 3}"):
        assert word in str(told.value)
    with pytest.raises(AssertionError, match=r"answers 1 and this is number 2"):
        try_plan(plan(PRICE + ", loop: {times: 2}"), {"market": [1]})


def test_an_answer_that_nobody_asked_for_is_told():
    with pytest.raises(AssertionError, match=r"market: answered 1 times; never asked for: \[2, 3\]"):
        try_plan(plan(PRICE), {"market": [1, 2, 3]})
    with pytest.raises(AssertionError, match="order: its answer was never asked for: 5"):
        try_plan(plan(PRICE), scripted({"market": 1, "order": 5}))


def test_an_assertion_in_an_answer_fails_the_test_and_not_only_the_step():
    def answer(args):
        assert args["day"] == 4, "not that day"
        return 1

    with pytest.raises(AssertionError, match=r"step price calls market with .*'day': 3.*: not that day"):
        try_plan(
            plan(PRICE + ", on_error: continue", "id: other, tool: sleep, args: {seconds: 1}"),
            {"market": answer},
        )


def test_a_name_that_is_none_of_the_tools_is_refused_with_the_nearest():
    with pytest.raises(kedge.BadInput, match="did you mean 'market'"):
        scripted({"markte": 1}, [market])
    with pytest.raises(kedge.BadInput, match="did you mean 'market'"):
        try_plan(plan(PRICE), {"markte": 1})
    with pytest.raises(kedge.BadInput, match="is not scripted"):
        scripted({"market": 1}).calls("markte")


def test_the_plan_alone_tells_which_tools_there_are():
    inner = "id: outer, steps: [{id: deep, tool: order, when: 'price > 5', args: {amount: 1}}]"
    result = try_plan(plan(PRICE, inner), {"market": 1})
    assert result.steps["outer/deep"].status == "skipped"


def test_arguments_are_checked_as_the_real_tool_checks_them():
    late = plan("id: day, tool: day, args: {amount: 1}", "id: price, tool: market, args: {day: '${day.n}'}")
    with pytest.raises(AssertionError, match="market: its answer was never asked for"):
        try_plan(late, scripted({"day": {"n": "soon"}, "market": 1}, [market, day]))


def test_arguments_are_checked_against_the_schema_where_only_that_is_known():
    from kedge.plan.tools import Catalog

    late = plan("id: day, tool: day, args: {amount: 1}", "id: price, tool: market, args: {day: '${day.n}'}")
    catalog = Catalog([market.spec, day.spec])

    async def failing():
        async with rehearsal(late, tools) as run:
            result = await run.result()
            assert result.steps["price"].error.category == "invalid_input"
            assert "args.day" in result.steps["price"].error.message

    tools = scripted({"day": {"n": "soon"}, "market": []}, catalog)
    virtual(failing)()


def test_effect_classes_are_those_of_the_real_tools_and_people_are_scripted_too():
    tools = scripted({"order": [Hang(), "ordered"]}, [order])
    result = try_plan(plan(ORDER), tools, answers={"order": "retry"})
    assert result.outputs == {"order": "ordered"}
    done = try_plan(plan(ORDER), scripted({"order": Hang()}, [order]), answers={"order": ("done", 17)})
    assert done.outputs == {"order": 17}


def test_a_question_without_an_answer_is_left_open_and_an_answer_without_a_question_told():
    result = try_plan(plan(ORDER), scripted({"order": Hang()}, [order]))
    assert (result.status, list(result.questions)) == ("waiting", ["q1"])
    with pytest.raises(AssertionError, match="answers that nobody asked for"):
        try_plan(plan(PRICE), {"market": 1}, answers={"price": "done"})


def test_answers_are_found_by_limit_and_given_in_their_order():
    each = plan("id: each, tool: market, foreach: [1, 2, 3], args: {day: 1}", head="limits: {calls: 1}")
    result = try_plan(each, {"market": 1}, answers={"calls": [("raise", 2), ("raise", 9)]})
    assert result.status == "done"


def test_built_in_tools_that_compute_work_as_ever():
    text = plan("id: both, tool: text.join, args: {parts: [a, b], separator: '+'}")
    assert try_plan(text, {}).outputs == {"both": "a+b"}


@virtual
async def test_a_live_run_is_steered_in_virtual_time():
    async with rehearsal(plan(ORDER + "0000"), scripted({"order": Hang()}, [order])) as run:
        await asyncio.sleep(86_400)
        assert run.status == "running"
        await run.cancel()
        result = await run.result()
    assert result.status == "cancelled"
    assert 86_400 <= result.seconds < 86_410


@virtual
async def test_a_run_is_taken_up_where_it_was_left(tmp_path):
    text = plan(PRICE, "id: rest, tool: sleep, after: [price], args: {seconds: 259200}")
    store = tmp_path / "kedge.db"
    async with rehearsal(text, {"market": 1}, store=store) as run:
        await asyncio.sleep(3600)
        assert run.status == "running"
    unasked = scripted({"market": []})
    async with rehearsal(text, unasked, store=store) as run:
        result = await run.result()
    assert (result.status, unasked.calls("market")) == ("done", [])


@virtual
async def test_real_tools_that_block_a_thread_get_their_time():
    @kedge.tool(effect="read")
    def slow() -> str:
        time.sleep(0.1)
        return "done"

    text = plan("id: a, tool: slow, timeout_s: 30", "id: rest, tool: sleep, args: {seconds: 86400}")
    async with rehearsal(text, [slow, *kedge.builtin_tools()]) as run:
        assert (await run.result()).status == "done"


async def test_a_rehearsal_in_real_time_is_refused():
    with pytest.raises(kedge.KedgeError, match=r"@kedge\.testing\.virtual"):
        async with rehearsal(plan(PRICE), {"market": 1}):
            pass


@virtual
async def test_callbacks_in_a_thread_get_their_time():
    seen = []

    def slow(event):
        time.sleep(0.002)
        seen.append(event.kind)

    async with rehearsal(plan(PRICE, "id: rest, tool: sleep, args: {seconds: 86400}"), {"market": 1}) as run:
        run.subscribe(slow)
        await run.result()
        assert seen[-1] == "run_ended"
