"""What a step reads, whom it means, and in which order things can happen."""

import gc
import time
import weakref

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.plan.model import Step
from kedge.plan.read import parse_plan
from kedge.plan.scopes import Moments, Scopes
from kedge.plan.uses import references, uses


def scopes_of(*steps):
    return Scopes(parse_plan({"goal": "g", "steps": list(steps)}).steps)


def leaf(name, **fields):
    return {"id": name, "tool": "t", **fields}


def needs(scopes):
    return {node.path: [need.path for need in node.needs] for node in scopes.nodes}


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"args": {"x": "${a}"}}, ("a",)),
        ({"args": {"x": "${a.b[0].c}"}}, ("a",)),
        ({"args": {"x": "from ${a} to ${b + c}"}}, ("a", "b", "c")),
        ({"args": {"x": [{"y": ["${a}"]}, {"z": {"q": "${b}"}}]}}, ("a", "b")),
        ({"args": {"x": "$${a} is text"}}, ()),
        ({"args": {"x": 1, "y": "plain", "z": None}}, ()),
        ({"when": "a.score > 0.5 and present(b)"}, ("a", "b")),
        ({"foreach": "${a.files[:2]}"}, ("a",)),
        ({"foreach": [1, "${a}"]}, ("a",)),
        ({"loop": {"times": 2, "until": "a > loop.index"}}, ("a",)),
        ({"expect": "result == a and s"}, ("a",)),
        ({"compensate": {"tool": "u", "args": {"id": "${s.id}", "x": "${a}"}}}, ("a",)),
        ({"approval": {"ask": "Publish ${a}?"}}, ("a",)),
        ({"args": {"x": "${inputs.a} ${context.b} ${goal} ${item} ${index} ${loop.index} ${secret.K}"}}, ()),
        ({"args": {"x": "${a +"}}, ()),
    ],
)
def test_references_are_the_steps_that_are_read(fields, expected):
    assert set(references(Step(**parsed(leaf("s", **fields))))) == set(expected)


def parsed(document):
    step = parse_plan({"goal": "g", "steps": [document]}).steps[0]
    return {name: getattr(step, name) for name in step.__struct_fields__}


def test_uses_know_where_they_stand():
    step = parse_plan(
        {
            "goal": "g",
            "steps": [
                leaf(
                    "s",
                    args={"a b": ["${x}"], "y": {"z": "t ${y}"}},
                    when="w",
                    loop={"times": 1, "until": "u"},
                )
            ],
        }
    ).steps[0]
    found = [(use.field, use.place, str(use.path)) for use in uses(step)]
    assert found == [
        ("args", 'args["a b"][0]', "x"),
        ("args", "args.y.z", "None"),
        ("when", "when", "w"),
        ("until", "loop.until", "u"),
    ]


def test_values_that_share_parts_do_not_take_for_ever(monkeypatch):
    monkeypatch.setattr("kedge.plan.uses._VALUES_MAX", 10_000)
    value = ["${a}"]
    for _ in range(60):
        value = [value, value]
    step = Step(id="s", tool="t", args={"x": value})
    begun = time.perf_counter()
    assert references(step) == ("a",)
    assert time.perf_counter() - begun < 1


def test_names_are_looked_up_outward():
    found = scopes_of(
        leaf("a"),
        {
            "id": "o",
            "steps": [
                leaf("b", args={"x": "${a}", "y": "${c}"}),
                leaf("c"),
                {"id": "p", "steps": [leaf("d", args={"x": "${c} ${a} ${b}"})]},
            ],
        },
        leaf("c"),
    )
    assert needs(found)["o/b"] == ["a", "o/c"]
    assert needs(found)["o/p/d"] == ["o/c", "a", "o/b"]


def test_after_and_references_are_one_set_of_needs():
    assert needs(scopes_of(leaf("a"), leaf("b"), leaf("c", after=["b", "a"], args={"x": "${a}"})))["c"] == [
        "b",
        "a",
    ]


def test_its_own_name_in_expect_and_compensate_is_no_need():
    found = scopes_of(
        leaf("a", expect="a.ok and result.ok", compensate={"tool": "u", "args": {"id": "${a.id}"}})
    )
    assert needs(found)["a"] == []
    assert needs(scopes_of(leaf("a", args={"x": "${a}"})))["a"] == ["a"]


def test_a_fallback_waits_for_its_target_in_its_own_way():
    found = scopes_of(leaf("a"), leaf("f", fallback_for="a"), leaf("z", args={"x": "${a}"}))
    a, f, z = found.nodes
    assert (f.fallback_for, a.fallback) == (a, f)
    assert f.needs == ()
    moments = Moments(found.nodes)
    order, stuck = moments.order()
    assert not stuck
    assert order.index(a.number) < order.index(f.number) < order.index(z.number)


def test_places_lead_back_to_the_document():
    document = {"goal": "g", "steps": [leaf("a"), {"id": "o", "steps": [leaf("b"), leaf("c")]}]}
    found = Scopes(parse_plan(document).steps)
    assert [(node.path, node.place) for node in found.nodes] == [
        ("a", "steps[0]"),
        ("o", "steps[1]"),
        ("o/b", "steps[1].steps[0]"),
        ("o/c", "steps[1].steps[1]"),
    ]


@given(st.data())
def test_every_order_respects_every_need(data):
    count = data.draw(st.integers(1, 12))
    edges = data.draw(st.sets(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=20))
    found = scopes_of(
        *(leaf(f"s{n}", after=[f"s{b}" for a, b in sorted(edges) if a == n]) for n in range(count))
    )
    order, stuck = Moments(found.nodes).order()
    position = {moment: index for index, moment in enumerate(order)}
    assert sorted(order + stuck) == list(range(count))
    for a, b in edges:
        assert a in stuck or position[b] < position[a]
    ahead = {n: {b for a, b in edges if a == n} for n in range(count)}
    for _ in range(count):
        ahead = {n: ahead[n].union(*(ahead[m] for m in ahead[n])) for n in ahead}
    on_cycle = {n for n in ahead if n in ahead[n]}
    assert set(stuck) == {n for n in ahead if n in on_cycle or ahead[n] & on_cycle}


@pytest.mark.parametrize("fields", [{"when": "a >"}, {"args": {"x": "${a >}"}}, {"expect": "\u202e"}])
def test_a_wrong_expression_is_not_kept_when_its_plan_is_gone(fields):
    scopes = scopes_of(leaf("s", **fields))
    assert scopes.nodes[0].uses[0].error is not None
    gone = weakref.ref(scopes)
    del scopes
    gc.collect()
    assert gone() is None
