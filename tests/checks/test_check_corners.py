"""The corners of the rules: schemas of every shape, names that lead to one of many, fallbacks in a ring.

Each is checked with its tools and without: what is said without is never more.
"""

from __future__ import annotations

from typing import Any

import pytest

from kedge.checks import check
from kedge.checks.schemas import Whole, misfit
from kedge.plan.model import Plan, Step
from kedge.plan.tools import Catalog, ToolSpec


def plan(*steps, **fields):
    return {"goal": "g", "steps": list(steps), **fields}


def step(name="a", tool="anything", **fields):
    return {"id": name, "tool": tool, **fields}


LS = step("ls", "files.list", args={"path": "."})


def of(name: str, params: Any = None, returns: Any = None) -> ToolSpec:
    return ToolSpec(name=name, effect="pure", parameters=params or {"type": "object"}, returns=returns)


KIDS = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}

MORE = [
    of("dashed", None, {"type": "object", "properties": {"a-b": {}}, "additionalProperties": False}),
    of("tree", KIDS, KIDS),
    of(
        "some",
        {
            "type": "object",
            "properties": {"x": {"type": "object", "properties": {"other": {"type": "integer"}}}},
        },
    ),
    of("addl", {"type": "object", "additionalProperties": {"type": "integer"}}),
    of(
        "prefix",
        {
            "type": "object",
            "properties": {
                "x": {"type": "array", "prefixItems": [{"type": "integer"}]},
                "y": {"type": "array", "items": True},
            },
        },
    ),
    of(
        "num",
        {
            "type": "object",
            "properties": {
                "x": {"type": "number"},
                "f": {"type": "boolean"},
                "l": {"type": "array", "items": {"type": "integer"}},
                "m": {"type": "array", "items": {"type": "object"}},
            },
        },
    ),
    of(
        "arr",
        {
            "type": "object",
            "properties": {"x": {"type": "array", "items": {"type": "array", "items": {"type": "integer"}}}},
        },
        {"type": "array", "items": {"type": "array", "items": {"type": "string"}}},
    ),
    of(
        "any_of",
        {
            "type": "object",
            "properties": {
                "x": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}]}
            },
        },
        {"type": ["integer", "null"]},
    ),
    of("two", None, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array"}]}),
    of(
        "needs",
        {
            "type": "object",
            "properties": {
                "x": {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}
            },
        },
        {"type": "object", "properties": {"j": {"type": "string"}}, "additionalProperties": False},
    ),
    of(
        "wants",
        {"type": "object", "properties": {"x": {"type": "object", "properties": {"j": {"type": "integer"}}}}},
    ),
    of(
        "tuple",
        {"type": "object", "properties": {"x": {"type": ("integer", "string")}}},
        {"type": ("integer", "string")},
    ),
    of("konst", None, {"const": 5}),
    of("item", {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "integer"}}}}),
]
"""Tools with the schemas that people write, beside those of the other tests."""

