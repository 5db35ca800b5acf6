"""What expressions are worth, and that it is what a small independent reference says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.codec import encode
from kedge.base.errors import ExpressionError
from kedge.plan.expr import Absent, evaluate_condition, parse

DATA: dict[str, Any] = {
    "list": {"files": ["a.md", "b.md", "c.txt"], "total": 3, "none": None, "in": {"if": 7}, "odd key": 1},
    "compare": {"score": 0.75, "summary": "good", "ok": True},
    "inputs": {"folder": "reports", "limit": 10, "empty": [], "blank": ""},
    "index": 1,
    "item": "a.md",
    "flags": [True, False],
    "numbers": [3, 1, 2.5],
    "nested": [[1, 2], [3, {"x": "y"}]],
    "nothing": None,
}


def value(text: str) -> Any:
    return parse(text).evaluate(DATA.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # literals
        ("1", 1),
        ("1.5", 1.5),
        ("1e3", 1000.0),
        ("2E-2", 0.02),
        ("0", 0),
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("'a'", "a"),
        ('"it\'s"', "it's"),
        (r"'a\n\t\r\\\'\"'", "a\n\t\r\\'\""),
        ("'ä €'", "ä €"),
        ("true", True),
        ("false", False),
        ("null", None),
        ("[]", []),
        ("[1, 'a', [true],]", [1, "a", [True]]),
        ("{}", {}),
        ('{"a": 1, "b": {"c": null},}', {"a": 1, "b": {"c": None}}),
        # names, keys, places, slices
        ("index", 1),
        ("list.total", 3),
        ('list["total"]', 3),
        ("list['odd key']", 1),
        ("list.in.if", 7),
        ("list.files[0]", "a.md"),
        ("list.files[-1]", "c.txt"),
        ("list.files[index]", "b.md"),
        ("list.files[:2]", ["a.md", "b.md"]),
        ("list.files[1:]", ["b.md", "c.txt"]),
        ("list.files[:]", ["a.md", "b.md", "c.txt"]),
        ("list.files[-2:-1]", ["b.md"]),
        ("list.files[5:9]", []),
        ("item[0]", "a"),
        ("item[2:]", "md"),
        ("nested[1][1].x", "y"),
        ("list[item[:0] + 'total']", 3),
        ("[10, 20][1]", 20),
        ('{"a": 5}.a', 5),
        ("(list.files)[0]", "a.md"),
        ("list.files[1:][0][0]", "b"),
        ("  index\n", 1),
        ("(((index)))", 1),
        # arithmetic
        ("1 + 2 * 3", 7),
        ("(1 + 2) * 3", 9),
        ("7 // 2", 3),
        ("-7 // 2", -4),
        ("7 % 3", 1),
        ("-7 % 3", 2),
        ("7 / 2", 3.5),
        ("4 / 2", 2.0),
        ("2 - 3 - 4", -5),
        ("- -3", 3),
        ("-index", -1),
        ("1 + 1.5", 2.5),
        ("'a' + 'b' + 'c'", "abc"),
        ("[1] + [2]", [1, 2]),
        ("8 / 4 / 2", 1.0),
        ("2 * -3", -6),
        # comparison, JSON's way
        ("1 == 1.0", True),
        ("true == 1", False),
        ("false == 0", False),
        ("null == false", False),
        ("null == null", True),
        ("'1' == 1", False),
        ("[1, [2]] == [1.0, [2]]", True),
        ("[true] == [1]", False),
        ('{"a": 1} == {"a": 1.0}', True),
        ('{"a": 1} == {"b": 1}', False),
        ("[1] != [1, 2]", True),
        ("{} == []", False),
        ("1 < 2", True),
        ("2 <= 2.0", True),
        ("'a' < 'b'", True),
        ("3 > 4", False),
        ("4 >= 4", True),
        ("compare.score > 0.5", True),
        ("'md' in item", True),
        ("'x' not in item", True),
        ("'a.md' in list.files", True),
        ("1 in [1.0]", True),
        ("true in [1]", False),
        ("'total' in list", True),
        ("'x' in list", False),
        ("[1, 2] in nested", True),
        ("null in [null]", True),
        # logic
        ("true and false", False),
        ("true or false", True),
        ("not true", False),
        ("not not true", True),
        ("not 1 == 2", True),
        ("false or true and false", False),
        ("true or nothing", True),
        ("false and 1 / 0 > 1", False),
        ("1 if true else 2", 1),
        ("1 if false else 2 if false else 3", 3),
        ("1 / 0 if false else 5", 5),
        # functions
        ("len(list.files)", 3),
        ("len('abc')", 3),
        ("len(inputs)", 4),
        ("min(numbers)", 1),
        ("max(numbers)", 3),
        ("min(2, 1, 3)", 1),
        ("max('a', 'b')", "b"),
        ("min(['b', 'a'])", "a"),
        ("sum(numbers)", 6.5),
        ("sum([])", 0),
        ("sum([1, 2])", 3),
        ("any(flags)", True),
        ("all(flags)", False),
        ("any([])", False),
        ("all([])", True),
        ("abs(-2)", 2),
        ("abs(-2.5)", 2.5),
        ("round(2.5)", 2),
        ("round(3.5)", 4),
        ("round(2.345, 2)", 2.35),
        ("round(1234, -2)", 1200),
        ("str(1)", "1"),
        ("str(true)", "true"),
        ("str(null)", "null"),
        ("str('a')", "a"),
        ("str([1, 'a'])", '[1,"a"]'),
        ("str(1.0)", "1.0"),
        ('str({"b": 1, "a": 2})', '{"a":2,"b":1}'),
        ("int('42')", 42),
        ("int(' -7 ')", -7),
        ("int(2.9)", 2),
        ("int(-2.9)", -2),
        ("int(true)", 1),
        ("float('1e3')", 1000.0),
        ("float(2)", 2.0),
        ("bool(0)", False),
        ("bool('')", False),
        ("bool([0])", True),
        ("bool(null)", False),
        ("lower('AbC')", "abc"),
        ("upper('abc')", "ABC"),
        ("startswith(item, 'a.')", True),
        ("endswith(item, '.md')", True),
        ("endswith(item, 'x')", False),
        # a word after a dot is a key, whatever it means elsewhere
        ('{"len": 1}.len', 1),
        ('{"not": 1}.not', 1),
        ('{"true": 1}.true', 1),
        ('{"True": 1}.True', 1),
        ('{"for": 1}.for + 1', 2),
        ('{"is": 2}.is == 2', True),
        ('{"present": 3}.present', 3),
        ('{"__typename": 4}.__typename', 4),
        ('{"_": 5}._', 5),
    ],
)
def test_value(text: str, expected: Any) -> None:
    found = value(text)
    assert (type(found), found) == (type(expected), expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("present(index)", True),
        ("present(nothing)", False),
        ("present(unknown)", False),
        ("present(unknown.key[0])", False),
        ("present(list.none)", False),
        ("present(list.none.deeper)", False),
        ("present(list.missing)", False),
        ("present(list.files[2])", True),
        ("present(list.files[3])", False),
        ("present(list.files[-4])", False),
        ("present(list['odd key'])", True),
        ("present(inputs.blank)", True),
        ("present(compare) and compare.score > 0.7", True),
        ("present(unknown) and unknown.score > 0.7", False),
        ("unknown.x if present(unknown) else 'none'", "none"),
    ],
)
def test_present_asks_whether_a_path_leads_to_something(text: str, expected: Any) -> None:
    assert value(text) == expected


@pytest.mark.parametrize(
    "text", ["present(item.key)", "present(index[0])", "present(list[0])", "present(flags.x)"]
)
def test_present_of_an_impossible_path_is_an_error_and_not_false(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        value(text)
    assert caught.value.code == "expr_type"


def test_a_name_without_value_is_absent() -> None:
    with pytest.raises(Absent) as caught:
        value("1 + unknown.score")
    assert (caught.value.code, caught.value.name, caught.value.position) == ("absent", "unknown", 4)
    assert "present(unknown)" in str(caught.value)


def test_a_resolver_says_why_a_name_is_absent() -> None:
    def resolve(name: str) -> Any:
        raise Absent(name, "its step was skipped")

    with pytest.raises(Absent, match="read has no value: its step was skipped"):
        parse("true and read").evaluate(resolve)
    assert parse("present(read)").evaluate(resolve) is False


def test_a_fault_inside_the_resolver_is_not_taken_for_an_absent_name() -> None:
    def resolve(name: str) -> Any:
        return {}["inner"]

    for text in ("read", "read.key", "present(read)"):
        with pytest.raises(KeyError, match="inner"):
            parse(text).evaluate(resolve)


def test_only_what_is_needed_is_resolved() -> None:
    asked: list[str] = []

    def resolve(name: str) -> Any:
        asked.append(name)
        return name == "yes"

    assert parse("yes or no").evaluate(resolve) is True
    assert parse("1 if yes else no").evaluate(resolve) == 1
    assert parse("no and yes").evaluate(resolve) is False
    assert asked == ["yes", "yes", "no"]


@pytest.mark.parametrize("text", ["compare.ok", "1 < 2", "not false", "present(x)", "true"])
def test_a_condition_is_true_or_false(text: str) -> None:
    assert type(evaluate_condition(parse(text), DATA.__getitem__)) is bool


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ("list.files", "len(list.files) > 0"),
        ("compare.summary", "len(compare.summary) > 0"),
        ("index", "index != 0"),
        ("nothing", "present(nothing)"),
        ("1.0", "1.0 != 0"),
        ("{}", "len({}) > 0"),
    ],
)
def test_nothing_but_a_boolean_is_a_condition(text: str, remedy: str) -> None:
    wholes = [lambda: evaluate_condition(parse(text), DATA.__getitem__)]
    inner = [
        f"({text}) and true",
        f"true and {text}",
        f"false or {text}",
        f"not {text}",
        f"1 if {text} else 2",
    ]
    for run in [*wholes, *(lambda part=part: value(part) for part in inner)]:
        with pytest.raises(ExpressionError) as caught:
            run()
        assert caught.value.code == "expr_not_boolean"
        assert remedy in caught.value.remedy


@pytest.mark.parametrize("text", ["a + 1", "a and true", "len(a)", "a.b", "-a"])
def test_what_is_no_json_is_named_by_its_type(text: str) -> None:
    with pytest.raises(ExpressionError, match="a tuple"):
        parse(text).evaluate({"a": (1, 2)}.__getitem__)


def test_a_number_beyond_all_floats_is_an_overflow() -> None:
    for text in ("a / 2", "a * 1.5", "float(a)", "sum([a, 0.5])", "round(a)"):
        with pytest.raises(ExpressionError) as caught:
            parse(text).evaluate({"a": 10**400}.__getitem__)
        assert caught.value.code == "expr_overflow"


def test_an_expression_shows_its_text() -> None:
    assert repr(parse("a.b > 1")) == "parse('a.b > 1')"


def test_an_error_in_a_condition_is_an_error() -> None:
    with pytest.raises(ExpressionError):
        evaluate_condition(parse("compare.missing > 1 or true"), DATA.__getitem__)


# A second opinion: Python itself, on a translated subset without booleans among the numbers.

_LEAVES = st.sampled_from(["index", "compare.score", "list.total", "inputs.limit", "7", "2.5", "0", "3"])
_PYTHON_NAMES = {
    "compare.score": "compare['score']",
    "list.total": "list_['total']",
    "inputs.limit": "inputs['limit']",
    "list.files": "list_['files']",
}


def _numbers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner),
        st.builds("{} {} {}".format, inner, st.sampled_from(["+", "-", "*"]), inner),
        st.builds("(-{})".format, inner),
        st.builds("abs({})".format, inner),
        st.builds("min({}, {})".format, inner, inner),
        st.builds("max([{}, {}, {}])".format, inner, inner, inner),
        st.builds("({} if {} < {} else {})".format, inner, inner, inner, inner),
    )


numbers = st.recursive(_LEAVES, _numbers, max_leaves=10)
comparisons = st.builds(
    "({} {} {})".format, numbers, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]), numbers
) | st.builds("{} in [{}, {}]".format, numbers, numbers, numbers)
conditions = st.recursive(
    comparisons,
    lambda inner: (
        st.builds("({} and {})".format, inner, inner)
        | st.builds("{} or {}".format, inner, inner)
        | st.builds("(not {})".format, inner)
    ),
    max_leaves=6,
)


@settings(max_examples=300, deadline=None)
@given(numbers | conditions)
def test_values_agree_with_an_independent_reference(text: str) -> None:
    python = text
    for ours, theirs in _PYTHON_NAMES.items():
        python = python.replace(ours, theirs)
    scope = {"list_": DATA["list"], "compare": DATA["compare"], "inputs": DATA["inputs"], "index": 1}
    try:
        expected = eval(python, {"__builtins__": {"abs": abs, "min": min, "max": max}}, scope)
    except (ZeroDivisionError, OverflowError):
        expected = None
    if expected is None or not math.isfinite(expected) or not -(2**63) <= expected < 2**64:
        with pytest.raises(ExpressionError) as caught:
            value(text)
        assert caught.value.code in ("expr_zero_division", "expr_overflow")
    else:
        found = value(text)
        assert (type(found), found) == (type(expected), expected)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=200)
@given(json_values, json_values)
def test_equal_values_are_those_with_equal_json(left: Any, right: Any) -> None:
    same = parse("a == b")
    for one, other in ((left, right), (left, left), ([left], [left])):
        expected = _canonical(one) == _canonical(other)
        assert same.evaluate({"a": one, "b": other}.__getitem__) is expected


def _canonical(item: Any) -> Any:
    """Numbers as floats that are exact here, so that 1 and 1.0 are one number; booleans as they are."""
    if isinstance(item, bool) or item is None:
        return repr(item)
    if isinstance(item, int | float):
        return float(item)
    if isinstance(item, list):
        return [_canonical(each) for each in item]
    return {key: _canonical(each) for key, each in item.items()} if isinstance(item, dict) else f"text {item}"


@settings(max_examples=100)
@given(json_values)
def test_str_writes_canonical_json(item: Any) -> None:
    expected = item if isinstance(item, str) else encode(item).decode()
    assert parse("str(a)").evaluate({"a": item}.__getitem__) == expected
