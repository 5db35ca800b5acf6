"""The events of a run as people and callbacks get them: with percent, level and a sentence.

A fold over the journal that keeps counts and start times only. Told the same events it says the
same, live or years later. What tools report meanwhile is not in the journal: a narrator that is told
it (`progress`) lets the percent of later events start from there, so that its listeners never see it
go back. So: one narrator per listener, and progress only for those at level `all`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from kedge.flow import events as ev
from kedge.flow.program import Program
from kedge.flow.state import UNDO
from kedge.plan.model import Plan, Step
from kedge.plan.patch import Patch, apply
from kedge.views.sentences import About, sentence
from kedge.views.shares import ALMOST, Shares, attempts_to_come, rounds_to_come
from kedge.views.text import clean

Level = Literal["run", "group", "step", "all"]
_DEPTHS: dict[Level, int] = {"run": 0, "group": 1, "step": 2, "all": 3}

_KINDS = {
    kind: re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower() for kind in ev.Event.__subclasses__()
}
_REACHED = (ev.StepSucceeded, ev.StepFailed)
_SETTLING = (ev.StepSucceeded, ev.StepFailed, ev.StepSkipped, ev.StepCancelled)
_RUN_LEVEL = frozenset(
    {
        ev.RunStarted, ev.PlanAdopted, ev.PlanApproved, ev.CommandTaken, ev.CommandRefused, ev.SignalReceived,
        ev.RunResumed, ev.Forked, ev.RunPaused, ev.RunUnpaused, ev.RunCancelling,
        ev.CompensationStarted, ev.CompensationEnded, ev.RunEnded, ev.QuestionAsked, ev.QuestionAnswered,
        ev.LimitReached,
        ev.TroubleFound, ev.RepairAsked, ev.RepairRefused, ev.DecisionAsked, ev.DecisionTaken,
        ev.DecisionMissed, ev.Said, ev.Noted, ev.Marked,
    }
)  # fmt: skip
decode_patch = msgspec.json.Decoder(Patch).decode

_IN_PATHS = re.compile(r"\[\d+\]|#\d+")


class RunEvent(msgspec.Struct, frozen=True, gc=False):
    """Something that happened in a run."""

    seq: int
    """Number in the run's journal; of the last event there, where it is not in the journal itself."""
    at: int
    """When, in ms."""
    run_id: str
    kind: str
    """The journal's kind in snake case, as `step_started`; or `group_started`, `group_ended`, `progress`."""
    level: Level
    """The coarsest level at which it is told."""
    path: str
    percent: float
    """Of the whole run: 100 when it has ended, never going back before that."""
    message: str
    """A sentence for people."""
    milestone: bool
    """It ends a step whose end is a milestone."""
    source: ev.Event | dict[str, Any]

    @property
    def data(self) -> dict[str, Any]:
        """All that is known about it, as plain data."""
        return self.source if isinstance(self.source, dict) else ev.plain(self.source)

    def plain(self) -> dict[str, Any]:
        """The event as plain data, to write as JSON."""
        return {name: getattr(self, name) for name in self.__struct_fields__[:-1]} | {"data": self.data}

    def __str__(self) -> str:
        return f"{math.floor(self.percent):3d} %  {self.message}"


def wanted(event: RunEvent, level: Level) -> bool:
    """Is the event told at this level? `all` includes what tools report while they run."""
    return _DEPTHS[event.level] <= _DEPTHS[level]


