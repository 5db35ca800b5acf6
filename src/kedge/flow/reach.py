"""How far a change of the plan reaches, read off the compiled plan."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.checks.change import Known
from kedge.flow.program import Node, Program, Scope
from kedge.plan.patch import Patch

_NOTHING = Known(())


class Reach:
    """The compiled plan by paths."""

    def __init__(self, program: Program) -> None:
        self._root = program.root

    def touched(self, patch: Patch) -> set[str]:
        """Steps that a patch changes, adds, or takes something away from that they read."""
        found = {*patch.change, *patch.rewire}
        for path in (*patch.change, *patch.remove):
            found.update(self._readers(path))
        found.update(path.rpartition("/")[0] for path in patch.remove if "/" in path)  # it may be empty now
        for addition in patch.add:
            path = f"{addition.into}/{addition.step.id}" if addition.into else addition.step.id
            todo = [(path, addition.step)]
            while todo:
                path, step = todo.pop()
                found.add(path)
                todo.extend((f"{path}/{inner.id}", inner) for inner in step.steps or ())
        return found

    def known(self, path: str) -> Known:
        """What a step waits for, and what stands in for it."""
        found = self._at(path)
        if found is None:
            return _NOTHING
        scope, node = found
        prefix = path[: path.rfind("/") + 1]
        needs = tuple(_upward(prefix, level) + name for name, (level, _) in node.places.items())
        return Known(needs, prefix + scope.nodes[node.fallback].id if node.fallback >= 0 else "")

    def _at(self, path: str) -> tuple[Scope, Node] | None:
        scope: Scope | None = self._root
        node: Node | None = None
        around = self._root
        for id_ in path.split("/"):
            if scope is None or id_ not in scope.by_id:
                return None
            around, node = scope, scope.nodes[scope.by_id[id_]]
            scope = node.scope
        return (around, node) if node is not None else None

    def _readers(self, path: str) -> Iterator[str]:
        """Steps that wait for the one at `path`, or stand in for it."""
        found = self._at(path)
        if found is None:
            return
        scope, node = found
        prefix = path[: path.rfind("/") + 1]
        for index in node.consumers:
            yield prefix + scope.nodes[index].id
        if node.fallback >= 0:
            yield prefix + scope.nodes[node.fallback].id
        for inner, name, depth in _inside(scope, prefix):
            if inner.places.get(node.id) == (depth, node.index):
                yield name


def _inside(scope: Scope, prefix: str) -> Iterator[tuple[Node, str, int]]:
    """Steps inside the composites of a scope, with their paths and how deep they are."""
    todo = [(node.scope, f"{prefix}{node.id}/", 1) for node in scope.nodes if node.scope is not None]
    while todo:
        inner, around, depth = todo.pop()
        for node in inner.nodes:
            yield node, around + node.id, depth
            if node.scope is not None:
                todo.append((node.scope, f"{around}{node.id}/", depth + 1))


def _upward(prefix: str, levels: int) -> str:
    for _ in range(levels):
        prefix = prefix[: prefix.rstrip("/").rfind("/") + 1]
    return prefix
