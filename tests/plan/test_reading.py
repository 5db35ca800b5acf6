"""A document becomes a plan, or an error that holds all of its faults, each with place and remedy."""

import copy
import os
import time
import tracemalloc
from typing import Any

import pytest

from kedge.base.errors import BadInput, InvalidPlan, NotFound
from kedge.base.limits import Limits
from kedge.plan.findings import apply_fix
from kedge.plan.model import Plan, Retry, Step
from kedge.plan.read import load_plan, parse_plan


def plan_with(*steps, **fields) -> dict[str, Any]:
    return {"goal": "g", "steps": list(steps), **fields}


def step(**fields) -> dict[str, Any]:
    return {"id": "a", "tool": "t", **fields}


def faults_of(document):
    with pytest.raises(InvalidPlan) as caught:
        parse_plan(document)
    return list(caught.value.findings)


def test_text_and_data_give_the_same_plan():
    data = plan_with(step(args={"x": 1}, retry={"attempts": 3}), {"id": "b", "steps": [step()]})
    yaml = """
goal: g
steps:
- {id: a, tool: t, args: {x: 1}, retry: {attempts: 3}}
- id: b
  steps: [{id: a, tool: t}]
"""
    json = """{"goal": "g", "steps": [
        {"id": "a", "tool": "t", "args": {"x": 1}, "retry": {"attempts": 3}},
        {"id": "b", "steps": [{"id": "a", "tool": "t"}]}
    ]}"""
    plan = parse_plan(data)
    assert plan == parse_plan(yaml) == parse_plan(json) == Plan.parse(yaml.encode())
    assert plan.steps[0].retry == Retry(attempts=3)
    assert plan.steps[1].steps == (Step(id="a", tool="t"),)


def test_a_plan_shares_nothing_with_its_document():
    document = plan_with(step(args={"deep": {"list": [1]}}), context={"a": {"b": 1}})
    plan = parse_plan(document)
    document["steps"][0]["args"]["deep"]["list"].append(2)
    document["context"]["a"]["b"] = 2
    assert plan.steps[0].args == {"deep": {"list": [1]}}
    assert plan.context == {"a": {"b": 1}}


