"""A run's inputs against the plan's declarations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from kedge.base.codec import encode
from kedge.base.errors import BadInput
from kedge.plan.model import Input, Plan

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}


def complete_inputs(plan: Plan, given: Mapping[str, Any]) -> bytes:
    """The inputs with defaults filled in, as canonical bytes; BadInput names every fault at once."""
    if not isinstance(given, Mapping):
        raise BadInput(
            f"inputs are a map of names to values, not {type(given).__name__}",
            code="inputs",
            where="inputs",
            remedy="give a map, as in {'name': value}",
        )
    faults: list[str] = []
    unknown = [str(name) for name in given if name not in plan.inputs]
    if unknown:
        faults.append(f"unknown: {', '.join(unknown)}")
    values: dict[str, Any] = {}
    missing: list[str] = []
    for name, declared in plan.inputs.items():
        if name in given:
            fault = _misfit(declared, given[name])
            if fault:
                faults.append(f"{name}: {fault}")
            values[name] = given[name]
        elif declared.default is not msgspec.UNSET:
            values[name] = declared.default
        elif declared.required:
            missing.append(name)
        else:
            values[name] = None
    if missing:
        faults.append(f"missing: {', '.join(missing)}")
    if faults:
        raise BadInput(
            f"the inputs do not fit the plan: {'; '.join(faults)}",
            code="inputs",
            where="inputs",
            allowed=[f"{name} ({declared.type})" for name, declared in plan.inputs.items()],
            remedy="give each input that the plan declares a value of its type, and no others",
        )
    return encode(values, root="inputs")


def _misfit(declared: Input, value: Any) -> str:
    allowed = _TYPES.get(declared.type)
    if allowed is None:
        return ""
    if isinstance(value, bool) and bool not in allowed:
        return f"needs {declared.type}, got a boolean"
    if not isinstance(value, allowed):
        return f"needs {declared.type}, got {type(value).__name__} {_shown(value)}"
    return ""


def _shown(value: Any) -> str:
    try:
        return repr(str(value)[:40])
    except Exception:  # of 5,000 digits, or with a __str__ that fails
        return "that cannot be shown"


def shortened(raw: bytes) -> str:
    """A value's bytes as part of a sentence."""
    text = raw.decode()
    return text if len(text) <= 80 else text[:77] + "..."
