"""Trouble: what stands in the way of the plan, how much, and the repairs that it led to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, get_args

import msgspec

from kedge.flow.words import Failure

if TYPE_CHECKING:
    from kedge.flow.state import StepState

TroubleKind = Literal["failed", "quality", "discovery", "drift", "context", "demand"]
TROUBLES: tuple[TroubleKind, ...] = get_args(TroubleKind)

REQUIRED_FAILED = 1.0
"""The run fails with it."""
OPTIONAL_FAILED = 0.5
"""A step, or what it is part of, with `on_error: continue`."""
NEEDED = 0.8
"""Found, or said, together with what it would take to use it."""
NOTED = 0.3
"""Found, and nobody says what to do about it."""
DRIFTED = 0.4
"""It took three times its estimate, or more."""
DRIFTED_FAR = 0.6
"""It took ten times its estimate, or more."""
DEMANDED = 1.0
"""A person wants it."""

DRIFT, DRIFT_FAR = 3, 10
"""How many times its estimate a step may take before that is told, and before it is told louder."""


class Trouble(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Something that the plan did not foresee."""

    kind: TroubleKind
    """What led to it."""
    severity: float
    """From 0 to 1; less than the run's `adaptation_sensitivity` starts no repair."""
    path: str = ""
    """The step it is about; empty for the run."""
    what: str = ""
    """What it is, for people."""
    need: str = ""
    """What it would take."""
    code: str = ""
    """What it is, for programs: the code of a failure."""

    @property
    def is_failure(self) -> bool:
        """A step failed, and whoever depends on it waits for what becomes of that."""
        return self.kind in ("failed", "quality")


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One thing that is wrong with a patch."""

    code: str
    message: str
    path: str = ""
    """Place in the patch or the plan that it would make."""
    remedy: str = ""


class Refusal(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why nothing came of one round of a repair."""

    round: int
    code: str
    message: str
    findings: tuple[Fault, ...] = ()


class Repair(msgspec.Struct, kw_only=True):
    """One repair of the plan, from the question to the planner to what came of it."""

    number: int
    """In the run, from 1."""
    troubles: tuple[Trouble, ...]
    """What it is for."""
    asked_at: int
    """When, in ms."""
    version: int = 0
    """Of the plan that the planner was last shown."""
    round: int = 0
    """How often the planner was asked."""
    asked: bool = False
    """The planner is to answer; if not, the repair is over or the next round is still to be asked."""
    refusals: tuple[Refusal, ...] = ()
    """Rounds of which nothing came."""
    outcome: Literal["", "adopted", "given_up", "ended"] = ""
    """adopted: the plan was changed; given_up: it was not; ended: the run ended first; empty: it is open."""
    became: int = 0
    """The version that it made."""
    by: str = ""
    """The planner."""
    ended_at: int = 0
    """When it was over, in ms; 0 while it is open."""


def failure_severity(step: StepState, failure: Failure) -> float:
    """How grave a failure is; 0 if something else stands in for the step or tries again.

    Of what fails only because something in it failed, that something was the trouble.
    """
    from_inside = failure.code == "child_failed" or (
        failure.code == "items_failed" and step.node.scope is not None
    )
    if from_inside or not _is_last(step, failure):
        return 0.0
    return REQUIRED_FAILED if _is_required(step) else OPTIONAL_FAILED


def of_failure(path: str, failure: Failure, severity: float) -> Trouble:
    """The trouble that a failure is."""
    kind = "quality" if failure.code == "quality_low" else "failed"
    return Trouble(kind=kind, severity=severity, path=path, what=failure.message, code=failure.code)


def of_drift(step: StepState, took_ms: int) -> Trouble | None:
    """The trouble that a step's time is; None if it is about what was expected."""
    expected_ms = step.node.expected_ms
    if took_ms < expected_ms * DRIFT:
        return None
    return Trouble(
        kind="drift",
        severity=DRIFTED_FAR if took_ms >= expected_ms * DRIFT_FAR else DRIFTED,
        path=step.path,
        what=f"it took {took_ms / 1000:g} s, the estimate is {expected_ms / 1000:g} s",
        code="slow",
    )


def of_need(kind: TroubleKind, path: str, what: str, need: str) -> Trouble:
    """Something found or said; with a need it weighs more."""
    return Trouble(kind=kind, severity=NEEDED if need else NOTED, path=path, what=what, need=need)


def may_repeat(step: StepState, failure: Failure) -> bool:
    """A composite has another attempt after a failure of this kind."""
    retry = step.node.retry
    return (
        step.attempt < retry.attempts
        and failure.category in retry.on
        and step.node.effect in ("pure", "read")
    )


def _is_last(step: StepState, failure: Failure) -> bool:
    if step.owner is not None or step.node.fallback >= 0:
        return False
    around = step.scope.owner
    while around is not None:
        if around.node.fallback >= 0 or may_repeat(around, failure):
            return False
        around = around.scope.owner
    return True


def _is_required(step: StepState) -> bool:
    around: StepState | None = step
    while around is not None:
        first = around
        while first.node.fallback_for >= 0:
            first = first.scope.steps[first.node.fallback_for]
        if not first.required:
            return False
        around = around.scope.owner
    return True
