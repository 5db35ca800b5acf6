"""A plan's steps with their names resolved: who needs whom, who holds whom, who stands in for whom.

Names are looked up outward: among a step's siblings first, then among its parent's, and so on. What
a step needs is `after` plus every step it reads, wherever it reads it. Three things are no need:
`expect` and `compensate` naming their own step, and a fallback naming its target, which it waits
for in its own way.

Three moments matter of a step: its start, its end, and when it is settled, which is later than the
end where a fallback may still run. `order` lays these moments in a row, or finds that it cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate

from kedge.plan.parts import RESERVED_IDS, Step
from kedge.plan.places import at
from kedge.plan.uses import Use, uses

# Shared by all who have none: a plan may have 100,000 steps, and every empty dict is work for the
# garbage collector, which took as long as the check itself.
_NOTHING: Mapping[str, Node] = {}
_NO_STEPS: list[Node] = []
_NO_IDS: dict[str, Node] = {}


class Node:
    """One step in its place."""

    __slots__ = (
        "after", "children", "fallback", "fallback_for", "ids", "index", "names", "needs", "number",
        "parent", "path", "step", "uses",
    )  # fmt: skip

    def __init__(self, step: Step, number: int, index: int, parent: Node | None) -> None:
        self.step = step
        self.number = number
        """In document order, over the whole plan."""
        self.index = index
        self.parent = parent
        self.path: str = f"{parent.path}/{step.id}" if parent is not None else step.id
        holds = step.steps is not None
        self.children: list[Node] = [] if holds else _NO_STEPS
        self.ids: dict[str, Node] = {} if holds else _NO_IDS
        """Its children by id."""
        self.uses: list[Use] = uses(step)
        self.names: Mapping[str, Node] = _NOTHING
        """What the names it uses mean."""
        self.after: Mapping[str, Node] = _NOTHING
        """What the names in its `after` mean."""
        self.needs: Sequence[Node] = ()
        self.fallback: Node | None = None
        self.fallback_for: Node | None = None

    @property
    def place(self) -> str:
        """Where it stands in the document."""
        inside = at(self.parent.place, "steps") if self.parent is not None else "steps"
        return at(inside, self.index)

    def around(self) -> Iterator[Node]:
        """The step itself, then what holds it, outward."""
        node: Node | None = self
        while node is not None:
            yield node
            node = node.parent


_ABOUT_ITSELF = ("expect", "quality", "compensate")


class Scopes:
    """All steps of a plan."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.nodes: list[Node] = []
        self.top: dict[str, Node] = {}
        _collect(steps, self.nodes, self.top)
        for node in self.nodes:
            self._link(node)

    def find(self, name: str, parent: Node | None) -> Node | None:
        """The step that `name` means to the steps inside `parent`."""
        while parent is not None:
            found = parent.ids.get(name)
            if found is not None:
                return found
            parent = parent.parent
        return self.top.get(name)

    def siblings(self, node: Node) -> dict[str, Node]:
        """The scope that the step is in, itself included."""
        return node.parent.ids if node.parent is not None else self.top

    def _link(self, node: Node) -> None:
        step = node.step
        target = self.siblings(node).get(step.fallback_for) if step.fallback_for is not None else None
        if target is not None and target is not node:
            node.fallback_for = target
            if target.fallback is None:
                target.fallback = node
        if not node.uses and not step.after:
            return
        needs: dict[Node, None] = {}
        after: dict[str, Node] = {}
        for name in step.after:
            found = self.find(name, node.parent)
            if found is not None:
                after[name] = found
                needs[found] = None
        names: dict[str, Node] = {}
        for use in node.uses:
            for path in use.paths:
                name = path.root
                if name in RESERVED_IDS:
                    continue
                found = names.get(name) or self.find(name, node.parent)
                if found is None:
                    continue
                names[name] = found
                if found is not node or use.field not in _ABOUT_ITSELF:
                    needs[found] = None
        if target is not None:
            needs.pop(target, None)
        node.after, node.names, node.needs = after or _NOTHING, names, tuple(needs)


def _collect(steps: Sequence[Step], nodes: list[Node], top: dict[str, Node]) -> None:
    """All steps in document order, parents before their children."""
    todo: list[tuple[Step, int, Node | None]] = []
    todo.extend((steps[i], i, None) for i in range(len(steps) - 1, -1, -1))
    while todo:
        step, index, parent = todo.pop()
        node = Node(step, len(nodes), index, parent)
        nodes.append(node)
        if parent is not None:
            parent.children.append(node)
        (parent.ids if parent is not None else top).setdefault(step.id, node)
        if step.steps:
            todo.extend((step.steps[i], i, node) for i in range(len(step.steps) - 1, -1, -1))


class Moments:
    """Start, end and settling of every step as numbers, and what each must wait for."""

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes
        self.owner: list[Node] = list(nodes)
        """Whose moment it is."""
        self._end = {n.number: self._add(n) for n in nodes if n.step.steps is not None}
        self._settled = {n.number: self._add(n) for n in nodes if n.fallback is not None}
        self.waits: list[Sequence[int]] = [()] * len(self.owner)
        for node in nodes:
            self._wait(node)

    def end(self, node: Node) -> int:
        return self._end.get(node.number, node.number)

    def settled(self, node: Node) -> int:
        return self._settled.get(node.number, self._end.get(node.number, node.number))

    def _add(self, node: Node) -> int:
        self.owner.append(node)
        return len(self.owner) - 1

    def _wait(self, node: Node) -> None:
        waits = [self.settled(need) for need in node.needs]
        if node.parent is not None:
            waits.append(node.parent.number)
        if node.fallback_for is not None:
            waits.append(self.end(node.fallback_for))
        if waits:
            self.waits[node.number] = waits
        if node.step.steps is not None:
            self.waits[self.end(node)] = [node.number, *(self.settled(child) for child in node.children)]
        if node.fallback is not None:
            self.waits[self.settled(node)] = [self.end(node), self.settled(node.fallback)]

    def order(self) -> tuple[list[int], list[int]]:
        """Moments in an order that respects every wait, and those that can never come."""
        left = [len(waits) for waits in self.waits]
        # Who waits for moment m stands in `wakes` from first[m] to first[m + 1]: one list, not one for each.
        counts = [0] * (len(left) + 1)
        for waits in self.waits:
            for wait in waits:
                counts[wait + 1] += 1
        first = list(accumulate(counts))
        wakes = [0] * first[-1]
        free = first[:]
        for moment, waits in enumerate(self.waits):
            for wait in waits:
                wakes[free[wait]] = moment
                free[wait] += 1
        ready = [moment for moment, count in enumerate(left) if count == 0]
        for moment in ready:  # grows while it is walked
            for woken in wakes[first[moment] : first[moment + 1]]:
                left[woken] -= 1
                if left[woken] == 0:
                    ready.append(woken)
        return ready, [moment for moment, count in enumerate(left) if count > 0]
