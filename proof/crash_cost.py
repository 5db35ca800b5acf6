"""What the named places cost while nothing is armed: looks at an empty dict, counted and timed."""

from __future__ import annotations

import asyncio
import tempfile
import timeit
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from facts import Fact

import kedge
from kedge.base import failpoints
from kedge.testing.failpoints import counting

STEPS = 1_000
LOOKS_MAX = 4
LOOK_NS_MAX = 30
_LOOKS, _TRIES = 10_000, 300


@kedge.tool(effect="pure")
async def nothing() -> None:
    """Do nothing: all of the time is kedge's."""


def prove_cost() -> Iterator[Fact]:
    """Looks for each step of a chain, and the time of one."""
    looks = looks_a_step()
    yield Fact(
        "looks for each step of a chain",
        f"{looks:.2f}",
        f"<= {LOOKS_MAX}",
        looks <= LOOKS_MAX,
        f"{STEPS:,} steps in a file",
    )
    took_ns = look_ns()
    yield Fact("one look, off", f"{took_ns:.0f} ns", f"< {LOOK_NS_MAX} ns", took_ns < LOOK_NS_MAX)


def looks_a_step() -> float:
    """Each place that is passed is one look; those after events are there only when something is armed."""
    hits = asyncio.run(_chain())
    hits["journal.append.event"] = hits["journal.append.heads"]  # one look for all events of an append
    return sum(hits.values()) / STEPS


async def _chain() -> Counter[str]:
    steps = [{"id": f"s{n}", "tool": "nothing", "after": [f"s{n - 1}"] if n else []} for n in range(STEPS)]
    plan = kedge.Plan.parse({"goal": "g", "steps": steps})
    with tempfile.TemporaryDirectory() as folder:
        async with kedge.Engine(tools=[nothing], store=Path(folder) / "k.db") as engine:
            with counting() as hits:
                await (await engine.start(plan)).result()
            return hits


def look_ns() -> float:
    """The best of many short ones: what else the machine does can only add to it."""
    names = {"armed": failpoints.armed, "reach": failpoints.reach}
    if failpoints.armed:
        raise AssertionError("something is armed, and the wrong thing would be timed")
    look = min(timeit.repeat("if armed:\n    reach('x')", number=_LOOKS, repeat=_TRIES, globals=names))
    bare = min(timeit.repeat("pass", number=_LOOKS, repeat=_TRIES))
    return (look - bare) / _LOOKS * 1e9
