"""check as a whole: what it takes, what strictness moves, and that nothing makes it fall over or hang."""

import time
import tracemalloc
from typing import Any, cast

import pytest

from kedge.base.errors import BadInput
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.checks import STRICTNESS, check, unsupported
from kedge.checks.severity import severity
from kedge.plan.findings import Findings
from kedge.plan.model import Loop, Plan, Retry, Step
from kedge.plan.tools import Catalog, ToolSpec


def plan(*steps, **fields):
    return {"goal": "g", "steps": list(steps), **fields}


def step(name="a", tool="anything", **fields):
    return {"id": name, "tool": tool, **fields}


# What it takes


def test_text_data_and_plans_are_checked_alike(catalog):
    document = plan(step("a", "files.lst"))
    made = Plan.parse(document)
    for form in (document, made, made.dump("yaml"), made.dump("json"), made.dump("json").encode()):
        assert [finding.code for finding in check(form, catalog)] == ["unknown_tool"]


@pytest.mark.parametrize(
    ("document", "code"),
    [
        ("goal: [", "yaml_syntax"),
        ('{"goal": 1,}', "json_trailing_comma"),
        ("", "empty_document"),
        (b"\xff", "not_utf8"),
        (plan({"id": "a"}), "no_doer"),
        (plan(step(args={"x": {1}})), "not_serializable"),
        (None, "not_a_plan"),
        (3, "not_a_plan"),
        ([], "not_a_plan"),
    ],
)
def test_what_is_no_plan_is_a_finding_not_an_error(document, code):
    findings = check(document)
    assert [finding.code for finding in findings] == [code]
    assert not findings.ok
    assert findings.all[0].remedy


def inside(levels):
    """A list in a list in a list…"""
    found: list = []
    for _ in range(levels):
        found = [found]
    return found


LOOPED: list = []
LOOPED.append(LOOPED)
WRONG: Any = {"id": (3, b"a", object()), "join": "sometimes"}
"""Values that a type checker would refuse, and Python takes."""


@pytest.mark.parametrize(
    ("made", "code", "place"),
    [
        (Step(id="a"), "no_doer", "steps[0]"),
        (Step(id="Not An Id", tool="t"), "bad_id", "steps[0].id"),
        (Step(id=WRONG["id"][0], tool="t"), "wrong_type", "steps[0].id"),
        (Step(id=WRONG["id"][1], tool="t"), "wrong_type", "steps[0].id"),
        (Step(id=WRONG["id"][2], tool="t"), "wrong_type", "steps[0].id"),
        (Step(id="a", tool="t", timeout_s=-1), "out_of_range", "steps[0].timeout_s"),
        (Step(id="a", tool="t", timeout_s=float("nan")), "out_of_range", "steps[0].timeout_s"),
        (Step(id="a", tool="t", timeout_s=float("inf")), "out_of_range", "steps[0].timeout_s"),
        (Step(id="a", tool="t", retry=Retry(attempts=0)), "out_of_range", "steps[0].retry.attempts"),
        (Step(id="a", tool="t", loop=Loop(times=0)), "out_of_range", "steps[0].loop.times"),
        (Step(id="a", tool="t", join=WRONG["join"]), "bad_value", "steps[0].join"),
        (Step(id="a", tool="t", steps=(Step(id="b"),)), "no_doer", "steps[0].steps[0]"),
        (Step(id="a", tool="t", args={"x": [float("nan")]}), "not_serializable", "steps[0].args.x[0]"),
        (Step(id="a", tool="t", args={"x": {"y": {1, 2}}}), "not_serializable", "steps[0].args.x.y"),
        (Step(id="a", tool="t", args={"x": b"raw"}), "not_serializable", "steps[0].args.x"),
        (Step(id="a", tool="t", args={"x": object()}), "not_serializable", "steps[0].args.x"),
        (Step(id="a", tool="t", args={"x": float("inf")}), "not_serializable", "steps[0].args.x"),
        (Step(id="a", tool="t", args={"x": inside(50_000)}), "too_deep", ""),
        (Step(id="a", tool="t", args={"x": inside(70)}), "too_deep", "steps[0].args.x"),
    ],
)
def test_plans_made_in_python_are_checked_where_python_does_not(made, code, place):
    found = [(finding.code, finding.path) for finding in check(Plan(goal="g", steps=(made,)))]
    assert (code, place) in found


@pytest.mark.parametrize("value", [LOOPED, {"x": LOOPED}])
def test_a_value_that_contains_itself_is_a_finding(value):
    findings = check(Plan(goal="g", steps=(Step(id="a", tool="t", args={"x": value}),)))
    assert not findings.ok
    assert {finding.code for finding in findings} <= {"too_deep", "not_serializable"}


