"""Findings: what they tell, and fixes applied to a document."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.base.errors import BadInput
from kedge.plan.findings import Finding, Findings, Fix, apply_fix
from kedge.plan.places import NOWHERE, at, look, parts


def test_a_report_counts_and_names():
    report = Findings(
        [
            Finding(code="unknown_tool", message="m", names=("x",)),
            Finding(code="missing_argument", message="m", names=("path",)),
            Finding(code="missing_argument", message="m", names=("path",)),
            Finding(code="cycle", message="m", names=("a", "b")),
            Finding(code="unused_input", severity="note", message="m"),
            Finding(code="no_compensation", severity="warning", message="m"),
        ]
    )
    assert not report.ok
    assert (len(report), len(report.errors), len(report.warnings)) == (6, 4, 1)
    assert report.missing_tools == ("x",)
    assert report.missing_parameters == ("path",)
    assert report.cycles == (("a", "b"),)
    assert Findings([report.all[4], report.all[5]]).ok
    assert str(Findings()) == "no findings"


def test_a_finding_reads_as_a_sentence():
    found = Finding(
        code="bad_value", message="no", step="a/b", path="steps[0].join", allowed=("x", "y"), remedy="use x"
    )
    assert str(found) == "error bad_value at steps[0].join (step a/b): no (allowed: x, y); use x"


DOCUMENT = {"a": {"b": [1, {"c.d": 2}]}, "e": 3}


@pytest.mark.parametrize(
    ("fix", "after"),
    [
        (Fix(path="e", value=4), {"a": {"b": [1, {"c.d": 2}]}, "e": 4}),
        (Fix(path="f", value=4), {"a": {"b": [1, {"c.d": 2}]}, "e": 3, "f": 4}),
        (Fix(path="a.b[0]", value=None), {"a": {"b": [None, {"c.d": 2}]}, "e": 3}),
        (Fix(path="a.b[2]", value=3), {"a": {"b": [1, {"c.d": 2}, 3]}, "e": 3}),
        (Fix(path='a.b[1]["c.d"]', value=5), {"a": {"b": [1, {"c.d": 5}]}, "e": 3}),
        (Fix(path="a.b[0]", action="remove"), {"a": {"b": [{"c.d": 2}]}, "e": 3}),
        (Fix(path="a", action="remove"), {"e": 3}),
        (Fix(path="a", action="rename", value="z"), {"z": {"b": [1, {"c.d": 2}]}, "e": 3}),
    ],
)
def test_a_fix_changes_one_place_of_a_copy(fix, after):
    document = {"a": {"b": [1, {"c.d": 2}]}, "e": 3}
    fixed = apply_fix(document, fix)
    assert fixed == after
    assert list(fixed) == list(after), "keys keep their order"
    assert document == DOCUMENT


@pytest.mark.parametrize(
    "fix",
    [
        Fix(path=""),
        Fix(path="x.y"),
        Fix(path="a.b[7]"),
        Fix(path="a.b.c"),
        Fix(path="e.f"),
        Fix(path="x", action="remove"),
        Fix(path="a.b[7]", action="remove"),
        Fix(path="x", action="rename", value="y"),
        Fix(path="a", action="rename", value="e"),
    ],
)
def test_a_fix_for_another_document_is_refused(fix):
    with pytest.raises(BadInput) as caught:
        apply_fix(DOCUMENT, fix)
    assert caught.value.code == "fix"


@given(st.lists(st.text(max_size=8) | st.integers(0, 99), max_size=6))
def test_a_place_can_be_taken_apart_again(way):
    place = ""
    for part in way:
        place = at(place, part)
    assert parts(place) == way


@pytest.mark.parametrize("text", ["[", "a[", "a[x]", "a[-1]", "a..b", 'a["b]', " a"])
def test_what_is_no_place_is_a_value_error(text):
    with pytest.raises(ValueError, match="not a place"):
        parts(text)


def test_looking_finds_what_is_there():
    assert look(DOCUMENT, 'a.b[1]["c.d"]') == 2
    assert look(DOCUMENT, "a.b[9]") is NOWHERE
    assert look(DOCUMENT, "e.x") is NOWHERE