# document, code, place, value after the fix (None: no fix)
FAULTS = [
    # fields
    (plan_with(step(tools="x")), "unknown_field", "steps[0].tools", None),
    (plan_with({"id": "a", "tol": "x"}), "unknown_field", "steps[0].tol", ("steps[0].tool", "x")),
    (plan_with(step(depends_on=["b"])), "unknown_field", "steps[0].depends_on", ("steps[0].after", ["b"])),
    (plan_with(step(**{"if": "true"})), "unknown_field", "steps[0].if", ("steps[0].when", "true")),
    (plan_with(step(timeout=3)), "unknown_field", "steps[0].timeout", ("steps[0].timeout_s", 3)),
    (plan_with(step(params={"x": 1})), "unknown_field", "steps[0].params", ("steps[0].args", {"x": 1})),
    (
        plan_with(step(retry={"max_attempts": 3})),
        "unknown_field",
        "steps[0].retry.max_attempts",
        ("steps[0].retry.attempts", 3),
    ),
    (plan_with(step(), objective="x"), "unknown_field", "objective", None),
    ({"objective": "x", "steps": [step()]}, "unknown_field", "objective", ("goal", "x")),
    ({"goal": "x", "tasks": [step()]}, "unknown_field", "tasks", ("steps", [step()])),
    (plan_with(step(), **{"strange key": 1}), "unknown_field", '["strange key"]', None),
    ({"steps": [step()]}, "missing_field", "goal", None),
    ({"goal": "x"}, "missing_field", "steps", None),
    (plan_with({"tool": "t"}), "missing_field", "steps[0].id", ("steps[0].id", "t_0")),
    (
        plan_with({"do": "Read all files!", "tool": "t"}),
        "missing_field",
        "steps[0].id",
        ("steps[0].id", "read_all_files_0"),
    ),
    (plan_with(step(loop={"until": "true"})), "missing_field", "steps[0].loop.times", None),
    # types
    (plan_with(step(do=5)), "wrong_type", "steps[0].do", ("steps[0].do", "5")),
    (plan_with(step(tool=["t"])), "wrong_type", "steps[0].tool", None),
    (plan_with(step(args=[1])), "wrong_type", "steps[0].args", None),
    (plan_with(step(after="b")), "wrong_type", "steps[0].after", ("steps[0].after", ["b"])),
    (plan_with(step(after="b, c")), "wrong_type", "steps[0].after", ("steps[0].after", ["b", "c"])),
    (plan_with(step(after=["b", 3])), "wrong_type", "steps[0].after[1]", ("steps[0].after[1]", "3")),
    (plan_with(step(when=True)), "wrong_type", "steps[0].when", ("steps[0].when", "true")),
    (plan_with(step(do=None)), "wrong_type", "steps[0].do", "gone"),
    (plan_with(step(timeout_s="30")), "wrong_type", "steps[0].timeout_s", ("steps[0].timeout_s", 30)),
    (plan_with(step(timeout_s="soon")), "wrong_type", "steps[0].timeout_s", None),
    (plan_with(step(priority=1.5)), "wrong_type", "steps[0].priority", None),
    (plan_with(step(priority=2.0)), "wrong_type", "steps[0].priority", ("steps[0].priority", 2)),
    (plan_with(step(priority=True)), "wrong_type", "steps[0].priority", None),
    (plan_with(step(milestone="yes")), "wrong_type", "steps[0].milestone", ("steps[0].milestone", True)),
    (plan_with(step(retry=3)), "wrong_type", "steps[0].retry", ("steps[0].retry", {"attempts": 3})),
    (plan_with(step(loop=3)), "wrong_type", "steps[0].loop", ("steps[0].loop", {"times": 3})),
    (
        plan_with(step(approval="Sure?")),
        "wrong_type",
        "steps[0].approval",
        ("steps[0].approval", {"ask": "Sure?"}),
    ),
    (
        plan_with(step(compensate="undo")),
        "wrong_type",
        "steps[0].compensate",
        ("steps[0].compensate", {"tool": "undo"}),
    ),
    (plan_with(step(foreach=3)), "wrong_type", "steps[0].foreach", ("steps[0].foreach", "3")),
    (plan_with(step(), inputs={"x": "string"}), "wrong_type", "inputs.x", ("inputs.x", {"type": "string"})),
    (plan_with(step(), inputs=["x"]), "wrong_type", "inputs", None),
    (plan_with(step(), outputs={"x": 3}), "wrong_type", "outputs.x", ("outputs.x", "3")),
    (
        {"goal": "g", "steps": {"a": {"tool": "t"}}},
        "wrong_type",
        "steps",
        ("steps", [{"id": "a", "tool": "t"}]),
    ),
    (
        {"goal": "g", "steps": {"a": {"tol": "t"}}},
        "wrong_type",
        "steps",
        ("steps", [{"id": "a", "tol": "t"}]),
    ),
    ({"goal": "g", "steps": step()}, "wrong_type", "steps", ("steps", [step()])),
    ({"goal": "g", "steps": "a, b"}, "wrong_type", "steps", None),
    (plan_with("a"), "wrong_type", "steps[0]", None),
    # values
    (plan_with(step(join="ALL")), "bad_value", "steps[0].join", ("steps[0].join", "all")),
    (plan_with(step(join="most")), "bad_value", "steps[0].join", None),
    (
        plan_with(step(on_error="contnue")),
        "bad_value",
        "steps[0].on_error",
        ("steps[0].on_error", "continue"),
    ),
    (
        plan_with(step(retry={"on": ["timeouts"]})),
        "bad_value",
        "steps[0].retry.on[0]",
        ("steps[0].retry.on[0]", "timeout"),
    ),
    (
        plan_with(step(), inputs={"x": {"type": "strng"}}),
        "bad_value",
        "inputs.x.type",
        ("inputs.x.type", "string"),
    ),
    (plan_with(step(timeout_s=-1)), "out_of_range", "steps[0].timeout_s", None),
    (plan_with(step(timeout_s=0)), "out_of_range", "steps[0].timeout_s", None),
    (
        plan_with(step(timeout_s=1e300)),
        "out_of_range",
        "steps[0].timeout_s",
        ("steps[0].timeout_s", 366 * 24 * 3600.0),
    ),
    (
        plan_with(step(retry={"attempts": 0})),
        "out_of_range",
        "steps[0].retry.attempts",
        ("steps[0].retry.attempts", 1),
    ),
    (
        plan_with(step(retry={"backoff_s": -1})),
        "out_of_range",
        "steps[0].retry.backoff_s",
        ("steps[0].retry.backoff_s", 0),
    ),
    (plan_with(step(loop={"times": 0})), "out_of_range", "steps[0].loop.times", ("steps[0].loop.times", 1)),
    (plan_with(step(complexity=9)), "out_of_range", "steps[0].complexity", ("steps[0].complexity", 5)),
    (plan_with(step(quality_min=2)), "out_of_range", "steps[0].quality_min", ("steps[0].quality_min", 1)),
    # ids
    (plan_with(step(id="")), "bad_id", "steps[0].id", ("steps[0].id", "step")),
    (plan_with(step(id="Read Files")), "bad_id", "steps[0].id", ("steps[0].id", "read_files")),
    (plan_with(step(id="Read")), "bad_id", "steps[0].id", ("steps[0].id", "read")),
    (plan_with(step(id="1st")), "bad_id", "steps[0].id", ("steps[0].id", "step_1st")),
    (plan_with(step(id="_x")), "bad_id", "steps[0].id", ("steps[0].id", "x")),
    (plan_with(step(id="__proto__")), "bad_id", "steps[0].id", ("steps[0].id", "proto")),
    (plan_with(step(id="café")), "bad_id", "steps[0].id", ("steps[0].id", "cafe")),
    (plan_with(step(id="a\u200bb")), "bad_id", "steps[0].id", ("steps[0].id", "ab")),
    (plan_with(step(id="\u0430")), "bad_id", "steps[0].id", ("steps[0].id", "step")),
    (plan_with(step(id="a\n")), "bad_id", "steps[0].id", ("steps[0].id", "a")),
    (plan_with(step(id="../x")), "bad_id", "steps[0].id", ("steps[0].id", "x")),
    (plan_with(step(id="a" * 65)), "bad_id", "steps[0].id", ("steps[0].id", "a" * 59)),
    (plan_with(step(id="x" * 1_000_000)), "bad_id", "steps[0].id", ("steps[0].id", "x" * 59)),
    (plan_with(step(id=3)), "wrong_type", "steps[0].id", ("steps[0].id", "3")),
    *[
        (plan_with(step(id=word)), "reserved_id", "steps[0].id", ("steps[0].id", f"{word}_step"))
        for word in (
            "goal",
            "context",
            "inputs",
            "results",
            "result",
            "item",
            "index",
            "loop",
            "secret",
            "true",
            "null",
            "and",
            "if",
            "in",
            "len",
            "present",
            "str",
        )
    ],
    (plan_with(step(), step()), "duplicate_id", "steps[1].id", ("steps[1].id", "a_2")),
    (plan_with(step(), step(id="a_2"), step()), "duplicate_id", "steps[2].id", ("steps[2].id", "a_3")),
    (
        plan_with({"id": "o", "steps": [step(), step()]}),
        "duplicate_id",
        "steps[0].steps[1].id",
        ("steps[0].steps[1].id", "a_2"),
    ),
    # doers
    (plan_with({"id": "a"}), "no_doer", "steps[0]", None),
    (plan_with({"id": "a", "tool": None}), "no_doer", "steps[0]", None),
    (plan_with(step(role="analyze")), "two_doers", "steps[0]", "gone"),
    (plan_with(step(steps=[step()])), "two_doers", "steps[0]", None),
    # the whole
    (plan_with(step(args={"x": float("nan")})), "not_serializable", "steps[0].args.x", None),
    (plan_with(step(args={"x": {1, 2}})), "not_serializable", "steps[0].args.x", None),
    (plan_with(step(args={"x": b"raw"})), "not_serializable", "steps[0].args.x", None),
    (plan_with(step(args={1: "x"})), "not_serializable", "steps[0].args[1]", None),
]


