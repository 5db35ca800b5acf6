"""Writing a plan down: canonical JSON for machines, readable YAML for people."""

from __future__ import annotations

import datetime
import decimal
import uuid
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from kedge.base.errors import BadInput
from kedge.plan.parts import Step
from kedge.plan.plain import canonical, detached

if TYPE_CHECKING:
    from kedge.plan.model import Plan

NOT_JSON = (
    bytes,
    bytearray,
    memoryview,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)
"""What the library would quietly turn into text. Text in their place would not be read back equal."""


def dump_plan(plan: Plan, form: Literal["yaml", "json"] = "yaml") -> str:
    """The plan as text. Reading the text gives an equal plan; NotSerializable names what would not."""
    if form not in ("yaml", "json"):
        raise BadInput(f"a plan cannot be written as {form!r}", code="form", allowed=("yaml", "json"))
    for place, value in _values(plan):
        canonical(value, place)  # before the library sees it: a set would be a list without a word
    data = msgspec.to_builtins(plan, builtin_types=NOT_JSON)
    if form == "json":
        return canonical(data).decode()
    from kedge.plan.yaml_write import dump_yaml  # brings the YAML parser, which is slow to import

    return dump_yaml(detached(data)[0])


def _values(plan: Plan) -> Iterator[tuple[str, Any]]:
    """Every value in the plan that can be anything, with its place."""
    yield "context", plan.context
    yield "metadata", plan.metadata
    for name, declared in plan.inputs.items():
        if declared.default is not msgspec.UNSET:
            yield f"inputs.{name}.default", declared.default
    todo: list[tuple[str, Sequence[Step]]] = [("steps", plan.steps)]
    while todo:
        place, steps = todo.pop()
        for index, step in enumerate(steps):
            undo = step.compensate.args if step.compensate is not None else None
            for name in ("args", "foreach", "output", "metadata"):
                if value := getattr(step, name):
                    yield f"{place}[{index}].{name}", value
            if undo:
                yield f"{place}[{index}].compensate.args", undo
            if step.steps:
                todo.append((f"{place}[{index}].steps", step.steps))
