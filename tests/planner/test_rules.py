"""Repairs by rules: each rule at work in a run, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import kedge
from kedge.testing import run_virtually


def play(plan: dict[str, Any], *tools: Any, **more: Any) -> kedge.RunResult:
    async def main():
        async with kedge.Engine(tools, planner=kedge.RulePlanner(), **more) as engine:
            return await (await engine.start(kedge.Plan.parse({"goal": "g", **plan}))).result()

    return run_virtually(main())


def step(id_, tool, **more):
    return {"id": id_, "tool": tool, **more}


@kedge.tool(effect="pure")
async def keep(x: object = None) -> object:
    """Give back what came."""
    return x


# --- other arguments


@kedge.tool(effect="read")
async def small(size: int, name: str = "n") -> str:
    """Take small sizes only."""
    if size > 10:
        raise kedge.ToolError("too large", "invalid_input", try_args={"size": 10})
    return f"{name}{size}"


def test_arguments_that_the_tool_offers_are_tried():
    steps = [step("a", "small", args={"size": 99, "name": "x"}), step("b", "keep", args={"x": "${a}"})]
    result = play({"steps": steps}, small, keep)
    assert result.ok
    assert result.steps["b"].result == "x10"
    assert result.versions[1].by == "rules"
    assert "offers other arguments (size)" in result.versions[1].why


@kedge.tool(effect="read")
async def sly(text: str) -> str:
    """Offer a template."""
    raise kedge.ToolError("no", try_args={"text": ["${inputs.key}"]})


def test_what_a_tool_offers_is_never_a_template():
    result = play({"inputs": {"key": {"default": "k"}}, "steps": [step("a", "sly", args={"text": "x"})]}, sly)
    assert result.status == "failed"
    assert result.repairs[0].refusals[0].code == "no_patch"


@kedge.tool(effect="read")
async def stubborn(n: int) -> str:
    """Offer the same again and again."""
    raise kedge.ToolError("no", try_args={"n": 1})


def test_an_offer_that_does_not_help_is_not_tried_twice():
    result = play({"steps": [step("a", "stubborn", args={"n": 5})]}, stubborn)
    assert result.status == "failed"
    assert [one.outcome for one in result.repairs] == ["adopted", "given_up"]
    assert result.repairs[1].refusals[0].code == "repair_repeats"


def test_offers_that_cannot_be_stored_are_said_to_be_left_out():
    @kedge.tool(effect="read")
    async def odd(size: int) -> str:
        raise kedge.ToolError("no", try_args={"x": "y" * size if size else object()})

    for size, why in ((9_000, "too large"), (0, "cannot be stored")):
        result = play({"steps": [step("a", "odd", args={"size": size})]}, odd)
        error = result.steps["a"].error
        assert error is not None
        assert why in error.remedy
        assert error.try_args == {}


# --- less at once

SENT: list[list[int]] = []


@kedge.tool(effect="effect")
async def send(ids: list[int], to: str = "") -> int:
    """Take three at once."""
    if len(ids) > 3:
        raise kedge.NotDone("too many", at_most={"ids": 3})
    SENT.append(ids)
    return len(ids)


def test_a_list_is_given_in_parts():
    SENT.clear()
    document = {
        "steps": [
            step("found", "keep", args={"x": {"ids": [1, 2, 3, 4, 5, 6, 7]}}),
            step("s", "send", args={"ids": "${found.ids}", "to": "anna"}),
            step("z", "keep", after=["s"]),
        ]
    }
    result = play(document, keep, send)
    assert result.ok
    assert sorted(SENT) == [[1, 2, 3], [4, 5, 6], [7]]
    assert result.steps["s"].result == [3, 3, 1]


def test_a_list_written_in_the_plan_is_cut_too():
    SENT.clear()
    assert play({"steps": [step("s", "send", args={"ids": [1, 2, 3, 4]})]}, send).ok
    assert sorted(SENT) == [[1, 2, 3], [4]]


def test_a_list_is_not_cut_where_the_result_is_read():
    sent = step("s", "send", args={"ids": [1, 2, 3, 4]})
    for reader in (
        step("z", "keep", args={"x": "${s}"}),
        step("z", "keep", after=["s"], args={"x": "${results}"}),
    ):
        assert play({"steps": [sent, reader]}, send, keep).status == "failed"
    assert play({"steps": [sent], "outputs": {"n": "s"}}, send).status == "failed"
    assert play({"steps": [sent], "answer": "${s}"}, send).status == "failed"


@kedge.tool(effect="effect")
async def unsure(ids: list[int]) -> int:
    """Say what it takes, and not that nothing happened."""
    raise kedge.ToolError("too many", at_most={"ids": 1})


def test_a_list_is_not_cut_where_part_of_it_may_have_happened():
    assert play({"steps": [step("s", "unsure", args={"ids": [1, 2]})]}, unsure).status == "failed"


def test_a_list_that_nobody_knows_how_to_cut():
    cut = "${inputs.ids if true else inputs.ids}"
    document = {"inputs": {"ids": {"default": [1, 2, 3, 4]}}, "steps": [step("s", "send", args={"ids": cut})]}
    assert play(document, send).status == "failed"


# --- another tool


@kedge.tool(effect="read", substitutes=("nowhere", "stronger", "other", "spare"))
async def broken(place: str) -> str:
    """Never work."""
    raise kedge.ToolError("down")


@kedge.tool(effect="effect")
async def stronger(place: str) -> str:
    """Do more than look."""
    raise AssertionError("never called")


@kedge.tool(effect="read")
async def other(city: str) -> str:
    """Take something else."""
    raise AssertionError("never called")


@kedge.tool(effect="pure")
async def spare(place: str, deep: int = 0) -> str:
    """Stand in."""
    return f"spare {place}"


def test_a_tool_that_stands_in_is_called():
    steps = [step("a", "broken", args={"place": "x"}), step("b", "keep", args={"x": "${a}"})]
    result = play({"steps": steps}, broken, stronger, other, spare, keep)
    assert result.steps["b"].result == "spare x"
    assert "spare stands in for broken" in result.versions[1].why


def test_without_a_tool_that_stands_in_the_failure_stands():
    steps = [step("a", "broken", args={"place": "x"})]
    assert play({"steps": steps}, broken, stronger, other).status == "failed"


def test_a_person_is_asked_when_no_rule_fits():
    result = play({"steps": [step("a", "broken", args={"place": "x"}, on_error="ask")]}, broken)
    assert result.status == "waiting"
    assert result.questions["q1"].reason == "failed"


def test_several_failures_are_mended_in_one_patch():
    steps = [step(f"s{n}", "broken", args={"place": str(n)}) for n in range(8)]
    result = play({"steps": steps}, broken, spare)
    assert result.ok
    assert len(result.repairs) <= 2


def test_a_child_of_a_composite_is_mended():
    steps = [{"id": "o", "steps": [step("i", "broken", args={"place": "x"})]}]
    result = play({"steps": steps}, broken, spare)
    assert result.steps["o"].result == {"i": "spare x"}


def test_a_child_of_an_item_is_left_alone():
    steps = [{"id": "o", "foreach": [1], "steps": [step("i", "broken", args={"place": "x"})]}]
    assert play({"steps": steps}, broken, spare).status == "failed"


def test_the_items_of_a_foreach_call_the_tool_that_stands_in():
    result = play(
        {"steps": [step("a", "broken", foreach=["x", "y"], args={"place": "${item}"})]}, broken, spare
    )
    assert result.steps["a"].result == ["spare x", "spare y"]


# --- without it


@kedge.tool(effect="read")
async def down() -> str:
    """Never work."""
    raise kedge.ToolError("down")


def test_what_only_optional_steps_need_is_gone_without():
    steps = [step("a", "down"), step("b", "keep", args={"x": "${a}"}, on_error="continue"), step("c", "keep")]
    result = play({"steps": steps}, down, keep)
    assert result.ok
    assert {path: str(one.status) for path, one in result.steps.items()} == {
        "a": "failed", "b": "skipped", "c": "done",
    }  # fmt: skip
    assert play({"steps": steps, "outputs": {"a": "a"}}, down, keep).status == "failed"
    assert play({"steps": steps[:1]}, down).status == "failed"


def test_a_discovery_is_beyond_rules():
    @kedge.tool(effect="read")
    async def scout(ctx: kedge.Context) -> str:
        ctx.discover("xml", "parse xml")
        return "x"

    async def main():
        async with kedge.Engine([scout], planner=kedge.RulePlanner()) as engine:
            run = await engine.start(kedge.Plan.parse({"goal": "g", "steps": [step("a", "scout")]}))
            return await run.result()

    result = run_virtually(main())
    assert result.ok
    assert [one.outcome for one in result.repairs] == ["given_up"]