CASES: dict[str, tuple[dict[str, Any], list[tuple[str, str]]]] = {
    "list and map": (
        plan(LS, step("b", when="len([1, ls]) == 1 and len({'k': ls}) > 0 and -ls.files[0].size < 0")),
        [],
    ),
    "negate map": (plan(LS, step("b", when="-ls == 1")), [("condition_types", "steps[1].when")]),
    "slice": (
        plan(
            LS,
            step("b", when="ls.files[0:1].x == 1 and [1][0] == 1 and ls.files[len(ls.files) - 1].size > 1"),
        ),
        [],
    ),
    "unlike": (
        plan(LS, step("b", when="ls.files[0].size + ls.files[0].path == 1")),
        [("condition_types", "steps[1].when")],
    ),
    "unlike-": (plan(LS, step("b", when="ls.files - 1 == 1")), [("condition_types", "steps[1].when")]),
    "cond": (plan(LS, step("b", when="true if ls.files[0].size > 1 else ls.files")), []),
    "addl": (plan(step("a", "addl", args={"k": "x"})), [("wrong_argument", "steps[0].args.k")]),
    "prefix": (
        plan(step("a", "prefix", args={"x": ["s", 2], "y": [1]})),
        [("wrong_argument", "steps[0].args.x[0]")],
    ),
    "decimal": (
        plan(step("a", "num", args={"x": "1.5", "f": "TRUE", "l": 5, "m": 5})),
        [
            ("wrong_argument", "steps[0].args.x"),
            ("wrong_argument", "steps[0].args.f"),
            ("wrong_argument", "steps[0].args.l"),
            ("wrong_argument", "steps[0].args.m"),
        ],
    ),
    "arr": (
        plan(step("a", "arr"), step("b", "arr", args={"x": "${a}"})),
        [("reference_type", "steps[1].args.x")],
    ),
    "anyof ints": (plan(step("a", "any_of"), step("b", "double", args={"x": "${a}"})), []),
    "two": (
        plan(
            step("a", "two"),
            step("b", "item", args={"x": "${a}"}),
            step("c", "double", foreach="${a}", args={"x": "${item}"}),
        ),
        [],
    ),
    "needs": (
        plan(step("a", "needs"), step("b", "needs", args={"x": "${a}"})),
        [("reference_type", "steps[1].args.x")],
    ),
    "wants": (
        plan(step("a", "needs"), step("b", "wants", args={"x": "${a}"})),
        [("reference_type", "steps[1].args.x")],
    ),
    "tuple": (
        plan(
            step("a", "tuple"), step("b", "tuple", args={"x": "${a}"}), step("c", "arr", args={"x": "${a}"})
        ),
        [("reference_type", "steps[2].args.x")],
    ),
    "konst": (
        plan(step("a", "konst"), step("b", "arr", args={"x": "${a}"})),
        [("reference_type", "steps[1].args.x")],
    ),
    "results one": (
        plan(LS, step("b", after=["ls"], when="results.files == results.nothing")),
        [("unknown_key", "steps[1].when")],
    ),
    "results many": (plan(LS, step("m"), step("b", after=["ls", "m"], when="results.x == 1")), []),
    "item outside": (plan(step("b", when="present(item.x)")), [("misplaced_name", "steps[0].when")]),
    "item of templates": (plan(LS, step("b", "double", foreach=["${ls}", 1], args={"x": "${item}"})), []),
    "item of nothing": (
        plan(step("b", "double", foreach=[], args={"x": "${item}"})),
        [("unreachable", "steps[0].foreach")],
    ),
    "item of expr": (
        plan(LS, step("b", "double", foreach="${ls.files + ls.files}", args={"x": "${item}"})),
        [],
    ),
    "item of item": (
        plan(
            LS,
            {
                "id": "g",
                "foreach": "${ls.files}",
                "steps": [step("b", "double", foreach="${item}", args={"x": "${item}"})],
            },
        ),
        [],
    ),
    "index": (
        plan(
            step("b", "double", foreach=[1], args={"x": "${index}"}),
            step("c", "files.read", foreach=[1], args={"path": "${index.x}"}),
        ),
        [("wrong_key", "steps[1].args.path")],
    ),
    "loop": (
        plan(step("b", "files.read", loop={"times": 2}, args={"path": "${loop.index}"})),
        [("reference_type", "steps[0].args.path")],
    ),
    "children": (
        plan(
            {
                "id": "g",
                "steps": [step("x", "double", args={"x": 1}), step("f", "anything", fallback_for="x")],
            },
            step("b", "files.read", args={"path": "${g}"}),
            step("c", "files.read", args={"path": "${g.x}"}),
            step("d", "files.read", args={"path": "${g.f}"}),
            step("e", "files.read", args={"path": "${g.zzz}"}),
        ),
        [
            ("reference_type", "steps[1].args.path"),
            ("unknown_key", "steps[3].args.path"),
            ("unknown_key", "steps[4].args.path"),
        ],
    ),
    "loop all": (
        plan(
            step("l", "loose", loop={"times": 2, "collect": "all"}),
            step("b", "files.read", args={"path": "${l}"}),
            step("c", "files.read", args={"path": "${l[0].known}"}),
            step("d", "files.read", args={"path": "${l.known}"}),
        ),
        [("reference_type", "steps[1].args.path"), ("wrong_key", "steps[3].args.path")],
    ),
    "loop all unknown": (
        plan(
            step("l", "anything", loop={"times": 2, "collect": "all"}),
            step("b", "files.read", args={"path": "${l}"}),
        ),
        [("reference_type", "steps[1].args.path")],
    ),
    "context": (
        plan(
            step("b", "double", args={"x": "${context.a.b}", "y": "${context.l[0]}"}),
            step("c", "double", args={"x": "${context.t}"}),
            step("d", when="context.l[9] == 1"),
            context={"a": {"b": "x"}, "l": [1], "t": "txt"},
        ),
        [
            ("reference_type", "steps[0].args.x"),
            ("unknown_argument", "steps[0].args.y"),
            ("reference_type", "steps[1].args.x"),
        ],
    ),
    "bad foreach": (plan(step("a", foreach="${ls +}")), [("expr_incomplete", "steps[0].foreach")]),
    "text foreach": (plan(LS, step("a", foreach="ls.files")), [("foreach_not_a_list", "steps[1].foreach")]),
    "text foreach2": (plan(LS, step("a", foreach="1 +")), [("foreach_not_a_list", "steps[1].foreach")]),
    "text foreach3": (plan(LS, step("a", foreach="x ${ls} y")), [("foreach_not_a_list", "steps[1].foreach")]),
    "fallback ring": (
        plan(step("a", fallback_for="b"), step("b", fallback_for="a"), step("c", args={"x": "${a}"})),
        [("cycle", "steps[0]"), ("reads_fallback", "steps[2].args.x")],
    ),
    "outputs fallback ring": (
        plan(step("a", fallback_for="b"), step("b", fallback_for="a"), outputs={"x": "a"}),
        [("reads_fallback", "outputs.x"), ("cycle", "steps[0]")],
    ),
    "outputs fallback": (
        plan(
            step("a"),
            step("b", fallback_for="a"),
            step("c", fallback_for="b"),
            outputs={"x": "c", "y": "metadata", "z": "goal"},
        ),
        [("reads_fallback", "outputs.x"), ("unknown_reference", "outputs.y")],
    ),
    "never": (
        plan(
            {"id": "g", "when": "false", "steps": [step("x"), step("y", after=["x"])]}, step("z", after=["g"])
        ),
        [("unreachable", "steps[0].when"), ("unreachable", "steps[0].steps[1]"), ("unreachable", "steps[1]")],
    ),
    "never foreach": (
        plan(step("x", foreach=[]), step("z", args={"v": "${x}"})),
        [("unreachable", "steps[0].foreach")],
    ),
    "rekeyed": (
        plan(
            LS,
            step("b", "files.read", args={"path": "${ls.filez}"}),
            step("c", "loose"),
            step("d", "files.read", args={"path": "${c['a-b']}"}),
        ),
        [("unknown_key", "steps[1].args.path"), ("doubtful_key", "steps[3].args.path")],
    ),
    "inputs whole": (
        plan(step("a", args={"x": "${inputs}"}), inputs={"i": {"default": 1}, "j": {"default": 2}}),
        [],
    ),
    "inputs broken": (
        plan(step("a", args={"x": "${inputs.i +}"}), inputs={"i": {"default": 1}}),
        [("expr_incomplete", "steps[0].args.x")],
    ),
    "inputs unused": (plan(step("a"), inputs={"i": {"default": 1}}), [("unused_input", "inputs.i")]),
    "resource": (plan(step("a", resources=["GPU x", "gpu"])), [("resource_name", "steps[0].resources[0]")]),
    "retry once": (plan(step("a", retry={"attempts": 1})), []),
    "bad hole": (plan(step("a", "double", args={"x": "${1 +}"})), [("expr_incomplete", "steps[0].args.x")]),
    "hole expr": (plan(step("a", "double", args={"x": "${'a' + 'b'}"})), []),
    "knot": (
        plan(
            step("a", after=["c"]),
            step("b", after=["a"]),
            step("c", after=["b"]),
            step("d", after=["c", "e"]),
            step("e", after=["d"]),
        ),
        [("cycle", "steps[0]"), ("cycle", "steps[3]")],
    ),
    "fallbacks in a ring that leads elsewhere": (
        plan(
            step("a", fallback_for="b"),
            step("b", fallback_for="c"),
            step("c", fallback_for="b"),
            step("d", args={"x": "${a}"}),
        ),
        [
            ("cycle", "steps[1]"),
            ("two_fallbacks", "steps[2].fallback_for"),
            ("reads_fallback", "steps[3].args.x"),
        ],
    ),
    "a list of numbers": (plan(step("a", "item", args={"x": [1, 2]})), []),
    "a number for a number": (
        plan(
            step("d", "double", args={"x": 1}), *(step(name, "double", args={"x": "${d}"}) for name in "ef")
        ),
        [],
    ),
    "a bare name as a condition": (plan(step("a"), step("b", when="a")), []),
    "the second of two fallbacks": (
        plan(step("a"), *(step(name, fallback_for=of) for name, of in zip("bcd", "aba", strict=True))),
        [("two_fallbacks", "steps[3].fallback_for")],
    ),
    "the second of two fallbacks, in a ring": (
        plan(step("a", fallback_for="b"), step("b", fallback_for="a"), step("c", fallback_for="a")),
        [("cycle", "steps[0]"), ("two_fallbacks", "steps[2].fallback_for")],
    ),
    "near to a key that is no word": (
        plan(step("k", "dashed"), step("b", "files.read", args={"path": "${k.a_b}"})),
        [("unknown_key", "steps[1].args.path")],
    ),
    "small metadata": (plan(step("a", metadata={"x": 1}), metadata={"y": [1]}), []),
    "two retries": (plan(*(step(name, retry={"attempts": 2}) for name in "ab")), []),
    "trees in trees": (plan(step("a", "tree"), step("b", "tree", args={"kids": "${a.kids}"})), []),
    "more is wanted than given": (
        plan(step("a", "loose"), step("b", "some", args={"x": "${a}"})),
        [],
    ),
    "inputs as a whole for a text": (
        plan(step("b", "files.read", args={"path": "${inputs}"}), inputs={"i": {"default": 1}}),
        [("reference_type", "steps[0].args.path")],
    ),
}


