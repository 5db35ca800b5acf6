"""What a plan wants to be given, and whether a value fits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from kedge.plan.expr import Path
from kedge.plan.model import Input, Plan
from kedge.plan.parts import Step
from kedge.plan.uses import uses

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list, tuple),
    "object": (dict,),
}


def is_needed(declared: Input) -> bool:
    """Somebody has to give it: it has no default."""
    return declared.default is msgspec.UNSET and declared.required


def misfit(declared: Input, value: Any) -> str:
    """Why the value cannot be given for it; empty: it can."""
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


def read_by(step: Step, plan: Plan) -> set[str]:
    """Names of the inputs that a step's own texts read."""
    return named_in((path for use in uses(step) for path in use.paths), plan)


def named_in(paths: Iterable[Path], plan: Plan) -> set[str]:
    """Names of the inputs that the paths lead to; all of them, where one leads to the map of them."""
    found: set[str] = set()
    for path in paths:
        if path.root == "inputs":
            found.update((str(path.keys[0]),) if path.keys else plan.inputs)
    return found
