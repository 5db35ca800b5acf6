"""How each status looks and reads: one table for every picture and surface."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from operator import attrgetter
from typing import NamedTuple

from kedge.flow.state import StepState
from kedge.flow.words import RunStatus, StepStatus
from kedge.plan.model import Step
from kedge.views.text import clean

_NAMES_MAX = 6
_TEXT_MAX = 60
_status_of = attrgetter("status._value_")  # counting enum members takes three times as long


class Look(NamedTuple):
    """One status as it is shown."""

    icon: str
    """One narrow character, text style: an emoji's width differs from terminal to terminal."""
    letter: str
    """For terminals without such characters."""
    colour: str
    """Name of a terminal colour."""
    fill: str
    """Background in diagrams."""
    line: str
    """Border and bar in diagrams; readable on light and on dark."""
    sentence: str


LOOKS: dict[StepStatus, Look] = {
    StepStatus.PENDING: Look("◌", "P", "bright_black", "#f4f5f7", "#8a919c", "needs what is not there yet"),
    StepStatus.READY: Look("◇", "Q", "cyan", "#e3f4f8", "#2f8fa8", "could start; waits for its turn"),
    StepStatus.WAITING: Look("◷", "W", "magenta", "#f1e8fb", "#8e5fc4", "waits for a time"),
    StepStatus.RUNNING: Look("▸", "R", "blue", "#e2edfd", "#2f72d6", "is running"),
    StepStatus.DONE: Look("✓", "D", "green", "#e2f5e6", "#2c9149", "is done"),
    StepStatus.FAILED: Look("✗", "F", "red", "#fde5e5", "#d23c3c", "failed"),
    StepStatus.SKIPPED: Look("↷", "S", "bright_black", "#eceef1", "#767d88", "was skipped"),
    StepStatus.CANCELLED: Look("⊘", "C", "yellow", "#f6efdd", "#a07a1e", "was cancelled"),
    StepStatus.IN_DOUBT: Look(
        "?", "I", "bright_yellow", "#fff1cf", "#c27c0a", "may or may not have had its effect"
    ),
    StepStatus.COMPENSATED: Look("↶", "U", "green", "#e6f2ef", "#3d8577", "was done and undone again"),
}

RUN_SENTENCES: dict[RunStatus, str] = {
    RunStatus.RUNNING: "The run is going on",
    RunStatus.WAITING: "The run waits for an answer",
    RunStatus.PAUSED: "The run is paused",
    RunStatus.CANCELLING: "The run is being cancelled",
    RunStatus.COMPENSATING: "What the run did is being undone",
    RunStatus.DONE: "The run is done",
    RunStatus.FAILED: "The run failed",
    RunStatus.EMPTY: "The run ended with nothing done",
    RunStatus.CANCELLED: "The run was cancelled",
}

URGENT: tuple[StepStatus, ...] = (
    StepStatus.FAILED,
    StepStatus.IN_DOUBT,
    StepStatus.RUNNING,
    StepStatus.WAITING,
    StepStatus.READY,
    StepStatus.PENDING,
    StepStatus.CANCELLED,
    StepStatus.DONE,
    StepStatus.COMPENSATED,
    StepStatus.SKIPPED,
)
"""What to show of many: the first of these that one of them has."""


def icon(status: StepStatus, *, unicode: bool = True) -> str:
    """One character for a status."""
    look = LOOKS[status]
    return look.icon if unicode else look.letter


def word(status: StepStatus | RunStatus) -> str:
    """The status as people write it."""
    return status.value.replace("_", " ")


def tally(steps: Iterable[StepState]) -> str:
    """How many of each status: `80 done, 12 pending`."""
    counts = Counter(map(_status_of, steps))
    return ", ".join(
        f"{counts[status.value]:,} {word(status)}" for status in StepStatus if status.value in counts
    )


def asked(step: Step) -> list[str]:
    """What a plan says of a step besides who does it and when."""
    found: list[str] = []
    if step.goal is not None:
        found.append(clean(step.goal, _TEXT_MAX))
    if step.wait is not None:
        found.append(f"for signal {clean(step.wait.signal, _TEXT_MAX)}")
    if step.use is not None:
        found.append(f"uses {clean(step.use, _TEXT_MAX)}")
    if step.approval is not None:
        found.append(f"asks: {clean(step.approval.ask, _TEXT_MAX)}")
    if step.on_error != "fail":
        found.append("may fail" if step.on_error == "continue" else "asks if it fails")
    if step.is_milestone:
        found.append("milestone")
    return found


def why_skipped(reason: str, because: tuple[str, ...]) -> str:
    """Why a step will not run, in words. `because` is as the event has it, so it is cleaned here."""
    names = clean(", ".join(because[:_NAMES_MAX]), 120)
    if len(because) > _NAMES_MAX:
        names += f" and {len(because) - _NAMES_MAX} more"
    return {
        "condition": f"its condition is false: {names}",
        "absent": f"nothing it depends on is there: {names}",
        "dependency": f"it depends on what failed: {names}",
        "not_needed": f"{names} did not fail",
        "empty": "none of its steps was done",
        "command": f"somebody said so: {names}" if names else "somebody said so",
    }.get(reason, clean(reason, 60))
