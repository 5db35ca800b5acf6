"""Whether a plan can work, told before anything runs.

Owns `check` (all faults of a plan in one report), the rules it applies, `unsupported` (what no
engine acts on yet) and `compare` (what differs between two plans, and which is better).

Contracts: pure functions over a plan and a catalog; a plan or a tool's schema that is hostile is a
finding, never an exception, never a hang; severities depend on strictness, findings do not.
"""

from __future__ import annotations

from kedge.checks.change import Known, check_change
from kedge.checks.check import check
from kedge.checks.compare import Comparison, compare
from kedge.checks.refusal import insist
from kedge.checks.severity import STRICTNESS, Strictness
from kedge.checks.unsupported import unsupported

__all__ = [
    "STRICTNESS",
    "Comparison",
    "Known",
    "Strictness",
    "check",
    "check_change",
    "compare",
    "insist",
    "unsupported",
]
