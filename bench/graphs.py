"""The graphs that are measured, seeded: the same for every engine, process and machine.

A node is a number and depends on smaller ones. Its step returns 1 + the largest of its inputs, which
is its depth: so each result of each timed run can be checked.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any


@dataclass(frozen=True)
class Graph:
    """Who waits for whom, and how long each step sleeps."""

    deps: list[tuple[int, ...]]
    sleep_s: list[float] | None = None

    def __len__(self) -> int:
        return len(self.deps)

    @cached_property
    def expected(self) -> list[int]:
        """The right result of every node."""
        depth: list[int] = []
        for deps in self.deps:
            depth.append(1 + max((depth[d] for d in deps), default=0))
        return depth

    @cached_property
    def consumers(self) -> list[list[int]]:
        """Who waits for each node."""
        found: list[list[int]] = [[] for _ in self.deps]
        for node, deps in enumerate(self.deps):
            for dep in deps:
                found[dep].append(node)
        return found

    @property
    def critical_path_s(self) -> float:
        """No schedule can be shorter."""
        ends: list[float] = []
        for sleep_s, deps in zip(self.sleep_s or [0.0] * len(self), self.deps, strict=True):
            ends.append(sleep_s + max((ends[d] for d in deps), default=0.0))
        return max(ends)

    def document(self) -> dict[str, Any]:
        """The plan: one step for each node, its inputs by reference."""
        steps: list[dict[str, Any]] = []
        for node, deps in enumerate(self.deps):
            args: dict[str, Any] = {"i": node, "inputs": [f"${{n{d}}}" for d in deps]}
            if self.sleep_s is not None:
                args["sleep_s"] = self.sleep_s[node]
            steps.append({"id": f"n{node}", "tool": "node", "args": args})
        return {"goal": "be measured", "steps": steps}

    def check(self, results: list[Any]) -> None:
        """Stop here if one result is wrong: its time would mean nothing."""
        if results != self.expected:
            wrong = sum(1 for found, right in zip(results, self.expected, strict=False) if found != right)
            raise SystemExit(f"wrong results: {wrong} of {len(self)} differ, {len(results)} were given")


def chain(n: int) -> Graph:
    """One after another."""
    return Graph([(), *((i,) for i in range(n - 1))])


def fan(n: int) -> Graph:
    """All at once, then one that takes all of their results."""
    return Graph([*((),) * n, tuple(range(n))])


def woven(n: int, window: int = 100, seed: int = 7) -> Graph:
    """Each waits for one to three of the `window` nodes before it."""
    rng = random.Random(seed)
    deps: list[tuple[int, ...]] = [()]
    for node in range(1, n):
        near = range(max(0, node - window), node)
        deps.append(tuple(sorted(rng.sample(near, min(rng.randint(1, 3), len(near))))))
    return Graph(deps)


def sleepers(n: int) -> Graph:
    """Woven, and each sleeps: 20 ms in the middle, a few of them very long."""
    rng = random.Random(12)
    return Graph(woven(n, seed=11).deps, [0.020 * rng.lognormvariate(0.0, 1.0) for _ in range(n)])


def waiters(n: int) -> Graph:
    """Woven, and each waits 5 ms: the loop is idle now and then, as it is with real tools."""
    return Graph(woven(n).deps, [0.005] * n)


GRAPHS: dict[str, tuple[int, Callable[[int], Graph]]] = {
    "W1": (1_000, chain),
    "W2": (1_000, fan),
    "W3": (10_000, woven),
    "W4": (300, sleepers),
    "W6": (1_000, waiters),
    "W7": (100_000, woven),
}


def make(name: str, n: int | None = None) -> Graph:
    """A graph by name, in its usual size or another one."""
    size, build = GRAPHS[name]
    return build(n or size)
