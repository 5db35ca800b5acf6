"""Repairs by an engine: planners that answer, hang, fail and talk nonsense, and runs that are taken up."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import kedge
from kedge import commands
from kedge.testing import Fail, Hang, Late, ScriptedPlanner, run_virtually, scripted

PLAN = kedge.Plan.parse(
    {
        "goal": "g",
        "steps": [
            {"id": "a", "tool": "look"},
            {"id": "b", "tool": "bad", "args": {"x": "${a}"}},
            {"id": "c", "tool": "look", "args": {"x": "${b}"}},
            {"id": "side", "tool": "look"},
        ],
    }
)
MENDED = kedge.Patch(retry=("b",), change={"b": {"tool": "look"}}, why="another tool")
TOOLS = {"look": lambda args: 1, "bad": Fail("permanent")}


def play(planner, *, store=":memory:", plan=PLAN, tools=TOOLS, limits=None, **start):
    """The plan with this planner, to its end; in virtual time."""

    async def main():
        toolset = scripted(tools, plan)
        async with kedge.Engine(toolset, store, planner=planner, limits=limits) as engine:
            run = await engine.start(plan, **start)
            return await run.result()

    return run_virtually(main())


def test_a_plan_is_mended():
    planner = ScriptedPlanner(MENDED)
    result = play(planner)
    planner.verify()
    assert result.status == "done"
    assert [(one.cause, one.by, one.why) for one in result.versions[1:]] == [
        ("repair", "scripted", "another tool")
    ]
    assert [one.outcome for one in result.repairs] == ["adopted"]
    (seen,) = planner.situations
    assert seen.plan == PLAN
    assert (seen.held, seen.troubles[0].code) == (("b",), "tool_error")
    assert {view.path: str(view.status) for view in seen.steps}["a"] == "done"
    assert seen.calls["b"].args == {"x": 1}
    assert {"look", "bad"} <= {spec.name for spec in seen.tools}
    assert seen.left["repairs"] == 2


def test_a_repair_may_be_switched_off_and_needs_a_planner():
    planner = ScriptedPlanner()
    result = play(planner, settings=kedge.RunSettings(repair=False))
    assert (result.status, planner.situations) == ("failed", [])
    assert play(None).status == "failed"
    result = play(None, settings=kedge.RunSettings(repair=True))
    assert result.status == "failed"
    assert result.repairs[0].refusals[0].code == "no_planner"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (OSError("gone"), "planner_failed"),
        (asyncio.CancelledError(), "planner_failed"),
        ("nonsense", "planner_answer"),
        (Hang(), "planner_timeout"),
        (Late(500, MENDED), "planner_timeout"),
        (kedge.Patch(), "empty_patch"),
        (kedge.Patch(base=7, waive=("b",)), "stale_patch"),
    ],
)
def test_what_is_no_repair_is_a_refused_round(answer, code):
    planner = ScriptedPlanner(answer, MENDED)
    result = play(planner)
    planner.verify()
    assert result.status == "done"
    assert [one.code for one in result.repairs[0].refusals] == [code]
    assert planner.situations[1].refused


def test_after_three_rounds_the_failure_stands():
    planner = ScriptedPlanner(*["nonsense"] * 3)
    result = play(planner)
    assert (result.status, result.repairs[0].outcome) == ("failed", "given_up")
    assert len(planner.situations) == 3


def test_siblings_go_on_while_the_planner_thinks():
    result = play(ScriptedPlanner(Late(60, MENDED)))
    started = result.state.versions[0].at
    assert result.state.steps["side"].ended_at < started + 1_000
    assert result.state.versions[1].at >= started + 60_000


def test_the_time_of_a_planner_is_a_limit():
    planner = ScriptedPlanner(Late(10, MENDED), Late(4, MENDED))
    assert play(planner, limits=kedge.Limits(planner_s=5)).status == "done"


def test_an_open_repair_is_asked_again_by_the_next_driver(tmp_path: Path):
    store = tmp_path / "k.db"

    async def main():
        toolset = scripted(TOOLS, PLAN)
        async with kedge.Engine(toolset, store, planner=ScriptedPlanner(Hang())) as engine:
            await engine.start(PLAN, run_id="r")
            await asyncio.sleep(5)
        planner = ScriptedPlanner(MENDED)
        async with kedge.Engine(toolset, store, planner=planner) as engine:
            result = await (await engine.resume("r")).result()
        planner.verify()
        return result

    result = run_virtually(main())
    assert result.status == "done"
    assert len(result.repairs) == 1


def test_a_run_taken_up_without_a_planner_says_so(tmp_path: Path):
    store = tmp_path / "k.db"

    async def main():
        toolset = scripted(TOOLS, PLAN)
        async with kedge.Engine(toolset, store, planner=ScriptedPlanner(Hang())) as engine:
            await engine.start(PLAN, run_id="r")
            await asyncio.sleep(5)
        async with kedge.Engine(toolset, store) as engine:
            return await (await engine.resume("r")).result()

    result = run_virtually(main())
    assert result.status == "failed"
    assert result.repairs[0].refusals[-1].code == "no_planner"


def test_a_cancelled_run_waits_for_no_planner():
    async def main():
        toolset = scripted({**TOOLS, "look": Late(1, 1)}, PLAN)
        async with kedge.Engine(toolset, planner=ScriptedPlanner(Hang())) as engine:
            run = await engine.start(PLAN)
            await asyncio.sleep(5)
            await run.cancel()
            return await run.result()

    result = run_virtually(main())
    assert (result.status, result.repairs[0].outcome) == ("cancelled", "ended")


def test_a_person_demands_a_repair():
    more = kedge.Addition(step=kedge.Step(id="more", tool="look", args={"x": "${side}"}))

    async def main():
        tools = {"look": Late(5, 1), "bad": 2}
        toolset = scripted(tools, PLAN)
        planner = ScriptedPlanner(kedge.Patch(add=(more,)))
        async with kedge.Engine(toolset, planner=planner) as engine:
            run = await engine.start(PLAN)
            decision = await run.send(commands.Repair(need="one more look", by="anna"))
            assert decision.taken
            return await run.result(), planner.situations

    result, situations = run_virtually(main())
    assert (result.status, result.steps["more"].result) == ("done", 1)
    assert situations[0].troubles[0].what == "one more look"


@pytest.mark.parametrize("wrong", [2, -0.1, True, "much"])
def test_sensitivity_is_a_number_from_0_to_1(wrong):
    with pytest.raises(kedge.BadInput, match="adaptation_sensitivity"):
        kedge.RunSettings(adaptation_sensitivity=wrong)


def test_repair_is_on_or_off():
    with pytest.raises(kedge.BadInput, match="repair"):
        kedge.RunSettings(repair="yes")  # type: ignore[arg-type]
