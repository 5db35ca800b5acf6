"""The program of a simulated process, and the people it serves.

It starts what was ordered, follows it, answers what is asked, takes failed runs up again, and tries again
whatever the store or another process refused: what any program that embeds kedge does, and no more. All of
it goes through the door that everybody has: `kedge.Engine` and its runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from kedge.base.errors import BadInput, InvalidPlan, KedgeError, NotFound, NotOwner, Refused, RunConflict
from kedge.control.run import Run
from kedge.flow import commands as cmd
from kedge.flow.commands import Signal
from kedge.flow.question import Question
from kedge.flow.settings import RunSettings
from kedge.flow.words import ENDED
from kedge.plan.model import Plan
from kedge.testing.world.advisers import Adviser
from kedge.testing.world.ledger import Listener
from kedge.testing.world.process import Process, SimulatedEngine
from kedge.testing.world.senders import any_command
from kedge.testing.world.tools import LATER_REGISTRY, REGISTRY
from kedge.views.narrate import RunEvent

if TYPE_CHECKING:
    from kedge.testing.world.world import Wanted

INPUTS = {"many": [1, 2, 3]}
_DONE = {"pause": "RunPaused", "unpause": "RunUnpaused", "cancel": "RunCancelling"}


async def program(process: Process) -> None:
    """What each process runs."""
    world = process.world
    registry = LATER_REGISTRY if world.deployed else REGISTRY
    adviser = Adviser(process) if process.number % 4 or world.calm else None  # some know of none
    async with SimulatedEngine(
        registry, process.journal, clock=world.wall, planner=adviser, agent=adviser
    ) as engine:
        process.engine = engine
        try:
            async with asyncio.TaskGroup() as group:
                for wanted in world.wanted:
                    if not wanted.settled:
                        group.create_task(Caller(process, engine, wanted).serve())
        except asyncio.CancelledError:  # it is told to end in good order
            if process.number % 2:
                await engine.drain(3.0)
            raise


class Caller:
    """Whoever wants one run, in one process."""

    def __init__(self, process: Process, engine: SimulatedEngine, wanted: Wanted) -> None:
        self.process = process
        self.world = process.world
        self.engine = engine
        self.wanted = wanted
        self.run_id = wanted.order.run_id
        self.run: Run | None = None
        self.luck = Random(f"{self.world.scenario.seed} {process.number} {self.run_id}")
        self._news = asyncio.Event()
        self._patience_s = self.luck.choice([0.5, 2.0, 10.0])
        """Until it is asked again whether the other driver has gone."""
        self._asked = 0
        process.commands.append(self.command)

    @property
    def _settings(self) -> RunSettings:
        return RunSettings(**self.wanted.order.settings)

    async def serve(self) -> None:
        """Until the run has ended, and need not be taken up again."""
        while not self.wanted.settled:
            try:
                self.run = await self._take()
                await self._attend(self.run)
            except InvalidPlan as error:
                self.world.refused(self.wanted, {finding.code for finding in error.findings.errors})
            except NotFound:
                self.world.blame("I1 acknowledged is kept", f"{self.run_id} was started, and is not found")
                return
            except NotOwner:
                await asyncio.sleep(self._patience_s)
                self._patience_s = min(self._patience_s * 2, 6 * 3600.0)
            except KedgeError:  # the store; or the run was let go of here
                await asyncio.sleep(self.luck.choice([0.01, 0.5, 3.0]))
            finally:
                self.run = None

    async def _take(self) -> Run:
        wanted = self.wanted
        if wanted.again:
            return await self._take_up_again(wanted)
        if wanted.undo:
            return await self._undo_all(wanted)
        if wanted.started and self.luck.randrange(2):
            return await self.engine.resume(self.run_id)
        plan = Plan.parse(wanted.order.plan)
        run = await self.engine.start(plan, INPUTS, self.run_id, settings=self._settings)
        self.world.accepted(wanted)
        return run

    async def _take_up_again(self, wanted: Wanted) -> Run:
        try:
            run = await self.engine.resume(self.run_id, retry_failed=True)
        except Refused:  # it was undone, by whomever
            run = await self.engine.resume(self.run_id)
        wanted.again = False
        return run

    async def _undo_all(self, wanted: Wanted) -> Run:
        """It has ended, and what it did is to be taken back."""
        try:
            return await self.engine.compensate(self.run_id, by="anna")
        except Refused:
            return await self.engine.resume(self.run_id)
        finally:
            wanted.undo = False

    async def _attend(self, run: Run) -> None:
        if self.luck.randrange(2):
            run.subscribe(self._callback())
        helpers = [
            asyncio.create_task(work) for work in (self._follow(run), self._be_there(run), self._signal(run))
        ]
        try:
            while (result := await run.result()).status not in ENDED:
                self._news.clear()
                await self._news.wait()
        finally:
            for helper in helpers:
                helper.cancel()
            self._blame_broken(await asyncio.gather(*helpers, return_exceptions=True))
        self.world.told_end(self.wanted, str(result.status), self.luck)

    def _blame_broken(self, ends: list[Any]) -> None:
        for end in ends:
            if isinstance(end, Exception):
                self.world.blame("I11 nobody caught", f"{self.run_id}: {end!r}")

    # --- following

    async def _follow(self, run: Run) -> None:
        listener = Listener(self.world, self.run_id, self._epoch())
        ended = False
        with contextlib.suppress(KedgeError):
            async for event in run.events():
                listener.hear(event.seq, event.kind, event.at, event.percent)
                ended = event.kind == "run_ended"
        listener.compare(to_the_end=ended)

    def _callback(self) -> Callable[[RunEvent], Any]:
        """A callback, which may be slow or break: that is nothing to the run."""
        listener = Listener(self.world, self.run_id, self._epoch())
        manner = self.luck.choice(("quick", "slow", "breaks"))
        listener.may_miss = manner == "slow"

        async def hear(event: RunEvent) -> None:
            if manner == "slow":
                await asyncio.sleep(0.05)
            elif manner == "breaks" and event.seq > 4:
                raise ValueError("a mistake in the callback")
            listener.hear(event.seq, event.kind, event.at, event.percent)

        return hear

    def _epoch(self) -> int:
        return self.process.journal.epoch_of(self.run_id) or self.world.lives[self.run_id].epoch

    # --- people

    async def _be_there(self, run: Run) -> None:
        """Answer what is asked and lift pauses, each after a while."""
        errands: list[asyncio.Task[None]] = []
        try:
            while not await self._watch(run, errands):  # noqa: ASYNC110 - a person looks again after a while
                await asyncio.sleep(0.5)
            self._news.set()
        finally:
            for errand in errands:
                errand.cancel()
            self._blame_broken(await asyncio.gather(*errands, return_exceptions=True))

    async def _watch(self, run: Run, errands: list[asyncio.Task[None]]) -> bool:
        """False if it has to be tried again: the store could not be read."""
        try:
            async for event in run.events(level="run"):
                self._news.set()
                if event.kind == "question_asked":
                    errands.append(asyncio.create_task(self._answer(run, str(event.data["question"]))))
                elif event.kind == "run_paused":
                    errands.append(asyncio.create_task(self._unpause(run)))
        except KedgeError:
            with contextlib.suppress(KedgeError):
                return run.status in ENDED  # raises if it is not driven here any more
        return True

    async def _answer(self, run: Run, id_: str) -> None:
        luck = Random(f"{self.world.scenario.seed} {self.run_id} {id_}")
        await asyncio.sleep(luck.choice([0.0, 0.2, 3.0, 3600.0]))
        question = run.state.questions[id_]
        if run.state.ended or not question.open:
            return
        answer, value = self._choose(question, luck)
        after_seq = len(self.world.disk.entries(self.run_id))
        with contextlib.suppress(KedgeError):
            try:
                await run.answer(id_, answer, value, by="anna")
            except Refused as refusal:  # that answer cannot be given any more
                answer, value = str(refusal.allowed[0]) if refusal.allowed else answer, None
                await run.answer(id_, answer, value, by="anna")
            said = f"the answer {answer!r} to {id_}"
            self._told(said, "QuestionAnswered", after_seq, question=id_, answer=answer)
        if luck.randrange(4) == 0:
            await self._answer_again(run, id_, answer)

    async def _answer_again(self, run: Run, id_: str, answer: str) -> None:
        """Somebody else answers too, later: each question takes one answer."""
        with contextlib.suppress(KedgeError):
            if (await run.send(cmd.Answer(question=id_, answer=answer))).taken:
                self.world.blame("questions", f"{self.run_id}: {id_} takes two answers")

    def _choose(self, question: Question, luck: Random) -> tuple[str, Any]:
        options = question.asked.options
        if "stop" in options and luck.randrange(4):
            return options[0], None
        answer = luck.choice(options)
        return answer, 7 if answer == "done" else None

    async def _signal(self, run: Run) -> None:
        """What steps wait for from outside happens, sooner or later."""
        while True:
            soon = self.luck.choice([0.3, 5.0, 1800.0])
            await asyncio.sleep(soon if run.state.listening else 12 * 3600.0)
            for name in [name for name in run.state.listeners if run.state.listening]:
                after_seq = len(self.world.disk.entries(self.run_id))
                with contextlib.suppress(KedgeError):
                    if (await run.send(Signal(name=name, data=1))).taken:
                        self._told(f"the signal {name}", "SignalReceived", after_seq, name=name)
                    self._news.set()

    async def _unpause(self, run: Run) -> None:
        await asyncio.sleep(self.luck.choice([0.0, 1.0, 60.0]))
        while run.state.paused and not run.state.ended:
            await self._do("unpause", run)

    async def command(self, kind: str) -> None:
        """Do something to the run, if it is there."""
        run = self.run
        if run is None:
            return
        if kind == "again":
            await self._start_twice(run)
        elif kind in ("edit", "undo", "cancel and undo"):
            await self._steer(run, kind)
        else:
            await self._do(kind, run)

    async def _steer(self, run: Run, kind: str) -> None:
        """Ask something of the run, sometimes twice."""
        self._asked += 1
        key = f"caller-{self.process.number}-{self._asked}"
        command = any_command(self.luck, run.state)
        if kind == "cancel and undo":
            command = cmd.Cancel(compensate=True)
        elif kind == "undo":
            command = cmd.Compensate(step=self.luck.choice(list(run.state.steps)))
        command = replace(command, by="anna", key=key)
        with contextlib.suppress(KedgeError):
            for _ in range(self.luck.choice([1, 1, 2])):
                decision = await run.send(command)
                if not self.process.dead:
                    self.world.commanded.decided(self.run_id, key, decision)

    async def _do(self, kind: str, run: Run) -> None:
        after_seq = 0 if kind == "cancel" else len(self.world.disk.entries(self.run_id))
        try:
            await getattr(run, kind)(by="anna")
        except Refused:
            await asyncio.sleep(0.5)
        except KedgeError:
            await asyncio.sleep(0.5)
        else:
            self._told(kind, _DONE[kind], after_seq)

    def _told(self, what: str, kind: str, after_seq: int, **fields: Any) -> None:
        if not self.process.dead:
            self.world.acknowledged.told(self.run_id, what, kind, after_seq, **fields)

    async def _start_twice(self, run: Run) -> None:
        """The same id again: the same run. With other inputs: refused."""
        plan = Plan.parse(self.wanted.order.plan)
        with contextlib.suppress(KedgeError):
            same = await self.engine.start(plan, INPUTS, self.run_id, settings=self._settings)
            if same is not run and run.status not in ENDED:  # raises if it is not driven here any more
                self.world.blame("one run per id", f"{same!r} beside {run!r}")
        try:
            await self.engine.start(plan, {"many": [4]}, self.run_id)
        except (RunConflict, BadInput):
            return
        except KedgeError:
            return
        self.world.blame("one run per id", f"{self.run_id} was started with other inputs")