@pytest.mark.parametrize(
    ("document", "code", "place", "mended"),
    FAULTS,
    ids=[f"{n}-{code}-{place}"[:60] for n, (_, code, place, _) in enumerate(FAULTS)],
)
def test_each_fault_has_code_place_remedy_and_what_a_machine_can_mend(document, code, place, mended):
    before = copy.deepcopy(document)
    found = [finding for finding in faults_of(document) if (finding.code, finding.path) == (code, place)]
    assert len(found) == 1
    assert found[0].remedy
    assert found[0].severity == "error"
    if mended is None:
        assert found[0].fix is None
        return
    fixed = apply_fix(document, found[0].fix)
    assert document == before, "the document given is left alone"
    try:
        parse_plan(fixed)
        left = []
    except InvalidPlan as error:
        left = [(finding.code, finding.path) for finding in error.findings]
    assert (code, place) not in left
    if mended != "gone":
        where, value = mended
        assert found[0].fix.path == place
        if found[0].fix.action == "rename":
            assert where.endswith(found[0].fix.value)
        else:
            assert found[0].fix.value == value


def test_all_faults_are_told_at_once_in_document_order():
    document = {
        "gaol": "x",
        "steps": [
            {"id": "Read", "tool": "t", "retry": {"attempts": "x", "onn": []}, "join": "al"},
            {"id": "b", "steps": [{"tool": "t", "timeout_s": -1}, {"id": "c", "tool": "t", "role": "r"}]},
        ],
    }
    assert [(finding.code, finding.path, finding.step) for finding in faults_of(document)] == [
        ("unknown_field", "gaol", ""),
        ("wrong_type", "steps[0].retry.attempts", "Read"),
        ("unknown_field", "steps[0].retry.onn", "Read"),
        ("bad_value", "steps[0].join", "Read"),
        ("bad_id", "steps[0].id", "Read"),
        ("out_of_range", "steps[1].steps[0].timeout_s", "b/0"),
        ("missing_field", "steps[1].steps[0].id", "b/0"),
        ("two_doers", "steps[1].steps[1]", "b/c"),
        ("missing_field", "goal", ""),
    ]