@pytest.mark.parametrize("steps", [[Step(id="a", tool="t")], (Step(id="a", tool="t"),)])
def test_steps_may_be_given_as_a_list(steps):
    assert check(Plan(goal="g", steps=steps)).ok


@pytest.mark.parametrize("steps", [None, 3, "abc", {"a": 1}, object()])
def test_steps_that_are_none_are_a_finding(steps):
    assert [finding.path for finding in check(Plan(goal="g", steps=steps))] == ["steps"]


# Strictness

ALWAYS = [
    (plan(step(args={"x": "${b}"}), step("b", args={"x": "${a}"})), "cycle"),
    (plan(step(args={"x": "${zzz}"})), "unknown_reference"),
    (plan(step(after=["zzz"])), "unknown_after"),
    (plan(step("a", "zzz")), "unknown_tool"),
    (plan(step(), step()), "duplicate_id"),
    (plan(step(fallback_for="zzz")), "fallback_of_nothing"),
    (plan(), "empty_plan"),
    (plan(step(when="1 +")), "expr_incomplete"),
]


@pytest.mark.parametrize("strictness", STRICTNESS)
@pytest.mark.parametrize(("document", "code"), ALWAYS)
def test_what_cannot_run_is_an_error_however_lenient(document, code, strictness, catalog):
    assert code in [finding.code for finding in check(document, catalog, strictness).errors]


def test_strictness_moves_severities_and_nothing_else(catalog):
    document = plan(
        step("a", "files.list", args={"path": 3, "x": 1}),
        step("b", "send", retry={"attempts": 2}),
        step("c", when="false"),
        step("d", when="true", args={"x": "${a.filez}"}),
        inputs={"unused": {}},
    )
    reports = [check(document, catalog, one) for one in STRICTNESS]
    bare = [[(f.code, f.path, f.message, f.fix) for f in report] for report in reports]
    assert bare[0] == bare[1] == bare[2]
    errors = [len(report.errors) for report in reports]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > errors[1] > errors[2]


@pytest.mark.parametrize(
    "code", ["wrong_argument", "unavailable_tool", "no_compensation", "unused_input", "cycle"]
)
def test_less_strict_is_never_more_severe(code):
    rank = ["note", "warning", "error"]
    weights = [rank.index(severity(code, one)) for one in STRICTNESS]
    assert weights == sorted(weights, reverse=True)


def test_an_unknown_strictness_is_bad_input():
    with pytest.raises(BadInput) as caught:
        check(plan(step()), strictness=cast(Any, "harsh"))
    assert caught.value.allowed == STRICTNESS


# Cycles


def test_every_knot_is_named_with_a_way_round(catalog):
    document = plan(
        step("a", after=["b"]), step("b", after=["c"]), step("c", after=["a", "b"]),
        step("x", after=["y"]), step("y", after=["x"]),
        step("self_ref", args={"v": "${self_ref}"}),
        step("free", after=["a"]),
    )  # fmt: skip
    findings = check(document, catalog)
    assert set(findings.cycles) == {("a", "b", "c"), ("b", "c"), ("x", "y"), ("self_ref",)}
    messages = {finding.names: finding.message for finding in findings if finding.code == "cycle"}
    assert messages["a", "b", "c"] == "a waits for b waits for c waits for a"
    assert messages[("self_ref",)] == "self_ref waits for itself"


@pytest.mark.parametrize("count", [2, 100, 9_000])
def test_long_cycles_are_found(count):
    document = plan(*(step(f"s{n}", after=[f"s{(n + 1) % count}"]) for n in range(count)))
    findings = check(document, limits=Limits(chain=10))
    assert len(findings) == 1
    assert len(findings.cycles[0]) == count


@pytest.mark.parametrize(
    ("waits", "expected"),
    [
        ({"a": "bc", "b": "a", "c": "a"}, {"ab", "ac"}),
        ({"a": "b", "b": "ca", "c": "a"}, {"ab", "abc"}),
        ({"a": "bc", "b": "ca", "c": "ab"}, {"ab", "ac", "bc"}),
        ({"a": "ab", "b": "a"}, {"a", "ab"}),
    ],
)
def test_all_ways_round_a_knot_are_told(waits, expected):
    findings = check(plan(*(step(name, after=list(names)) for name, names in waits.items())))
    assert {"".join(sorted(names)) for names in findings.cycles} == expected
    assert len(findings.cycles) == len(expected)


def test_a_knot_larger_than_the_ways_that_are_told_says_so():
    names = [f"s{n}" for n in range(300)]
    findings = check(plan(*(step(name, after=[n for n in names if n != name]) for name in names)))
    assert 1 < len(findings.cycles) <= 20
    assert "more steps are part of the knot" in findings.errors[0].message


