"""What the README promises, as a user would find it out. Each is tested in depth where it is made."""

from __future__ import annotations

import os

import pytest
from click.testing import CliRunner

import kedge
from kedge.surface.cli.app import app


@kedge.tool(effect="pure")
def double(x: int) -> int:
    """Double a number."""
    return 2 * x


PLAN = kedge.Plan.parse(
    """
    goal: Double some numbers
    steps:
      - {id: each, tool: double, foreach: [1, 2, 3], args: {x: "${item}"}}
      - {id: never, tool: double, when: "len(each) > 9", args: {x: 0}}
      - {id: down, tool: fail, args: {message: no}, on_error: continue}
    """
)


async def test_promise_a_runs_state_is_what_its_log_says(tmp_path):
    def told(result: kedge.RunResult) -> dict:
        steps = {path: (step.status, step.attempt, step.result) for path, step in result.steps.items()}
        return {"status": result.status, "outputs": result.outputs, "counts": result.counts, "steps": steps}

    tools = [double, *kedge.builtin_tools()]
    async with kedge.Engine(tools, store=tmp_path / "kedge.db") as engine:
        run = await engine.start(PLAN, run_id="one")
        live = told(await run.result())
    assert live["status"] == "done"
    async with kedge.Engine(tools, store=tmp_path / "kedge.db") as engine:
        assert told(engine.look("one")) == live


def test_promise_a_plan_of_which_nothing_was_done_is_no_success(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("KEDGE_")]:
        monkeypatch.delenv(name)  # settings of whoever runs the tests
    skipped = "{id: a, tool: sleep, args: {seconds: 0}, when: inputs.go}"
    text = "goal: Do nothing\ninputs: {go: {default: false}}\nsteps: [%s]\n"
    (tmp_path / "plan.yaml").write_text(text % skipped)
    done = CliRunner().invoke(app, ["run", "plan.yaml"])
    assert done.exit_code == 1, done.output
    assert "every step was skipped" in done.output


@pytest.mark.parametrize("later", ["speculate: true"])
async def test_promise_what_cannot_be_run_yet_is_refused_before_anything_starts(later):
    plan = kedge.Plan.parse(f"goal: g\nsteps: [{{id: a, tool: double, args: {{x: 1}}, {later}}}]")
    async with kedge.Engine([double]) as engine:
        with pytest.raises(kedge.InvalidPlan) as refused:
            await engine.start(plan)
        assert engine.runs() == []
    assert isinstance(refused.value.findings, kedge.Findings)
    assert [finding.code for finding in refused.value.findings] == ["not_supported_yet"]
