"""compare: differences by step id, scores, and which plan is better."""

import json
from typing import Any

import pytest

from kedge.checks import compare
from kedge.plan.model import Plan, Retry, Step


def step(name, **fields):
    return {"id": name, "tool": "anything", **fields}


def group(name, *steps, **fields):
    return {"id": name, "steps": list(steps), **fields}


def plan(*steps, **fields):
    return Plan.parse({"goal": "g", "steps": list(steps), **fields})


def test_a_plan_is_the_same_as_itself():
    one = plan(step("a"), step("b", after=["a"]))
    found = compare(one, one)
    assert found.same
    assert found.better == "neither"
    assert "the plans are the same" in str(found)


def test_the_order_in_the_document_is_no_difference():
    assert compare(plan(step("a"), step("b", after=["a"])), plan(step("b", after=["a"]), step("a"))).same


def test_added_removed_changed_and_rewired_steps_are_told_by_id():
    one = plan(step("a"), step("b", args={"x": 1}), step("c", args={"x": "${a}"}), group("o", step("i")))
    other = plan(
        step("a"),
        step("b", args={"x": 2}, do="more"),
        step("c", args={"x": "${b}"}),
        group("o", step("j", after=["a"])),
        step("n"),
    )
    found = compare(one, other)
    assert found.added == ("o/j", "n")
    assert found.removed == ("o/i",)
    assert {change.step: [one.field for one in change.fields] for change in found.changed} == {
        "b": ["do", "args"],
        "c": ["args"],
    }
    assert [(one.step, one.gained, one.lost) for one in found.rewired] == [("c", ("b",), ("a",))]
    assert found.plan == ()
    text = str(found)
    for line in ("+ o/j", "- o/i", '~ b args: {"x":1} -> {"x":2}', "> c now after b, no longer after a"):
        assert line in text


def test_a_plan_made_with_lists_is_the_one_that_is_read_back():
    lists: Any = ["gpu"], ["timeout"]
    steps: Any = [Step(id="a", tool="anything", resources=lists[0], retry=Retry(on=lists[1]))]
    made = Plan(goal="g", steps=steps)
    assert compare(made, Plan.parse(made.dump())).same


def test_after_alone_rewires():
    found = compare(plan(step("a"), step("b")), plan(step("a"), step("b", after=["a"])))
    assert found.changed == ()
    assert [(one.step, one.gained) for one in found.rewired] == [("b", ("a",))]


def test_fields_of_the_plan_are_compared():
    found = compare(plan(step("a")), plan(step("a"), outputs={"x": "a"}, inputs={"n": {"default": 1}}))
    assert [change.field for change in found.plan] == ["inputs", "outputs"]


def test_the_comparison_is_plain_data():
    found = compare(
        plan(step("a", loop={"times": 2})), plan(step("a", loop={"times": 3}, retry={"attempts": 2}))
    )
    data = found.to_dict()
    assert json.loads(json.dumps(data)) is not None
    assert data["changed"][0]["fields"][0] == {"field": "loop", "before": {"times": 2}, "after": {"times": 3}}


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (
            plan(step("a"), step("b", after=["a"]), step("c", after=["a"])),
            {"steps": 3, "depth": 2, "width": 2, "critical_path_s": 2, "work_s": 3},
        ),
        (
            plan(step("a", estimate={"seconds": 5, "cost": 2}), step("b", estimate={"cost": 1})),
            {"critical_path_s": 5, "work_s": 6, "cost": 3, "width": 2},
        ),
        (plan(step("a", loop={"times": 3})), {"critical_path_s": 3, "work_s": 3}),
        (plan(step("a", loop={"times": 3, "until": "loop.previous > 1"})), {"critical_path_s": 1}),
        (
            plan(group("o", step("a"), step("b", after=["a"]), loop={"times": 2}), step("c", after=["o"])),
            {"critical_path_s": 5, "steps": 3, "nesting": 1, "depth": 3},
        ),
        (
            plan(step("a"), step("f", fallback_for="a"), step("b", after=["a"])),
            {"critical_path_s": 2, "steps": 3},
        ),
        (plan(group("o", step("a"), loop={"times": 5})), {"critical_path_s": 5, "work_s": 5}),
        (plan(step("a", loop={"times": 3, "delay_s": 10})), {"critical_path_s": 23, "work_s": 3}),
        (plan(step("a", foreach=[1, 2, 3, 4])), {"critical_path_s": 1, "work_s": 4}),
        (plan(step("a", foreach=[])), {"critical_path_s": 0, "work_s": 0}),
        (
            plan(
                group("o", step("a", foreach=[1, 2], estimate={"cost": 3}), loop={"times": 5}),
                step("f", fallback_for="o", estimate={"cost": 100}),
            ),
            {"cost": 30},
        ),
        (
            plan({"id": "a", "tool": "sleep", "args": {"seconds": 5}, "loop": {"times": 10}}),
            {"critical_path_s": 50},
        ),
        (plan(step("a", complexity=4), step("b")), {"complexity": 5}),
        (plan(), {"steps": 0, "depth": 0, "width": 0, "critical_path_s": 0}),
    ],
)
def test_scores_come_from_shape_and_estimates(made, expected):
    score = compare(made, made).a
    assert {name: getattr(score, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("one", "other", "better", "because"),
    [
        (plan(step("a", after=["zzz"])), plan(step("a"), step("b", after=["a"])), "b", "errors"),
        (plan(step("a"), step("b")), plan(step("a"), step("b", after=["a"])), "a", "1 s instead of 2 s"),
        (plan(step("a", estimate={"cost": 3})), plan(step("a")), "b", "costs less"),
        (plan(step("a", complexity=2)), plan(step("a", complexity=3)), "a", "less complex"),
        (plan(step("a", complexity=2)), plan(step("a"), step("b")), "a", "fewer steps"),
        (plan(step("a")), plan(step("b")), "neither", "the same"),
        (
            plan(step("a", estimate={"seconds": 100})),
            plan(step("a", estimate={"seconds": 100.5})),
            "neither",
            "the same",
        ),
    ],
)
def test_the_first_difference_that_matters_says_which_is_better(one, other, better, because):
    found = compare(one, other)
    assert (found.better, because in found.because) == (better, True), found.because
    back = compare(other, one).better
    assert back == {"a": "b", "b": "a", "neither": "neither"}[better]
    assert found.because in str(found)


def test_with_a_catalog_faults_with_tools_count(catalog):
    one, other = plan(step("a") | {"tool": "nobody"}), plan(step("a"), step("b", after=["a"]))
    assert compare(one, other).better == "a"
    assert compare(one, other, catalog).better == "b"


def test_plans_with_cycles_can_be_compared():
    found = compare(plan(step("a", after=["a"])), plan(step("a")))
    assert found.better == "b"
    assert found.a.critical_path_s == 0
