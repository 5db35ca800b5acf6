"""What a plan with faults is answered."""

from __future__ import annotations

from kedge.base.errors import InvalidPlan
from kedge.plan.findings import Findings


def insist(findings: Findings, whose: str = "the plan has") -> None:
    """InvalidPlan with every fault, if there is one."""
    if findings.ok:
        return
    count = len(findings.errors)
    told = "\n".join(f"  {finding}" for finding in findings.errors)
    raise InvalidPlan(f"{whose} {count} fault{'s' if count > 1 else ''}:\n{told}", findings)
