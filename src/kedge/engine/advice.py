"""Planner and agent of one run: asked when the core says so, and what they answer becomes an input.

Whoever is asked can raise, hang, or answer with anything. Each of these is a word to the core; none of them
holds up what does not depend on the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from kedge.base.codec import encode
from kedge.base.errors import KedgeError
from kedge.base.failpoints import armed, reach
from kedge.engine.failures import failure_of, short
from kedge.engine.ports import Agent, Planner
from kedge.flow.commands import Command, Order
from kedge.flow.inputs import Decided, DecisionFailed, Input, Repaired, RepairFailed
from kedge.flow.situation import Situation, situation
from kedge.flow.state import RunState
from kedge.plan.patch import Patch

COMMANDS = 100
"""Commands of one decision, at most."""
_decode_commands = msgspec.json.Decoder(tuple[Command, ...]).decode
_decode_patch = msgspec.json.Decoder(Patch).decode


class Intake(Protocol):
    """Takes what comes back."""

    def put(self, given: Input) -> None: ...


class _Question(NamedTuple):
    """What is asked, and what becomes of the answer."""

    ask: Callable[[Situation], Awaitable[Any]]
    who: str
    limit_s: float
    answered: Callable[[Any], None]
    failed: Callable[[str, str], None]


class Advice:
    """What planner and agent are asked for one run, one question of each at a time."""

    def __init__(self, state: RunState, intake: Intake, planner: Planner | None, agent: Agent | None) -> None:
        self._state = state
        self._put = intake.put
        self._planner = planner
        self._agent = agent
        self._asked_planner = (0, 0)
        """Repair and round that were asked for last."""
        self._asked_agent = 0
        """Decision that was asked for last."""
        self._tasks: set[asyncio.Task[Any]] = set()

    def look(self) -> None:
        """After a turn: ask if an answer is waited for that nobody is working at."""
        repair, decision = self._state.repair, self._state.decision
        if repair is not None and repair.asked and self._asked_planner != (repair.number, repair.round):
            self._asked_planner = (repair.number, repair.round)
            self._ask_planner(*self._asked_planner)
        if decision is not None and self._asked_agent != decision.number:
            self._asked_agent = decision.number
            self._ask_agent(decision.number)

    def stop(self) -> None:
        """Nobody waits for an answer any more."""
        for task in list(self._tasks):
            task.cancel()

    def _ask_planner(self, repair: int, round_: int) -> None:
        planner, name = self._planner, _name(self._planner)

        def failed(code: str, why: str) -> None:
            self._put(RepairFailed(repair, round_, why, code, name, code == "no_planner"))

        def answered(answer: Any) -> None:
            if answer is None:
                self._put(Repaired(repair, round_, None, name))
            elif isinstance(answer, Patch):
                self._put(Repaired(repair, round_, _decode_patch(encode(msgspec.to_builtins(answer))), name))
            else:
                raise KedgeError(f"a planner answers with a Patch or None, not {type(answer).__name__}")

        if planner is None:
            failed(code="no_planner", why="the engine that drives the run has no planner")
        else:
            self._start(
                _Question(planner.repair, "planner", self._state.limit("planner_s"), answered, failed)
            )

    def _ask_agent(self, decision: int) -> None:
        agent, name = self._agent, _name(self._agent)

        def failed(code: str, why: str) -> None:
            self._put(DecisionFailed(decision, why, code, name))

        def answered(answer: Any) -> None:
            self._put(Decided(decision, _commands(answer), name))

        if agent is None:
            failed(code="no_agent", why="the engine that drives the run has no agent")
        else:
            limit_s = self._state.settings.agent_timeout_s
            self._start(_Question(agent.decide, "agent", limit_s, answered, failed))

    def _start(self, question: _Question) -> None:
        if armed:
            reach("advice.ask")
        self._keep(self._wait(question))

    def _keep(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _answer(self, ask: Callable[[Situation], Awaitable[Any]]) -> Any:
        return await ask(situation(self._state))

    async def _wait(self, question: _Question) -> None:
        ask, who, limit_s, answered, failed = question
        answering = self._keep(self._answer(ask))
        done, _ = await asyncio.wait((answering,), timeout=limit_s)
        if armed:
            reach("advice.answered")
        if not done:
            answering.cancel()  # one that ignores it is left to itself
            code = "planner_timeout" if who == "planner" else "agent_timeout"
            failed(code, f"the {who} did not answer in {limit_s:g} s")
        elif (why := _trouble_of(answering)) is not None:
            code = "planner_failed" if who == "planner" else "agent_failed"
            failed(code, short(f"the {who} failed: {why}"))
        else:
            try:
                answered(answering.result())
            except Exception as error:  # it is what the other side made up
                code = "planner_answer" if who == "planner" else "agent_answer"
                failed(code, short(failure_of(error).message))


def _trouble_of(answering: asyncio.Task[Any]) -> str | None:
    """What it raised, in words."""
    if answering.cancelled():
        return "it was cancelled"
    error = answering.exception()
    return failure_of(error).message if error is not None else None


def _name(who: object) -> str:
    return str(getattr(who, "name", "") or type(who).__name__)


def _commands(answer: Any) -> tuple[Command, ...]:
    """What an agent wants, as plain data: what cannot be written down is no command."""
    if not isinstance(answer, list | tuple):
        raise KedgeError(f"an agent answers with a list of commands, not {type(answer).__name__}")
    given = cast("Sequence[Any]", answer)
    if len(given) > COMMANDS or not all(isinstance(one, Order) for one in given):
        raise KedgeError(f"an agent answers with up to {COMMANDS} commands, and nothing else")
    return _decode_commands(encode([msgspec.to_builtins(one) for one in given]))
