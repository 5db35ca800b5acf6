"""Runs for the views: played by the core itself, with a clock that is a number and tools that are a table."""

from __future__ import annotations

import heapq
import xml.etree.ElementTree as ET
from collections.abc import Callable
from typing import Any

import pytest

from kedge.base.codec import encode
from kedge.base.errors import Category
from kedge.base.limits import Limits
from kedge.flow import events as ev
from kedge.flow import inputs as inp
from kedge.flow.decide import decide
from kedge.flow.due import due, next_wake
from kedge.flow.program import compile_plan
from kedge.flow.state import RunState
from kedge.flow.turn import Turn
from kedge.flow.words import Failure
from kedge.plan.model import Plan
from kedge.plan.tools import Catalog, ToolSpec

START = 1_700_000_000_000
Act = Callable[[str, int], tuple[float, Any]]


class OpenGate:
    def take(self, node):
        return ""

    def give(self, node):
        pass

    def room(self, name):
        return 1


class Played:
    """A run as far as it was played: its state, and its journal as (seq, at, event)."""

    def __init__(self, document: dict[str, Any] | Plan, act: Act, limits: Limits) -> None:
        self.plan = document if isinstance(document, Plan) else Plan.parse({"goal": "Try it", **document})
        tools = {s.tool for s in _all_steps(self.plan) if s.tool}
        catalog = Catalog(ToolSpec(name=name, effect="read") for name in sorted(tools))
        program = compile_plan(self.plan, catalog)
        self.state = RunState("run1", program, b"{}", limits)
        self.journal: list[tuple[int, int, ev.Event]] = []
        self.act = act
        self.now = START
        self._calls: list[tuple[int, int, str, int, Any]] = []
        self._order = 0
        started = ev.RunStarted(plan="0", goal=self.plan.goal, inputs=ev.Raw(b"{}"))
        self.turn(lambda turn: (turn.emit(started), turn.emit(ev.PlanAdopted(version=1, plan="0"))))

    def turn(self, do: Callable[[Turn], object]) -> None:
        turn = Turn(self.state, self.now)
        do(turn)
        due(turn, OpenGate())
        for event in turn.events:
            self.journal.append((len(self.journal) + 1, turn.now, event))
        for step, *_ in turn.launches:
            seconds, outcome = self.act(step.path, step.starts)
            self._order += 1
            call = (self.now + int(seconds * 1000), self._order, step.path, step.starts, outcome)
            heapq.heappush(self._calls, call)

    def play(self, until_s: float = float("inf")) -> Played:
        """On, to the end of the run or to `until_s` seconds after its start."""
        until = START + until_s * 1000
        while not self.state.ended:
            wake = next_wake(self.state)
            times = [wake] if wake is not None else []
            times += [self._calls[0][0]] if self._calls else []
            at = min(times, default=None)
            if at is None or at > until:
                self.now = max(self.now, int(until)) if until != float("inf") else self.now
                break
            self.now = max(self.now, at)
            if self._calls and self._calls[0][0] == at:
                _, _, path, starts, outcome = heapq.heappop(self._calls)
                if isinstance(outcome, Failure):
                    self.give(inp.Raised(path, starts, outcome))
                else:
                    self.give(inp.Returned(path, starts, encode(outcome)))
            else:
                self.give(inp.Ticked())
        return self

    def give(self, given: inp.Input) -> None:
        self.turn(lambda turn: decide(turn, given))


def _all_steps(plan: Plan):
    todo = list(plan.steps)
    for step in todo:
        todo.extend(step.steps or ())
    return todo


def failure(message: str, category: Category = "permanent") -> Failure:
    return Failure(category=category, code="tool_error", message=message, classified=True)


@pytest.fixture
def play():
    """`play(document, {path: [(seconds, outcome), …]})`: each start of a path takes the next (or last) pair.

    Or a function of path and number of the start. What the table does not name takes a second.
    """

    def start(document, table=None, until_s: float = float("inf"), limits=None) -> Played:
        rows = table if isinstance(table, dict) else {}

        def act(path: str, starts: int) -> tuple[float, Any]:
            row = rows.get(path, (1.0, {}))
            return row[min(starts, len(row)) - 1] if isinstance(row, list) else row

        own: Any = table if callable(table) else act
        return Played(document, own, limits or Limits()).play(until_s)

    return start


@pytest.fixture
def fails():
    return failure


STORY: dict[str, Any] = {
    "goal": "Compare the tone of the two newest reports",
    "steps": [
        {"id": "list", "do": "List the report files", "tool": "files.list"},
        {
            "id": "read", "do": "Read them", "tool": "files.read", "foreach": "${list.files}",
            "args": {"path": "${item}"}, "retry": {"attempts": 3, "backoff_s": 0.5},
        },
        {"id": "check", "tool": "text.stats", "when": "len(read) > 5", "args": {"texts": "${read}"}},
        {
            "id": "compare", "steps": [
                {"id": "tone", "do": "Judge the tone", "tool": "ask", "args": {"t": "${read}"},
                 "loop": {"times": 2, "delay_s": 0.2}},
                {"id": "sum_up", "tool": "ask", "args": {"t": "${tone}"}},
            ],
        },
        {"id": "publish", "tool": "wiki.put", "args": {"t": "${compare.sum_up}"}, "estimate": {"seconds": 4}},
        {"id": "draft", "tool": "files.write", "fallback_for": "publish", "args": {"t": "${compare.sum_up}"}},
        {"id": "rest", "tool": "sleep", "args": {"seconds": 2}, "after": ["publish"]},
    ],
}  # fmt: skip


@pytest.fixture
def story(play, fails):
    """One of everything; `story(until_s)` stops on the way."""
    table = {
        "list": (0.3, {"files": ["a", "b", "c"]}),
        "read[1]": [(0.4, fails("too slow", "timeout")), (0.6, {})],
        "publish": (0.5, fails("no permission", "permission")),
    }

    def tell(until_s: float = float("inf")) -> Played:
        return play(STORY, table, until_s)

    return tell


@pytest.fixture
def parse_xml():
    return ET.fromstring


@pytest.fixture(scope="module")
def module_play():
    """For laws: hypothesis runs them many times in one test, and wants no fixture that is made for each."""

    class Kit:
        Played = Played
        fails = staticmethod(failure)

        @staticmethod
        def play(document, act, limits=None) -> Played:
            return Played(document, act, limits or Limits()).play()

    return Kit
