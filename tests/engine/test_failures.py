"""What the engine does about a failure: by its category, and by what a repeated call would do."""

# pyright: reportOptionalMemberAccess=none, reportOptionalOperand=none, reportOperatorIssue=none, reportArgumentType=none

import asyncio
import itertools

import pytest

import kedge

FAST = {"attempts": 3, "backoff_s": 0.01}


def plan(*steps):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps)})


async def outcome(the_plan, *tools):
    async with kedge.Engine(tools=tools) as engine:
        return await (await engine.start(the_plan)).result()


def failing(effect, *errors):
    """A tool that raises these, one for each call, and then returns; and the list of its calls."""
    calls = []
    left = itertools.chain(errors)

    @kedge.tool(effect=effect)
    async def work() -> str:
        calls.append(asyncio.get_running_loop().time())
        error = next(left, None)
        if error is not None:
            raise error
        return "done"

    return work, calls


@kedge.tool(effect="pure")
async def instead() -> str:
    return "instead"


@pytest.mark.parametrize("effect", ["pure", "read", "idempotent"])
@pytest.mark.parametrize("category", ["transient", "timeout", "rate_limited"])
async def test_what_may_pass_is_tried_again(effect, category):
    work, calls = failing(effect, kedge.ToolError("a", category), kedge.ToolError("b", category))
    result = await outcome(plan({"id": "a", "tool": "work", "retry": FAST}), work)
    assert result.ok
    assert len(calls) == 3
    assert result.steps["a"].attempt == 3
    assert result.counts.attempts == 3


@pytest.mark.parametrize("category", ["invalid_input", "permission", "permanent", "limit", "missing_tool"])
async def test_what_will_not_pass_is_not_tried_again(category):
    work, calls = failing("read", kedge.ToolError("no", category))
    result = await outcome(plan({"id": "a", "tool": "work", "retry": FAST}), work)
    assert result.status == "failed"
    assert result.steps["a"].error.category == category
    assert len(calls) == 1


async def test_a_step_may_name_the_categories_it_is_tried_again_for():
    work, calls = failing("read", kedge.ToolError("no", "permission"), kedge.ToolError("x", "transient"))
    step = {"id": "a", "tool": "work", "retry": {**FAST, "on": ["permission"]}}
    result = await outcome(plan(step), work)
    assert len(calls) == 2
    assert result.steps["a"].error.category == "transient"


async def test_the_wait_between_attempts_grows_and_is_bounded():
    errors = [kedge.ToolError("no", "transient") for _ in range(4)]
    work, calls = failing("read", *errors)
    retry = {"attempts": 5, "backoff_s": 0.05, "max_backoff_s": 0.1}
    assert (await outcome(plan({"id": "a", "tool": "work", "retry": retry}), work)).ok
    waits = [after - before for before, after in itertools.pairwise(calls)]
    assert waits[0] >= 0.045
    assert waits[1] >= 0.095
    assert all(wait < 0.1 * 1.5 + 0.15 for wait in waits)


async def test_a_tool_may_say_when_to_come_back():
    work, calls = failing("read", kedge.ToolError("later", "rate_limited", retry_after_s=0.2))
    assert (await outcome(plan({"id": "a", "tool": "work", "retry": FAST}), work)).ok
    assert calls[1] - calls[0] >= 0.19


async def test_a_lie_about_when_to_come_back_is_bounded():
    work, calls = failing("read", kedge.ToolError("next year", "rate_limited", retry_after_s=3e7))
    retry = {**FAST, "max_backoff_s": 0.05}
    assert (await outcome(plan({"id": "a", "tool": "work", "retry": retry}), work)).ok
    assert calls[1] - calls[0] < 1


async def test_the_retry_of_the_tool_holds_where_the_step_has_none():
    calls = []

    @kedge.tool(effect="read", retry=kedge.Retry(attempts=2, backoff_s=0.01))
    async def work() -> str:
        calls.append(1)
        raise kedge.ToolError("no", "transient")

    assert (await outcome(plan({"id": "a", "tool": "work"}), work)).status == "failed"
    assert len(calls) == 2


