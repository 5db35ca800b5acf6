"""What a name means at a step: in its arguments, in its conditions, and where it means nothing."""

from __future__ import annotations

import pytest

from kedge.base.errors import InvalidPlan
from kedge.flow.events import StepStarted
from kedge.flow.names import resolver
from kedge.plan.expr import Absent
from kedge.testing.ring import Ring


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def group(id_, *steps, **more):
    return {"id": id_, "steps": list(steps), **more}


def ring(*steps, **plan):
    document = {
        "goal": "the goal", "context": {"who": "anna"}, "inputs": {"n": {"type": "integer"}}, "steps": steps,
    }  # fmt: skip
    return Ring({**document, **plan, "steps": list(steps)}, {"send": "effect"}, inputs={"n": 3}).start()


def test_the_plans_own_names_in_arguments():
    run = ring(step("a", args={"g": "${goal}", "c": "${context}", "i": "${inputs.n}", "all": "${inputs}"}))
    assert run.args("a") == {"g": "the goal", "c": {"who": "anna"}, "i": 3, "all": {"n": 3}}


@pytest.mark.parametrize("when", ["goal == 'the goal'", "context.who == 'anna'", "inputs.n == 3"])
def test_the_plans_own_names_in_a_condition(when):
    assert ring(step("a", when=when)).calls == ["a"]


@pytest.mark.parametrize("name", ["nonsense", "result", "item", "index", "loop", "secret"])
def test_a_name_that_means_nothing_at_a_step_is_absent(name):
    run = ring(step("a"), group("p", step("k")))
    for path in ("a", "p/k"):
        with pytest.raises(Absent, match="item" if name == "index" else name):
            resolver(run.state, run.step(path))(name)


def test_item_index_and_loop_are_looked_for_outward():
    names = {"item": "${item}", "twice": "${item * 2}", "index": "${index}", "loop": "${loop.index}"}
    run = ring(
        group("p", group("q", step("k", args=names)), foreach=[5, 6], loop={"times": 2}),
        step("e", foreach=[7], args=names, loop={"times": 2}),
    )
    run.finish("p[1]#0/q/k")
    assert run.args("p[1]#1/q/k") == {"item": 6, "twice": 12, "index": 1, "loop": 1}
    run.finish("e[0]")
    assert run.args("e[0]") == {"item": 7, "twice": 14, "index": 0, "loop": 1}


def test_the_nearest_loop_is_meant():
    args = {"i": "${loop.index}", "before": "${loop.previous}"}
    run = ring(group("p", step("k", args=args, loop={"times": 2}), loop={"times": 2}))
    run.finish("p#0/k", "x").finish("p#0/k", "y")
    assert run.args("p#1/k") == {"i": 0, "before": None}


def test_a_name_tells_why_it_is_absent():
    run = ring(
        step("a", when="false"), step("b", on_error="continue"), step("c"), step("d"),
        step("skipped", args={"x": "${a + 1}"}, join="settled"),
        step("failed", args={"x": "${b + 1}"}, join="settled"),
        step("early", args={"x": "${d + 1}"}, after=["c"], join="any"),
        step("late", args={"x": "${d + 1}"}, after=["c"], join="any"),
    )  # fmt: skip
    run.fail("b", "permanent").finish("c")
    assert "step a was skipped (condition)" in run.error("skipped").message
    assert "step b was failed;" in run.error("failed").message  # and nothing in brackets: it has no reason
    assert "step d was not finished when this one went ahead" in run.error("early").message


def test_what_was_missed_stays_absent_although_it_is_done_by_now():
    once_more = {"attempts": 2, "backoff_s": 1}
    args = {"all": "${results}", "x": "${d}", "text": "${d}, ${c}"}
    run = ring(step("c"), step("d"), step("j", args=args, after=["c"], join="any", retry=once_more))
    run.finish("c", 1).finish("d", 2).fail("j").tick(1_000)
    given = {"all": {"c": 1}, "x": None, "text": "null, 1"}
    assert [args for path, args in run.launched if path == "j"] == [given, given]


def test_items_miss_what_their_step_missed():
    once_more = {"attempts": 2, "backoff_s": 1}
    run = ring(
        step("c"), step("d"),
        step("j", foreach=[1], args={"x": "${d}"}, after=["c"], join="any", retry=once_more),
    )  # fmt: skip
    run.finish("c").finish("d", 2).fail("j[0]").tick(1_000)
    assert [args for path, args in run.launched if path == "j[0]"] == [{"x": None}, {"x": None}]


