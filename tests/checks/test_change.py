"""A changed plan is checked as far as the change reaches, and finds what checking all of it would find."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.limits import Limits
from kedge.checks import Known, check, check_change
from kedge.plan.expr.rename import renamed_expression, renamed_template
from kedge.plan.model import Plan
from kedge.plan.tools import Catalog, ToolSpec

TOOLS = Catalog(
    [ToolSpec(name="t", effect="pure", parameters={"type": "object", "additionalProperties": True})]
)


def plan(*steps: dict[str, Any], **more: Any) -> Plan:
    return Plan.parse({"goal": "g", "steps": [{"tool": "t", **step} for step in steps], **more})


def codes(changed: Plan, *paths: str, known: dict[str, Known] | None = None, **limits: Any) -> list[str]:
    found = check_change(
        changed, paths, lambda path: (known or {}).get(path, Known(())), TOOLS, Limits(**limits)
    )
    return sorted(finding.code for finding in found.errors)


def test_a_second_fallback_is_found_whichever_of_the_two_is_new():
    both = plan({"id": "a"}, {"id": "b", "fallback_for": "a"}, {"id": "c", "fallback_for": "a"})
    assert codes(both, "c", known={"a": Known((), "b")}) == ["two_fallbacks"]
    assert codes(both, "b", known={"a": Known((), "c")}) == ["two_fallbacks"]
    assert codes(both, known={"a": Known((), "b")}) == []


def test_a_plan_too_long_for_an_excerpt_is_checked_whole():
    long = plan({"id": "a"}, {"id": "b", "after": ["a"]}, {"id": "c", "after": ["b"]})
    assert codes(long, "c", chain=2) == [
        finding.code for finding in check(long, TOOLS, limits=Limits(chain=2)).errors
    ]


@pytest.mark.parametrize("more", [{"answer": "${gone} days"}, {"outputs": {"x": "gone"}}])
def test_what_the_plan_itself_reads_is_looked_at_too(more):
    assert codes(plan({"id": "a"}, **more)) == ["unknown_reference"]
    assert codes(plan({"id": "gone"}, **more)) == []


def test_a_step_that_is_not_there_any_more_is_nothing_to_check():
    assert codes(plan({"id": "a"}), "gone") == []


def test_names_are_replaced_where_they_are_names():
    assert renamed_expression("a.b + b['a'] - len(a)", {"a": "x"}) == "x.b + b['a'] - len(x)"
    text = "${a} costs $${a} of ${b.a}${a}"
    assert renamed_template(text, {"a": "x"}) == "${x} costs $${a} of ${b.a}${x}"
