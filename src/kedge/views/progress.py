"""How far a run is, how long it will still take, and the few rows of it that fit on a screen.

Made for a live view that asks several times a second, also of ten thousand steps: rows look at each
sibling once and go down only into what is shown; a `Gauge` keeps what does not change.
"""

from __future__ import annotations

from typing import NamedTuple

from kedge.flow.program import Node, Scope
from kedge.flow.state import RunState, ScopeState, StepState, Undo
from kedge.flow.stretches import spent_ms
from kedge.flow.words import RunStatus, StepStatus
from kedge.plan.estimates import call_s, whole_s
from kedge.views.shares import ALMOST, attempts_to_come, rounds_to_come
from kedge.views.text import clean, duration, to_ascii
from kedge.views.words import icon, tally, word

_S = StepStatus
_PENDING, _READY, _FAILED = (
    _S.PENDING,
    _S.READY,
    _S.FAILED,
)  # looking up an enum's member costs as much as the test
_ACTIVE = (_S.RUNNING, _S.WAITING, _S.IN_DOUBT)
_HOLDS_MS, _HOLDS_PER_STEP_MS = 1000, 0.3
"""How long an estimate holds. A new one looks at every step, so that of a large run holds longer."""
_LATEST_DONE = 3
_NEXT_PENDING = 3
_ROWS_MIN = 3
"""One step and the counts before and after it."""


class Row(NamedTuple):
    """One line of a live view."""

    path: str
    """"" for a line that stands for several steps."""
    depth: int
    icon: str
    status: StepStatus | None
    label: str
    detail: str
    seconds: float | None


def percent(state: RunState) -> float:
    """How much of the run is settled: 100 when it has ended, and only then."""
    if state.ended:
        return 100.0
    total = 0.0
    todo = [(state.root.steps, 100.0)]
    while todo:
        steps, share = todo.pop()
        part = share / len(steps) if steps else 0.0
        for step in steps:
            if step.outcome is not None:
                total += part
            elif step.items is not None:
                todo.append((step.items, part))
            elif step.iteration or step.inner is not None:
                to_come = rounds_to_come(step.node.step.loop, step.iteration)
                rest = part * to_come / (to_come + step.iteration)
                total += part - rest
                if step.inner is not None and step.status is _S.RUNNING:
                    attempts = attempts_to_come(step.node.step.retry, step.attempt)
                    todo.append((step.inner.steps, rest / to_come / attempts))
    return min(ALMOST, total)


def bar(done: float, width: int, *, unicode: bool = True) -> str:
    """`done` percent as a bar of `width` columns."""
    filled = int(min(100.0, max(0.0, done)) / 100 * width)
    text = "█" * filled + "░" * (width - filled)
    return text if unicode else to_ascii(text)


def eta(state: RunState, now_ms: int) -> float | None:
    """Seconds still to go, or None where nobody can tell. To ask often, keep a `Gauge`."""
    return Gauge(state).seconds_left(now_ms)


