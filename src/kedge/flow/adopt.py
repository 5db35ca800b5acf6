"""The run follows another version of its plan. Part of `evolve`: called from nowhere else.

What has run stays as it is; steps that come are added to every scope that is open, steps that go leave
it, and those that read or wait for something else now are counted anew. Work is in proportion to the
change, not to the run.
"""

from __future__ import annotations

from collections.abc import Iterator

from kedge.flow.program import Node, Scope
from kedge.flow.reopen import reopen_step
from kedge.flow.repairs import release
from kedge.flow.revise import Change, plan_change, revise
from kedge.flow.scopes import add_missing, let_go, recount, unwatch
from kedge.flow.settle import hold_back, is_movable, settle, settle_failure
from kedge.flow.state import RunState, ScopeState, StepState
from kedge.flow.words import Outcome, StepStatus
from kedge.plan.model import Plan
from kedge.plan.patch import Patch
from kedge.plan.tools import Effect


def follow(state: RunState, plan: Plan, patch: Patch) -> None:
    """Let the run follow `plan`, which `patch` made of the one before."""
    effects: dict[str, Effect] = {name: mark.effect for name, mark in state.tools.items()}
    revision, change = plan_change(state.program, plan, effects)
    moved = [step for step in _affected(state, change) if is_movable(step)]
    deserted = _deserted(state, change)
    for step in moved:
        unwatch(step)
    hold_back(state, moved)
    open_scopes = {change.scope: live_scopes(state, change.scope) for change in change.scopes}
    gone = {node for one in change.scopes for node in one.gone}
    revise(revision, change)
    for states in open_scopes.values():
        for live in states:
            _leave(state, live, gone)
            moved += add_missing(state, live)
    for path in patch.retry:
        reopen_step(state, state.steps[path])
    for step in moved:
        step.status = StepStatus.PENDING
        recount(step)
    for step in moved:
        let_go(state, step)
    for step in deserted:
        if step.node.fallback < 0 and step.outcome is None:
            settle(state, step, Outcome.FAILED if step.required else Outcome.ABSENT)
    for step in moved:
        if step.node.fallback_for >= 0 and (target := step.scope.steps[step.node.fallback_for]).held:
            release(state, target)
    for path in patch.waive:
        settle_failure(state, state.steps[path], waived=True)
    for path in patch.cancel:
        state.steps[path].unwanted = True


def live_scopes(state: RunState, scope: Scope) -> list[ScopeState]:
    """The instances of a scope that are open: one for each item, none before it began."""
    owner, outer = scope.owner, scope.outer
    if owner is None or outer is None:
        return [state.root]
    found: list[ScopeState] = []
    for around in live_scopes(state, outer):
        step = around.steps[owner.index]
        # Between two rounds or attempts, and after a failure, the scope at hand is that of the one before.
        running = [one for one in step.items or (step,) if one.status is StepStatus.RUNNING]
        found += [one.inner for one in running if one.inner is not None]
    return found


def _affected(state: RunState, change: Change) -> Iterator[StepState]:
    """Steps in being that are not what they were."""
    altered = set(change.altered)
    for scope in state.program.scopes():
        indexes = [node.index for node in scope.nodes if node in altered]
        for live in live_scopes(state, scope) if indexes else ():
            yield from (live.steps[index] for index in indexes)


def _deserted(state: RunState, change: Change) -> list[StepState]:
    """Failed steps that wait for a fallback which goes, or comes to stand in for another step."""
    found: list[StepState] = []
    leaving = {*change.altered, *(node for one in change.scopes for node in one.gone)}
    for scope in state.program.scopes():
        targets = [node.fallback_for for node in scope.nodes if node in leaving and node.fallback_for >= 0]
        for live in live_scopes(state, scope) if targets else ():
            steps = (live.steps[index] for index in targets)
            found += [s for s in steps if s.status is StepStatus.FAILED and s.outcome is None]
    return found


def _leave(state: RunState, live: ScopeState, gone: set[Node]) -> None:
    kept: list[StepState] = []
    for step in live.steps:
        if step.node not in gone:
            kept.append(step)
            continue
        hold_back(state, [step])
        state.listening -= step.status is StepStatus.WAITING and step.awaits == "signal"
        step.status = StepStatus.CANCELLED  # whatever still holds it finds nothing to do
        del state.steps[step.path]
        if step.starts:
            state.retired[step.path] = step.starts
        state.total -= 1
        live.open -= 1  # only what has not begun can go
    live.steps = kept
    if not live.open:
        state.closing.append(live.owner)
