"""From a scenario that breaks a law to the smallest one that breaks it too.

One thing is left out at a time (a run, a fault, a step, a way to misbehave), and what still breaks the same
law is kept; until nothing can be left out any more. Whatever a scenario does not mention is drawn from its
seed as before, so most of what happened stays as it was.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from kedge.testing.world.scenario import Order, Scenario

TRIES = 2_000
"""Lives at most: some seconds' worth."""


def shrunk(scenario: Scenario, breaks: Callable[[Scenario], bool], tries: int = TRIES) -> Scenario:
    """The smallest scenario found that `breaks` still says yes to."""
    found = True
    while found:
        found = False
        for smaller in _smaller(scenario):
            tries -= 1
            if tries < 0:
                return scenario
            if breaks(smaller):
                scenario, found = smaller, True
                break
    return scenario


def _smaller(scenario: Scenario) -> Iterator[Scenario]:
    """Each with one thing less, the large things first."""
    if len(scenario.orders) > 1:
        for orders in _without_one(scenario.orders):
            yield replace(scenario, orders=orders)
    for faults in _without_one(scenario.faults):
        yield replace(scenario, faults=faults)
    if scenario.fates:
        yield replace(scenario, fates=())
    if scenario.advisers:
        yield replace(scenario, advisers=())
    for number, order in enumerate(scenario.orders):
        for plan in _smaller_plans(order.plan):
            orders = list(scenario.orders)
            orders[number] = replace(order, plan=plan)
            yield replace(scenario, orders=tuple(orders))
        for less in _less_wanted(order):
            orders = list(scenario.orders)
            orders[number] = less
            yield replace(scenario, orders=tuple(orders))
    for fates in _without_one(scenario.fates):
        yield replace(scenario, fates=fates)
    if scenario.slow_disk:
        yield replace(scenario, slow_disk=False)
    for number, fault in enumerate(scenario.faults):
        if fault.number > 1:
            faults = list(scenario.faults)
            faults[number] = replace(fault, number=fault.number // 2)
            yield replace(scenario, faults=tuple(faults))


def _less_wanted(order: Order) -> Iterator[Order]:
    if order.retries:
        yield replace(order, retries=order.retries - 1)
    if order.undone_later:
        yield replace(order, undone_later=order.undone_later - 1)
    for name in order.settings:
        yield replace(order, settings={key: value for key, value in order.settings.items() if key != name})


def _without_one(items: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for number in range(len(items)):
        yield items[:number] + items[number + 1 :]


def _smaller_plans(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A step less, or a field of a step. What names a step that is gone is refused, and so not kept."""
    for name in ("outputs", "limits"):
        if name in plan:
            yield {key: value for key, value in plan.items() if key != name}
    for place in _places(plan["steps"], ()):
        if len(_holder(plan, place)) > 1:
            smaller = copy.deepcopy(plan)
            del _holder(smaller, place)[place[-1]]
            yield smaller
        for field in _holder(plan, place)[place[-1]]:
            if field not in ("id", "tool", "steps", "args"):
                smaller = copy.deepcopy(plan)
                del _holder(smaller, place)[place[-1]][field]
                yield smaller
        inner = _holder(plan, place)[place[-1]].get("steps")
        if inner is not None:  # a single call in its place
            smaller = copy.deepcopy(plan)
            step = _holder(smaller, place)[place[-1]]
            del step["steps"]
            step["tool"] = "pure"
            yield smaller


def _places(steps: list[dict[str, Any]], at: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for number, step in enumerate(steps):
        yield (*at, number)
        yield from _places(step.get("steps", []), (*at, number))


def _holder(plan: dict[str, Any], place: tuple[int, ...]) -> list[dict[str, Any]]:
    steps: list[dict[str, Any]] = plan["steps"]
    for number in place[:-1]:
        steps = steps[number]["steps"]
    return steps