def test_the_error_shows_the_faults_and_says_how_many_more():
    with pytest.raises(InvalidPlan) as caught:
        parse_plan(plan_with(*({"id": f"s{n}"} for n in range(25))))
    text = str(caught.value)
    assert "25 faults" in text
    assert "and 15 more" in text
    assert "steps[0] (step s0): nothing says who does this step" in text


def test_a_single_fault_is_the_error():
    with pytest.raises(InvalidPlan) as caught:
        parse_plan(plan_with(step(join="some")))
    assert caught.value.code == "bad_value"
    assert caught.value.where == "steps[0].join (step a)"
    assert caught.value.allowed == ("all", "any", "settled")


@pytest.mark.parametrize("document", ["hello", "[1]", "- a\n- b", "3", '"x"'])
def test_what_is_no_map_is_no_plan(document):
    assert [finding.code for finding in faults_of(document)] == ["not_a_plan"]


@pytest.mark.parametrize("document", [None, 3, [1], object()])
def test_what_is_no_document_is_bad_input(document):
    with pytest.raises(BadInput) as caught:
        parse_plan(document)
    assert caught.value.code == "not_a_plan"


def test_same_ids_in_different_scopes_are_no_fault():
    plan = parse_plan(plan_with(step(), {"id": "b", "steps": [step(), {"id": "b", "tool": "t"}]}))
    assert [[one.id for one in outer.steps or ()] for outer in plan.steps] == [[], ["a", "b"]]


# Size


def nested(levels):
    inner = [step()]
    for _ in range(levels):
        inner = [{"id": "a", "steps": inner}]
    return {"goal": "g", "steps": inner}


def dropped(document):
    """Python frees nested dicts by recursion: take deep ones apart from outside."""
    while isinstance(document, dict) and document.get("steps"):
        document["steps"], document = None, document["steps"][0]


@pytest.mark.parametrize("levels", [1_000, 50_000])
def test_nesting_without_end_is_a_finding(levels):
    document = nested(levels)
    found = faults_of(document)
    dropped(document)
    assert found[0].code in ("too_deep", "not_serializable")
    assert "nested deeper than" in found[0].message


def test_a_document_that_contains_itself_is_a_finding():
    document = plan_with(step())
    document["steps"].append(document)
    assert faults_of(document)[0].code == "not_serializable"


def million(form) -> Any:
    steps = range(1_000_000)
    if form == "dict":
        one = {"id": "a", "tool": "t"}
        return {"goal": "g", "steps": [one] * len(steps)}
    if form == "json":
        return '{"goal":"g","steps":[' + ",".join(f'{{"id":"a{n}"}}' for n in steps) + "]}"
    return "goal: g\nsteps:\n" + "".join(f"- id: a{n}\n" for n in steps)


