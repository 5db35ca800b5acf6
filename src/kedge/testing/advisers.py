"""A planner and an agent whose answers a test writes down.

    planner = ScriptedPlanner(
        Patch(add=(Addition(step=Step(id="again", tool="look")),)),   # to the first question
        None,                                                         # to the second: it knows no way
        lambda situation: Patch(waive=situation.held),                # whatever it says
        Late(30, Patch(waive=("b",))), Hang(), OSError("gone"), "nonsense",
    )
    agent = ScriptedAgent([commands.Say(text="go on")], [], Hang())

They are shown what real ones are shown; `situations` keeps that. A question for which nothing is written
down gets no answer, and fails the test that calls `verify`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections import deque
from typing import Any

from kedge.flow.situation import Situation
from kedge.testing.scripts import Hang, Late


class _Script:
    """Answers one question after the other as it was written down."""

    name = "scripted"

    def __init__(self, *answers: Any) -> None:
        self._answers = deque(answers)
        self._unforeseen = 0
        self.situations: list[Situation] = []
        """What it was shown, one for each question."""

    async def _next(self, situation: Situation) -> Any:
        self.situations.append(situation)
        if not self._answers:
            self._unforeseen += 1
            raise AssertionError(f"no answer is written down for question {len(self.situations)}")
        return await self._said(self._answers.popleft(), situation)

    async def _said(self, answer: Any, situation: Situation) -> Any:
        if isinstance(answer, Hang):
            await asyncio.Event().wait()
        if isinstance(answer, Late):
            await asyncio.sleep(answer.seconds)
            return await self._said(answer.answer, situation)
        if isinstance(answer, BaseException):
            raise answer
        if callable(answer):
            said = answer(situation)
            return await said if inspect.isawaitable(said) else said
        return answer

    def verify(self) -> None:
        """AssertionError if it was asked more, or less, than is written down."""
        if self._unforeseen or self._answers:
            raise AssertionError(
                f"{len(self.situations)} questions were asked, {len(self._answers)} answers are left, "
                f"{self._unforeseen} were missing"
            )


class ScriptedPlanner(_Script):
    """Repairs as it was written down."""

    async def repair(self, situation: Situation, /) -> Any:
        """The next answer."""
        return await self._next(situation)


class ScriptedAgent(_Script):
    """Decides as it was written down."""

    async def decide(self, situation: Situation, /) -> Any:
        """The next answer."""
        return await self._next(situation)
