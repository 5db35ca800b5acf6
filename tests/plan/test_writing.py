"""What is written is read back equal, and the published schema says what the reader does."""

import datetime
import json
from typing import Any, cast

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.codec import encode
from kedge.base.errors import BadInput, InvalidPlan, NotSerializable
from kedge.plan import model
from kedge.plan.model import DOERS, Approval, Call, Estimate, Input, Loop, Plan, Retry, Step, Wait
from kedge.plan.read import parse_plan

WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS, inner, max_size=3),
    max_leaves=6,
)
MAPS = st.dictionaries(WORDS, VALUES, max_size=3)
SECONDS = st.floats(0.001, 1e6)
CALLS = st.builds(Call, tool=WORDS, args=MAPS)
RETRIES = st.builds(
    Retry, attempts=st.integers(1, 9), backoff_s=SECONDS, on=st.just(("timeout", "transient"))
)
LOOPS = st.builds(
    Loop,
    times=st.integers(1, 99),
    until=st.none() | WORDS,
    delay_s=SECONDS,
    collect=st.sampled_from(["last", "all"]),
)


def steps(levels):
    doers: list[Any] = [
        st.fixed_dictionaries({"tool": WORDS}),
        st.fixed_dictionaries({"role": WORDS}),
        st.fixed_dictionaries({"goal": WORDS}),
        st.fixed_dictionaries({"use": WORDS}),
        st.fixed_dictionaries({"wait": st.builds(Wait, signal=WORDS, expires_s=st.none() | SECONDS)}),
    ]
    if levels:
        doers.append(st.fixed_dictionaries({"steps": scopes(levels - 1)}))
    others = st.fixed_dictionaries(
        {},
        optional={
            "do": WORDS,
            "args": MAPS,
            "after": st.lists(WORDS, max_size=2).map(tuple),
            "when": WORDS,
            "foreach": WORDS | st.lists(VALUES, max_size=2),
            "loop": LOOPS,
            "join": st.sampled_from(["all", "any", "settled"]),
            "expect": WORDS,
            "output": MAPS,
            "retry": RETRIES,
            "timeout_s": SECONDS,
            "approval": st.builds(Approval, ask=WORDS),
            "compensate": CALLS,
            "on_error": st.sampled_from(["fail", "continue", "ask"]),
            "priority": st.integers(-5, 5),
            "milestone": st.booleans(),
            "estimate": st.builds(Estimate, seconds=SECONDS, tokens=st.none() | st.integers(0, 99)),
            "resources": st.lists(WORDS, max_size=2).map(tuple),
            "metadata": MAPS,
        },
    )
    return st.tuples(st.one_of(doers), others).map(lambda pair: pair[0] | pair[1])


def scopes(levels):
    return st.lists(steps(levels), max_size=3).map(
        lambda found: tuple(Step(id=f"s{number}", **fields) for number, fields in enumerate(found))
    )


INPUTS = st.builds(
    Input,
    type=st.sampled_from(["string", "any", "array"]),
    default=st.just(msgspec.UNSET) | VALUES,
    description=WORDS,
    required=st.booleans(),
)
PLANS = st.builds(
    Plan,
    goal=WORDS,
    inputs=st.dictionaries(WORDS, INPUTS, max_size=2),
    steps=scopes(2),
    context=MAPS,
    outputs=st.dictionaries(WORDS, WORDS, max_size=2),
    answer=st.none() | WORDS,
    limits=st.dictionaries(WORDS, SECONDS, max_size=2),
    metadata=MAPS,
)


@settings(max_examples=100)
@given(PLANS)
def test_a_plan_written_and_read_again_is_the_same_plan(plan):
    assert parse_plan(plan.dump("json")) == plan
    assert parse_plan(plan.dump("yaml")) == plan


@settings(max_examples=30)
@given(PLANS)
def test_canonical_json_does_not_depend_on_how_the_plan_was_written(plan):
    text = plan.dump("json")
    assert Plan.parse(plan.dump("yaml")).dump("json") == text
    assert encode(json.loads(text)).decode() == text


def test_what_is_not_set_is_not_written():
    assert (
        Plan(goal="g", steps=(Step(id="a", tool="t"),)).dump("json")
        == '{"goal":"g","steps":[{"id":"a","tool":"t"}]}'
    )


def test_keys_keep_the_order_they_were_given_in():
    document = {"goal": "g", "steps": [{"id": "a", "tool": "t", "args": {"z": 1, "a": 2}}]}
    assert "{z: 1, a: 2}" in Plan.parse(document).dump()


@pytest.mark.parametrize("value", [float("nan"), {1}, b"x", datetime.date(2024, 1, 1), {1: 2}, object()])
def test_what_would_not_be_read_back_equal_is_not_written(value):
    with pytest.raises((NotSerializable, TypeError)):
        Plan(goal="g", steps=(Step(id="a", tool="t", args={"x": value}),)).dump("json")


def test_yaml_that_our_reader_would_refuse_is_not_written():
    deep: object = 1
    for _ in range(70):
        deep = [deep]
    plan = Plan.parse({"goal": "g", "context": {"x": deep}, "steps": [{"id": "a", "tool": "t"}]})
    assert Plan.parse(plan.dump("json")) == plan
    with pytest.raises(BadInput) as caught:
        plan.dump("yaml")
    assert caught.value.code == "too_deep"


def test_an_unknown_form_is_bad_input():
    with pytest.raises(BadInput) as caught:
        Plan(goal="g", steps=()).dump(cast(Any, "toml"))
    assert caught.value.allowed == ("yaml", "json")


def test_the_model_exports_every_part():
    assert all(hasattr(model, name) for name in model.__all__)
    assert {"Plan", "Step", "Retry", "Loop", "Input", "DOERS", "RESERVED_IDS", "SLEEP"} <= set(model.__all__)


# The schema


def test_the_schema_names_and_describes_the_fields():
    schema = Plan.schema()
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert set(schema["properties"]) == set(Plan.__struct_fields__)
    assert schema["required"] == ["goal", "steps"]
    assert schema["additionalProperties"] is False
    step = schema["$defs"]["Step"]
    assert set(step["properties"]) == set(Step.__struct_fields__)
    assert step["properties"]["timeout_s"]["description"] == "One attempt."
    assert schema["properties"]["outputs"]["description"] == "Expressions: what the run returns."
    assert [one["required"] for one in step["oneOf"]] == [[name] for name in DOERS]
    assert json.loads(json.dumps(schema)) == schema


def test_every_reference_of_the_schema_leads_somewhere():
    schema = Plan.schema()
    text = json.dumps(schema)
    for name in ("Step", "Retry", "Loop", "Input", "Approval", "Call", "Wait", "Estimate"):
        assert f'"#/$defs/{name}"' in text
        assert schema["$defs"][name]["type"] == "object"
    assert text.count('"$ref"') == text.count('"#/$defs/')


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("id", "A"),
        ("id", "goal"),
        ("timeout_s", 0),
        ("complexity", 6),
        ("join", "most"),
        ("quality_min", 1.5),
    ],
)
def test_what_the_schema_refuses_the_reader_refuses(field, value):
    said = Plan.schema()["$defs"]["Step"]["properties"][field]
    assert any(word in json.dumps(said) for word in ("pattern", "exclusiveMinimum", "maximum", "enum"))
    with pytest.raises(InvalidPlan):
        parse_plan({"goal": "g", "steps": [{"id": "a", "tool": "t", field: value}]})
