"""A compiled plan made to follow a changed one, touching only what the change touches.

In place: the run's steps hold on to their nodes, and compiling a plan of a thousand steps anew for one
more step would cost as much as the rest of a repair together. What did not change is told by identity:
a patch leaves the steps it does not name the very same objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from kedge.flow.program import Node, Program, Scope
from kedge.plan.model import Plan, Step
from kedge.plan.tools import Effect


class ScopeChange(NamedTuple):
    """What is otherwise in one scope."""

    scope: Scope
    gone: tuple[Node, ...]
    fresh: tuple[Node, ...]


class Change(NamedTuple):
    """What is otherwise in a program."""

    scopes: tuple[ScopeChange, ...]
    altered: tuple[Node, ...]
    """Nodes that are not what they were: of changed steps, and of those whose names mean other steps now."""


class _Revision:
    def __init__(self, program: Program, plan: Plan, effects: Mapping[str, Effect]) -> None:
        self.program = program
        self.plan = plan
        self.effects = effects
        self.todo: list[tuple[Scope, Sequence[Step]]] = [(program.root, plan.steps)]
        self.scopes: list[ScopeChange] = []
        self.changed: dict[Node, Step] = {}

    def look(self) -> None:
        """Find out what differs, and change nothing yet."""
        while self.todo:
            scope, steps = self.todo.pop()
            gone = {node.id: node for node in scope.nodes}
            fresh: list[Node] = []
            for step in steps:
                node = gone.get(step.id)
                if node is None or (node.scope is None) != (step.steps is None):
                    fresh.append(self.program.node(step, self.effects))
                    continue
                del gone[step.id]
                if step is not node.step:
                    self._look_at(node, step)
            if gone or fresh:
                self.scopes.append(ScopeChange(scope, tuple(gone.values()), tuple(fresh)))

    def _look_at(self, node: Node, step: Step) -> None:
        if node.scope is not None and step.steps is not None and step.steps is not node.step.steps:
            self.todo.append((node.scope, step.steps))
        self.changed[node] = step

    def renamed(self) -> Iterator[Node]:
        """Nodes that name a step which comes or goes, and so may mean another one afterwards."""
        for scope, gone, fresh in self.scopes:
            names = {node.id for node in (*gone, *fresh)}
            for below, _ in _below(scope):
                for node in below.nodes:
                    if not names.isdisjoint(node.places) or node.step.fallback_for in names:
                        yield node


def plan_change(program: Program, plan: Plan, effects: Mapping[str, Effect]) -> tuple[_Revision, Change]:
    """What following `plan` would change. Nothing is changed yet."""
    revision = _Revision(program, plan, effects)
    revision.look()
    gone = {node for change in revision.scopes for top in change.gone for node in _whole(top)}
    altered = dict.fromkeys((*revision.changed, *revision.renamed()))
    return revision, Change(tuple(revision.scopes), tuple(node for node in altered if node not in gone))


def revise(revision: _Revision, change: Change) -> None:
    """Let the program follow the changed plan."""
    program = revision.program
    home = _homes(change, program)
    for node in change.altered:
        _unlink(home[node], node)
    for scope, gone, _ in change.scopes:  # all of them before any place shifts
        for node in gone:
            _unlink(scope, node)
            for inner in _whole(node):
                inner.places = {}
    for scope, gone, fresh in change.scopes:
        _take_out(scope, gone)
        for node in fresh:
            node.index = len(scope.nodes)
            scope.by_id[node.id] = node.index
            scope.nodes.append(node)
            program.adopt(node, scope, revision.effects)
    for node, step in revision.changed.items():
        program.refill(node, step, revision.effects)
    for node in change.altered:
        home[node].link(node)
    for scope, _, fresh in change.scopes:
        for node in fresh:
            scope.link(node)
            for below, _ in _below(node.scope) if node.scope is not None else ():
                below.link_all()
    program.follow(revision.plan)


def _whole(node: Node) -> Iterator[Node]:
    """The node and all inside it."""
    yield node
    for scope, _ in _below(node.scope) if node.scope is not None else ():
        yield from scope.nodes


def _homes(change: Change, program: Program) -> dict[Node, Scope]:
    """The scope of each altered node."""
    wanted = set(change.altered)
    return {node: scope for scope, _ in _below(program.root) for node in scope.nodes if node in wanted}


def _below(scope: Scope) -> Iterator[tuple[Scope, int]]:
    """The scope and all inside it, with how far in each is."""
    todo = [(scope, 0)]
    while todo:
        found, depth = todo.pop()
        yield found, depth
        todo.extend((node.scope, depth + 1) for node in found.nodes if node.scope is not None)


def _unlink(scope: Scope, node: Node) -> None:
    for dep in node.deps:
        scope.nodes[dep].consumers.remove(node.index)
    if node.fallback_for >= 0:
        scope.nodes[node.fallback_for].fallback = -1
        node.fallback_for = -1
    node.deps, node.outer, node.holes, node.places = (), (), None, {}


def _take_out(scope: Scope, gone: Iterable[Node]) -> None:
    """Close the ranks: places are positions, and positions shift."""
    out = {node.index for node in gone}
    if not out:
        return
    kept = [node for node in scope.nodes if node.index not in out]
    moved = {node.index: index for index, node in enumerate(kept)} | {-1: -1}
    scope.nodes = kept
    scope.by_id = {node.id: index for index, node in enumerate(kept)}
    for node in kept:
        node.index = moved[node.index]
        node.deps = tuple(moved[dep] for dep in node.deps)
        node.consumers = [moved[index] for index in node.consumers if index in moved]
        node.fallback = moved.get(node.fallback, -1)
        node.fallback_for = moved.get(node.fallback_for, -1)
        if node.holes is not None:
            node.holes = tuple(moved[hole] for hole in node.holes)
    for below, depth in _below(scope):
        for node in below.nodes:
            if any(level == depth for level, _ in node.places.values()):
                node.places = {
                    name: (level, moved[index]) if level == depth else (level, index)
                    for name, (level, index) in node.places.items()
                }
                node.outer = tuple(place for place in node.places.values() if place[0])