# --- tools with effects


async def test_an_effect_that_did_not_happen_is_tried_again():
    work, calls = failing("effect", kedge.NotDone("busy"), kedge.NotDone("busy"))
    assert (await outcome(plan({"id": "a", "tool": "work", "retry": FAST}), work)).ok
    assert len(calls) == 3


async def test_an_effect_that_failed_by_its_own_word_goes_to_its_fallback_and_is_not_repeated():
    work, calls = failing("effect", kedge.ToolError("refused", "transient"))
    steps = [
        {"id": "a", "tool": "work", "retry": FAST},
        {"id": "b", "tool": "instead", "fallback_for": "a"},
    ]
    result = await outcome(plan(*steps), work, instead)
    assert result.ok
    assert len(calls) == 1
    assert result.steps["a"].status == "failed"
    assert result.steps["a"].result == "instead"
    assert result.steps["a"].replaced_by == "b"


UNKNOWN = {
    "exception": lambda: ValueError("what now?"),
    "connection": lambda: ConnectionResetError("gone"),
    "cancelled": asyncio.CancelledError,
    "timeout": lambda: TimeoutError("slow"),
}


@pytest.mark.parametrize("name", UNKNOWN)
async def test_an_effect_that_may_have_happened_is_asked_about_and_not_repeated(name):
    work, calls = failing("effect", UNKNOWN[name]())
    steps = [
        {"id": "a", "tool": "work", "retry": FAST},
        {"id": "b", "tool": "instead", "fallback_for": "a"},
        {"id": "sibling", "tool": "instead"},
    ]
    result = await outcome(plan(*steps), work, instead)
    assert len(calls) == 1
    assert result.status == "waiting"
    assert not result.ok
    assert result.steps["a"].status == "in_doubt"
    assert result.steps["b"].status == "pending"
    assert result.steps["sibling"].status == "done"
    (question,) = result.questions.values()
    assert question.options == ("done", "failed", "retry")
    assert question.path == "a"


async def test_an_effect_that_timed_out_is_asked_about(monkeypatch):
    @kedge.tool(effect="effect", timeout_s=0.05)
    async def work() -> str:
        await asyncio.sleep(3600)
        return "never"

    result = await outcome(plan({"id": "a", "tool": "work"}), work)
    assert result.status == "waiting"
    assert "0.05 s" in result.questions["q1"].text


async def answered(answer, value=None):
    work, calls = failing("effect", ValueError("what now?"))
    steps = [
        {"id": "a", "tool": "work"},
        {"id": "b", "tool": "instead", "fallback_for": "a"},
        {"id": "c", "tool": "instead", "after": ["a"]},
    ]
    async with kedge.Engine(tools=[work, instead]) as engine:
        run = await engine.start(plan(*steps))
        assert (await run.result()).status == "waiting"
        await run.answer("q1", answer, value, by="ada")
        result = await run.result()
        with pytest.raises(kedge.Refused):
            await run.answer("q1", answer)
    return result, len(calls)


async def test_the_answer_done_takes_the_value_that_came_with_it():
    result, calls = await answered("done", {"id": 7})
    assert result.ok
    assert calls == 1
    assert result.steps["a"].result == {"id": 7}
    assert result.steps["c"].status == "done"


async def test_the_answer_failed_lets_the_fallback_run():
    result, calls = await answered("failed")
    assert result.ok
    assert calls == 1
    assert result.steps["a"].status == "failed"
    assert result.steps["a"].replaced_by == "b"


async def test_the_answer_retry_makes_the_call_again():
    result, calls = await answered("retry")
    assert result.ok
    assert calls == 2
    assert result.steps["a"].result == "done"


