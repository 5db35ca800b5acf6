"""check: all that is wrong with a plan, in one report."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from kedge.base.errors import BadInput, InvalidPlan
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.checks import rules_conditions, rules_graph, rules_names, rules_output, rules_plan, rules_tools
from kedge.checks.severity import Strictness, checked, weighed
from kedge.checks.survey import Rule, Survey
from kedge.plan.document import to_plan, too_many_steps
from kedge.plan.findings import Finding, Findings
from kedge.plan.model import Plan
from kedge.plan.structure import explain, is_sound
from kedge.plan.tools import Catalog
from kedge.plan.write import NOT_JSON

RULES: tuple[Rule, ...] = (
    rules_plan.emptiness,
    rules_plan.sizes,
    rules_plan.plan_limits,
    rules_plan.inputs,
    rules_plan.values,
    rules_plan.waits,
    rules_plan.outputs,
    rules_output.unapplied,
    rules_names.expressions,
    rules_names.references,
    rules_names.afters,
    rules_names.paths,
    rules_names.fallback_reads,
    rules_names.shadowed,
    rules_conditions.conditions,
    rules_conditions.items,
    rules_tools.unknown_tools,
    rules_tools.arguments,
    rules_tools.patterns,
    rules_tools.compensation,
    rules_tools.retries,
    rules_graph.fallbacks,
    rules_graph.cycles,
    rules_graph.chain,
    rules_graph.unreachable,
)
"""Every rule. None depends on another, and none stops another."""


def check(
    plan: Plan | str | bytes | dict[str, Any],
    catalog: Catalog | None = None,
    strictness: Strictness = "moderate",
    limits: Limits = DEFAULT_LIMITS,
) -> Findings:
    """All faults of a plan or of a document that should be one. Never raises for what is in it.

    Without a catalog nothing is said about tools. Strictness moves severities, not findings.
    """
    strictness = checked(strictness)
    if not isinstance(plan, Plan):
        try:
            plan = to_plan(Plan, plan, limits)
        except BadInput as error:
            if isinstance(error, InvalidPlan) and isinstance(error.findings, Findings):
                return error.findings
            return Findings([Finding(code=error.code, message=error.message, remedy=error.remedy)])
    else:
        broken = _shape(plan, limits)
        if broken:
            return Findings(broken)
    survey = Survey(plan, catalog, limits)
    found = [weighed(finding, strictness) for rule in RULES for finding in rule(survey)]
    return Findings(_in_order(found, survey))


def _shape(plan: Plan, limits: Limits) -> list[Finding]:
    """What is wrong with the shape of a plan that was made in Python, where nothing checks types."""
    if not isinstance(plan.steps, list | tuple):
        return explain({"goal": plan.goal, "steps": plan.steps}, Plan, limits)
    if len(plan.steps) > limits.steps:
        return [too_many_steps(limits)]
    try:
        data = msgspec.to_builtins(plan, builtin_types=NOT_JSON, enc_hook=_stands_for)
    except RecursionError:
        message = f"the plan is nested deeper than {limits.depth}, or contains itself"
        return [Finding(code="too_deep", message=message, remedy="flatten it")]
    except (TypeError, ValueError):
        message = "the plan holds what is neither data nor a part of a plan"
        remedy = "use numbers, text, true/false, null, lists and maps"
        return [Finding(code="not_serializable", message=message, remedy=remedy)]
    with suppress(TypeError, ValueError, RecursionError):
        if is_sound(msgspec.convert(data, Plan)):
            return []
    return explain(data, Plan, limits)


def _stands_for(value: object) -> Any:
    """What stands for an object that no plan can hold. It fits no field; among values a rule finds it."""
    return {"not data": type(value).__name__}


def _in_order(found: list[Finding], survey: Survey) -> list[Finding]:
    """In document order; what is said of the plan itself first."""
    if not found:
        return found
    numbers = {node.path: node.number for node in survey.nodes}
    return sorted(found, key=lambda finding: numbers.get(finding.step, -1))