class Narrator:
    """Tells one run. Give it every event, from the first."""

    def __init__(self, run_id: str, plan: Plan | Program) -> None:
        self._run_id = run_id
        self._plan = plan.plan if isinstance(plan, Program) else plan
        self._steps: dict[str, Step] = {}
        _index(self._plan.steps, self._steps)
        self._shares = Shares()
        self._shares.divide("", len(self._plan.steps))
        self._percent = 0.0
        self._seq = 0
        self._started_at = 0
        self._total = self._total_at_top = len(self._plan.steps)
        self._settled: set[str] = set()
        self._started: dict[str, int] = {}
        """Steps that have started and not settled, and when."""
        self._groups: dict[str, list[str]] = {}
        """Composites and foreach steps that have begun, and the paths of what they hold."""
        self._ended = False
        self._undoing: dict[str, int] = {}
        """Calls under way that undo steps, and since when."""

    def tell(self, seq: int, at: int, event: ev.Event) -> list[RunEvent]:
        """What listeners get for one event of the journal: itself, and the start or end of a group."""
        self._seq = seq
        path: str = getattr(event, "path", "")
        if type(event) in _RUN_LEVEL:
            return self._tell_run(at, event, path)
        if path.endswith(UNDO):
            return [self._tell_undo(at, event, path)]
        return self._tell_step(at, event, path)

    def progress(self, path: str, fraction: float | None, message: str, at: int) -> RunEvent:
        """What listeners get for what a running tool reports. Such events are not in the journal."""
        if fraction is not None and not math.isfinite(fraction):
            fraction = None
        if fraction is not None:
            fraction = min(1.0, max(0.0, fraction))
            if path in self._started:
                self._shares.report(path, fraction)
                self._rise(self._shares.reached)
        said = clean(message, 200)
        share = f" {math.floor(fraction * 100)} %" if fraction is not None else ""
        text = f"{_name(path)}{share}" + (f": {said}" if said else "")
        data = {"kind": "Progress", "path": path, "fraction": fraction, "message": said}
        return RunEvent(
            self._seq, at, self._run_id, "progress", "all", path, self._percent, text, False, data
        )

    def _tell_run(self, at: int, event: ev.Event, path: str) -> list[RunEvent]:
        told: list[RunEvent] = []
        if isinstance(event, ev.RunStarted):
            self._started_at = at
        elif isinstance(event, ev.PlanAdopted) and event.patch:
            self._follow(apply(self._plan, decode_patch(event.patch)))
        elif self._ended and (isinstance(event, ev.Forked) or getattr(event, "retry_failed", False)):
            self._reopen()
        elif isinstance(event, ev.RunEnded):
            told = [
                self._group_event(at, event, group, "ended") for group in reversed(list(self._open_groups()))
            ]
            self._ended = True
            self._percent = 100.0
            self._started.clear()
        about = About(at, self._run_id, _name(path), "", (at - self._started_at) / 1000, "")
        return [*told, self._event(at, event, "run", path, sentence(event, about))]

    def _tell_undo(self, at: int, event: ev.Event, path: str) -> RunEvent:
        """It is no part of the plan's work: nothing of that is nearer its end."""
        began = isinstance(event, ev.StepStarted | ev.StepWaiting)
        since = self._undoing.setdefault(path, at) if began else self._undoing.get(path)
        if isinstance(event, _SETTLING):
            self._undoing.pop(path, None)
        seconds = (at - since) / 1000 if since is not None else None
        text = sentence(event, About(at, self._run_id, _name(path), "", seconds, ""))
        return self._event(at, event, "step", path, text)

    def _follow(self, plan: Plan) -> None:
        """What is left of a share is divided anew among the steps that are there now."""
        self._plan = plan
        self._steps = {}
        _index(plan.steps, self._steps)
        self._regroup("", [step.id for step in plan.steps], self._total_at_top)
        self._total_at_top = len(plan.steps)
        for path, inside in list(self._groups.items()):
            step = self._step(path)
            if step is None or step.steps is None or not inside:
                continue
            prefix = inside[0].rpartition("/")[0]
            now = [f"{prefix}/{child.id}" for child in step.steps]
            if now != inside:
                self._regroup(path, now, len(inside))
                self._groups[path] = now

    def _regroup(self, path: str, inside: list[str], before: int) -> None:
        self._total += len(inside) - before
        self._shares.divide(path, sum(one not in self._settled for one in inside))

    def _tell_step(self, at: int, event: ev.Event, path: str) -> list[RunEvent]:
        step = self._step(path)
        since = self._started.get(path)
        self._fold(at, event, path, step)
        counted, group = "", path in self._groups
        if isinstance(event, _SETTLING):
            counted = f" ({len(self._settled):,} of {self._total:,})"
            self._started.pop(path, None)
            group = group and since is not None
        seconds = (at - since) / 1000 if since is not None else None
        do = clean(step.do, 80) if step is not None and step.do else ""
        text = sentence(event, About(at, self._run_id, _name(path), do, seconds, counted))
        told = [self._event(at, event, "step", path, text)]
        if group and isinstance(event, _SETTLING):
            told.append(self._group_event(at, event, path, "ended"))
        elif group and since is None:
            told.append(self._group_event(at, event, path, "started"))
        return told

    def _fold(self, at: int, event: ev.Event, path: str, step: Step | None) -> None:
        shares = self._shares
        match event:
            case ev.StepStarted():
                self._started.setdefault(path, at)
                shares.restart(path)
                if step is not None and event.cause != ev.AGAIN:
                    self._begin(path, step, event)
            case ev.StepExpanded():
                self._started.setdefault(path, at)
                self._open(path, [f"{path}[{index}]" for index in range(event.count)])
                shares.divide(path, event.count)
            case ev.StepWaiting():
                self._started.setdefault(path, at)
            case ev.RoundEnded():
                shares.end_round(path)
            case ev.RetryScheduled() | ev.StepInterrupted():
                shares.restart(path)
            case ev.StepSucceeded():
                self._settle(path, done=True)
                if step is not None and step.fallback_for is not None and not path.endswith("]"):
                    shares.stand_in(path.removesuffix(step.id) + step.fallback_for)
            case ev.StepFailed():
                self._settle(path, done=_is_optional(step))
            case ev.StepCancelled():
                self._settle(path, done=False)
            case ev.StepSkipped():
                self._settle(path, done=event.reason != "dependency" or _is_optional(step))
            case _:
                pass
        self._rise(shares.reached)

    def _begin(self, path: str, step: Step, event: ev.StepStarted) -> None:
        rounds = rounds_to_come(step.loop, event.iteration)
        if step.steps is not None:
            turn = f"#{event.iteration}" if step.loop is not None else ""
            self._open(path, [f"{path}{turn}/{child.id}" for child in step.steps])
            attempts = attempts_to_come(step.retry, event.attempt)
            self._shares.divide(path, len(step.steps), rounds, attempts)
        elif step.loop is not None:
            self._shares.divide(path, 1, rounds)

    def _open(self, path: str, inside: list[str]) -> None:
        before = self._groups.get(path, [])
        self._settled.difference_update(before, inside)  # another attempt or round takes their place
        self._total += len(inside) - len(before)
        self._groups[path] = inside

    def _settle(self, path: str, *, done: bool) -> None:
        if path not in self._settled:  # a run taken up again may come to the same once more
            self._settled.add(path)
            self._shares.settle(path, done=done)

    def _reopen(self) -> None:
        """The run goes on after its end: the only time that the percent falls."""
        self._ended = False
        self._settled.difference_update(self._shares.reopen())
        self._percent = 0.0
        self._rise(self._shares.settled)

    def _rise(self, percent: float) -> None:
        if not self._ended:
            self._percent = max(self._percent, round(min(percent, ALMOST), 3))

    def _open_groups(self) -> list[str]:
        return [path for path in self._started if path in self._groups]

    def _event(self, at: int, event: ev.Event, level: Level, path: str, text: str) -> RunEvent:
        milestone = isinstance(event, _REACHED) and self._is_milestone(path)
        return RunEvent(
            self._seq,
            at,
            self._run_id,
            _KINDS[type(event)],
            level,
            path,
            self._percent,
            text,
            milestone,
            event,
        )

    def _is_milestone(self, path: str) -> bool:
        """Items are no milestones: their foreach step may be."""
        step = self._step(path) if not path.endswith("]") else None
        return step is not None and step.is_milestone

    def _step(self, path: str) -> Step | None:
        return self._steps.get(_IN_PATHS.sub("", path) if "[" in path or "#" in path else path)

    def _group_event(
        self, at: int, event: ev.Event, path: str, what: Literal["started", "ended"]
    ) -> RunEvent:
        count = len(self._groups[path])
        text = f"Group {clean(path, 200)} {what}" + (f": {count:,} to do" if what == "started" else "")
        kind = f"group_{what}"
        return RunEvent(self._seq, at, self._run_id, kind, "group", path, self._percent, text, False, event)


def _name(path: str) -> str:
    """Cleaned: a log that somebody else wrote may name a step anything."""
    if path.endswith(UNDO):
        return f"Undoing {clean(path.removesuffix(UNDO), 200)}"
    return f"{'Item' if path.endswith(']') else 'Step'} {clean(path, 200)}"


def _is_optional(step: Step | None) -> bool:
    return step is not None and step.on_error == "continue"


def _index(steps: Sequence[Step], found: dict[str, Step]) -> None:
    todo = [("", step) for step in steps]
    while todo:
        prefix, step = todo.pop()
        path = prefix + step.id
        found[path] = step
        todo.extend((path + "/", child) for child in step.steps or ())
