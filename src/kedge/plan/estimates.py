"""How long steps and plans are expected to take, by what they say of themselves.

One reckoning for all who ask: pictures, scores, and how much longer a run will take. Rounds count with
the delays between them, unless `until` may end them at any time: then one is reckoned with. Items
count where the list is written out. Fallbacks are not expected to run.
"""

from __future__ import annotations

from collections.abc import Sequence

from kedge.plan.model import Plan
from kedge.plan.parts import SLEEP, Estimate, Step
from kedge.plan.scopes import Moments, Node


def call_s(step: Step) -> float | None:
    """How long one call of the step is expected to take, if the plan says so."""
    if step.estimate is not None and step.estimate.seconds is not None:
        return step.estimate.seconds
    seconds = step.args.get("seconds") if step.tool == SLEEP else None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return float(seconds)


NO_ESTIMATE = Estimate()


def estimate_of(step: Step) -> Estimate:
    """What one call of the step is expected to take, as far as the plan says so."""
    estimate, seconds = step.estimate or NO_ESTIMATE, call_s(step)
    return estimate if seconds == estimate.seconds else Estimate(seconds=seconds)


def rounds(step: Step) -> int:
    """How often a loop goes round, as far as that is known before."""
    return step.loop.times if step.loop is not None and step.loop.until is None else 1


def whole_s(step: Step, once_s: float, done: int = 0) -> float:
    """All rounds of a step after the first `done`, at `once_s` each, and the delays between them."""
    if step.loop is None:
        return once_s
    left = max(1, rounds(step) - done)
    return left * once_s + (left - 1) * step.loop.delay_s


def work_s(node: Node, unknown_s: float) -> float:
    """All calls of the step, one after another; `unknown_s` for each if it says nothing of its time."""
    own_s = call_s(node.step)
    return _calls(node) * (unknown_s if own_s is None else own_s)


def cost(node: Node) -> float:
    """Money for all calls of the step."""
    estimate = node.step.estimate
    once = estimate.cost if estimate is not None else None
    return _calls(node) * (once or 0.0)


def tokens(node: Node) -> int:
    """A model's tokens for all calls of the step."""
    estimate = node.step.estimate
    once = estimate.tokens if estimate is not None else None
    return _calls(node) * (once or 0)


def _calls(node: Node) -> int:
    """How often the step's call is made: rounds and written-out items of its own and of all that holds it."""
    count = 1
    for one in node.around():
        if one.fallback_for is not None:
            return 0
        items = len(one.step.foreach) if isinstance(one.step.foreach, list) else 1
        count *= rounds(one.step) * items
    return count


def reached_s(moments: Moments, order: Sequence[int], unknown_s: float) -> list[float]:
    """When each moment is reached with room for everything at once.

    A call that says nothing of its time takes `unknown_s`. Moments that are not in `order` stay at 0.
    """
    count = len(moments.nodes)
    reached = [0.0] * len(moments.waits)
    for moment in order:
        node = moments.owner[moment]
        step = node.step
        latest = max((reached[wait] for wait in moments.waits[moment]), default=0.0)
        if moment < count and step.steps is None:
            own_s = call_s(step)
            latest += _at_once_s(node, unknown_s if own_s is None else own_s)
        elif moment >= count and moment == moments.end(node):
            begun = reached[node.number]
            own_s = call_s(step)
            latest = begun + _at_once_s(node, latest - begun if own_s is None else own_s)
        reached[moment] = latest
    return reached


def _at_once_s(node: Node, once_s: float) -> float:
    """The step's own time, its items side by side."""
    return whole_s(node.step, once_s) if _calls(node) else 0.0


def plan_s(plan: Plan, nodes: Sequence[Node]) -> tuple[float, int]:
    """Seconds by the steps' own estimates, and how many steps have none.

    The longest chain, or all the work at as many calls at once as the plan allows, if that is more.
    """
    missing = sum(1 for node in nodes if node.step.steps is None and call_s(node.step) is None)
    moments = Moments(list(nodes))
    seconds = max(reached_s(moments, moments.order()[0], 0.0), default=0.0)
    parallel = plan.limits.get("parallel")
    if parallel:
        calling = (node for node in nodes if node.step.steps is None and node.step.tool != SLEEP)
        seconds = max(seconds, sum(work_s(node, 0.0) for node in calling) / parallel)
    return seconds, missing
