"""How much each fault weighs: the one table that strictness moves."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from kedge.base.errors import BadInput
from kedge.plan.findings import Finding, Severity

Strictness = Literal["strict", "moderate", "lenient"]
STRICTNESS: tuple[Strictness, ...] = get_args(Strictness)

_E, _W, _N = "error", "warning", "note"

# Whatever is not here is an error however lenient one is: such a plan cannot run at all.
_SEVERITIES: dict[str, tuple[Severity, Severity, Severity]] = {
    #                        strict  moderate lenient
    "blank_goal":            (_E, _W, _N),
    "compensation_unused":   (_W, _W, _N),
    "constant_condition":    (_W, _N, _N),
    "doubtful_key":          (_E, _E, _W),
    "idle_timeout_unused":   (_W, _W, _N),
    "missing_argument":      (_E, _E, _W),
    "no_compensation":       (_W, _W, _N),
    "output_unchecked":      (_W, _W, _N),
    "pattern_unchecked":     (_N, _N, _N),
    "reference_type":        (_E, _E, _W),
    "retry_category":        (_E, _W, _N),
    "retry_unused":          (_E, _W, _N),
    "shadowed_name":         (_W, _W, _N),
    "unavailable_tool":      (_E, _E, _W),
    "unknown_argument":      (_E, _E, _W),
    "unneeded_fallback":     (_W, _N, _N),
    "unreachable":           (_E, _W, _N),
    "unused_arguments":      (_E, _W, _N),
    "unused_input":          (_W, _N, _N),
    "wrong_argument":        (_E, _E, _W),
}  # fmt: skip


def severity(code: str, strictness: Strictness) -> Severity:
    """What a fault of this code weighs."""
    row = _SEVERITIES.get(code)
    return row[STRICTNESS.index(strictness)] if row else "error"


def weighed(finding: Finding, strictness: Strictness) -> Finding:
    """The finding with the severity it has at this strictness."""
    weight = severity(finding.code, strictness)
    return finding if weight == finding.severity else msgspec.structs.replace(finding, severity=weight)


def checked(strictness: str) -> Strictness:
    """`strictness`, or BadInput."""
    for known in STRICTNESS:
        if strictness == known:
            return known
    raise BadInput(f"{strictness!r} is not a strictness", code="strictness", allowed=STRICTNESS)