def test_cycles_through_composites_and_fallbacks_are_found(catalog):
    through = plan({"id": "o", "steps": [step("i", after=["z"])]}, step("z", after=["o"]))
    assert check(through, catalog).cycles == (("o", "z", "o/i"),) or check(through, catalog).cycles
    assert set(check(through, catalog).cycles[0]) == {"o", "o/i", "z"}
    around = plan(step("m"), step("r", after=["m"]), step("f", fallback_for="m", after=["r"]))
    assert set(check(around, catalog).cycles[0]) == {"m", "r", "f"}


# Hostile schemas


def hostile(schema):
    return Catalog([ToolSpec(name="t", effect="pure", parameters=schema)])


TWO = {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]}


def deep_schema(levels):
    found: dict = {"type": "object"}
    for _ in range(levels):
        found = {"type": "object", "properties": {"x": found, "y": found}}
    return found


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": "#/nowhere"},
        {"$ref": "http://example.com/schema"},
        {"$ref": 3},
        TWO,
        {"anyOf": [TWO, TWO]},
        {"allOf": [{"$ref": "#"}, {"$ref": "#"}]},
        {
            "allOf": 3,
            "anyOf": "x",
            "enum": 5,
            "type": {"a": 1},
            "properties": [],
            "required": "x",
            "items": 3,
        },
        {"properties": {"x": 3, "y": None, "z": True}, "required": [1, None], "additionalProperties": "no"},
        {
            "properties": {
                "x": {"minimum": "a", "maxLength": None, "pattern": 3, "const": {}, "prefixItems": 3}
            }
        },
        {"properties": {"x": {"pattern": "(((("}, "y": {"pattern": "[[a]--b]"}, "z": {"pattern": "(a+)+$"}}},
        {"properties": {"x": {"pattern": "x{99999999999}"}, "z": {"pattern": "a" * 10_000}}},
        {"properties": {"x": {"anyOf": [{"$ref": "#/properties/x"}] * 1000}}},
        deep_schema(500),
        {"type": "object", "properties": {"x": False, "y": False}},
    ],
)
def test_a_hostile_schema_costs_little_and_breaks_nothing(schema):
    values = {"x": {"x": {"x": {"y": [1, "a" * 28 + "!", None]}}}, "y": "a" * 28 + "!", "z": "a" * 40 + "!"}
    begun = time.process_time()
    check(
        plan(step("a", "t", args=values), step("b", "t", args={"x": "${a}", "y": "${a.x}"})), hostile(schema)
    )
    assert time.process_time() - begun < 3


def test_two_schemas_that_are_mazes_are_compared_in_time():
    maze = {"type": "object", "properties": {f"k{n}": {"$ref": "#"} for n in range(50)}}
    catalog = Catalog(
        [ToolSpec(name="t", effect="pure", parameters={"properties": {"x": maze}}, returns=maze)]
    )
    begun = time.process_time()
    assert check(plan(step("a", "t"), step("b", "t", args={"x": "${a}"})), catalog).ok
    assert time.process_time() - begun < 3


def test_a_pattern_is_applied_only_if_it_cannot_be_slow():
    def found(pattern):
        catalog = hostile({"properties": {"x": {"type": "string", "pattern": pattern}}})
        return [finding.code for finding in check(plan(step("a", "t", args={"x": "a" * 28 + "!"})), catalog)]

    assert found("^[a-z]+$") == ["wrong_argument"]
    assert found("^(a+)+$") == ["pattern_unchecked"]
    assert found("^a*a*a*b$") == ["pattern_unchecked"]
    assert found("!$") == []


# Size


def chain(count):
    return [step(f"n{n}", "double", args={"x": f"${{n{n - 1}}}" if n else 1}) for n in range(count)]


def test_a_long_chain_is_refused_by_its_limit_and_runs_if_raised(catalog):
    document = plan(*chain(10_000))
    (found,) = check(document, catalog)
    assert (found.code, found.step) == ("chain_too_long", "n9999")
    assert check(document, catalog, limits=Limits(chain=10_000)).ok


def test_composites_do_not_lengthen_a_chain():
    document = plan({"id": "o", "steps": [step("a"), step("b", after=["a"])]}, step("c", after=["o"]))
    assert check(document, limits=Limits(chain=3)).ok
    assert not check(document, limits=Limits(chain=2)).ok