@pytest.mark.parametrize("form", ["dict", "json", "yaml"])
def test_a_million_steps_are_refused_before_they_cost_anything(form):
    document = million(form)
    limits = Limits(document_bytes=10**9)
    begun = time.perf_counter()
    with pytest.raises(InvalidPlan) as caught:
        parse_plan(document, limits)
    assert time.perf_counter() - begun < 1
    assert caught.value.code == "too_many_steps"
    tracemalloc.start()
    try:
        with pytest.raises(InvalidPlan):
            parse_plan(document, limits)
        assert tracemalloc.get_traced_memory()[1] < 150_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("form", [str, str.encode, lambda text: {"goal": text, "steps": []}])
def test_a_document_of_50_mb_is_refused_by_its_limit(form):
    begun = time.perf_counter()
    with pytest.raises(InvalidPlan) as caught:
        parse_plan(form("x" * 50_000_000))
    assert caught.value.code == "document_too_big"
    assert time.perf_counter() - begun < 1


def test_a_thousand_faults_are_told_and_no_more():
    found = faults_of(plan_with(*({"id": "a"} for _ in range(5_000))))
    assert len(found) == 1001
    assert found[-1].code == "more_faults"


def test_reading_takes_about_as_long_as_it_must():
    """A guard against a slip of an order of magnitude, not a benchmark."""

    def document(count):
        return {
            "goal": "g",
            "steps": [{"id": f"n{n}", "tool": "t", "args": {"x": f"${{n{n - 1}}}"}} for n in range(count)],
        }

    small, large = document(500), document(5_000)

    def seconds(one):
        best = 9.0
        for _ in range(3):
            begun = time.process_time()
            parse_plan(one)
            best = min(best, time.process_time() - begun)
        return best

    assert seconds(large) < 40 * seconds(small)
    assert seconds(large) < 0.5


# Files


def test_a_plan_is_loaded_from_a_file(tmp_path):
    place = tmp_path / "plan.yaml"
    place.write_bytes(b"\xef\xbb\xbfgoal: g\nsteps: [{id: a, tool: t}]\n")
    assert load_plan(place) == load_plan(str(place)) == parse_plan(plan_with(step()))


def test_a_missing_file_is_told_with_the_nearest_name(tmp_path):
    (tmp_path / "report.yaml").write_text("goal: g")
    with pytest.raises(NotFound) as caught:
        load_plan(tmp_path / "reprot.yaml")
    assert caught.value.code == "file_missing"
    assert "report.yaml" in caught.value.remedy
    assert caught.value.allowed == ("report.yaml",)


@pytest.mark.parametrize("name", ["no/such/folder/plan.yaml", "x" * 5000])
def test_files_that_cannot_be_there_are_bad_input(tmp_path, name):
    with pytest.raises(BadInput) as caught:
        load_plan(tmp_path / name)
    assert caught.value.code in ("file_missing", "file_unreadable")


def test_a_name_with_a_nul_is_bad_input():
    with pytest.raises(BadInput) as caught:
        load_plan("a\x00b")
    assert caught.value.code == "file_unreadable"


def test_a_folder_is_told_with_the_plans_in_it(tmp_path):
    (tmp_path / "one.yaml").touch()
    (tmp_path / "two.txt").touch()
    with pytest.raises(BadInput) as caught:
        load_plan(tmp_path)
    assert caught.value.code == "file_is_folder"
    assert caught.value.allowed == ("one.yaml",)


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may read everything")
def test_a_file_that_may_not_be_read_is_told(tmp_path):
    place = tmp_path / "plan.yaml"
    place.touch(mode=0)
    with pytest.raises(BadInput) as caught:
        load_plan(place)
    assert caught.value.code == "file_unreadable"


def test_a_file_that_is_too_large_is_not_read_whole(tmp_path):
    place = tmp_path / "plan.yaml"
    place.write_bytes(b"x" * 2000)
    with pytest.raises(BadInput) as caught:
        load_plan(place, Limits(document_bytes=1000))
    assert caught.value.code == "document_too_big"


def test_faults_in_a_file_name_the_file(tmp_path):
    place = tmp_path / "plan.yaml"
    place.write_text("goal: g\nsteps: [}")
    with pytest.raises(InvalidPlan) as caught:
        load_plan(place)
    assert str(caught.value).startswith(f"{place}: line 2, column 9: ")
