"""What a run was expected to take, and what it took."""

from __future__ import annotations

from kedge.flow import inputs as inp
from kedge.flow.usage import Usage
from kedge.plan.patch import Patch
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, **plan):
    return Ring({"goal": "g", "steps": list(steps), **plan}).start()


def test_each_finished_step_and_each_version_against_its_estimate():
    run = ring(
        step("a", estimate={"seconds": 2, "cost": 1, "tokens": 10}),
        step("b", args={"x": "${a}"}, estimate={"seconds": 3}),
        step("c"),
    )
    run.tick(1_000).put(inp.Used("a", Usage(cost=0.5, tokens=20))).finish("a")
    patch = Patch(base=1, change={"c": {"do": "otherwise"}}, why="better")
    run.send("edit", patch=patch, by="anna")
    run.tick(4_000).put(inp.Used("b", Usage(cost=0.25))).finish("b").finish("c")
    found = run.crash().result.estimates
    assert [(one.path, one.version, one.estimated_s, one.seconds) for one in found.steps] == [
        ("a", 1, 2.0, 1.0), ("b", 2, 3.0, 4.0), ("c", 2, None, 5.0),
    ]  # fmt: skip
    assert [(one.estimated_cost, one.cost, one.estimated_tokens, one.tokens) for one in found.steps] == [
        (1.0, 0.5, 10, 20), (None, 0.25, None, 0), (None, 0.0, None, 0),
    ]  # fmt: skip
    first, second = found.versions
    assert (first.version, first.cause, first.steps, first.seconds) == (1, "start", 1, 1.0)
    assert (first.estimated_s, first.without_estimate) == (5.0, 1)
    assert (first.estimated_cost, first.cost, first.estimated_tokens, first.tokens) == (1.0, 0.5, 10, 20)
    assert (second.version, second.cause, second.steps, second.seconds) == (2, "edit", 2, 4.0)
    assert (second.estimated_cost, second.cost, second.tokens) == (1.0, 0.25, 0)


def test_what_only_holds_others_is_not_counted_twice():
    inner = [step("x", estimate={"seconds": 1, "cost": 2})]
    run = ring({"id": "a", "steps": inner}, step("b", foreach=[1, 2], estimate={"cost": 1}))
    run.finish("a/x").finish("b[0]").finish("b[1]")
    found = run.result.estimates
    assert [one.path for one in found.steps] == ["a/x", "b[0]", "b[1]"]
    assert found.versions[0].estimated_cost == 4.0


def test_the_time_in_which_a_run_had_ended_is_nobodys():
    run = ring(step("a")).tick(1_000).fail("a", "permanent")
    run.now_ms += 3_600_000
    run.resume(retry_failed=True).tick(1_000).finish("a")
    assert run.result.estimates.versions[0].seconds == 2.0


def test_a_run_that_goes_on_is_told_up_to_now():
    run = ring(step("a"), step("b")).finish("a").tick(500).fail("b", "transient")
    assert run.result.estimates.versions[0].steps == 2
    assert ring(step("a")).result.estimates.steps == ()
