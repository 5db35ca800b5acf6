"""The plan's own words. Field by field this is the plan language of docs/plan-language.md."""

from __future__ import annotations

from typing import Any, Literal

from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.plan.document import to_plan
from kedge.plan.parts import (
    DOERS,
    ID_PATTERN,
    LATER_FIELDS,
    RESERVED_IDS,
    SLEEP,
    YEAR_S,
    Approval,
    Call,
    Estimate,
    Input,
    Join,
    Kind,
    Loop,
    OnError,
    Part,
    Retry,
    Several,
    Step,
    Wait,
    as_tuples,
)
from kedge.plan.schema import schema_of
from kedge.plan.write import dump_plan

__all__ = [
    "DOERS",
    "ID_PATTERN",
    "LATER_FIELDS",
    "RESERVED_IDS",
    "SLEEP",
    "YEAR_S",
    "Approval",
    "Call",
    "Estimate",
    "Input",
    "Join",
    "Kind",
    "Loop",
    "OnError",
    "Plan",
    "Retry",
    "Step",
    "Wait",
]


class Plan(Part, frozen=True, kw_only=True):
    """What is to be done, as data."""

    goal: str
    """What it is for, in the words of whoever wants it."""
    inputs: dict[str, Input] = {}
    """Values that whoever starts the plan gives."""
    steps: Several[Step]
    """What is to be done. Their order on paper means nothing."""
    context: dict[str, Any] = {}
    """Values that every step may read."""
    outputs: dict[str, str] = {}
    """Expressions: what the run returns."""
    answer: str | None = None
    """A template over results: what a person reads at the end."""
    limits: dict[str, float] = {}
    """Limits of this plan, tighter than the engine's."""
    metadata: dict[str, Any] = {}
    """Whatever others want to keep with the plan; nothing here reads it."""

    def __post_init__(self) -> None:
        as_tuples(self, ("steps",))

    @staticmethod
    def parse(document: str | bytes | dict[str, Any], limits: Limits = DEFAULT_LIMITS) -> Plan:
        """A plan from YAML or JSON text, or from plain data. InvalidPlan lists every fault."""
        return to_plan(Plan, document, limits)

    def dump(self, form: Literal["yaml", "json"] = "yaml") -> str:
        """The plan as text that `parse` reads back to an equal plan."""
        return dump_plan(self, form)

    @staticmethod
    def schema() -> dict[str, Any]:
        """JSON Schema of the plan document."""
        return schema_of(Plan)
