"""What every rule looks at: the plan, its steps in their places, the tools, the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

from kedge.base.limits import Limits
from kedge.checks.reach import Types
from kedge.plan.findings import Finding, Fix
from kedge.plan.model import SLEEP, Plan
from kedge.plan.nearest import nearest
from kedge.plan.places import at
from kedge.plan.scopes import Moments, Node, Scopes
from kedge.plan.tools import Catalog, ToolSpec
from kedge.plan.uses import Use, expression_use, template_use

_SUGGESTIONS_MAX = 200

SLEEP_SPEC = ToolSpec(
    name=SLEEP,
    description="Wait. A durable timer, not a call.",
    parameters={
        "type": "object",
        "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": 366 * 24 * 3600}},
        "required": ["seconds"],
        "additionalProperties": False,
    },
    effect="pure",
)


class Survey:
    """One plan under check."""

    def __init__(self, plan: Plan, catalog: Catalog | None, limits: Limits) -> None:
        self.plan = plan
        self.catalog = catalog
        self.limits = limits
        self.scopes = Scopes(plan.steps)
        self.nodes = self.scopes.nodes
        self.types = Types(plan, catalog)
        self._specs = [
            self.spec(node.step.tool) if node.step.tool is not None else None for node in self.nodes
        ]
        self._suggestions = _SUGGESTIONS_MAX

    @cached_property
    def moments(self) -> Moments:
        return Moments(self.nodes)

    @cached_property
    def order(self) -> tuple[list[int], list[int]]:
        """Moments in an order that works, and those that can never come."""
        return self.moments.order()

    @cached_property
    def plan_uses(self) -> list[Use]:
        """What `outputs` and `answer` read."""
        found = [
            expression_use("expect", at("outputs", name), text) for name, text in self.plan.outputs.items()
        ]
        if self.plan.answer is not None:
            found.append(template_use("goal", "answer", self.plan.answer))
        return found

    def tool(self, node: Node) -> ToolSpec | None:
        """The specification of the step's tool, if it has one and it is known."""
        return self._specs[node.number]

    def spec(self, name: str) -> ToolSpec | None:
        """The specification of a tool. `sleep` is always known."""
        found = self.catalog.get(name) if self.catalog is not None else None
        return SLEEP_SPEC if found is None and name == SLEEP else found

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """The known name that was probably meant. Searched so many times and no more: it costs."""
        self._suggestions -= 1
        return nearest(word, known) if self._suggestions >= 0 else None


Rule = Callable[[Survey], Iterator[Finding]]


def finding(node: Node, code: str, field: str, message: str, **more: Any) -> Finding:
    """A fault of one step, at one of its fields."""
    place = f"{node.place}.{field}" if field else node.place
    return Finding(code=code, step=node.path, path=place, message=message, **more)


def put(node: Node, field: str, value: Any) -> Fix:
    """The fix that sets a field of a step."""
    return Fix(path=f"{node.place}.{field}", value=value)