async def test_a_wrong_answer_is_refused_with_what_is_allowed():
    work, _ = failing("effect", ValueError("what now?"))
    async with kedge.Engine(tools=[work]) as engine:
        run = await engine.start(plan({"id": "a", "tool": "work"}))
        await run.result()
        with pytest.raises(kedge.BadInput) as refused:
            await run.answer("q1", "perhaps")
        assert refused.value.allowed == ("done", "failed", "retry")
        with pytest.raises(kedge.NotFound) as refused:
            await run.answer("q9", "done")
        assert refused.value.allowed == ("q1",)
        with pytest.raises(kedge.NotSerializable):
            await run.answer("q1", "done", {1, 2})
        await run.answer("q1", "done")
        assert (await run.result()).ok


async def test_a_question_can_be_answered_by_another_process(tmp_path):
    work, calls = failing("effect", ValueError("what now?"))
    async with kedge.Engine(tools=[work], store=tmp_path / "k.db") as engine:
        run = await engine.start(plan({"id": "a", "tool": "work"}), run_id="r")
        await run.result()
    async with kedge.Engine(tools=[work], store=tmp_path / "k.db") as engine:
        assert engine.runs()[0].status == "waiting"
        assert engine.runs()[0].questions == 1
        run = await engine.resume("r")
        await run.answer("q1", "done", "by hand")
        assert (await run.result()).steps["a"].result == "by hand"
    assert len(calls) == 1


# --- calls that cannot be made


async def test_a_tool_that_is_gone_when_the_run_goes_on_is_named(tmp_path):
    gate = asyncio.Event()

    @kedge.tool(effect="pure")
    async def first() -> int:
        await gate.wait()
        return 1

    @kedge.tool(effect="effect")
    async def second() -> int:
        return 2

    both = plan({"id": "a", "tool": "first"}, {"id": "b", "tool": "second", "after": ["a"]})
    async with kedge.Engine(tools=[first, second], store=tmp_path / "k.db") as engine:
        await engine.start(both, run_id="r")
    gate.set()
    async with kedge.Engine(tools=[first], store=tmp_path / "k.db") as engine:
        result = await (await engine.resume("r")).result()
        assert result.status == "failed"
        assert result.steps["b"].error.category == "missing_tool"
        assert "second" in result.steps["b"].error.message
        assert result.steps["b"].error.remedy
    async with kedge.Engine(tools=[first, second], store=tmp_path / "k.db") as engine:
        result = await (await engine.resume("r", retry_failed=True)).result()
    assert result.ok


async def test_arguments_that_do_not_fit_are_named_before_the_call():
    called = []

    @kedge.tool(effect="effect")
    async def work(n: int) -> int:
        called.append(n)
        return n

    @kedge.tool(effect="pure")
    async def text():
        return "seven"

    steps = [{"id": "t", "tool": "text"}, {"id": "a", "tool": "work", "args": {"n": "${t}"}}]
    result = await outcome(plan(*steps), work, text)
    assert not called
    assert result.status == "failed"
    failure = result.steps["a"].error
    assert failure.category == "invalid_input"
    assert "n" in failure.message


async def test_a_failed_run_can_be_taken_up_again_and_keeps_what_was_done(tmp_path):
    broken = [True]
    calls = []

    @kedge.tool(effect="idempotent")
    async def good() -> str:
        calls.append("good")
        return "good"

    @kedge.tool(effect="read")
    async def flaky() -> str:
        calls.append("flaky")
        if broken[0]:
            raise kedge.ToolError("down", "permanent")
        return "up"

    steps = plan(
        {"id": "a", "tool": "good"},
        {"id": "b", "tool": "flaky", "after": ["a"]},
        {"id": "c", "tool": "good", "after": ["b"]},
    )
    async with kedge.Engine(tools=[good, flaky], store=tmp_path / "k.db") as engine:
        run = await engine.start(steps, run_id="r")
        assert (await run.result()).status == "failed"
        broken[0] = False
        assert (await (await engine.resume("r")).result()).status == "failed"  # nobody asked for more
        run = await engine.resume("r", retry_failed=True)
        result = await run.result()
        assert result.ok, result.summary()
        events = [event async for event in run.events()]
    assert calls == ["good", "flaky", "flaky", "good"]
    assert events[-1].percent == 100
