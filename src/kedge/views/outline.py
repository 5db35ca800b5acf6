"""The tree that pictures are drawn from: the plan's steps, and beside each what became of it in a run."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from kedge.flow.critical import around, critical_path
from kedge.flow.state import RunState, ScopeState, StepState
from kedge.flow.words import Outcome, StepStatus
from kedge.plan.estimates import plan_s
from kedge.plan.model import Plan
from kedge.plan.scopes import Node, Scopes
from kedge.views.words import URGENT

ITEMS_MAX = 8
"""Items of a foreach that are shown one by one."""
_INTERESTING = frozenset(URGENT[:4])


class Marks(NamedTuple):
    """The critical path as places in the plan."""

    steps: frozenset[str]
    edges: frozenset[tuple[str, str]]
    """From where to where it leads, on every level at which that can be drawn."""


class Outline:
    """A plan's steps with their names resolved, and the run's states of each."""

    def __init__(self, plan: Plan, state: RunState | None) -> None:
        self.plan = state.plan if state is not None else plan
        self.state = state
        scopes = Scopes(self.plan.steps)
        self.nodes = scopes.nodes
        """In document order, parents before their children."""
        self.top = [node for node in scopes.nodes if node.parent is None]
        self._states: list[list[StepState]] = [[] for _ in self.nodes]
        if state is not None:
            self._collect(state)

    def states(self, node: Node) -> list[StepState]:
        """All of the step's states: several where it stands in the items of a foreach."""
        return self._states[node.number]

    def status(self, node: Node) -> StepStatus | None:
        """One status for all of them, the most urgent. None without a run."""
        if self.state is None:
            return None
        found = {state.status for state in self.states(node)}
        return next((status for status in URGENT if status in found), StepStatus.PENDING)

    def items(self, node: Node) -> tuple[int, int] | None:
        """Of its foreach items: how many are done, how many there are."""
        lists = [state.items for state in self.states(node) if state.items is not None]
        if not lists:
            return None
        done = sum(item.outcome is Outcome.DONE for items in lists for item in items)
        return done, sum(map(len, lists))

    def critical(self) -> Marks:
        """What of the plan the critical path leads through."""
        if self.state is None:
            return Marks(frozenset(), frozenset())
        places = [_places(step) for step in critical_path(self.state).steps]
        edges = {(a, b) for before, after in pairwise(places) for a in before for b in after}
        return Marks(frozenset(place for found in places for place in found), frozenset(edges))

    def edges(self, siblings: list[Node]) -> list[tuple[Node, Node]]:
        """Who needs whom among siblings; what stands inside one of them counts as that one."""
        places = {node.number: node for node in siblings}
        found: dict[tuple[int, int], tuple[Node, Node]] = {}
        for node in siblings:
            for inner in _within(node):
                for need in inner.needs:
                    for holder in need.around():
                        source = places.get(holder.number)
                        if source is not None:
                            if source is not node:
                                found[source.number, node.number] = (source, node)
                            break
        return list(found.values())

    def _collect(self, state: RunState) -> None:
        todo: list[tuple[list[Node], ScopeState]] = [(self.top, state.root)]
        while todo:
            nodes, scope = todo.pop()
            for node, step in zip(nodes, scope.steps, strict=False):  # a scope may not have its steps yet
                self._states[node.number].append(step)
                holders = (step, *(step.items or ()))
                todo += [(node.children, holder.inner) for holder in holders if holder.inner is not None]


def _places(step: StepState) -> list[str]:
    """Paths in the plan of the step and of all that holds it. An item is where its step is."""
    ids = [one.id for one in reversed(around(step)) if one.index < 0]
    return ["/".join(ids[: depth + 1]) for depth in range(len(ids))]


def _within(node: Node) -> list[Node]:
    found = [node]
    for inner in found:  # grows while it is walked
        found.extend(inner.children)
    return found


class Twig:
    """One place in the drawn tree: a step or an item of a foreach, with its state, if it has one."""

    __slots__ = ("hidden", "node", "state")

    def __init__(self, node: Node, state: StepState | None, hidden: list[StepState] | None = None) -> None:
        self.node = node
        self.state = state
        self.hidden = hidden
        """Set on a twig that only stands for these items."""

    @property
    def is_item(self) -> bool:
        return self.state is not None and self.state.index >= 0

    @property
    def is_fallback(self) -> bool:
        return not self.is_item and is_nested_fallback(self.node)

    def branches(self) -> list[Twig]:
        """What is drawn under it: items or children, and the fallback, which the plan has beside it."""
        state, node = self.state, self.node
        found: list[Twig] = []
        if self.hidden is not None:
            return found
        if state is not None and state.items is not None:
            found = _items(node, state.items)
        else:
            inner = state.inner if state is not None else None
            found = twigs(node.children, inner)
        if node.fallback is not None and not self.is_item and is_nested_fallback(node.fallback):
            found.append(
                Twig(node.fallback, _in_scope(state.scope if state is not None else None, node.fallback))
            )
        return found


def twigs(nodes: list[Node], scope: ScopeState | None) -> list[Twig]:
    """Siblings in the order written, without the fallbacks: those are drawn under their targets."""
    return [Twig(node, _in_scope(scope, node)) for node in nodes if not is_nested_fallback(node)]


def is_nested_fallback(node: Node) -> bool:
    """Whether its targets lead to a step that is no fallback: with faults they may go in a ring."""
    seen: set[int] = set()
    while node.fallback_for is not None and node.number not in seen:
        if node.fallback_for.fallback is not node:
            return False
        seen.add(node.number)
        node = node.fallback_for
    return bool(seen) and node.fallback_for is None


def _in_scope(scope: ScopeState | None, node: Node) -> StepState | None:
    return scope.steps[node.index] if scope is not None and node.index < len(scope.steps) else None


def _items(node: Node, items: list[StepState]) -> list[Twig]:
    """At most a few, the interesting ones first chosen; all in order."""
    if len(items) <= ITEMS_MAX:
        return [Twig(node, item) for item in items]
    shown = [item for item in items if item.status in _INTERESTING][:ITEMS_MAX]
    chosen = {item.index for item in shown}
    for item in items:
        if len(chosen) == ITEMS_MAX:
            break
        chosen.add(item.index)
    found = [Twig(node, items[index]) for index in sorted(chosen)]
    hidden = [item for item in items if item.index not in chosen]
    return [*found, Twig(node, None, hidden)]


def estimated_s(outline: Outline) -> tuple[float, int]:
    """Seconds by the steps' own estimates, and how many steps have none."""
    return plan_s(outline.plan, outline.nodes)
