"""A run may begin without an input, where somebody is there to ask for it."""

import pytest

import kedge

PLAN = kedge.Plan.parse(
    {
        "goal": "Tell",
        "inputs": {"who": {"type": "string"}},
        "steps": [{"id": "a", "tool": "tell", "args": {"who": "${inputs.who}"}}],
    }
)


@kedge.tool(effect="pure")
async def tell(who: str) -> str:
    """Tell them."""
    return f"told {who}"


async def test_it_is_asked_for_over_a_restart_and_the_run_keeps_its_name(tmp_path):
    async with kedge.Engine([tell], tmp_path / "k.db") as engine:
        with pytest.raises(kedge.BadInput, match="missing: who"):
            await engine.start(PLAN)
        result = await (await engine.start(PLAN, run_id="r", ask="plan")).result()
        assert sorted(asked.reason for asked in result.questions.values()) == ["input", "plan"]
    async with kedge.Engine([tell], tmp_path / "k.db") as engine:
        run = await engine.start(PLAN, run_id="r", ask="plan")
        await run.answer("q1", "give", "anna")
        assert await engine.start(PLAN, run_id="r", ask="plan") is run, "the same inputs as at first"
        with pytest.raises(kedge.RunConflict):
            await engine.start(PLAN, {"who": "ben"}, run_id="r", ask="plan")
        await run.answer("q2", "approve")
        assert (await run.result()).outputs == {"a": "told anna"}
