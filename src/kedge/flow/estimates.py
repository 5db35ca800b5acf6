"""What a run was expected to take and what it took: per step, and per version of its plan."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

import msgspec

from kedge.flow.feedback import Feedback, Feedbacks
from kedge.flow.state import RunState, Version
from kedge.plan.estimates import cost, plan_s, tokens
from kedge.plan.scopes import Scopes


class StepEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One finished step: what was expected of its calls, and what they took."""

    path: str
    """The step."""
    version: int
    """The plan that was followed when it ended."""
    estimated_s: float | None
    """None: nobody said."""
    seconds: float
    """Waits between its calls left out."""
    estimated_cost: float | None
    """None: nobody said."""
    cost: float
    """As far as anybody told."""
    estimated_tokens: int | None
    """None: nobody said."""
    tokens: int
    """As far as anybody told."""


class VersionEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """One version of the plan: what it says that all of it takes, and what was spent under it."""

    version: int
    """Its number."""
    cause: str
    """What led to it."""
    estimated_s: float
    """The whole plan from start to end, as far as its steps say how long they take."""
    without_estimate: int
    """Steps that do not say how long they take."""
    seconds: float
    """How long it was followed."""
    steps: int
    """Steps that ended under it."""
    estimated_cost: float
    """Of the whole plan."""
    cost: float
    """Of the steps that ended under it."""
    estimated_tokens: int
    """Of the whole plan."""
    tokens: int
    """Of the steps that ended under it."""


class Estimates(msgspec.Struct, frozen=True, kw_only=True):
    """What was expected of a run, and what it took."""

    steps: tuple[StepEstimate, ...]
    """Steps that are finished; not those that only hold others."""
    versions: tuple[VersionEstimate, ...]
    """Every plan that was followed, the first one first."""


def estimates(state: RunState) -> Estimates:
    """Worked out from the log: nothing about it is stored apart."""
    found = tuple(_steps(state))
    return Estimates(steps=found, versions=tuple(_version(state, one, found) for one in state.versions))


def _steps(state: RunState) -> Iterator[StepEstimate]:
    began = [version.seq for version in state.versions]
    for path, feedback in Feedbacks(state).items():
        step = state.steps[path]
        if step.items is None and step.node.scope is None:
            version = state.versions[max(0, bisect_left(began, step.ended_seq) - 1)].number
            yield _step(feedback, version)


def _step(feedback: Feedback, version: int) -> StepEstimate:
    return StepEstimate(
        path=feedback.path,
        version=version,
        estimated_s=feedback.estimated_s,
        seconds=feedback.seconds,
        estimated_cost=feedback.estimated_cost,
        cost=feedback.usage.cost,
        estimated_tokens=feedback.estimated_tokens,
        tokens=feedback.usage.tokens,
    )


def _version(state: RunState, version: Version, steps: tuple[StepEstimate, ...]) -> VersionEstimate:
    own = [step for step in steps if step.version == version.number]
    nodes = Scopes(version.plan.steps).nodes
    seconds, missing = plan_s(version.plan, nodes)
    work = [node for node in nodes if node.step.steps is None]
    return VersionEstimate(
        version=version.number,
        cause=version.cause,
        estimated_s=seconds,
        without_estimate=missing,
        seconds=_followed_ms(state, version) / 1000,
        steps=len(own),
        estimated_cost=sum(map(cost, work)),
        cost=sum(step.cost for step in own),
        estimated_tokens=sum(map(tokens, work)),
        tokens=sum(step.tokens for step in own),
    )


def _followed_ms(state: RunState, version: Version) -> int:
    """Of the last one, without the time in which the run had ended before it was taken up again."""
    later = [one.at for one in state.versions if one.number > version.number]
    if later:
        return later[0] - version.at
    return max(0, (state.ended_at or state.at) - version.at - state.idle_ms)