class Gauge:
    """How far one run is, and how long it will still take."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._percent = 0.0
        self._told_at = 0
        self._told_s: float | None = None
        self._orders: dict[int, list[int]] = {}
        """Per scope: indices, each after those it depends on."""
        self._mean_s: dict[str | None, float] = {}
        self._mean_of_all_s: float | None = None

    def percent(self) -> float:
        """As `percent`, never going back: another attempt of a composite begins its steps anew."""
        now = percent(self._state)
        if self._percent == 100.0:
            self._percent = now
        self._percent = max(self._percent, now)
        return self._percent

    def seconds_left(self, now_ms: int) -> float | None:
        """By the longest chain of what is left, or by all its work at so many at a time if that is more.

        None before anything is known, and while only a person can move the run.
        """
        state = self._state
        if state.ended or state.status in (RunStatus.PAUSED, RunStatus.WAITING):
            return None
        since_ms = now_ms - self._told_at
        reckoning_ms = state.total * _HOLDS_PER_STEP_MS
        if self._told_s is None and now_ms - state.started_at < reckoning_ms:
            return None  # too soon to know much, for what it takes
        if self._told_s is not None and 0 <= since_ms < max(_HOLDS_MS, reckoning_ms):
            return max(0.0, self._told_s - since_ms / 1000)  # counts down meanwhile
        self._learn()
        known = self._mean_of_all_s is not None
        self._told_at = now_ms
        self._told_s = self._scope_left(state.root, now_ms) if known else None
        return self._told_s

    def _learn(self) -> None:
        sums: dict[str | None, list[float]] = {}
        for step in self._state.steps.values():
            if step.status is _S.DONE and step.started_at and step.items is None and step.inner is None:
                known = sums.setdefault(step.node.step.tool, [0.0, 0])
                known[0] += step.ended_at - step.attempt_at
                known[1] += 1
        self._mean_s = {tool: total / count / 1000 for tool, (total, count) in sums.items()}
        count = sum(known[1] for known in sums.values())
        if count:
            self._mean_of_all_s = sum(known[0] for known in sums.values()) / count / 1000
        elif any(call_s(node.step) is not None for node in self._state.program.nodes):
            self._mean_of_all_s = 0.0

    def _weight_s(self, node: Node) -> float:
        """One call of the step: as estimated, else as its tool's calls took, else as all calls took."""
        estimated = call_s(node.step)
        if estimated is not None:
            return estimated
        mean = self._mean_s.get(node.step.tool)
        return mean if mean is not None else self._mean_of_all_s or 0.0

    def _scope_left(self, scope: ScopeState, now_ms: int) -> float:
        ends: list[float] = [0.0] * len(scope.steps)
        work = 0.0
        for index in self._order(scope.scope):
            step = scope.steps[index]
            if step.outcome is not None or step.node.fallback_for >= 0:
                continue  # a fallback most likely does not run
            plain = step.status is _PENDING and step.node.plain and step.node.step.loop is None
            left = self._weight_s(step.node) if plain else self._step_left(step, now_ms)
            work += left
            start = 0.0
            for dep in step.node.deps:
                start = max(start, ends[dep])
            ends[index] = start + left
        return max(max(ends, default=0.0), work / max(1, self._state.parallel))

    def _step_left(self, step: StepState, now_ms: int) -> float:
        if step.items is not None:
            left = [self._step_left(item, now_ms) for item in step.items if item.outcome is None]
            return max(max(left, default=0.0), sum(left) / max(1, self._state.parallel))
        wait_s = max(0.0, (step.wake_at - now_ms) / 1000) if step.status is _S.WAITING else 0.0
        node = step.node
        once = self._once_s(node)
        if step.inner is not None and step.status is _S.RUNNING:
            now = self._scope_left(step.inner, now_ms)
        elif node.is_sleep and step.status is _S.WAITING and step.attempt:
            now = wait_s  # without an attempt it is the delay before the next round
        else:
            elapsed = (now_ms - step.attempt_at) / 1000 if step.status is _S.RUNNING else 0.0
            now = wait_s + max(0.0, once - elapsed)
        return now + whole_s(node.step, once, step.iteration) - once

    def _once_s(self, node: Node) -> float:
        """One round of a step that has not begun."""
        return self._scope_s(node.scope) if node.scope is not None else self._weight_s(node)

    def _scope_s(self, scope: Scope) -> float:
        """A composite that has not begun."""
        ends = [0.0] * len(scope.nodes)
        for index in self._order(scope):
            node = scope.nodes[index]
            if node.fallback_for < 0:  # it most likely does not run
                start = max((ends[dep] for dep in node.deps), default=0.0)
                ends[index] = start + whole_s(node.step, self._once_s(node))
        return max(ends, default=0.0)

    def _order(self, scope: Scope) -> list[int]:
        order = self._orders.get(id(scope))
        if order is None:
            left = [len(node.deps) for node in scope.nodes]
            order = [index for index, count in enumerate(left) if not count]
            for index in order:  # grows while it is walked
                for consumer in scope.nodes[index].consumers:
                    left[consumer] -= 1
                    if not left[consumer]:
                        order.append(consumer)
            self._orders[id(scope)] = order
        return order


# --- rows


def tree_rows(state: RunState, now_ms: int, *, unicode: bool = True, rows_max: int = 40) -> list[Row]:
    """The run as at most `rows_max` lines: what runs and what failed first, the rest as counts."""
    view = _Tree(now_ms, max(_ROWS_MIN, rows_max), unicode=unicode)
    view.add(state.root.steps, 0, view.left)
    if state.undos:
        view.add(list(state.undos.values()), 0, max(_ROWS_MIN, view.left))
    return view.rows


