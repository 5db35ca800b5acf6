"""The planner's part in one run: it is asked when the core says so, and its answer becomes an input.

A planner can raise, hang, or answer with anything. Each of these is a word to the core; none of them
holds up what does not depend on the repair.
"""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from kedge.base.failpoints import armed, reach
from kedge.engine.failures import failure_of, short
from kedge.engine.ports import Planner
from kedge.flow.inputs import Input, Repaired, RepairFailed
from kedge.flow.situation import Situation, situation
from kedge.flow.state import RunState
from kedge.plan.patch import Patch


class Intake(Protocol):
    """Takes what comes back."""

    def put(self, given: Input) -> None: ...


class Planning:
    """Asks the planner for one run, one round of a repair after the other."""

    def __init__(self, state: RunState, intake: Intake, planner: Planner | None) -> None:
        self._state = state
        self._intake = intake
        self._planner = planner
        self._name = str(getattr(planner, "name", "") or type(planner).__name__)
        self._asked = (0, 0)
        """Repair and round that were asked for last."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def look(self) -> None:
        """After a turn: ask if an answer is waited for that nobody is working at."""
        repair = self._state.repair
        if repair is None or not repair.asked or self._asked == (repair.number, repair.round):
            return
        self._asked = (repair.number, repair.round)
        if self._planner is None:
            self._failed(code="no_planner", why="the engine that drives the run has no planner", final=True)
            return
        if armed:
            reach("planning.ask")
        self._keep(asyncio.get_running_loop().create_task(self._ask(self._planner, self._asked)))

    def stop(self) -> None:
        """Nobody waits for the planner any more."""
        for task in list(self._tasks):
            task.cancel()

    def _keep(self, task: asyncio.Task[Any]) -> asyncio.Task[Any]:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _ask(self, planner: Planner, asked: tuple[int, int]) -> None:
        limit_s = self._state.limit("planner_s")
        try:
            shown = situation(self._state)
            answering = self._keep(asyncio.get_running_loop().create_task(_answer(planner, shown)))
            done, _ = await asyncio.wait((answering,), timeout=limit_s)
        except Exception as error:
            self._raised(error)
            return
        if not done:
            answering.cancel()  # one that ignores it is left to itself
            self._failed(code="planner_timeout", why=f"the planner did not answer in {limit_s:g} s")
        elif answering.cancelled():
            self._failed(code="planner_failed", why="the planner was cancelled")
        elif (error := answering.exception()) is not None:
            self._raised(error)
        else:
            self._answered(asked, answering.result())

    def _answered(self, asked: tuple[int, int], patch: object) -> None:
        if armed:
            reach("planning.answered")
        if patch is None or isinstance(patch, Patch):
            self._intake.put(Repaired(*asked, patch, self._name))
        else:
            text = f"a planner answers with a Patch or None, not {type(patch).__name__}"
            self._failed(code="planner_answer", why=text)

    def _raised(self, error: BaseException) -> None:
        self._failed(code="planner_failed", why=short(f"the planner failed: {failure_of(error).message}"))

    def _failed(self, *, code: str, why: str, final: bool = False) -> None:
        self._intake.put(RepairFailed(*self._asked, why, code, self._name, final))


async def _answer(planner: Planner, shown: Situation) -> Any:
    return await planner.repair(shown)
