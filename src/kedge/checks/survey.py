"""What every rule looks at: the plan, its steps in their places, the tools, the limits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import msgspec

from kedge.base.limits import Limits
from kedge.checks.reach import Types
from kedge.plan.findings import Finding, Fix
from kedge.plan.model import SLEEP, YEAR_S, Plan
from kedge.plan.nearest import nearest
from kedge.plan.places import at
from kedge.plan.scopes import Moments, Node, Scopes
from kedge.plan.tools import Catalog, ToolSpec
from kedge.plan.uses import Use, expression_use, template_use

_SUGGESTIONS_MAX = 200
_COMPARED_MAX = 200_000
"""Names that suggestions of one check may look at: many faults in a plan of many names would take seconds."""

SLEEP_SPEC = ToolSpec(
    name=SLEEP,
    description="Wait. A durable timer, not a call.",
    parameters={
        "type": "object",
        "properties": {"seconds": {"type": "number", "minimum": 0, "maximum": YEAR_S}},
        "required": ["seconds"],
        "additionalProperties": False,
    },
    effect="pure",
)


def _tightened(limits: Limits, own: dict[str, float]) -> Limits:
    """The limits with those in their place that the plan sets itself, where they are tighter."""
    tighter: dict[str, Any] = {}
    for name, value in own.items():
        most = getattr(limits, name, None) if name in Limits.__struct_fields__ else None
        if most is not None and 0 < value < most and (isinstance(most, float) or value == int(value)):
            tighter[name] = type(most)(value)
    return msgspec.structs.replace(limits, **tighter) if tighter else limits


class Survey:
    """One plan under check."""

    def __init__(self, plan: Plan, catalog: Catalog | None, limits: Limits) -> None:
        self.plan = plan
        self.catalog = catalog
        self.allowed = limits
        self.limits = _tightened(limits, plan.limits)
        self.scopes = Scopes(plan.steps)
        self.nodes = self.scopes.nodes
        self.types = Types(plan, catalog)
        self._specs = [
            self.spec(node.step.tool) if node.step.tool is not None else None for node in self.nodes
        ]
        self._visible: dict[Node | None, tuple[str, ...]] = {}
        self._inside: dict[Node | None, dict[str, Node]] = {}
        self._suggestions = _SUGGESTIONS_MAX
        self._compared = _COMPARED_MAX

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
            expression_use("outputs", at("outputs", name), text) for name, text in self.plan.outputs.items()
        ]
        if self.plan.answer is not None:
            found.append(template_use("answer", "answer", self.plan.answer))
        return found

    def tool(self, node: Node) -> ToolSpec | None:
        """The specification of the step's tool, if it has one and it is known."""
        return self._specs[node.number]

    def spec(self, name: str) -> ToolSpec | None:
        """The specification of a tool. `sleep` is always known."""
        found = self.catalog.get(name) if self.catalog is not None else None
        return SLEEP_SPEC if found is None and name == SLEEP else found

    def visible(self, parent: Node | None) -> tuple[str, ...]:
        """Ids of the steps that the steps inside `parent` can name, the nearest first."""
        found = self._visible.get(parent)
        if found is None:
            outer = self.visible(parent.parent) if parent is not None else ()
            own = parent.ids if parent is not None else self.scopes.top
            found = self._visible[parent] = tuple(dict.fromkeys((*own, *outer)))
        return found

    def inside(self, parent: Node | None) -> dict[str, Node]:
        """For ids out of sight of the steps inside `parent`, the composite beside them that has it."""
        found = self._inside.get(parent)
        if found is None:
            own = parent.ids if parent is not None else self.scopes.top
            found = self._inside[parent] = {name: one for one in own.values() for name in one.ids}
        return found

    def nearest(self, word: str, known: Iterable[str]) -> str | None:
        """The known name that was probably meant. Searched so many times and no more: it costs."""
        self._suggestions -= 1
        return nearest(word, self._affordable(known)) if self._suggestions >= 0 else None

    def _affordable(self, names: Iterable[str]) -> Iterator[str]:
        for name in names:
            self._compared -= 1
            if self._compared < 0:
                return
            yield name


Rule = Callable[[Survey], Iterator[Finding]]


def finding(node: Node, code: str, field: str, message: str, **more: Any) -> Finding:
    """A fault of one step, at one of its fields."""
    place = f"{node.place}.{field}" if field else node.place
    return Finding(code=code, step=node.path, path=place, message=message, **more)


def put(node: Node, field: str, value: Any) -> Fix:
    """The fix that sets a field of a step."""
    return Fix(path=f"{node.place}.{field}", value=value)
