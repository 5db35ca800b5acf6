"""What the language has and no engine acts on yet: a plan that needs it is refused, not half run."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kedge.checks.survey import finding
from kedge.plan.findings import Finding, Findings
from kedge.plan.model import Plan
from kedge.plan.parts import LATER_FIELDS
from kedge.plan.scopes import Node, Scopes

_EMPTY = (None, False)
_encode = msgspec.json.Encoder().encode


def unsupported(plan: Plan) -> Findings:
    """Everything in the plan that is checked and cannot be run yet."""
    if not _may_need(plan):
        return Findings()
    return Findings(found for node in Scopes(plan.steps).nodes for found in _in_step(node))


def _may_need(plan: Plan) -> bool:
    """False if a look at each step is enough: then the plan's references need not be looked at."""
    todo = list(plan.steps)
    while todo:
        step = todo.pop()
        if any(getattr(step, field) not in _EMPTY for field in LATER_FIELDS):
            return True
        todo.extend(step.steps or ())
    return b"secret" in _encode(plan)


def _in_step(node: Node) -> Iterator[Finding]:
    step = node.step
    for field in LATER_FIELDS:
        if getattr(step, field) not in _EMPTY:
            yield _later(node, field, field, f"`{field}` cannot be run yet")
    for use in node.uses:
        if any(path.root == "secret" for path in use.paths):
            yield _later(node, use.place, "secret", "secrets cannot be read yet")


def _later(node: Node, field: str, name: str, message: str) -> Finding:
    return finding(
        node,
        "not_supported_yet",
        field,
        message,
        names=(name,),
        remedy="take it out to run the plan with this version",
    )
