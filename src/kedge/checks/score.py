"""What a plan would take, told from its shape and its estimates."""

from __future__ import annotations

from collections import Counter

import msgspec

from kedge.plan.scopes import Moments, Node, Scopes

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
    """Time of all steps, one after another."""
    cost: float


def score(scopes: Scopes, errors: int) -> Score:
    """The numbers of a plan. A plan with a cycle has no critical path: 0."""
    moments = Moments(scopes.nodes)
    order, stuck = moments.order()
    work = [node for node in scopes.nodes if node.step.steps is None]
    depth, finish = _walk(moments, order)
    levels = Counter(depth[node.number] for node in work)
    estimates = [node.step.estimate for node in work]
    return Score(
        errors=errors,
        steps=len(work),
        depth=0 if stuck else max(levels, default=0),
        width=max(levels.values(), default=0),
        nesting=max((sum(1 for _ in node.around()) - 1 for node in work), default=0),
        complexity=sum(node.step.complexity or DEFAULT_COMPLEXITY for node in work),
        critical_path_s=0.0 if stuck else round(max(finish, default=0.0), 3),
        work_s=round(sum(_seconds(node) for node in work), 3),
        cost=round(sum(estimate.cost or 0.0 for estimate in estimates if estimate is not None), 6),
    )


def _walk(moments: Moments, order: list[int]) -> tuple[list[int], list[float]]:
    """For each moment: how many steps come before it in a row, and when it is reached."""
    count = len(moments.nodes)
    depth = [0] * len(moments.waits)
    finish = [0.0] * len(moments.waits)
    for moment in order:
        waits = moments.waits[moment]
        node = moments.owner[moment]
        deepest = max((depth[wait] for wait in waits), default=0)
        latest = max((finish[wait] for wait in waits), default=0.0)
        if moment < count and node.step.steps is None:
            deepest += 1
            latest += _seconds(node)
        elif moment >= count and moment == moments.end(node):
            begun = finish[node.number]
            latest = begun + (latest - begun) * _rounds(node)
        depth[moment], finish[moment] = deepest, latest
    return depth, finish


def _rounds(node: Node) -> int:
    """How often a loop goes round, if that is known before."""
    loop = node.step.loop
    return loop.times if loop is not None and loop.until is None else 1


def _seconds(node: Node) -> float:
    """What a step takes. A fallback is not expected to run."""
    if any(one.fallback_for is not None for one in node.around()):
        return 0.0
    estimate = node.step.estimate
    seconds = estimate.seconds if estimate is not None and estimate.seconds is not None else DEFAULT_SECONDS
    return seconds * _rounds(node)
