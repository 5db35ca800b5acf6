"""Writing a plan down: canonical JSON for machines, readable YAML for people."""

from __future__ import annotations

import datetime
import decimal
import uuid
from typing import Any, Literal

import msgspec

from kedge.base.errors import BadInput
from kedge.plan.plain import canonical
from kedge.plan.yaml_write import dump_yaml

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


def dump_plan(plan: msgspec.Struct, form: Literal["yaml", "json"] = "yaml") -> str:
    """The plan as text. Reading the text gives an equal plan."""
    if form not in ("yaml", "json"):
        raise BadInput(f"a plan cannot be written as {form!r}", code="form", allowed=("yaml", "json"))
    data: dict[str, Any] = msgspec.to_builtins(plan, builtin_types=NOT_JSON)
    text = canonical(data, root="").decode()
    return text if form == "json" else dump_yaml(data)
