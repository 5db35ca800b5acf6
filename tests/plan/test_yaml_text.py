"""YAML is read with JSON's types only, and everything else is an error with its place."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.base.errors import InvalidPlan
from kedge.base.limits import Limits
from kedge.plan.yaml_text import load_yaml
from kedge.plan.yaml_write import dump_yaml


@pytest.mark.parametrize("word", "on off yes no y 12:30 12:30:00 1_000 2024-01-01 0b1 1e 0x = Nan".split())
def test_words_that_yaml_once_changed_stay_text(word):
    assert load_yaml(f"a: {word}") == {"a": word}


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("true", True), ("False", False), ("null", None), ("~", None), ("", None), ("12", 12), ("-3", -3),
        ("+4", 4), ("0x1F", 31), ("0o17", 15), ("1.5", 1.5), (".5", 0.5), ("1e3", 1000.0),
        ("-1.25e-2", -0.0125),
        ("'12'", "12"), ('"true"', "true"), ("18446744073709551615", 2**64 - 1),
    ],
)  # fmt: skip
def test_plain_words_follow_the_core_schema(word, value):
    found = load_yaml(f"a: {word}")["a"]
    assert found == value
    assert type(found) is type(value)


BROKEN = [
    ("a: &x 1", "yaml_anchor", "line 1, column 4"),
    ("a: 1\nb: *x", "yaml_alias", "line 2, column 4"),
    ("a: !!python/object:os.system x", "yaml_tag", "line 1, column 4"),
    ("a: !thing 3", "yaml_tag", "line 1, column 4"),
    ("<<: {a: 1}", "yaml_merge_key", "line 1, column 1"),
    ("a: 1\nb: 2\na: 3", "duplicate_key", "line 3, column 1"),
    ('a: 1\n"\\x61": 3', "duplicate_key", "line 2, column 1"),
    ("a:\n  1: x", "key_not_text", "line 2, column 3"),
    ("true: x", "key_not_text", "line 1, column 1"),
    ("? [a]\n: b", "key_not_text", "line 1, column 3"),
    ("a: .nan", "number", "line 1, column 4"),
    ("a: -.inf", "number", "line 1, column 4"),
    ("a: 1e999", "number", "line 1, column 4"),
    ("a: 18446744073709551616", "number", "line 1, column 4"),
    ("a: " + "9" * 5000, "number", "line 1, column 4"),
    ("a: 1\n---\nb: 2", "several_documents", "line 2, column 1"),
    ("", "empty_document", "line 1"),
    ("# only a comment", "empty_document", "line 1"),
    ("a:\n\t- b", "yaml_tab", "line 2, column 1"),
    ("a: b: c", "yaml_syntax", "line 1, column 5"),
    ("a: [1, 2", "yaml_syntax", "line 2, column 1"),
    ("a: 'b", "yaml_syntax", "line 1, column 6"),
    ("a: `b`", "yaml_syntax", "line 1, column 4"),
    ("a: \x00", "bad_character", "line 1"),
    ("a: \ud800", "bad_character", "line 1"),
    ("[" * 65 + "]" * 65, "too_deep", "line 1, column 65"),
    ("[" * 100_000, "too_deep", "line 1, column 65"),
    ("{a: " * 100_000, "too_deep", "line 1, column 257"),
]


@pytest.mark.parametrize(
    ("text", "code", "place"), BROKEN, ids=[f"{code}-{text[:12]!r}" for text, code, _ in BROKEN]
)
def test_what_is_not_read_is_named_with_its_place(text, code, place):
    with pytest.raises(InvalidPlan) as caught:
        load_yaml(text)
    first = caught.value.findings.all[0]
    assert (first.code, first.path) == (code, place)
    assert first.remedy


def test_all_faults_of_a_readable_text_are_told_at_once():
    with pytest.raises(InvalidPlan) as caught:
        load_yaml("a: &x 1\nb: *x\na: 2\nc: .inf\n7: e")
    codes = [finding.code for finding in caught.value.findings]
    assert codes == ["yaml_anchor", "yaml_alias", "duplicate_key", "number", "key_not_text"]


def test_a_billion_laughs_are_not_laughed():
    text = "a: &a [x, x]\n" + "".join(
        f"{chr(98 + i)}: &{chr(98 + i)} [*{chr(97 + i)}, *{chr(97 + i)}]\n" for i in range(20)
    )
    with pytest.raises(InvalidPlan) as caught:
        load_yaml(text)
    assert caught.value.findings.all[0].code == "yaml_anchor"


def test_steps_are_counted_while_they_are_read():
    text = "goal: g\nsteps:\n" + "".join(f"- {{id: n{i}, tool: t}}\n" for i in range(200_000))
    begun = time.perf_counter()
    with pytest.raises(InvalidPlan) as caught:
        load_yaml(text, Limits(steps=1000))
    assert caught.value.code == "too_many_steps"
    assert time.perf_counter() - begun < 1


def test_only_steps_are_counted_as_steps():
    items = ", ".join("{}" for _ in range(30))
    text = f"steps:\n- id: a\n  args: {{steps: [{items}]}}\nother: [{items}]\nmetadata: {{steps: [{items}]}}"
    assert len(load_yaml(text, Limits(steps=3))["other"]) == 30


def test_the_reader_without_libyaml_reads_the_same(monkeypatch):
    import yaml

    text = "a: [1, on, {b: 'x'}]\nc: |\n  lines\n  of text\n"
    expected = load_yaml(text)
    monkeypatch.setattr("kedge.plan.yaml_text._LOADER", yaml.SafeLoader)
    assert load_yaml(text) == expected
    for broken, code, _ in BROKEN[:20]:
        with pytest.raises(InvalidPlan) as caught:
            load_yaml(broken)
        assert caught.value.findings.all[0].code == code


# Every character but halves of surrogate pairs, and many of those that YAML is touchy about.
TEXTS = st.text(st.characters(exclude_categories=["Cs"])) | st.text(
    st.sampled_from("ab \n\t\r:#-'\"{}[]|>&*!%@`,?~=<\u0085\u2028\ufeff\U0001f600\x7f0123.e_")
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


@given(VALUES)
def test_what_is_written_is_read_back_equal(value):
    assert load_yaml(dump_yaml(value)) == value


TOUCHY = [
    "on", "12:30", "1_000", "true", "null", "~", "1e3", "0x1F", "", " a", "a ", "a: b", "a #b", "- a", "---",
    "...", "%a", "<<", "k" * 2000, "a\nb", "a\n\n", "\na", "a\n b\n", " a\nb", "a\r\nb",
]  # fmt: skip


@pytest.mark.parametrize("word", TOUCHY)
def test_touchy_text_survives_as_key_and_value(word):
    for value in (word, [word], {word: word}, {"a": {word: [[word]]}}, [[{"a": [{"b": word}]}]]):
        assert load_yaml(dump_yaml(value)) == value


def test_written_yaml_is_pleasant_to_read():
    data = {
        "goal": "Compare two reports",
        "steps": [
            {"id": "list", "tool": "files.list", "args": {"path": "${inputs.folder}", "pattern": "*.md"}},
            {"id": "note", "tool": "t", "args": {"text": "first line\nsecond line\n", "on": "on"}},
        ],
    }
    assert dump_yaml(data) == (
        "goal: Compare two reports\n"
        "steps:\n"
        "  - id: list\n"
        "    tool: files.list\n"
        '    args: {path: "${inputs.folder}", pattern: "*.md"}\n'
        "  - id: note\n"
        "    tool: t\n"
        "    args:\n"
        "      text: |\n"
        "        first line\n"
        "        second line\n"
        "      on: on\n"
    )
