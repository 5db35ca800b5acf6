"""Points at which an agent is asked how a run is to go on, and what it decided."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

DecideAt = Literal["never", "trouble", "milestone", "every_step"]
DECIDE_AT: tuple[DecideAt, ...] = get_args(DecideAt)
"""Each includes those before it."""
AgentDefault = Literal["go_on", "ask"]
AGENT_DEFAULTS: tuple[AgentDefault, ...] = get_args(AgentDefault)


class Point(msgspec.Struct, frozen=True, gc=False):
    """Why the agent is asked."""

    at: Literal["trouble", "milestone", "step"]
    """What was reached."""
    path: str = ""
    """The step that failed, or that is done; what reads it waits for the decision."""


class AgentDecision(msgspec.Struct, kw_only=True):
    """One question to the agent, and its answer."""

    number: int
    """In the run, from 1."""
    points: tuple[Point, ...]
    """Why it was asked."""
    asked_at: int
    """When, in ms."""
    outcome: Literal["", "decided", "missed", "ended"] = ""
    """missed: no answer that could be used; ended: the run ended first; empty: it is open."""
    by: str = ""
    """The agent."""
    commands: tuple[str, ...] = ()
    """What it wanted, one word for each command."""
    why: str = ""
    """Why there is no answer."""
    question: str = ""
    """The question that a person is asked instead."""
    ended_at: int = 0
    """When it was over, in ms; 0 while it is open."""


def key_of(decision: int, place: int) -> str:
    """The key of one of its commands."""
    return f"agent:{decision}:{place}"
