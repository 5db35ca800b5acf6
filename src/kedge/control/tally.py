"""What happened to the calls of runs, added up by tool: a light fold over logs, without a state."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from math import ceil

import msgspec

from kedge.flow.state import UNDO
from kedge.journal.entry import Entry
from kedge.plan.model import SLEEP, Plan, Step
from kedge.plan.patch import Patch, apply

_IN_PATHS = re.compile(r"\[\d+\]|#\d+")
_DONE = frozenset({"StepSucceeded", "RoundEnded"})
_FAILED = frozenset({"StepFailed", "RetryScheduled"})
_OPEN_ENDED = frozenset({"StepInDoubt", "StepCancelled", "StepInterrupted"})
"""The call is over, and nobody can say whether it worked."""
_KINDS = _DONE | _FAILED | _OPEN_ENDED | {"StepStarted", "FeedbackGiven", "PlanAdopted"}


class _Kind(msgspec.Struct):
    kind: str


class _Light(msgspec.Struct):
    """Of an event, what is added up."""

    kind: str
    path: str = ""
    patch: msgspec.Raw = msgspec.Raw(b"")
    cost: float = 0.0
    tokens: int = 0


_kind = msgspec.json.Decoder(_Kind).decode
_light = msgspec.json.Decoder(_Light).decode
_patch = msgspec.json.Decoder(Patch).decode


class ToolTally:
    """The calls of one tool."""

    def __init__(self) -> None:
        self.runs: set[str] = set()
        self.done = 0
        self.failed = 0
        self.retries = 0
        self.cost = 0.0
        self.tokens = 0
        self.took_ms: list[int] = []
        """Of each call that was done."""


class Tally:
    """Calls of many runs by tool."""

    def __init__(self) -> None:
        self.tools: dict[str, ToolTally] = {}
        self._known: dict[str, dict[str, str]] = {}
        """By hash of a plan, the tool of each of its steps: many runs follow the same plan."""

    def add(self, run_id: str, plan_id: str, plan: Plan, entries: Iterable[Entry]) -> None:
        """One run, from its first event."""
        tool_of = self._known.get(plan_id)
        if tool_of is None:
            tool_of = self._known[plan_id] = _tools(plan.steps)
        began: dict[str, int] = {}
        # All are read before any is counted: a run is in it as a whole, or not at all.
        events = [(_light(one.data), one.at) for one in entries if _kind(one.data).kind in _KINDS]
        for event, at in events:
            if event.kind == "PlanAdopted":
                if event.patch:
                    plan = apply(plan, _patch(event.patch))
                    tool_of = _tools(plan.steps)
                continue
            tool = tool_of.get(_IN_PATHS.sub("", event.path))
            if tool is not None:
                self._count(run_id, tool, event, at, began)

    def _count(self, run_id: str, tool: str, event: _Light, at: int, began: dict[str, int]) -> None:
        tally = self.tools.setdefault(tool, ToolTally())
        if event.kind == "StepStarted":
            began[event.path] = at
            tally.runs.add(run_id)
        elif event.kind == "FeedbackGiven":
            tally.cost += event.cost
            tally.tokens += event.tokens
        elif event.path in began:  # else it ended without a call, as what could not be given arguments does
            took_ms = at - began.pop(event.path)
            if event.kind in _DONE:
                tally.done += 1
                tally.took_ms.append(took_ms)
            elif event.kind in _FAILED:
                tally.failed += 1
                tally.retries += event.kind == "RetryScheduled"


def _tools(steps: Sequence[Step]) -> dict[str, str]:
    """The tool that each step calls, by path, and the one that undoes it."""
    found: dict[str, str] = {}
    todo = [("", step) for step in steps]
    while todo:
        prefix, step = todo.pop()
        path = prefix + step.id
        if step.tool is not None and step.tool != SLEEP:
            found[path] = step.tool
        if step.compensate is not None:
            found[path + UNDO] = step.compensate.tool
        todo.extend((f"{path}/", child) for child in step.steps or ())
    return found


def percentile(took_ms: list[int], share: float) -> float | None:
    """Seconds that so large a share of all does not exceed; None of none."""
    if not took_ms:
        return None
    took_ms.sort()
    return took_ms[max(0, ceil(share * len(took_ms)) - 1)] / 1000