def test_a_hundred_thousand_edges_into_one_join_are_checked():
    wide = [step(f"n{n}") for n in range(1_000)]
    join = step("join", args={"all": [f"${{n{n % 1_000}}}" for n in range(100_000)]})
    begun = time.process_time()
    assert check(plan(*wide, join)).ok
    assert time.process_time() - begun < 4


@pytest.mark.parametrize("levels", [20, 64, 300])
def test_composites_in_composites_without_end_are_refused(levels):
    inner = [step()]
    for _ in range(levels):
        inner = [{"id": "a", "steps": inner}]
    codes = {finding.code for finding in check(plan(*inner))}
    assert codes & {"nesting_too_deep", "too_deep", "not_serializable"}


def test_a_million_steps_made_in_python_are_refused_at_once():
    made = Plan(goal="g", steps=(Step(id="a", tool="t"),) * 1_000_000)
    begun = time.process_time()
    assert [finding.code for finding in check(made)] == ["too_many_steps"]
    assert time.process_time() - begun < 1


def test_many_faults_cost_little_each(catalog):
    document = plan(
        *(
            step(f"step_{n}", "doubel", args={"x": f"${{stop_{n}}}"}, after=[f"stap_{n}"])
            for n in range(2_000)
        )
    )
    begun = time.process_time()
    findings = check(document, catalog)
    assert len(findings) == 6_000
    assert time.process_time() - begun < 10


def test_checking_grows_with_the_plan_and_no_faster(catalog):
    """A guard against a slip of an order of magnitude, not a benchmark."""
    small, large = Plan.parse(plan(*chain(500))), Plan.parse(plan(*chain(4_000)))

    def seconds(one):
        best = 9.0
        for _ in range(3):
            begun = time.process_time()
            assert check(one, catalog, limits=Limits(chain=10_000)).ok
            best = min(best, time.process_time() - begun)
        return best

    assert seconds(large) < 40 * seconds(small)
    assert seconds(large) < 1


def test_fifty_megabytes_of_arguments_take_no_copies_without_end():
    made = Plan(goal="g", steps=(Step(id="a", tool="t", args={"x": "y" * 50_000_000}),))
    tracemalloc.start()
    try:
        check(made, limits=DEFAULT_LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 150_000_000
    finally:
        tracemalloc.stop()


# What cannot be run yet


@pytest.mark.parametrize(
    ("fields", "name", "place"),
    [
        ({"role": "analyze"}, "role", "steps[0].role"),
        ({"goal": "find out"}, "goal", "steps[0].goal"),
        ({"use": "other"}, "use", "steps[0].use"),
        ({"tool": "t", "speculate": True}, "speculate", "steps[0].speculate"),
        ({"tool": "t", "args": {"x": {"y": "k ${secret.K}"}}}, "secret", "steps[0].args.x.y"),
    ],
)
def test_what_cannot_be_run_yet_is_named(fields, name, place):
    made = Plan.parse(plan({"id": "a", **fields}))
    (found,) = unsupported(made)
    assert (found.code, found.names, found.path, found.step) == ("not_supported_yet", (name,), place, "a")
    assert found.remedy
    assert "not_supported_yet" not in [finding.code for finding in check(made)]


@pytest.mark.parametrize(("least", "words"), [(1, "give at least 1 item"), (2, "give at least 2 items")])
def test_a_bound_of_one_is_told_in_the_singular(least, words):
    tools = hostile({"properties": {"x": {"type": "array", "minItems": least}}})
    found = check(plan(step("a", "t", args={"x": []})), tools)
    assert [fault.remedy for fault in found.errors] == [words]


def test_what_can_be_run_is_not_named():
    made = Plan.parse(
        plan(step(), {"id": "o", "steps": [step("b", "sleep", args={"seconds": 1}, retry={"attempts": 2})]})
    )
    assert isinstance(unsupported(made), Findings)
    assert unsupported(made).all == ()


def test_words_of_an_output_that_are_not_applied_are_named():
    document = plan(
        step("a", output={"type": "object", "title": "x", "properties": {"n": {"multipleOf": 2}, "not": {}},
                          "items": 5, "anyOf": {"if": 1}, "additionalProperties": {"pattern": "^a+$"}}),
    )  # fmt: skip
    found = [finding for finding in check(document) if finding.code == "output_unchecked"]
    assert [(one.path, one.names) for one in found] == [
        ("steps[0].output.properties.n.multipleOf", ("multipleOf",)),
    ]


def test_an_output_of_many_parts_is_looked_at_for_so_long():
    wide = {"properties": {f"p{n}": {"not": {}} for n in range(12_000)}, "then": {}}
    found = [finding for finding in check(plan(step("a", output=wide))) if finding.code == "output_unchecked"]
    assert [one.path for one in found] == ["steps[0].output.then"]
