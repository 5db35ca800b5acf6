"""Limits that calls share across runs: per tool, per resource, for the whole engine.

A tool that says "too many" (rate_limited) or drops calls under load gets a window: halved at each
such failure, down to one call at a time, grown by one for each full window of successes (additive
increase, multiplicative decrease). Without trouble there is no window and `take` costs a lookup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping

from kedge.base.errors import BadInput
from kedge.flow.program import Node

OVERLOAD = frozenset({"rate_limited", "transient", "timeout"})
"""Failures that may mean that the other side has too much to do."""
GROWN_BACK = 64
"""A window this wide limits nobody: it is taken away."""


class Window:
    """Places of one tool or resource."""

    __slots__ = ("cap", "good", "size", "taken")

    def __init__(self, cap: int | None) -> None:
        self.cap = cap
        """Never more than this; None: as many as there are."""
        self.size: float = cap if cap is not None else GROWN_BACK
        self.taken = 0
        self.good = 0

    @property
    def room(self) -> int:
        return max(0, int(self.size) - self.taken)

    def shrink(self) -> None:
        self.size = max(1.0, min(self.size, self.taken + 1) // 2)
        self.good = 0

    def grow(self) -> None:
        self.good += 1
        if self.good >= self.size:
            self.good = 0
            self.size = min(self.size + 1, self.cap if self.cap is not None else GROWN_BACK)

    def give(self, failed_as: str) -> None:
        """A place of a resource is given back: only one that says "too many" narrows what others share."""
        self.taken -= 1
        if failed_as == "rate_limited":
            self.shrink()
        elif not failed_as and self.cap is not None and self.size < self.cap:
            self.grow()

    @property
    def idle(self) -> bool:
        return self.cap is None and self.size >= GROWN_BACK


def checked_resources(given: Mapping[str, int]) -> dict[str, int]:
    """Units of each resource; BadInput for one without any: a step that needs it would wait for ever."""
    for name, units in given.items():
        if type(units) is not int or units < 1:
            raise BadInput(
                f"resource {name} needs a whole number of units, 1 at least, not {units!r}",
                code="setting_value",
                where="resources",
            )
    return dict(given)


class Gates:
    """All windows of one engine."""

    def __init__(self, resources: Mapping[str, int] | None = None, parallel_total: int = 1_000_000) -> None:
        self._windows: dict[str, Window] = {}
        self._free = parallel_total
        self._resources = dict(resources or {})
        self._in_flight: defaultdict[str, int] = defaultdict(int)
        self._waiting: dict[Callable[[], None], None] = {}
        """In the order in which they came."""

    def take(self, node: Node) -> str:
        """Take a place for one call of `node`; the name of what has none left, or ""."""
        if self._free <= 0:
            return "engine"
        name = node.step.tool or ""
        if (self._windows or node.bounded) and (full := self._take_bounded(node, name)):
            return full
        self._in_flight[name] += 1
        self._free -= 1
        return ""

    def _take_bounded(self, node: Node, name: str) -> str:
        window = self._windows.get(name)
        if window is None and node.spec is not None and node.spec.parallel is not None:
            window = self._windows[name] = Window(node.spec.parallel)
        if window is not None and not window.room:
            return name
        full = self._take_resources(node.resources)
        if not full and window is not None:
            window.taken += 1
        return full

    def _take_resources(self, names: tuple[str, ...]) -> str:
        for name in names:
            window = self._windows.get(f"resource {name}")
            if window is None:
                window = self._windows[f"resource {name}"] = Window(self._resources.get(name, 1))
            if not window.room:
                return f"resource {name}"
        for name in names:
            self._windows[f"resource {name}"].taken += 1
        return ""

    def give(self, node: Node, failed_as: str = "") -> None:
        """A call of `node` is over, well or as a failure of this category."""
        self._free += 1
        name = node.step.tool or ""
        self._in_flight[name] -= 1
        if self._windows or failed_as == "rate_limited":
            for resource in node.resources:
                self._windows[f"resource {resource}"].give(failed_as)
            self._adapt(name, failed_as, self._in_flight[name])
        if self._waiting:
            waiting, self._waiting = self._waiting, {}
            for wake in waiting:
                wake()

    def _adapt(self, name: str, failed_as: str, in_flight: int) -> None:
        window = self._windows.get(name)
        if window is None:
            if failed_as != "rate_limited":
                return
            window = self._windows[name] = Window(None)
            window.taken = in_flight
            window.size = in_flight + 1
        elif window.taken:
            window.taken -= 1
        if failed_as in OVERLOAD:
            window.shrink()
        elif not failed_as:
            window.grow()
            if window.idle:
                del self._windows[name]

    def room(self, name: str) -> int:
        """Places left of what `take` named."""
        if name == "engine":
            return max(0, self._free)
        window = self._windows.get(name)
        return window.room if window is not None else 1_000_000

    def when_given(self, wake: Callable[[], None]) -> None:
        """Call back once when any place is given back: for drivers whose steps wait for one."""
        self._waiting[wake] = None
