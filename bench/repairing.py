"""A run whose plan is repaired again and again: what the loop around the planner costs."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import kedge
from kedge import commands

REPAIRS = 300
WARM = 20
"""Repairs that do not count: the first ones import and compile."""


class Clerk:
    """A planner that knows at once: the step gets other arguments, and the plan one step more."""

    def __init__(self) -> None:
        self.spent_s = 0.0
        """Its own time in the last repair."""

    async def repair(self, situation: kedge.Situation, /) -> kedge.Patch:
        began_s = time.perf_counter()
        more = kedge.Step(id=f"more{situation.repair}", tool="look", after=("gate",))
        patch = kedge.Patch(
            retry=situation.held,
            change={"bad": {"args": {"turn": situation.repair}}},
            add=(kedge.Addition(step=more),),
        )
        self.spent_s = time.perf_counter() - began_s
        return patch


def _plan(n: int) -> kedge.Plan:
    """A gate that stays shut, one step that fails, and all others in threes behind the gate."""
    steps: list[dict[str, Any]] = [
        {"id": "gate", "wait": {"signal": "go"}},
        {"id": "bad", "tool": "look", "args": {"turn": 0}},
    ]
    for number in range(n - 2):
        after = ["gate"] if number < 3 else [f"s{number - 3}"]
        steps.append({"id": f"s{number}", "tool": "look", "after": after, "args": {"turn": -1}})
    return kedge.Plan.parse({"goal": "be repaired", "steps": steps})


async def repair_again_and_again(store: Path | str, n: int) -> dict[str, Any]:
    """How long the loop took for each repair, its planner left out."""
    clerk, taken_s, failed_s = Clerk(), list[float](), 0.0

    @kedge.tool(effect="read")
    async def look(turn: int = -1) -> int:
        nonlocal failed_s
        if turn > 0:
            taken_s.append(time.perf_counter() - failed_s - clerk.spent_s)
        if not 0 <= turn < REPAIRS:
            return turn
        failed_s = time.perf_counter()
        raise kedge.ToolError("not yet")

    limits = kedge.Limits(repairs=REPAIRS + 1)
    async with kedge.Engine([look], store, planner=clerk, limits=limits) as engine:
        run = await engine.start(_plan(n))
        await run.result()  # the gate is shut
        await run.send(commands.Signal(name="go"))
        result = await run.result()
    if not result.ok or len(result.repairs) != REPAIRS:
        raise SystemExit(f"{result.summary()}: {len(result.repairs)} repairs")
    taken_s = sorted(taken_s[WARM:])
    return {"n": n, "p50_s": taken_s[len(taken_s) // 2], "p99_s": taken_s[len(taken_s) * 99 // 100]}