def test_what_is_absent_is_null_where_it_stands_alone_and_an_error_in_an_expression():
    run = ring(
        step("a", when="false"),
        step("b"),
        step("alone", args={"x": "${a.n}", "y": "${a} and ${b}", "z": "${b + 1}"}, join="any"),
        step("no", args={"x": "${a + 1}"}, after=["b"], join="any"),
        step("nor", args={"x": "so ${a + 1}"}, after=["b"], join="any"),
    ).finish("b", 2)
    assert run.args("alone") == {"x": None, "y": "null and 2", "z": 3}
    assert (run.status("no"), run.status("nor")) == ("failed", "failed")


def test_of_two_fallbacks_in_a_chain_the_one_that_was_done_is_read():
    run = ring(
        step("a"), step("b", fallback_for="a"), step("c", fallback_for="b"), step("d", args={"x": "${a + 1}"})
    )
    run.fail("a", "permanent").fail("b", "permanent").finish("c", 3)
    assert run.args("d") == {"x": 4}


def test_a_skipped_composite_is_null_and_one_that_failed_in_part_is_read_in_part():
    run = ring(
        group("p", step("k", when="false")),
        step("x"),
        step("after", args={"p": "${p}"}, after=["x"], join="settled"),
        group("q", group("r", step("k", when="false")), step("l")),
        step("last", args={"q": "${q}"}),
    )
    run.finish("x").finish("q/l", 1)
    assert run.args("after") == {"p": None}
    assert run.args("last") == {"q": {"r": None, "l": 1}}


def test_the_results_of_a_composite_are_in_the_order_of_their_names():
    run = ring(group("p", step("b"), step("a"), step("f", fallback_for="b")), step("c", args={"p": "${p}"}))
    run.finish("p/b", 1).finish("p/a", 2)
    assert bytes(run.of(StepStarted)[-1].args) == b'{"p":{"a":2,"b":1}}'


def test_a_large_result_is_read_within_the_turn_that_made_it_and_later():
    run = ring(
        step("a"),
        step("b"),
        step("now", args={"n": "${len(a)}"}, after=["a"]),
        step("then", args={"n": "${len(a)}", "a": "${a}"}, after=["a", "b"]),
    )
    run.finish("a", "x" * 20_000).finish("b")
    assert (run.args("now"), run.args("then")) == ({"n": 20_000}, {"n": 20_000, "a": "x" * 20_000})


def test_arguments_without_names_with_plain_ones_and_with_escaped_ones():
    args = {"s": "$${a}", "t": ["${a}", "x ${a}"], "é": '"${a}"', "n": [], "m": {}, "b": [1, {"k": "${a}"}]}
    run = ring(step("none", args={"x": 1}), step("a"), step("b", args=args), step("c", args={"x": "$${a}"}))
    run.finish("a", 7)
    assert run.args("none") == {"x": 1}
    assert run.args("c") == {"x": "${a}"}
    assert run.args("b") == {
        "s": "${a}", "t": [7, "x 7"], "é": '"7"', "n": [], "m": {}, "b": [1, {"k": 7}],
    }  # fmt: skip


def test_arguments_are_canonical_whatever_way_they_are_put_together():
    plain, mixed = {"b": "${a}", "a": "${a}"}, {"b": "${a}", "a": "${a + 0}", "c": [1, "${a}"]}
    run = ring(step("a"), step("b", args=plain), step("c", args=mixed)).finish("a", 7)
    assert [bytes(e.args) for e in run.of(StepStarted)[-2:]] == [b'{"a":7,"b":7}', b'{"a":7,"b":7,"c":[1,7]}']


@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"k": inner}], ids=["lists", "maps"])
@pytest.mark.parametrize("hole", ["${a}", "${a + 0}", "text"])
def test_arguments_as_deep_as_check_allows_can_be_given(wrap, hole):
    value, given = hole, "text" if hole == "text" else 7
    for _ in range(64):
        value, given = wrap(value), wrap(given)
    run = ring(step("a"), step("b", args={"x": value}, after=["a"])).finish("a", 7)
    assert run.args("b") == {"x": given}
    with pytest.raises(InvalidPlan, match="nested deeper than 64"):
        ring(step("a"), step("b", args={"x": wrap(value)}))
