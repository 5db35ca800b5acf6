"""A handle on one run that this process drives."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from kedge.base.clock import Clock
from kedge.base.errors import BadInput, Refused
from kedge.control.follow import Callback, Feed, Level, Subscription, check_callback, check_level
from kedge.engine.driver import Driver
from kedge.engine.ports import Journal
from kedge.engine.receipts import Decision, refused
from kedge.flow import commands as cmd
from kedge.flow.result import RunResult
from kedge.flow.state import RunState
from kedge.flow.words import RunStatus
from kedge.plan.model import Plan
from kedge.views.narrate import RunEvent


class Run:
    """One run: watch it, steer it, wait for it."""

    def __init__(self, driver: Driver, journal: Journal, plan_id: str, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._feed = Feed(driver, journal)
        self._subscriptions: list[Subscription] = []
        self.plan_id = plan_id
        """The hash of its plan."""

    @property
    def id(self) -> str:
        """Its name in the store."""
        return self._driver.state.run_id

    @property
    def plan(self) -> Plan:
        """The plan that it follows by now."""
        return self._driver.state.plan

    @property
    def state(self) -> RunState:
        """The live state, to look at. Only the run itself may change it."""
        return self._driver.state

    @property
    def now_ms(self) -> int:
        """The time, in ms; for a run that is not driven here any more, that of its last event."""
        return self._driver.state.at if self._driver.stopped else self._clock.now_ms()

    @property
    def status(self) -> RunStatus:
        """How it stands. If the store refused an append, that is raised: memory means nothing then."""
        if self._driver.lost is not None:
            raise self._driver.lost
        return self._driver.state.status

    @property
    def driven(self) -> bool:
        """It is driven by this handle's engine; else nothing happens to it here any more."""
        return not (self._driver.stopped or self._driver.state.ended)

    async def events(self, from_seq: int = 1, level: Level = "all") -> AsyncIterator[RunEvent]:
        """Every event from number `from_seq` on, without gaps, then live until the run ends."""
        check_level(level)
        async for event in self._feed.events(from_seq - 1, level):
            yield event
        if self._driver.lost is not None:
            raise self._driver.lost

    def subscribe(self, callback: Callback, level: Level = "all") -> None:
        """Tell `callback` every event. If it raises it is switched off; if it hangs, nobody waits for it."""
        check_level(level)
        check_callback(callback)
        self._subscriptions.append(Subscription(self._feed, callback, level))

    async def result(self) -> RunResult:
        """What the run came to, once it has ended and that is on disk.

        Returns early, with status `waiting` or `paused`, when only a person can move the run.
        """
        await self._driver.settled()
        if self._driver.state.ended:
            await asyncio.gather(*(subscription.finish() for subscription in self._subscriptions))
        return RunResult(self._driver.state, self.plan_id)

    async def moved(self, seq: int) -> None:
        """Until something has happened after event number `seq`, or it is not driven here any more."""
        await self._feed.moved(seq)

    async def send(self, command: cmd.Command) -> Decision:
        """Ask something of the run: what was decided, once that is on disk, and why."""
        try:
            await self._driver.send(command)
        except (Refused, BadInput) as refusal:
            return refused(refusal, self.state.version)
        return Decision(True, version=self.state.version)

    def positions(self) -> dict[str, int]:
        """Numbers of events that were given a name with `commands.Mark`."""
        return dict(self.state.positions.kept)

    async def pause(self, by: str = "") -> None:
        """Start nothing new; what runs goes on."""
        await self._driver.send(cmd.Pause(by=by))

    async def unpause(self, by: str = "") -> None:
        """Lift a pause."""
        await self._driver.send(cmd.Unpause(by=by))

    async def cancel(self, reason: str = "", by: str = "", *, compensate: bool = False) -> None:
        """Stop what runs and end the run. What is done stays done, or is undone with `compensate`."""
        await self._driver.send(cmd.Cancel(by=by, reason=reason, compensate=compensate))

    async def answer(self, question: str, answer: str, value: Any = None, by: str = "") -> None:
        """Answer an open question; each takes one answer."""
        await self._driver.send(cmd.Answer(by=by, question=question, answer=answer, value=value))

    async def close(self) -> None:
        """Let go of it here. It stays in the store and can be resumed."""
        await self._driver.close()
        await self.see_off()

    async def see_off(self) -> None:
        """Nothing more will happen here: end what ignores its end, and let callbacks see the last of it."""
        await self._driver.attempts.end_given_up()
        await asyncio.gather(*(subscription.finish() for subscription in self._subscriptions))
        await asyncio.gather(*(subscription.close() for subscription in self._subscriptions))

    async def drain(self, grace_s: float) -> None:
        """Start nothing more and give what runs some time to end."""
        await self._driver.drain(grace_s)

    def __repr__(self) -> str:
        return f"<run {self.id}: {self._driver.lost or self.status}>"
