"""What a part of the proof found: one line of the table."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """One line of the table that `make prove` prints."""

    title: str
    value: str
    """What was counted or measured, in words: `500 cycles, 0 violations`."""
    target: str = ""
    """What it should come to; empty where it is only told."""
    good: bool | None = None
    """Whether the target is met; None where it is only told, or was not looked at with so few cases."""
    note: str = ""
    """What else there is to say, the command that shows a failure again first of all."""
