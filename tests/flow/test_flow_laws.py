"""Random plans, driven by random luck: what must hold after every event, and that every run ends."""

from __future__ import annotations

import os
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kedge.base.errors import Category, InvalidPlan
from kedge.flow.events import RunResumed, StepStarted, StepSucceeded
from kedge.flow.inputs import Input, Raised, Returned
from kedge.flow.words import Failure
from kedge.plan.tools import Effect
from kedge.testing.ring import Places, Ring

EXAMPLES = int(os.environ.get("KEDGE_FLOW_EXAMPLES", "150"))
EFFECTS: dict[str, Effect] = {"pure": "pure", "read": "read", "put": "idempotent", "send": "effect"}
CATEGORIES: list[Category] = ["transient", "timeout", "permanent", "bug", "cancelled"]


class Author:
    """Writes a plan at random. Steps name only earlier ones, so it is one that can be run."""

    def __init__(self, luck: Random) -> None:
        self.luck = luck
        self.left = luck.randint(1, 12)
        self.count = 0

    def maybe(self, percent: int) -> bool:
        return self.luck.randrange(100) < percent

    def plan(self) -> dict[str, Any]:
        plan: dict[str, Any] = {"goal": "luck", "inputs": {"many": {"default": [1, 2, 3]}}}
        plan["steps"] = self.scope(0, [])
        if self.maybe(30):
            plan["outputs"] = {"first": f"1 if present({plan['steps'][0]['id']}) else 0"}
        return plan

    def scope(self, depth: int, outer: list[str]) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        targets: list[str] = []
        for _ in range(self.luck.randint(1, 5)):
            if self.left <= 0 and steps:
                break
            self.left -= 1
            self.count += 1
            step: dict[str, Any] = {"id": f"s{self.count}"}
            seen = [s["id"] for s in steps if "fallback_for" not in s]
            self.work(step, depth, [*outer, *seen])
            if targets and self.maybe(25):
                step["fallback_for"] = targets.pop(self.luck.randrange(len(targets)))
                seen = [id_ for id_ in seen if id_ != step["fallback_for"]]
            self.needs(step, outer, seen)
            self.manners(step)
            targets.append(step["id"])
            steps.append(step)
        return steps

    def work(self, step: dict[str, Any], depth: int, visible: list[str]) -> None:
        if self.maybe(20):
            loop: dict[str, Any] = {"times": self.luck.randint(1, 3)}
            step["loop"] = loop
            if self.maybe(40):
                loop["until"] = self.luck.choice(["loop.index >= 1", "false", "true"])
            if self.maybe(30):
                loop |= {"delay_s": 1, "collect": "all"}
        if self.maybe(20):
            step["foreach"] = self.luck.choice([[], [1], [1, 2, 3], "${inputs.many}"])
        if depth < 3 and self.maybe(25):
            step["steps"] = self.scope(depth + 1, visible)
        elif self.maybe(10):
            step |= {"tool": "sleep", "args": {"seconds": self.luck.randint(0, 2)}}
        else:
            step["tool"] = self.luck.choice(list(EFFECTS))

    def needs(self, step: dict[str, Any], outer: list[str], seen: list[str]) -> None:
        names = [name for name in (*seen, *outer[-3:]) if self.maybe(30)]
        if not names:
            return
        if "steps" in step or step.get("tool") == "sleep" or self.maybe(30):
            step["after"] = names
        else:
            step["args"] = {name: "${" + name + "}" for name in names}
        step["join"] = self.luck.choice(["all", "all", "any", "settled"])
        if self.maybe(25):
            step["when"] = f"present({names[0]})"

    def manners(self, step: dict[str, Any]) -> None:
        if "when" not in step and self.maybe(15):
            step["when"] = self.luck.choice(["true", "false", "len(inputs.many) > 2"])
        if self.maybe(20):
            step["on_error"] = "continue"
        weak = (
            all(tool in {"pure", "read", "sleep"} for tool in _tools(step["steps"]))
            if "steps" in step
            else True
        )
        if self.maybe(30) and weak and step.get("tool") != "sleep":
            step["retry"] = {"attempts": 2, "backoff_s": self.luck.choice([0, 1])}
        if self.maybe(15):
            step["expect"] = self.luck.choice(["result != 3", "present(result) or true"])


def _tools(steps: list[dict[str, Any]]) -> list[str]:
    return [tool for step in steps for tool in ([step["tool"]] if "tool" in step else _tools(step["steps"]))]


class World:
    """What becomes of the calls, and everything else that can happen."""

    def __init__(self, ring: Ring, luck: Random, *, calm: bool) -> None:
        self.ring = ring
        self.luck = luck
        self.calm = calm
        self.heard: list[Input] = []

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
        elif what < 80 and self.heard:
            ring.put(self.luck.choice(self.heard))  # said twice, or late
        elif what < 90:
            self.answer_one()
        elif what < 93 and not self.calm:
            ring.send("cancel")
        elif what < 95:
            ring.salvage(self.luck.randint(2, len(ring.log)))
            self.heard.clear()  # whoever drove it then drives it no more

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
            elif ring.questions and not ring.state.cancelling:
                self.answer_one()
            elif (at := ring.next_wake_ms) is not None:
                ring.tick(max(0, at - ring.now_ms))
            else:
                raise AssertionError(f"the run hangs: {ring.status()} {ring.statuses()}")
        raise AssertionError(f"the run does not end: {ring.statuses()}")


@st.composite
def lives(draw: Any) -> tuple[Ring, World]:
    luck: Random = draw(st.randoms(use_true_random=False))
    plan = Author(luck).plan()
    gate = Places({"put": 1}) if luck.randrange(3) == 0 else None
    try:
        ring = Ring(plan, EFFECTS, inputs={"many": [1, 2, 3]}, gate=gate)
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
        if isinstance(event, RunResumed) and event.retry_failed:
            given_to.clear()
        if isinstance(event, StepStarted):
            key = event.path, event.generation, event.iteration
            assert given_to.setdefault(key, bytes(event.args)) == bytes(event.args)
