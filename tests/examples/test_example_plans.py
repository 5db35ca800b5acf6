"""The plans in examples/: through the API, and through the command line as a user would."""

from __future__ import annotations

import json

import pytest

import kedge
from kedge.tools.load import load_tools


def tools_of(name: str) -> list[kedge.Tool]:
    return [*kedge.builtin_tools(), *load_tools(f"examples/{name}/tools.py")]


@pytest.mark.parametrize("name", ["compare", "poll"])
def test_an_example_has_nothing_to_find(here, name):
    findings = kedge.check(kedge.load(f"examples/{name}/plan.yaml"), tools_of(name), strictness="strict")
    assert findings.errors == (), str(findings)
    assert findings.warnings == (), str(findings)


def test_compare_falls_back_skips_and_writes(here):
    result = kedge.run_sync(kedge.load("examples/compare/plan.yaml"), tools=tools_of("compare"))
    assert result.ok
    assert result.outputs == {"change": 0.17, "trend": "better"}
    steps = result.steps
    assert [steps[f"read[{index}]"].status for index in range(3)] == ["done"] * 3
    assert (steps["market"].status, steps["market"].replaced_by) == ("failed", "market_guess")
    assert steps["market"].attempt == 2
    assert (steps["alarm"].status, steps["write"].status) == ("skipped", "done")
    written = here / "out" / "summary.md"
    assert written.read_text() == result.answer
    assert (result.answer or "").startswith("The tone got better (+0.50 to +0.67) over 3 reports")


def test_compare_judges_the_reports_side_by_side(here):
    result = kedge.run_sync(kedge.load("examples/compare/plan.yaml"), tools=tools_of("compare"))
    together = next(group for group in result.groups if "tone[0]" in group)
    assert {"tone[0]", "tone[1]", "tone[2]", "market"} <= set(together)
    assert result.parallel_efficiency > 0.3


def test_compare_with_other_inputs_looks_at_fewer(here):
    plan = kedge.load("examples/compare/plan.yaml")
    result = kedge.run_sync(plan, {"newest": 2}, tools=tools_of("compare"))
    assert result.ok
    assert "read[2]" not in result.steps


def test_poll_waits_until_each_job_is_ready(here):
    plan = kedge.load("examples/poll/plan.yaml")
    result = kedge.run_sync(plan, tools=tools_of("poll"), run_id="poll")
    assert result.ok, result.summary()
    small, large = result.outputs["lines"]
    assert small.startswith("small-")
    assert small.endswith("ready after 2 looks")
    assert large.endswith("ready after 4 looks")
    assert result.steps["job[1]/look"].calls == 4


def test_broken_has_the_faults_it_announces(here):
    findings = kedge.check((here / "examples/broken/plan.yaml").read_text(), kedge.builtin_tools())
    announced = """unknown_tool unknown_argument missing_argument unknown_after wrong_key cycle
        reference_type"""
    assert [finding.code for finding in findings.errors] == announced.split()
    assert all(finding.remedy for finding in findings)


COMPARE = ("-m", "kedge", "run", "examples/compare/plan.yaml", "--tools", "examples/compare/tools.py")


def test_the_command_line_runs_compare_shows_it_and_runs_it_only_once(python, here):
    ran = python(*COMPARE, "--run", "demo")
    assert ran.returncode == 0, ran.stderr
    assert "100 %" in ran.stdout
    assert "The tone got better" in ran.stdout
    shown = python("-m", "kedge", "show", "demo", "--timeline")
    assert shown.returncode == 0, shown.stderr
    assert "market_guess" in shown.stdout
    (here / "out" / "summary.md").unlink()
    again = python(*COMPARE, "--run", "demo", "--json")
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["outputs"]["trend"] == "better"
    assert not (here / "out" / "summary.md").exists(), "a finished step ran again"


def test_the_command_line_refuses_broken_and_names_every_fault(python):
    checked = python("-m", "kedge", "check", "examples/broken/plan.yaml")
    assert checked.returncode == 2
    for code in ("unknown_tool", "missing_argument", "unknown_after", "cycle"):
        assert f"[{code}]" in checked.stdout + checked.stderr
