"""Random plans, driven by random luck: what must hold after every event, and that every run ends."""

from __future__ import annotations

import os
from contextlib import suppress
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kedge.base.errors import Category, InvalidPlan, KedgeError
from kedge.flow.commands import Retry
from kedge.flow.events import PlanAdopted, Reopened, ResultReused, RunResumed, StepStarted, StepSucceeded
from kedge.flow.inputs import (
    Decided,
    DecisionFailed,
    Input,
    Raised,
    Repaired,
    RepairFailed,
    Reported,
    Returned,
)
from kedge.flow.settings import RunSettings
from kedge.flow.words import Failure
from kedge.testing.authors import TOOLS, Author
from kedge.testing.editors import Editor
from kedge.testing.menders import Mender
from kedge.testing.programs import check_program
from kedge.testing.ring import Places, Ring

EXAMPLES = int(os.environ.get("KEDGE_FLOW_EXAMPLES", "150"))
CATEGORIES: list[Category] = ["transient", "timeout", "permanent", "bug", "cancelled"]


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
            with suppress(KedgeError):
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
        wanted += [Retry(step=path) for path in held if self.luck.randrange(2)]
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
                category=self.luck.choice(CATEGORIES),
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
            elif ring.state.repair is not None and not ring.state.cancelling and not ring.state.blocked_by:
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


_SETTINGS = st.sampled_from(
    [
        RunSettings(),
        RunSettings(repair=True),
        RunSettings(repair=True, adaptation_sensitivity=0.2),
        RunSettings(decide_at="every_step"),
        RunSettings(decide_at="milestone", agent_default="ask", repair=True),
        RunSettings(decide_at="trouble", agent_default="ask"),
    ]
)


@st.composite
def lives(draw: Any) -> tuple[Ring, World]:
    luck: Random = draw(st.randoms(use_true_random=False))
    plan = Author(luck).plan()
    gate = Places({"put": 1}) if luck.randrange(3) == 0 else None
    try:
        ring = Ring(plan, TOOLS, inputs={"many": [1, 2, 3]}, gate=gate, settings=draw(_SETTINGS))
    except InvalidPlan:
        assume(False)
        raise
    return ring, World(ring, luck, calm=luck.randrange(3) > 0)


@settings(max_examples=EXAMPLES)
@given(lives())
def test_whatever_happens_the_laws_hold_and_the_run_ends(life):
    ring, world = life
    ring.start()
    world.live()
    world.end()
    ring.crash()
    for _ in range(2):
        done = _done_on_top(ring)
        ring.resume(retry_failed=True)
        world.end()
        assert done <= _done_on_top(ring)
        ring.crash()
    _no_finished_step_started_again(ring)
    _attempts_had_the_same_arguments(ring)


def _done_on_top(ring: Ring) -> set[str]:
    """Not inside composites: another attempt of one does its children again."""
    return {path for path, status in ring.statuses().items() if status == "done" and "/" not in path}


def _no_finished_step_started_again(ring: Ring) -> None:
    done: set[str] = set()
    for event in ring.events:
        if isinstance(event, StepSucceeded):
            done.add(event.path)
        elif isinstance(event, StepStarted):
            assert event.path not in done
            # Another attempt of a composite, which has no effects, does its children again.
            done = {path for path in done if not path.startswith((f"{event.path}/", f"{event.path}#"))}


def _attempts_had_the_same_arguments(ring: Ring) -> None:
    given_to: dict[tuple[str, int, int], bytes] = {}
    for event in ring.events:
        anew = isinstance(event, RunResumed) and event.retry_failed
        if anew or isinstance(event, PlanAdopted | Reopened):
            given_to.clear()
        if isinstance(event, StepStarted):
            key = event.path, event.generation, event.iteration
            assert given_to.setdefault(key, bytes(event.args)) == bytes(event.args)


@settings(max_examples=EXAMPLES)
@given(lives())
def test_a_fork_from_any_event_is_lawful_and_comes_to_an_end(life):
    ring, world = life
    ring.start()
    world.live()
    if world.luck.randrange(3) == 0:
        world.end()
    for _ in range(world.luck.randint(1, 3)):
        at = world.luck.randint(2, len(ring.log))
        before, launched = ring.log[:at], len(ring.launched)
        done = {e.path for e in ring.events[:at] if isinstance(e, StepSucceeded) and "/" not in e.path}
        ring.fork(at, anew=world.luck.randrange(4) == 0)
        world.heard.clear()  # that was said to the other run
        assert ring.log[:at] == before
        assert not done & {path for path, _ in ring.launched[launched:]}
        world.live()
        ring.crash().resume()
        if world.luck.randrange(2):
            world.end()
    world.end()
    ring.crash()
    reused = [event.source for event in ring.of(ResultReused)]
    assert len(set(reused)) == len(reused), "one result stands for one call"