def test_maps_are_compared_by_the_keys_that_both_name():
    one = {"type": "object", "properties": {"known": {"type": "string"}}}
    other = {"type": "object", "properties": {"more": {"type": "integer"}, "known": {"type": "integer"}}}
    assert misfit(Whole(one, one), Whole(other, other)) == "text where a number is wanted at 'known'"
    assert misfit(Whole(other, other), Whole(other, other)) == ""


def test_plans_made_in_python_are_looked_at_too(catalog):
    def codes(**fields):
        return [one.code for one in check(Plan(goal="g", **fields), catalog)]

    good = Step(id="a", tool="anything")
    assert codes(steps=(good,)) == []
    assert codes(steps=(Step(id="BAD", tool="anything"),)) == ["bad_id"]
    assert codes(steps=(good,), context={object(): 1}) == ["not_serializable"]
    assert codes(steps=(good,), metadata={"x": {1}}) == ["not_serializable"]


@pytest.mark.parametrize("name", CASES)
def test_a_corner_is_judged_as_it_should_be(name, catalog):
    document, expected = CASES[name]
    tools = Catalog([*catalog, *MORE])
    assert [(one.code, one.path) for one in check(document, tools)] == expected
    assert {one.code for one in check(document, None)} <= {code for code, _ in expected}


def test_an_item_where_there_is_none_leads_nowhere_and_is_told_once():
    findings = check(plan(step(args={"x": "${item.path}"})), Catalog([of("anything")]))
    assert [finding.code for finding in findings.errors] == ["misplaced_name"]


def test_a_map_may_lack_what_it_need_not_have():
    source = Whole({"type": "object", "properties": {"a": {"type": "integer"}}}, {})
    target = Whole({"type": "object", "properties": {"b": {"type": "string"}, "a": {"type": "integer"}}}, {})
    assert not misfit(source, target)