class _Tree:
    def __init__(self, now_ms: int, rows_max: int, *, unicode: bool) -> None:
        self.now_ms = now_ms
        self.unicode = unicode
        self.rows: list[Row] = []
        self.left = rows_max

    def add(self, steps: list[StepState], depth: int, rows_max: int) -> None:
        """Siblings, those that are hidden as a count before and after those that are shown."""
        shown, before, after = self._choose(steps, rows_max)
        self.left -= len(shown) + bool(before) + bool(after)
        if before:
            self._count(before, depth)
        for step in shown:
            self.rows.append(self._row(step, depth))
            children = _children(step)
            if children and self.left >= _ROWS_MIN and (step.status in _ACTIVE or step.status is _S.FAILED):
                self.add(children, depth + 1, self.left)
        if after:
            self._count(after, depth)

    def _choose(
        self, steps: list[StepState], rows_max: int
    ) -> tuple[list[StepState], list[StepState], list[StepState]]:
        """Those to show, and those to count before and after them."""
        active: list[StepState] = []
        failed: list[StepState] = []
        done: list[StepState] = []
        pending: list[StepState] = []
        for step in steps:
            status = step.status
            if status is _PENDING or status is _READY:
                pending.append(step)
            elif status is _FAILED:
                failed.append(step)
            else:
                (active if step.outcome is None else done).append(step)
        if any(step.items or step.inner is not None for step in active):
            rows_max = max(8, rows_max // 2)  # leave room for what is in them
        rows_max = min(rows_max, self.left)
        if len(steps) <= rows_max:
            return steps, [], []
        room = max(1, rows_max - 2)
        some_active = active[:room]
        room -= len(some_active)
        some_failed = failed[:room]
        room -= len(some_failed)
        some_pending = pending[: min(_NEXT_PENDING, room)]
        room -= len(some_pending)
        latest = len(done) - min(_LATEST_DONE, room, len(done))
        shown = done[latest:] + some_failed + some_active + some_pending
        before = done[:latest] + failed[len(some_failed) :]
        return shown, before, active[len(some_active) :] + pending[len(some_pending) :]

    def _count(self, hidden: list[StepState], depth: int) -> None:
        label = f"… {tally(hidden)}"
        self.rows.append(Row("", depth, " ", None, label if self.unicode else to_ascii(label), "", None))

    def _row(self, step: StepState, depth: int) -> Row:
        seconds = None
        if step.started_at:
            seconds = spent_ms(step, self.now_ms) / 1000
        by_path = step.index >= 0 or isinstance(step, Undo)
        name = step.path if by_path else step.id
        label = name if by_path else f"{name}  {clean(step.node.step.do, 60)}".rstrip()
        detail = live_detail(step, self.now_ms)
        if not self.unicode:
            label, detail = to_ascii(label), to_ascii(detail)
        return Row(
            step.path, depth, icon(step.status, unicode=self.unicode), step.status, label, detail, seconds
        )


def _children(step: StepState) -> list[StepState]:
    if step.items is not None:
        return step.items
    return step.inner.steps if step.inner is not None else []


def live_detail(step: StepState, now_ms: int) -> str:
    """What there is to say about a step besides its status and time, in a few words."""
    parts: list[str] = []
    loop = step.node.step.loop
    if step.items is not None:
        parts.append(f"{len(step.items) - step.open:,} of {len(step.items):,}")
    elif step.inner is not None:
        parts.append(f"{len(step.inner.steps) - step.inner.open:,} of {len(step.inner.steps):,}")
    if loop is not None and step.started_at and step.items is None:
        parts.append(f"round {step.iteration + 1:,} of {loop.times:,}")
    if step.attempt > 1:
        parts.append(f"attempt {step.attempt}")
    if step.status is _S.WAITING:
        parts.append(f"for another {duration(max(0, step.wake_at - now_ms) / 1000)}")
    elif step.status in (_S.IN_DOUBT, _S.READY, _S.CANCELLED):
        parts.append(word(step.status))
    if step.error is not None and step.status in (_S.FAILED, _S.IN_DOUBT, _S.WAITING):
        parts.append(clean(step.error.message, 100))
    return ", ".join(parts)
