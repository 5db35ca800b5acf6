"""What a plan would take, told from its shape and its estimates."""

from __future__ import annotations

from collections import Counter

import msgspec

from kedge.plan.estimates import cost, reached_s, work_s
from kedge.plan.scopes import Moments, Scopes

DEFAULT_SECONDS = 1.0
"""A step without an estimate."""
DEFAULT_COMPLEXITY = 1


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """One plan in numbers."""

    errors: int
    steps: int
    """Steps that do something: composites are counted by what is in them."""
    depth: int
    """Steps that depend on each other in a row."""
    width: int
    """Steps at the same distance from the start, at most: how many could run side by side."""
    nesting: int
    """Composites inside composites."""
    complexity: int
    """Of all steps together, from what they say of themselves."""
    critical_path_s: float
    """Time from start to end with room for everything at once."""
    work_s: float
    """Time of all calls, one after another."""
    cost: float
    """Money for all calls."""


def score(scopes: Scopes, errors: int) -> Score:
    """The numbers of a plan. A plan with a cycle has no critical path: 0."""
    moments = Moments(scopes.nodes)
    order, stuck = moments.order()
    work = [node for node in scopes.nodes if node.step.steps is None]
    depth = _depths(moments, order)
    levels = Counter(depth[node.number] for node in work)
    reached = reached_s(moments, order, DEFAULT_SECONDS)
    return Score(
        errors=errors,
        steps=len(work),
        depth=0 if stuck else max(levels, default=0),
        width=max(levels.values(), default=0),
        nesting=max((sum(1 for _ in node.around()) - 1 for node in work), default=0),
        complexity=sum(node.step.complexity or DEFAULT_COMPLEXITY for node in work),
        critical_path_s=0.0 if stuck else round(max(reached, default=0.0), 3),
        work_s=round(sum(work_s(node, DEFAULT_SECONDS) for node in work), 3),
        cost=round(sum(map(cost, work)), 6),
    )


def _depths(moments: Moments, order: list[int]) -> list[int]:
    """For each moment: how many steps come before it in a row, its own included."""
    count = len(moments.nodes)
    depth = [0] * len(moments.waits)
    for moment in order:
        deepest = max((depth[wait] for wait in moments.waits[moment]), default=0)
        is_work = moment < count and moments.owner[moment].step.steps is None
        depth[moment] = deepest + 1 if is_work else deepest
    return depth
