"""Random lives of runs: calls that succeed and fail, crashes, answers, changes, whatever can happen.

    world = World(ring, Random(7), calm=False)
    world.live()
    world.end()

`World` is what happens to runs that do their work. In `Everything` they are undone, forked, taken up again
and steered by agents besides, several things in one turn.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from random import Random
from typing import Any

import msgspec

from kedge.base.errors import Category, InternalError, KedgeError, Refused
from kedge.flow import commands as cmd
from kedge.flow.decision import AGENT_DEFAULTS, DECIDE_AT
from kedge.flow.events import CompensationStarted, decode_event
from kedge.flow.inputs import (
    Decided,
    DecisionFailed,
    Input,
    Raised,
    Repaired,
    RepairFailed,
    Reported,
    Resumed,
    Returned,
)
from kedge.flow.settings import UNDOS, Ask, RunSettings
from kedge.flow.undoing import refuse_redoing
from kedge.flow.words import Failure
from kedge.plan.tools import Effect
from kedge.testing.authors import TOOLS, Author
from kedge.testing.editors import Editor
from kedge.testing.menders import Mender
from kedge.testing.programs import check_program
from kedge.testing.ring import Places, Ring
from kedge.views.narrate import Narrator
from kedge.views.report import report, report_data

_CATEGORIES: list[Category] = ["transient", "timeout", "permanent", "bug", "cancelled"]


@contextmanager
def _refusable() -> Generator[None]:
    """A refusal is an answer; our own bug is not."""
    try:
        yield
    except InternalError:
        raise
    except KedgeError:
        return


class World:
    """What becomes of the calls, and everything else that can happen."""

    def __init__(self, ring: Ring, luck: Random, *, calm: bool) -> None:
        self.ring = ring
        self.luck = luck
        self.calm = calm
        self.heard: list[Input] = []
        self.mender = Mender(luck)
        self.editor = Editor(luck) if luck.randrange(2) else None

    def live(self) -> None:
        for _ in range(self.luck.randint(0, 30)):
            if self.ring.state.end is not None:
                return
            self.happen(self.luck.randrange(100))

    def happen(self, what: int) -> None:
        ring = self.ring
        if what < 50 and ring.calls:
            ring.put(*(self.word(path) for path in ring.calls if self.luck.randrange(2)))
        elif what < 60:
            ring.tick(self.luck.choice([0, 1, 1_000, 5_000]))
        elif what < 70:
            ring.crash().resume(changed_tools=self.luck.choice([{}, {}, {"send": "new"}]))
        elif what < 76 and not ring.state.cancelling:
            ring.send("unpause" if ring.state.paused else "pause")
        elif what < 78 and self.heard:
            ring.put(self.luck.choice(self.heard))  # said twice, or late
        elif what < 83:
            self.answer_one()
        elif what < 84 and not self.calm:
            ring.send("cancel")
        elif what < 86:
            ring.salvage(self.luck.randint(2, len(ring.log)))
            self.heard.clear()  # whoever drove it then drives it no more
        elif what < 90:
            ring.send("signal", name=self.luck.choice(["paid", "sent"]), data=self.luck.randrange(5))
        elif what < 92:
            self.mend()
        elif what < 93:
            self.decide()
        elif what < 94 and ring.state.settings.repair:
            ring.send("repair", need=self.luck.choice(["this", "that"]))
        elif what < 95 and ring.calls:
            path = self.luck.choice(ring.calls)
            ring.put(Reported(path, ring.step(path).starts, "more", self.luck.choice(["", "it", "xml"])))
        elif self.editor is not None:
            with _refusable():
                ring.put(self.editor.edit(ring.state))
            check_program(ring.state)

    def mend(self) -> None:
        """The planner says something, if it was asked."""
        ring, repair = self.ring, self.ring.state.repair
        if repair is None or not repair.asked:
            return
        answers: list[Input] = [
            Repaired(repair.number, repair.round, self.mender.patch(ring.situation)),
            RepairFailed(repair.number, repair.round, "no answer", "planner_timeout"),
        ]
        said = answers[self.luck.randrange(8) == 0]
        ring.put(said)
        self.heard.append(said)
        check_program(ring.state)

    def decide(self) -> None:
        """The agent says something, if it was asked."""
        ring, decision = self.ring, self.ring.state.decision
        if decision is None:
            return
        editor = self.editor or Editor(self.luck)
        wanted = [editor.edit(ring.state) for _ in range(self.luck.randrange(3))]
        held = [path for path, step in ring.state.steps.items() if step.held]
        wanted += [cmd.Retry(step=path) for path in held if self.luck.randrange(2)]
        said: Input = Decided(decision.number, tuple(wanted))
        if not self.luck.randrange(4):
            said = DecisionFailed(decision.number, "no answer", "agent_timeout")
        ring.put(said)
        self.heard.append(said)
        check_program(ring.state)

    def word(self, path: str) -> Input:
        starts = self.ring.step(path).starts
        if self.luck.randrange(100) < 65:
            said: Input = Returned(path, starts, str(self.luck.randrange(5)).encode())
        else:
            sure = self.luck.randrange(2) == 0
            failure = Failure(
                category=self.luck.choice(_CATEGORIES),
                code="bad_luck",
                message="bad luck",
                classified=sure,
                not_done=sure and self.luck.randrange(2) == 0,
            )
            said = Raised(path, starts, failure)
        self.heard.append(said)
        return said

    def answer_one(self) -> None:
        if self.ring.state.paused or not self.ring.questions or self.ring.state.cancelling:
            return
        id_ = self.luck.choice(self.ring.questions)
        options = self.ring.state.questions[id_].asked.options
        choice = options[0] if self.calm and "stop" in options else self.luck.choice(options)
        self.ring.answer(choice, question=id_)

    def is_planner_asked(self) -> bool:
        """And what it says can be taken."""
        state = self.ring.state
        asked = state.repair is not None and state.repair.asked
        return asked and not state.cancelling and not state.blocked_by

    def end(self) -> None:
        """Answer everything until the run has ended."""
        ring = self.ring
        for _ in range(400):
            if ring.state.end is not None:
                return
            if ring.state.paused:
                ring.send("unpause")
            elif ring.calls:
                ring.put(*(self.word(path) for path in ring.calls))
            elif self.is_planner_asked():
                self.mend()
            elif ring.state.decision is not None and not ring.state.cancelling and not ring.state.blocked_by:
                self.decide()
            elif ring.questions and not ring.state.cancelling:
                self.answer_one()
            elif (at := ring.next_wake_ms) is not None:
                ring.tick(max(0, at - ring.now_ms))
            elif ring.state.listening and not ring.state.cancelling:
                ring.send("signal", name=next(iter(ring.state.listeners)), data=1)
            else:
                raise AssertionError(f"the run hangs: {ring.status()} {ring.statuses()}")
        raise AssertionError(f"the run does not end: {ring.statuses()}")


_ASKS: list[Ask] = ["never", "never", "never", "plan", "effects", "every_step"]
UNDOING: dict[str, Effect] = {**TOOLS, "unput": "idempotent", "unsend": "effect"}
"""The tools that the plans of such lives call."""


class Everything(World):
    """Whatever can happen to one run, in any order, several things at once."""

    def __init__(self, seed: int) -> None:
        luck = Random(seed)
        author = Author(luck)
        author.left = luck.randint(2, 20)
        plan = varied(author.plan(), luck)
        inputs = {"many": [1, 2, 3]}
        ring = Ring(plan, UNDOING, inputs=inputs, gate=_gate(luck), settings=settings_of(luck))
        super().__init__(ring, luck, calm=luck.randrange(2) > 0)
        self.editor = Editor(luck)

    def live(self) -> None:
        for _ in range(self.luck.randint(0, 90)):
            if self.ring.state.end is not None:
                return
            if self.ring.state.paused and self.luck.randrange(2):
                self.ring.send("unpause")
            elif self.ring.questions and not self.luck.randrange(4):
                self.answer_one()
            self.happen(self.luck.randrange(100))

    def happen(self, what: int) -> None:
        with _refusable():  # refused, and the run is as it was
            if self.luck.randrange(3):
                super().happen(what if what not in (83, 84, 85) else 0)
            else:
                self.steer()

    def steer(self) -> None:
        """What else people, planners and agents do."""
        ring, luck = self.ring, self.luck
        match luck.randrange(16):
            case 0 if not luck.randrange(4):
                ring.send("cancel", compensate=luck.randrange(2) > 0)
            case 1:
                ring.send("compensate", step=luck.choice(list(ring.state.steps)))
            case 2:
                ring.send("rollback", version=luck.randint(1, ring.state.version), compensate=True)
            case 3 if not luck.randrange(3):
                self.fork()
            case 4 | 5:
                self.mend()
            case 6 | 7:
                self.decide()
            case 8:
                ring.send("set_context", values={"luck": luck.randrange(9)}, need=luck.choice(["", "this"]))
            case 9:
                ring.send("repair", need=luck.choice(["this", "that"]))
            case 10 | 11:
                self.retry()
            case 12:
                self.answer_one()
            case _:
                self.several()
        check_program(ring.state)

    def retry(self) -> None:
        """Try again what failed, or go on without it."""
        failed = [path for path, step in self.ring.state.steps.items() if step.status == "failed"]
        if failed:
            self.ring.send(self.luck.choice(["retry", "retry", "skip"]), step=self.luck.choice(failed))

    def fork(self) -> None:
        """Go another way from somewhere. Of what was undone nothing is left to build on."""
        ring, luck = self.ring, self.luck
        if ring.of(CompensationStarted):
            return
        settings = settings_of(luck) if luck.randrange(3) == 0 else None
        ring.fork(luck.randint(2, len(ring.log)), anew=luck.randrange(4) == 0, settings=settings)
        self.heard.clear()

    def again(self) -> None:
        """Take the run up once more after its end, or undo it."""
        state = self.ring.state
        try:
            refuse_redoing(state)
        except Refused:
            return
        self.ring.resume(retry_failed=True)
        self.end()

    def afterwards(self) -> None:
        """Somebody wants it undone, now that it has ended."""
        try:
            self.ring.put(Resumed(undo=True), cmd.Compensate(by="anna"))
        except Refused:
            return  # nothing of it can be
        self.end()

    def several(self) -> None:
        """Calls come back, and people and agents want something, all in one turn."""
        ring, luck = self.ring, self.luck
        editor = self.editor or Editor(luck)
        wanted: list[Input] = [editor.edit(ring.state) for _ in range(luck.randint(1, 3))]
        wanted += [self.word(path) for path in ring.calls if luck.randrange(2)]
        luck.shuffle(wanted)
        role = luck.choice(["person", "person", "agent"])
        ring.put(*(_as(one, role) for one in wanted))

    def answer_one(self) -> None:
        ring = self.ring
        if ring.state.paused or not ring.questions or ring.state.cancelling:
            return
        id_ = self.luck.choice(ring.questions)
        if ring.state.questions[id_].asked.reason == "input" and self.luck.randrange(4):
            ring.answer("give", self.luck.randrange(9), question=id_)
        else:
            with suppress(Refused):  # it may have done what is to be undone: it cannot be called again
                super().answer_one()

    def look(self) -> None:
        """What people are told of it can be told."""
        ring = self.ring
        report_data(ring.result)
        report(ring.result)
        msgspec.json.encode(ring.situation)
        for id_ in ring.questions:
            ring.result.brief(id_)
        narrator = Narrator("r", ring.plan)
        before = 0.0
        for seq, (data, at) in enumerate(ring.log, 1):
            for told in narrator.tell(seq, at, decode_event(data)):
                if not 0 <= told.percent <= 100:
                    raise AssertionError(f"{told.percent} % at {seq}")
                before = told.percent
        if ring.state.end is not None and before != 100:
            raise AssertionError(f"the run has ended, and is told at {before} %")


def varied(plan: dict[str, Any], luck: Random) -> dict[str, Any]:
    """The plan with steps that can be undone, that take long, and that read what nobody has given."""
    if luck.randrange(4) == 0:
        plan["inputs"]["asked"] = {"type": "int"}
    for step in _all_steps(plan["steps"]):
        undo = {"put": "unput", "send": "unsend"}.get(step.get("tool", ""))
        if undo is not None and luck.randrange(3):
            step["compensate"] = {"tool": undo, "args": {"was": "${result}"}}
        if luck.randrange(8) == 0:
            step["milestone"] = True
        if luck.randrange(8) == 0 and step.get("tool") not in (None, "sleep"):
            step["estimate"] = {"seconds": 1}
        if "asked" in plan["inputs"] and luck.randrange(5) == 0 and step.get("tool") not in (None, "sleep"):
            step["args"] = {**step.get("args", {}), "asked": "${inputs.asked}"}
    return plan


def settings_of(luck: Random) -> RunSettings:
    """How a run may be driven."""
    return RunSettings(
        ask=luck.choice(_ASKS),
        repair=luck.randrange(2) > 0,
        adaptation_sensitivity=luck.choice([0.2, 0.7]),
        decide_at=luck.choice(["never", "never", *DECIDE_AT]),
        agent_default=luck.choice(AGENT_DEFAULTS),
        undo=luck.choice(UNDOS),
    )


def _gate(luck: Random) -> Places | None:
    return Places({"put": 1}) if luck.randrange(3) == 0 else None


def _as(given: Input, role: Any) -> Input:
    return msgspec.structs.replace(given, role=role) if isinstance(given, cmd.Order) else given


def _all_steps(steps: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    for step in steps:
        yield step
        yield from _all_steps(step.get("steps", []))
