"""What is kept of attempts that are over and of plans that were followed."""

from __future__ import annotations

from typing import NamedTuple

from kedge.plan.model import Plan


class Span:
    """One attempt or round, as it was: for timelines and accounts."""

    __slots__ = ("attempt", "end", "final", "iteration", "outcome", "start")

    def __init__(self, start: int, end: int, attempt: int, iteration: int, outcome: str) -> None:
        self.start = start
        self.end = end
        self.attempt = attempt
        self.iteration = iteration
        self.outcome = outcome
        self.final = False
        """The step ended with it, and began anew when the run was taken up after its end."""


class Version(NamedTuple):
    """A plan that the run has followed."""

    number: int
    plan: Plan
    id: str
    """The plan's content hash."""
    at: int
    seq: int
    cause: str
    by: str
    why: str
