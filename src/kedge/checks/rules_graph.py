"""Rules about the order of steps: cycles, fallbacks, steps that can never run, chains that are too long.

All of it iterative: a plan may have a hundred thousand steps, and chains as long.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

from kedge.base.errors import ExpressionError
from kedge.checks.rules_conditions import value_of
from kedge.checks.survey import Survey, finding, put
from kedge.plan.expr import parse
from kedge.plan.findings import Finding, Fix
from kedge.plan.parts import SLEEP
from kedge.plan.scopes import Node

_SHOWN_MAX = 12
_CYCLES_MAX = 20
"""Of one knot: each costs a walk through it."""
_ALWAYS_FALSE = "its condition is always false"
_NO_ITEMS = "it has no items"


def fallbacks(survey: Survey) -> Iterator[Finding]:
    """A fallback has a target in its scope, its own, and one that can fail."""
    first: dict[str, Node] = {}
    for node in survey.nodes:
        name = node.step.fallback_for
        if name is None:
            continue
        siblings = survey.scopes.siblings(node)
        others = (other for other in siblings if other != node.step.id)
        if name == node.step.id:
            yield finding(
                node,
                "fallback_of_itself",
                "fallback_for",
                "a step cannot stand in for itself",
                names=(name,),
                allowed=tuple(islice(others, _SHOWN_MAX)),
                remedy="name the step it stands in for, or remove it",
                fix=Fix(path=f"{node.place}.fallback_for", action="remove"),
            )
        elif name not in siblings:
            near = survey.nearest(name, (other for other in siblings if other != node.step.id))
            remedy = f"did you mean {near!r}?" if near else "name a step beside this one"
            yield finding(
                node,
                "fallback_of_nothing",
                "fallback_for",
                f"there is no step {name[:80]!r} beside this one",
                names=(name[:80],),
                allowed=tuple(islice(others, _SHOWN_MAX)),
                remedy=remedy,
                fix=put(node, "fallback_for", near) if near else None,
            )
        else:
            target = siblings[name]
            one = first.setdefault(target.path, node)
            if one is not node:
                last = _end_of_chain(one)
                yield finding(
                    node,
                    "two_fallbacks",
                    "fallback_for",
                    f"{name} has a fallback already, {one.step.id}",
                    names=(name, one.step.id, node.step.id),
                    remedy=f"make it the fallback of {last.step.id!r}: chains are allowed",
                    fix=put(node, "fallback_for", last.step.id) if last is not node else None,
                )
            if target.step.tool == SLEEP:
                yield finding(
                    node,
                    "unneeded_fallback",
                    "fallback_for",
                    f"{name} is a sleep: it cannot fail",
                    names=(name,),
                    remedy="remove this step",
                )


def _end_of_chain(node: Node) -> Node:
    seen = {node}
    while node.fallback is not None and node.fallback not in seen:
        node = node.fallback
        seen.add(node)
    return node


def cycles(survey: Survey) -> Iterator[Finding]:
    """Steps that wait for each other: a finding for each way round."""
    _, stuck = survey.order
    if not stuck:
        return
    owner = survey.moments.owner
    told: set[frozenset[Node]] = set()  # fallbacks in a ring are two knots: of ends, and of settling
    for knot in _knots(survey.moments.waits, stuck):
        rings: list[list[Node]] = []
        for way in _ways_round(survey.moments.waits, knot):
            nodes = list(dict.fromkeys(owner[moment] for moment in way))
            if frozenset(nodes) not in told:
                told.add(frozenset(nodes))
                rings.append(nodes)
        rest = {owner[moment] for moment in knot}.difference(*rings)
        for nodes in sorted(rings, key=len):
            yield _cycle(nodes, len(rest))


def _cycle(nodes: list[Node], rest: int) -> Finding:
    """One way round; `rest` more steps are tied up in the same knot, and on no way that is told."""
    while len(nodes) > 1 and nodes[0].number != min(node.number for node in nodes):
        nodes.append(nodes.pop(0))
    names = tuple(node.path for node in nodes)
    shown = " waits for ".join((*names[:_SHOWN_MAX], "…") if len(names) > _SHOWN_MAX else (*names, names[0]))
    message = f"{names[0]} waits for itself" if len(names) == 1 else shown
    if rest > 0:
        message += f" ({rest} more steps are part of the knot)"
    inner = nodes[0]
    remedy = "remove one of these references"
    if len(names) == 1:
        remedy = "name another step; in `until` use loop.previous, in `expect` use result"
    elif any(one.path.startswith(inner.path + "/") for one in nodes[1:]):
        remedy = "a step cannot read what it is inside of, nor what waits for that: read its neighbours"
    return finding(inner, "cycle", "", message, names=names, remedy=remedy)


def _knots(waits: list[Sequence[int]], stuck: list[int]) -> list[list[int]]:
    """Strongly connected groups of moments that contain a cycle (Tarjan, without recursion)."""
    inside = set(stuck)
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    knots: list[list[int]] = []
    for root in stuck:
        if root in number:
            continue
        work = [(root, iter(waits[root]))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            moment, rest = work[-1]
            for wait in rest:
                if wait not in inside:
                    continue
                if wait not in number:
                    number[wait] = low[wait] = len(number)
                    path.append(wait)
                    on_path.add(wait)
                    work.append((wait, iter(waits[wait])))
                    break
                if wait in on_path:
                    low[moment] = min(low[moment], number[wait])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[moment])
                if low[moment] == number[moment]:
                    group = [path.pop()]
                    while group[-1] != moment:
                        group.append(path.pop())
                    on_path.difference_update(group)
                    if len(group) > 1 or moment in waits[moment]:
                        knots.append(sorted(group))
    return sorted(knots)


def _ways_round(waits: list[Sequence[int]], knot: list[int]) -> Iterator[list[int]]:
    """Ways along what waits for what, until every wait in the knot is on one of them; at most a few.

    Not all ways: there may be more of them than could ever be told.
    """
    inside, covered = set(knot), set[tuple[int, int]]()
    found = 0
    for moment in knot:
        for wait in waits[moment]:
            if wait in inside and (moment, wait) not in covered and found < _CYCLES_MAX:
                found += 1
                way = _way_round(waits, inside, moment, wait)
                covered.update(zip(way, [*way[1:], way[0]], strict=True))
                yield way


def _way_round(waits: list[Sequence[int]], inside: set[int], first: int, second: int) -> list[int]:
    """A shortest way in the knot from `first` over `second`, which it waits for, back to it."""
    if second == first:
        return [first]
    came = {second: first}
    todo = deque([second])
    while todo:
        moment = todo.popleft()
        for wait in waits[moment]:
            if wait == first:
                way = [moment]
                while way[-1] != first:
                    way.append(came[way[-1]])
                return way[::-1]
            if wait in inside and wait not in came:
                came[wait] = moment
                todo.append(wait)
    return sorted(inside)


def chain(survey: Survey) -> Iterator[Finding]:
    """Too many steps in a row."""
    order, stuck = survey.order
    if stuck:
        return
    longest, last = longest_chain(survey, order)
    limit = survey.limits.chain
    if longest > limit:
        yield finding(
            survey.moments.owner[last],
            "chain_too_long",
            "",
            f"{longest} steps depend on each other in a row, {limit} are allowed",
            remedy="let steps run side by side, use foreach or a loop, or raise the limit `chain`",
        )


def longest_chain(survey: Survey, order: list[int]) -> tuple[int, int]:
    """How many steps are in a row at most, and the moment where that row ends. Composites do not count."""
    waits, nodes, count = survey.moments.waits, survey.nodes, len(survey.nodes)
    depth = [0] * len(waits)
    longest, last = 0, 0
    for moment in order:
        deepest = 0
        for wait in waits[moment]:
            deepest = max(deepest, depth[wait])
        if moment < count and nodes[moment].step.steps is None:
            deepest += 1
        depth[moment] = deepest
        if deepest > longest:
            longest, last = deepest, moment
    return longest, last


def _is_never(condition: str) -> bool:
    """True for a condition that reads nothing and is false."""
    try:
        found = parse(condition)
        return not found.paths and value_of(found) is False
    except ExpressionError:
        return False


def unreachable(survey: Survey) -> Iterator[Finding]:
    """A step that can never run: its condition is always false, or all it waits for can never run."""
    never: dict[int, str] = {}
    for node in survey.nodes:
        if node.step.when is not None and _is_never(node.step.when):
            never[node.number] = _ALWAYS_FALSE
        elif node.step.foreach == []:
            never[node.number] = _NO_ITEMS
    if not never:
        return
    empty = {number for number, why in never.items() if why is _NO_ITEMS}
    for moment in survey.order[0]:
        node = survey.moments.owner[moment]
        if moment != node.number or node.number in never:
            continue
        needs = node.needs
        target = node.fallback_for
        if target is not None and target.number in never:
            never[node.number] = f"{target.step.id}, which it stands in for, can never fail: it never runs"
        elif (
            needs
            and node.step.join != "settled"
            and all(n.number in never and n.number not in empty for n in needs)
        ):
            never[node.number] = (
                f"all it waits for can never run: {', '.join(n.step.id for n in needs[:_SHOWN_MAX])}"
            )
        elif node.parent is not None and node.parent.number in never:
            never[node.number] = ""  # said of its composite already
    for number, why in sorted(never.items()):
        node = survey.nodes[number]
        if why:
            field = "when" if why is _ALWAYS_FALSE else "foreach" if number in empty else ""
            yield finding(
                node,
                "unreachable",
                field,
                f"{node.step.id} can never run: {why}",
                names=(node.step.id,),
                remedy="remove the step, or mend what keeps it from running",
            )
