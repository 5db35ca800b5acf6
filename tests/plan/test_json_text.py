"""JSON as it should be, and names for what models and people send instead."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.base.errors import InvalidPlan
from kedge.plan.document import to_data
from kedge.plan.json_text import load_json

BROKEN = [
    ('{"a": 1,}', "json_trailing_comma", "line 1, column 8"),
    ('{"a": [1, 2, ]}', "json_trailing_comma", "line 1, column 12"),
    ('{"a": 1', "json_truncated", "line 1, column 8"),
    ('{"a": [1, {"b": "tex', "json_truncated", "line 1, column 21"),
    ('{"a": 1}\n{"b": 2}', "several_documents", "line 2, column 1"),
    ('{"a": 1}\nThis is the plan.', "json_in_prose", "line 2, column 1"),
    ('{"a": 1}\u00a0', "json_in_prose", "line 1, column 9"),  # a space to Python, none to JSON
    ('{"a\ud800": 1}', "bad_character", "line 1"),
    ('{"a": 1,\n"b": "\ud800"}', "bad_character", "line 2"),
    ('Here is the plan:\n{"a": 1}\nEnjoy!', "json_in_prose", "line 2, column 1"),
    ('Here is the plan:\n```json\n{"a": 1}\n```', "fenced", "line 2, column 1"),
    ("```yaml\na: 1\n```", "fenced", "line 1, column 1"),
    ("{'a': 1}", "json_python", "line 1, column 2"),
    ('{"a": None}', "json_python", "line 1, column 7"),
    ('{"a": True}', "json_python", "line 1, column 7"),
    ('{"a": 1, // one\n"b": 2}', "json_comment", "line 1, column 10"),
    ('{"a": NaN}', "number", "line 1, column 7"),
    ('{"a": -Infinity}', "number", "line 1, column 7"),
    ('{"a": 1e999}', "number", "line 1, column 7"),
    ('{"a": 18446744073709551616}', "number", "line 1, column 7"),
    ('{"a": ' + "9" * 10_000 + "}", "number", "line 1, column 7"),
    ('{"a": 1,\n "a": 2}', "duplicate_key", "line 2, column 2"),
    ('{"a": {"b": 1, "\\u0062": 2}}', "duplicate_key", "line 1, column 16"),
    ('{"a": "\\ud800"}', "bad_character", "line 1"),
    ('{"a" 1}', "json_syntax", "line 1, column 6"),
    ("{a: 1}", "json_syntax", "line 1, column 2"),
    ('{"a": "tab\there"}', "json_syntax", "line 1, column 11"),
    ('{"a":' * 100_000, "too_deep", "line 1, column 1"),
    ("[" * 100_000, "too_deep", "line 1, column 1"),
    (b'{"a": "\xff"}', "not_utf8", "line 1"),
    (b"\xff\xfe{\x00}\x00", "not_utf8", "line 1"),
    ("hello", None, ""),
    ("[1, 2]", None, ""),
]


@pytest.mark.parametrize(("text", "code", "place"), BROKEN, ids=[ascii(text[:16]) for text, _, _ in BROKEN])
def test_what_is_not_json_is_named_with_its_place(text, code, place):
    if code is None:  # readable, and no plan: that is for the structure to say
        assert not isinstance(to_data(text), dict)
        return
    with pytest.raises(InvalidPlan) as caught:
        to_data(text)
    first = caught.value.findings.all[0]
    assert (first.code, first.path) == (code, place)
    assert first.remedy


def test_every_duplicate_is_told():
    with pytest.raises(InvalidPlan) as caught:
        load_json('{"a": 1, "a": 2, "b": {"c": [{"d": 1, "d": "d, d"}]}, "a": {}}')
    places = [finding.path for finding in caught.value.findings]
    assert places == ["line 1, column 10", "line 1, column 39", "line 1, column 55"]


def test_a_byte_order_mark_is_no_fault():
    assert to_data('\ufeff{"a": 1}') == {"a": 1}
    assert to_data(b"\xef\xbb\xbfa: 1") == {"a": 1}


def test_fences_inside_a_text_of_the_plan_are_text():
    text = "do: |\n  ```\n  code\n  ```\n"
    assert to_data(text) == {"do": "```\ncode\n```\n"}


@given(st.text(alphabet=st.sampled_from('{}[]":,a1 \n\\ue-.`'), max_size=60))
def test_no_text_does_worse_than_a_finding(text):
    with contextlib.suppress(InvalidPlan):
        to_data(text)
