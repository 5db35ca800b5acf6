"""A compiled plan that was made to follow a change is the same as one compiled anew."""

from __future__ import annotations

from typing import Any

from kedge.flow.program import Program, Scope, compile_plan
from kedge.flow.state import RunState
from kedge.plan.tools import Effect


def check_program(state: RunState) -> None:
    """AssertionError if the run's compiled plan is not what its plan compiles to."""
    effects: dict[str, Effect] = {name: mark.effect for name, mark in state.tools.items()}
    have = shape(state.program)
    wanted = shape(compile_plan(state.plan, state.program.catalog, effects))
    for path in {**wanted, **have}:
        if have.get(path) != wanted.get(path):
            raise AssertionError(
                f"{path}: compiled {wanted.get(path)!r}, after the changes {have.get(path)!r}"
            )


def shape(program: Program) -> dict[str, Any]:
    """The compiled plan by names, without positions."""
    found: dict[str, Any] = {}
    todo = [("", program.root)]
    while todo:
        prefix, scope = todo.pop()
        ids = [node.id for node in scope.nodes]
        for index, node in enumerate(scope.nodes):
            if node.index != index or scope.by_id.get(node.id) != index:
                raise AssertionError(f"{prefix}{node.id} is not where it is said to be")
            found[prefix + node.id] = {
                "step": node.step,
                "deps": sorted(ids[dep] for dep in node.deps),
                "consumers": sorted(ids[consumer] for consumer in node.consumers),
                "places": {
                    name: (level, _name(scope, level, at)) for name, (level, at) in node.places.items()
                },
                "outer": sorted(_name(scope, level, at) for level, at in node.outer),
                "holes": [ids[hole] for hole in node.holes] if node.holes is not None else None,
                "fallback": ids[node.fallback] if node.fallback >= 0 else "",
                "fallback_for": ids[node.fallback_for] if node.fallback_for >= 0 else "",
                "effect": node.effect,
                "plain": node.plain,
                "rank": node.rank,
            }
            if node.scope is not None:
                if node.scope.owner is not node or node.scope.outer is not scope:
                    raise AssertionError(f"the scope of {prefix}{node.id} belongs elsewhere")
                todo.append((f"{prefix}{node.id}/", node.scope))
    return found


def _name(scope: Scope | None, level: int, index: int) -> str:
    for _ in range(level):
        scope = scope.outer if scope is not None else None
    return scope.nodes[index].id if scope is not None else "nowhere"
