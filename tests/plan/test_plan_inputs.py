"""What fits an input, and which inputs a step reads."""

from __future__ import annotations

import pytest

from kedge.plan.inputs import is_needed, misfit, read_by
from kedge.plan.model import Input, Plan


@pytest.mark.parametrize(
    ("kind", "value", "fault"),
    [
        ("any", object(), ""),
        ("string", "x", ""),
        ("integer", 1, ""),
        ("number", 1, ""),
        ("boolean", True, ""),
        ("array", (1,), ""),
        ("object", {}, ""),
        ("integer", True, "needs integer, got a boolean"),
        ("string", 1, "needs string, got int '1'"),
        pytest.param("string", 10**5_000, "needs string, got int that cannot be shown", id="long"),
    ],
)
def test_a_value_fits_its_type_or_is_told_why_not(kind, value, fault):
    assert misfit(Input(type=kind), value) == fault


def test_an_input_is_needed_unless_something_stands_for_it():
    assert is_needed(Input())
    assert not is_needed(Input(required=False))
    assert not is_needed(Input(default=None))


def test_a_step_reads_the_inputs_that_it_names_wherever_it_does():
    plan = Plan.parse(
        {
            "goal": "g",
            "inputs": {"x": {}, "y": {}, "z": {}},
            "steps": [
                {"id": "a", "tool": "t", "args": {"n": "${inputs.x}"}, "when": "inputs.y > 0"},
                {"id": "b", "tool": "t", "args": {"n": "${inputs}"}},
                {"id": "c", "tool": "t", "args": {"n": "${a}"}},
            ],
        }
    )
    assert [read_by(step, plan) for step in plan.steps] == [{"x", "y"}, {"x", "y", "z"}, set()]
