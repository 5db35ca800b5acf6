"""What ran when, as bars: the facts behind the timeline and the strip under the SVG."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from kedge.flow.critical import around, critical_path
from kedge.flow.state import RunState, ScopeState, StepState, Undo
from kedge.flow.stretches import Stretch, spent_ms, stretches
from kedge.flow.words import StepStatus
from kedge.views.outline import ITEMS_MAX

_S = StepStatus

_Row = list[StepState]
"""One step or item in every round and attempt of what holds it, the first of them first."""


class Lane(NamedTuple):
    """One row: a step, an item, or (`many`) the rest of a group."""

    label: str
    depth: int
    status: StepStatus
    bars: list[Stretch]
    seconds: float
    attempts: int
    critical: bool
    is_open: bool
    many: int = 0
    """How many steps the row stands for; its bars may overlap."""


def lanes(state: RunState, now_ms: int, lanes_max: int) -> list[Lane]:
    """Rows for all that ran, in the order of their starts, each under its parent; what is too much as one."""
    critical = {id(one) for step in critical_path(state).steps for one in around(step)}
    found: list[Lane] = []
    rest: list[_Row] = []
    todo: list[tuple[list[_Row], int]] = []
    todo += [([row], 0) for row in reversed(_in_order([undo] for undo in state.undos.values()))]
    todo += [([row], 0) for row in reversed(_in_order([step] for step in state.root.steps))]
    while todo:
        rows, depth = todo.pop()
        row = rows[0]
        if len(rows) > 1:
            found.append(_many(rows, depth, now_ms, critical, "items"))
            continue
        if len(found) >= lanes_max:
            rest.append(row)
            continue
        found.append(_lane(row, depth, now_ms, critical))
        inside = _in_order(_inside(row))
        if row[-1].items is not None and len(inside) > ITEMS_MAX:
            todo.append((inside[ITEMS_MAX:], depth + 1))
            inside = inside[:ITEMS_MAX]
        todo += [([child], depth + 1) for child in reversed(inside)]
    if rest:
        found.append(_many(rest, 0, now_ms, critical, "steps"))
    return found


def _in_order(rows: Iterable[_Row]) -> list[_Row]:
    """By their first start, without those that never started."""
    worked = [begun for row in rows if (begun := [step for step in row if step.started_at])]
    return sorted(worked, key=lambda row: row[0].started_at)


def _inside(row: _Row) -> Iterable[_Row]:
    rows: dict[int, _Row] = {}
    for holder in row:
        for step in holder.items if holder.items is not None else _children(holder):
            rows.setdefault(step.index if step.index >= 0 else step.node.index, []).append(step)
    return rows.values()


def _children(holder: StepState) -> list[StepState]:
    """Those of earlier rounds and attempts before those of later ones."""
    scopes: list[ScopeState] = []
    scope = holder.inner
    while scope is not None:
        scopes.append(scope)
        scope = scope.earlier
    return [step for scope in reversed(scopes) for step in scope.steps]


def _lane(row: _Row, depth: int, now_ms: int, critical: set[int]) -> Lane:
    step = row[-1]
    name = f"{step.id}[{step.index}]" if step.index >= 0 else step.id
    if isinstance(step, Undo):
        name = step.path
    bars = [bar for one in row for bar in stretches(one, now_ms)]
    seconds = sum(spent_ms(one, now_ms) for one in row) / 1000
    attempts = sum(one.starts for one in row if not one.scope.replaced)  # their successors count on
    is_open = not step.ended_at and step.status is not _S.IN_DOUBT
    on_path = any(id(one) in critical for one in row)
    return Lane(name, depth, step.status, bars, seconds, attempts, on_path, is_open)


def _many(rows: list[_Row], depth: int, now_ms: int, critical: set[int], what: str) -> Lane:
    steps = [step for row in rows for step in row]
    bars = [bar for step in steps for bar in stretches(step, now_ms) if bar.what in ("run", "group")]
    span = max((bar.end for bar in bars), default=0) - min((bar.start for bar in bars), default=0)
    latest = [row[-1] for row in rows]
    is_open = any(not step.ended_at for step in latest)
    status = _S.RUNNING if is_open else _S.DONE
    if any(step.status is _S.FAILED for step in latest):
        status = _S.FAILED
    on_path = any(id(step) in critical for step in steps)
    name = f"{len(rows):,} more {what}"
    return Lane(name, depth, status, bars, span / 1000, 0, on_path, is_open, len(rows))
