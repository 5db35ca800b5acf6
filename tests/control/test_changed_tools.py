"""A tool that is not what it was when the run began is asked about before it can do harm."""

import asyncio
import shutil

import pytest

import kedge


def tool_named(name, effect, *, old):
    """Two tools of one name with different definitions."""
    if old:

        @kedge.tool(effect=effect, name=name)
        async def before(n: int) -> str:
            return "old"

        return before

    @kedge.tool(effect=effect, name=name)
    async def after(n: int, more: int = 0) -> str:
        return "new"

    return after


def gate(*, opens):
    @kedge.tool(effect="pure", name="gate")
    async def wait() -> None:
        if not opens:
            raise kedge.ToolError("not yet", "transient")

    return wait


ACT = {"id": "act", "tool": "act", "args": {"n": 1}, "after": ["gate"]}
PLANS = {
    "step": [ACT],
    "inside a composite": [{"id": "group", "after": ["gate"], "steps": [{**ACT, "after": []}]}],
}


async def half_done(tmp_path, steps, effect):
    """A run that failed before `act` was called, with the tool's old definition."""
    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "gate", "tool": "gate"}, *steps]})
    tools = [gate(opens=False), tool_named("act", effect, old=True)]
    async with kedge.Engine(tools=tools, store=tmp_path / "k.db") as engine:
        run = await engine.start(plan, run_id="r")
        assert (await run.result()).status == "failed"


@pytest.mark.parametrize("where", PLANS)
@pytest.mark.parametrize("effects", [("effect", "effect"), ("pure", "effect"), ("effect", "pure")])
async def test_a_changed_tool_with_effects_then_or_now_is_asked_about(tmp_path, where, effects):
    await half_done(tmp_path, PLANS[where], effects[0])
    tools = [gate(opens=True), tool_named("act", effects[1], old=False)]
    async with kedge.Engine(tools=tools, store=tmp_path / "k.db") as engine:
        run = await engine.resume("r", retry_failed=True)
        result = await run.result()
        assert result.status == "waiting"
        ((id_, question),) = result.questions.items()
        assert question.reason == "tool_changed"
        await run.answer(id_, "go on")
        assert (await run.result()).ok


@pytest.mark.parametrize("effects", [("pure", "effect"), ("effect", "idempotent")])
async def test_a_tool_of_which_only_the_effect_class_is_another_is_asked_about(tmp_path, effects):
    await half_done(tmp_path, [ACT], effects[0])
    tools = [gate(opens=True), tool_named("act", effects[1], old=True)]
    async with kedge.Engine(tools=tools, store=tmp_path / "k.db") as engine:
        result = await (await engine.resume("r", retry_failed=True)).result()
        assert [asked.reason for asked in result.questions.values()] == ["tool_changed"]


async def test_a_changed_tool_that_never_had_effects_is_not_asked_about(tmp_path):
    await half_done(tmp_path, [ACT], "pure")
    tools = [gate(opens=True), tool_named("act", "read", old=False)]
    async with kedge.Engine(tools=tools, store=tmp_path / "k.db") as engine:
        result = await (await engine.resume("r", retry_failed=True)).result()
    assert result.ok
    assert result.steps["act"].result == "new"


async def test_a_tool_that_has_effects_now_is_not_treated_as_one_without(tmp_path):
    await half_done(tmp_path, [ACT], "pure")
    calls = []

    @kedge.tool(effect="effect", name="act")
    async def act(n: int, more: int = 0) -> str:
        calls.append(n)
        raise ConnectionError("lost after the effect")

    async with kedge.Engine(tools=[gate(opens=True), act], store=tmp_path / "k.db") as engine:
        run = await engine.resume("r", retry_failed=True)
        await run.result()
        await run.answer("q1", "go on")
        result = await run.result()
        assert result.status == "waiting"
    assert result.steps["act"].status == "in_doubt"
    assert calls == [1]


async def test_what_was_accepted_is_not_asked_about_again_but_yet_another_definition_is(tmp_path):
    await half_done(tmp_path, [ACT], "effect")
    tools = [gate(opens=False), tool_named("act", "effect", old=False)]
    async with kedge.Engine(tools=tools, store=tmp_path / "k.db") as engine:
        run = await engine.resume("r", retry_failed=True)
        await run.result()
        await run.answer("q1", "go on")
        assert (await run.result()).status == "failed"
    async with kedge.Engine(tools=tools, store=tmp_path / "k.db") as engine:
        run = await engine.resume("r", retry_failed=True)
        result = await run.result()
        assert (result.status, result.questions) == ("failed", {})

    @kedge.tool(effect="effect", name="act")
    async def third(n: int, other: str = "") -> str:
        return "third"

    async with kedge.Engine(tools=[gate(opens=True), third], store=tmp_path / "k.db") as engine:
        result = await (await engine.resume("r", retry_failed=True)).result()
        assert [asked.reason for asked in result.questions.values()] == ["tool_changed"]


@pytest.mark.parametrize("now", ["gone", "read"])
async def test_a_call_that_was_cut_off_is_judged_by_what_its_tool_was_when_it_was_made(tmp_path, now):
    begun = asyncio.Event()

    @kedge.tool(effect="effect", name="act")
    async def hangs(n: int) -> str:
        begun.set()
        await asyncio.sleep(3600)
        return "old"

    then, after = tmp_path / "then", tmp_path / "after"
    then.mkdir()
    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "act", "tool": "act", "args": {"n": 1}}]})
    async with kedge.Engine(tools=[hangs], store=then / "k.db") as engine:
        await engine.start(plan, run_id="r")
        await begun.wait()
        shutil.copytree(then, after)  # what a kill at this moment leaves
    tools = [] if now == "gone" else [tool_named("act", now, old=False)]
    async with kedge.Engine(tools=tools, store=after / "k.db") as engine:
        result = await (await engine.resume("r")).result()
        assert result.steps["act"].status == "in_doubt"
        assert "in_doubt" in [asked.reason for asked in result.questions.values()]


async def test_what_was_approved_of_the_old_tool_is_asked_about_again(tmp_path):
    """Also where somebody goes on with the changed tool: that was said of the tool, not of the call."""
    plan = kedge.Plan.parse({"goal": "g", "steps": [{**ACT, "after": [], "approval": {"ask": "Act?"}}]})
    async with kedge.Engine(tools=[tool_named("act", "effect", old=True)], store=tmp_path / "k.db") as engine:
        run = await engine.start(plan, run_id="r")
        await run.pause()
        await run.answer("q1", "approve")
    async with kedge.Engine(tools=[tool_named("act", "effect", old=False)], store=tmp_path / "k.db") as other:
        run = await other.resume("r")
        assert [asked.reason for asked in (await run.result()).questions.values()] == ["tool_changed"]
        await run.answer("q2", "go on")
        await run.unpause()
        assert [asked.reason for asked in (await run.result()).questions.values()] == ["approval"]
        await run.answer("q3", "approve")
        assert (await run.result()).steps["act"].result == "new"
