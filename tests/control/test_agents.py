"""Agents at work: functions and scripts, slow and dead ones, and a conversation that survives its process."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import kedge
from kedge import commands
from kedge.testing import Fail, Hang, Late, ScriptedAgent, ScriptedPlanner, run_virtually, scripted

PLAN = kedge.Plan.parse(
    {
        "goal": "g",
        "steps": [
            {"id": "a", "tool": "look", "milestone": True},
            {"id": "b", "tool": "look", "args": {"x": "${a}"}},
            {"id": "side", "tool": "look"},
            {"id": "side2", "tool": "look", "args": {"x": "${side}"}},
        ],
    }
)
MILESTONES = kedge.RunSettings(decide_at="milestone", agent_timeout_s=30)


def play(agent, *, settings=MILESTONES, plan=PLAN, tools=None, **more):
    async def main():
        toolset = scripted(tools or {"look": lambda args: args.get("x", 0)}, plan)
        async with kedge.Engine(toolset, agent=agent, **more) as engine:
            return await (await engine.start(plan, settings=settings)).result()

    return run_virtually(main())


def test_a_function_is_an_agent():
    def decide(situation: kedge.Situation):
        assert [point.path for point in situation.points] == ["a"]
        return [
            commands.Edit(patch=kedge.Patch(change={"b": {"args": {"x": 7}}})),
            commands.Mark(name="half"),
        ]

    result = play(kedge.FunctionAgent(decide))
    assert result.ok
    assert result.steps["b"].result == 7
    assert [(one.cause, one.by) for one in result.versions[1:]] == [("edit", "decide")]
    assert list(result.positions) == ["half"]


def test_an_async_function_with_a_name():
    async def decide(situation: kedge.Situation):
        await asyncio.sleep(3)
        return [commands.Say(text=f"{situation.goal}: go on")]

    result = play(kedge.FunctionAgent(decide, name="guide"))
    assert [(one.by, one.role, one.text) for one in result.messages] == [("guide", "agent", "g: go on")]
    assert result.decisions[0].by == "guide"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (Hang(), "did not answer in 30 s"),
        (Late(100, []), "did not answer in 30 s"),
        (OSError("gone"), "gone"),
        (asyncio.CancelledError(), "was cancelled"),
        ("nonsense", "a list of commands, not str"),
        (["nonsense"], "and nothing else"),
        ([commands.Pause()] * 101, "up to 100 commands"),
        ([commands.SetContext(values={"x": object()})], "object"),
    ],
)
def test_what_is_no_answer_holds_up_nothing(answer, why):
    result = play(ScriptedAgent(answer))
    assert result.ok
    (decision,) = result.decisions
    assert (decision.outcome, why in decision.why) == ("missed", True)
    assert result.steps["side2"].ended_at is not None
    started = result.state.started_at
    assert result.state.steps["side2"].ended_at - started < 1_000  # it does not depend on it


def test_an_engine_without_an_agent_says_so():
    result = play(None)
    assert result.ok
    assert "no agent" in result.decisions[0].why


def test_a_dead_agent_may_be_a_persons_concern():
    settings = kedge.RunSettings(decide_at="milestone", agent_timeout_s=1, agent_default="ask")

    async def main():
        toolset = scripted({"look": lambda args: 1}, PLAN)
        async with kedge.Engine(toolset, agent=ScriptedAgent(Hang(), [])) as engine:
            run = await engine.start(PLAN, settings=settings)
            result = await run.result()
            assert (result.status, result.questions["q1"].reason) == ("waiting", "decision")
            await run.answer("q1", "again", by="anna")
            return await run.result()

    result = run_virtually(main())
    assert [one.outcome for one in result.decisions] == ["missed", "decided"]
    assert result.ok


def test_what_it_wants_and_may_not_is_told_to_it():
    agent = ScriptedAgent(
        [
            commands.Answer(question="q1", answer="approve"),
            commands.Remove(step="zz"),
            commands.Note(values={"n": 1}),
        ],
        [],
    )
    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [
            {"id": "s", "tool": "look", "approval": {"ask": "?"}},
            {"id": "a", "tool": "look", "milestone": True},
            {"id": "m", "tool": "look", "after": ["a"], "milestone": True},
        ]}
    )  # fmt: skip
    result = play(agent, plan=plan)
    assert result.status == "waiting"  # for a person, as before
    (past,) = agent.situations[1].decisions
    assert past.commands == ("answer", "remove", "note")
    assert sorted(past.refused) == [0, 1]
    assert "asks for a person" in past.refused[0]
    assert agent.situations[1].notes == {"n": 1}
    assert [one.id for one in agent.situations[1].questions] == ["q1"]


def test_the_conversation_goes_on_in_another_process(tmp_path: Path):
    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [
            {"id": "a", "tool": "look", "milestone": True},
            {"id": "go", "wait": {"signal": "go"}, "after": ["a"], "milestone": True},
        ]}
    )  # fmt: skip
    store = tmp_path / "k.db"

    async def main():
        toolset = scripted({"look": lambda args: 1}, plan)
        agent = ScriptedAgent([commands.Say(text="I have seen a"), commands.Note(values={"seen": ["a"]})])
        async with kedge.Engine(toolset, store, agent=agent) as engine:
            run = await engine.start(plan, run_id="r", settings=MILESTONES)
            assert (await run.result()).status == "waiting"
        agent = ScriptedAgent([])
        async with kedge.Engine(toolset, store, agent=agent) as engine:
            run = await engine.resume("r")
            await run.send(commands.Say(text="how is it?", by="anna"))
            await run.send(commands.Signal(name="go"))
            result = await run.result()
            assert run.positions() == {}
        return result, agent.situations[0]

    result, seen = run_virtually(main())
    assert result.ok
    assert [one.text for one in seen.messages] == ["I have seen a", "how is it?"]
    assert seen.notes == {"seen": ["a"]}
    assert seen.decisions[0].commands == ("say", "note")


def test_an_open_decision_is_asked_again_by_the_next_driver(tmp_path: Path):
    store = tmp_path / "k.db"

    async def main():
        toolset = scripted({"look": lambda args: 1}, PLAN)
        async with kedge.Engine(toolset, store, agent=ScriptedAgent(Hang())) as engine:
            await engine.start(PLAN, run_id="r", settings=MILESTONES)
            await asyncio.sleep(5)
        agent = ScriptedAgent([])
        async with kedge.Engine(toolset, store, agent=agent) as engine:
            result = await (await engine.resume("r")).result()
        agent.verify()
        return result

    assert run_virtually(main()).ok


def test_planner_first_then_agent():
    settings = kedge.RunSettings(decide_at="trouble")
    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "bad"}, {"id": "b", "tool": "look"}]})
    agent = ScriptedAgent(lambda s: [commands.Edit(patch=kedge.Patch(waive=s.held, why="not needed"))])
    tools = {"bad": Fail("permanent"), "look": 1}
    result = play(agent, settings=settings, plan=plan, tools=tools, planner=ScriptedPlanner(None))
    agent.verify()
    assert result.ok
    assert result.repairs[0].outcome == "given_up"
