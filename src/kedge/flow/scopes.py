"""How scopes come into being and are replaced. Part of `evolve`; only `next_generation` is others' too."""

from __future__ import annotations

from kedge.flow.program import Scope
from kedge.flow.settle import has_any, start_early, unblock
from kedge.flow.state import RunState, ScopeState, StepState
from kedge.flow.words import Outcome, StepStatus


def open_scope(state: RunState, scope: ScopeState) -> None:
    """Bring a scope's steps into being; those that wait for nothing are free to go."""
    scope.steps = [
        StepState(node, scope.prefix + node.id, scope, len(node.deps)) for node in scope.scope.nodes
    ]
    scope.open = len(scope.steps)
    state.total += scope.open
    owner = scope.owner
    free: list[StepState] = []
    for step in scope.steps:
        state.steps[step.path] = step
        if owner is not None:
            step.generation = owner.generation
            watch_outer(step)
            if state.retired:
                step.starts = state.retired.pop(step.path, 0)
        if step.node.fallback_for >= 0:
            step.waiting += 1  # for its target's final failure
        if not step.waiting or (step.node.outer and has_any(step)):
            free.append(step)
    for step in free:
        let_go(state, step)


def add_missing(state: RunState, scope: ScopeState) -> list[StepState]:
    """Bring steps into being that came to the plan after the scope was opened."""
    added = [
        StepState(node, scope.prefix + node.id, scope, 0) for node in scope.scope.nodes[len(scope.steps) :]
    ]
    for step in added:
        state.steps[step.path] = step
        if scope.owner is not None:
            step.generation = scope.owner.generation
        step.starts = state.retired.pop(step.path, 0)
    scope.steps += added
    scope.open += len(added)
    state.total += len(added)
    return added


def let_go(state: RunState, step: StepState) -> None:
    """Free the step if nothing holds it, or if it need not wait for all."""
    if not step.waiting:
        unblock(state, step)
    elif has_any(step):
        start_early(state, step)


def watch_outer(step: StepState) -> None:
    """Wait for the steps of outer scopes that it names, and for nothing else out there."""
    for name, (level, _) in step.node.places.items():
        if not level:
            continue
        target = step.needed(name)
        if target.outcome is None:
            step.waiting += 1
            if target.watchers is None:
                target.watchers = []
            target.watchers.append(step)
        elif target.outcome is not Outcome.DONE:
            step.troubled = True


def unwatch(step: StepState) -> None:
    """Outer steps need not tell it any more that they have settled."""
    for name, (level, _) in step.node.places.items():
        watchers = step.needed(name).watchers if level else None
        if watchers and step in watchers:
            watchers.remove(step)


def recount(step: StepState) -> None:
    """How many of those that it waits for have not settled, and whether they did well."""
    node = step.node
    steps = step.scope.steps
    outcomes = [steps[index].outcome for index in node.deps]
    step.missed = None
    step.waiting = outcomes.count(None)
    if node.fallback_for >= 0 and steps[node.fallback_for].status is not StepStatus.FAILED:
        step.waiting += 1
    step.troubled = any(outcome not in (None, Outcome.DONE) for outcome in outcomes)
    if step.scope.owner is not None:
        watch_outer(step)


def open_inner(state: RunState, step: StepState, scope: Scope) -> None:
    """The children of a composite, for its first attempt, another one, or another round."""
    inner = ScopeState(scope, step, _prefix(step))
    before = step.inner
    if before is not None:
        if before.prefix == inner.prefix:
            _retire(state, before)
        inner.earlier = before
        last = step.spans[-1] if step.spans else None
        inner.waited_ms = state.at - last.end if last is not None and not last.final else 0
    step.inner = inner
    step.wake_at = 0
    open_scope(state, inner)


def _prefix(step: StepState) -> str:
    turn = f"#{step.iteration}" if step.node.step.loop is not None else ""
    return f"{step.path}{turn}/"


def next_generation(step: StepState) -> int:
    """That of a composite's next children: one that no call of those had which they replace, however deep."""
    if step.inner is None or step.inner.prefix != _prefix(step):
        return step.generation
    newest = 0
    todo = [step]
    while todo:
        one = todo.pop()
        newest = max(newest, one.generation)
        todo += one.items or ()
        scope = one.inner
        while scope is not None:
            todo += scope.steps
            scope = scope.earlier
    return newest + 1


def _retire(state: RunState, scope: ScopeState) -> None:
    """Another attempt takes the place of these steps. What they gave is forgotten, not when they ran."""
    if scope.replaced:
        return
    scope.replaced = True
    for step in scope.steps:
        _retire_step(state, step)


def _retire_step(state: RunState, step: StepState) -> None:
    del state.steps[step.path]
    state.total -= 1
    state.settled -= step.outcome is not None
    state.done -= step.status is StepStatus.DONE
    state.forget_quality(step.path)
    if step.starts:
        state.retired[step.path] = step.starts
    step.result = step.rounds = step.items_value = step.items_split = None
    for item in step.items or ():
        _retire_step(state, item)
    inner = step.inner
    while inner is not None:
        _retire(state, inner)
        inner = inner.earlier
