"""How expressions say no: code, place, remedy, and the mended text where a machine can tell."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.errors import ExpressionError
from kedge.plan.expr import parse

WRONG_TEXTS: list[tuple[str, str, int, str | None]] = [
    ("", "expr_empty", 0, None),
    (" \n ", "expr_empty", 0, None),
    # other languages' words and operators
    ("True", "expr_python_literal", 0, "true"),
    ("x == None", "expr_python_literal", 5, "x == null"),
    ("True and not FALSE or a.True", "expr_python_literal", 0, "true and not false or a.True"),
    ("a && b", "expr_operator", 2, "a and b"),
    ("a&&b||!c", "expr_operator", 1, "a and b or not c"),
    ("!a", "expr_operator", 0, "not a"),
    ("!(a) && !b.c", "expr_operator", 0, "not (a) and not b.c"),
    ("a === 'x && y'", "expr_operator", 2, "a == 'x && y'"),
    ("a !== 1", "expr_operator", 2, "a != 1"),
    ("a <> 1", "expr_operator", 2, "a != 1"),
    ("a => 1", "expr_operator", 2, "a >= 1"),
    ("a ≤ 1", "expr_operator", 2, "a <= 1"),
    ("a AND NOT b", "expr_operator", 2, "a and not b"),
    ("a is b", "expr_operator", 2, "a == b"),
    ("a is  not None", "expr_operator", 2, "a != null"),
    ("a ? b : c", "expr_operator", 2, "b if a else c"),
    ("a << 2", "expr_operator", 2, None),
    ("a ^ 2", "expr_operator", 2, None),
    ("~a", "expr_operator", 0, None),
    ("a = 1", "expr_assignment", 2, "a == 1"),
    ("(a := 1)", "expr_assignment", 3, None),
    ("a ** 2", "expr_power", 2, None),
    # templates inside expressions
    ("${a.b > 1}", "expr_template", 0, "a.b > 1"),
    ("${a} > ${b.c}", "expr_template", 0, "a > b.c"),
    ("${a + 1} > 2", "expr_template", 0, "(a + 1) > 2"),
    ("{{ a.b }}", "expr_template", 0, "a.b"),
    ("'${a.b}' == 'ok'", "expr_template", 0, "a.b == 'ok'"),
    ("'total: ${a}' == 'x'", "expr_template", 0, None),
    # characters
    ("“a” == b", "expr_character", 0, '"a" == b'),
    ("\uff4c\uff49\uff53\uff54.files", "expr_character", 0, "list.files"),
    ("$a > 1", "expr_character", 0, "a > 1"),
    ("a > 1;", "expr_character", 5, "a > 1"),
    ("a\u00a0> 1", "expr_character", 1, "a > 1"),
    ("l\u0430mbda", "expr_character", 1, None),
    ("ﬁles\u0301", "expr_character", 0, None),
    ("a # comment", "expr_character", 2, None),
    ("a\0", "expr_character", 1, None),
    ("a\u202eb", "expr_character", 1, None),
    ("'\ud800'", "expr_character", 1, None),
    ("`a`", "expr_character", 0, "'a'"),
    ('{"a": 1,', "expr_incomplete", 8, None),
    ("a < b < c < d < e < f", "expr_chained", 6, None),  # a few mends are tried, not any number
    # brackets belong to what stands in them
    ("a < (b) < c", "expr_chained", 8, "a < (b) and (b) < c"),
    ("a < (b + 1) < c", "expr_chained", 12, "a < (b + 1) and (b + 1) < c"),
    ("a if (b)", "expr_no_else", 8, "a if (b) else null"),
    # texts and numbers
    ("'abc", "expr_unclosed_string", 0, None),
    ('a == "b\nc"', "expr_unclosed_string", 5, None),
    ("'\\x41'", "expr_escape", 1, None),
    ("f'{a}'", "expr_string_prefix", 0, None),
    ("r'a'", "expr_string_prefix", 0, "'a'"),
    ("'a' 'b'", "expr_syntax", 4, None),
    ("1_000", "expr_number", 0, "1000"),
    ("007 + 1", "expr_number", 0, "7 + 1"),
    ("0x1f", "expr_number", 0, None),
    ("1.", "expr_number", 0, "1"),
    (".5", "expr_number", 0, "0.5"),
    ("1j", "expr_number", 0, None),
    ("1.2.3", "expr_number", 0, None),
    ("18446744073709551616", "expr_number_too_big", 0, None),
    ("9" * 4000, "expr_number_too_big", 0, None),
    ("1e999", "expr_number_too_big", 0, None),
    # names and keys
    ("List.files", "expr_name", 0, "list.files"),
    ("a + fooBar", "expr_name", 4, "a + foobar"),
    ("_a", "expr_dunder", 0, None),
    ("__builtins__", "expr_dunder", 0, None),
    ("a.__class__", "expr_dunder", 2, None),
    ("a['__class__']", "expr_dunder", 1, None),
    ("a.5", "expr_key", 2, "a[5]"),
    ("a..b", "expr_key", 2, None),
    ("a.", "expr_key", 2, None),
    ("a.'b'", "expr_key", 2, None),
    ("len > 3", "expr_reserved", 0, None),
    ("present", "expr_reserved", 0, None),
    ("lambda x: x", "expr_reserved", 0, None),
    ("a + if", "expr_reserved", 4, None),
    ("and(a, b)", "expr_reserved", 0, None),
    # calls
    ("length(a) > 0", "expr_unknown_function", 0, "len(a) > 0"),
    ("Len(a)", "expr_unknown_function", 0, "len(a)"),
    ("starts_with(a, 'b')", "expr_unknown_function", 0, "startswith(a, 'b')"),
    ("frobnicate(a)", "expr_unknown_function", 0, None),
    ("len()", "expr_arguments", 0, None),
    ("1 + len(a, b)", "expr_arguments", 4, None),
    ("startswith(a)", "expr_arguments", 0, None),
    ("a.upper()", "expr_call", 1, "upper(a)"),
    ("a.b.startswith('x') and c", "expr_call", 3, "startswith(a.b, 'x') and c"),
    ("a.get('b')", "expr_call", 1, None),
    ("a[0](1)", "expr_call", 4, None),
    ("(a)(1)", "expr_call", 3, None),
    ("present()", "expr_present", 0, None),
    ("present(1)", "expr_present", 0, None),
    ("present(a == b)", "expr_present", 0, None),
    ("present(a[b])", "expr_present", 0, None),
    ("present(a, b)", "expr_present", 0, None),
    # shape
    ("0 < a < 5", "expr_chained", 6, "0 < a and a < 5"),
    ("0 < a < b < 5", "expr_chained", 6, "0 < a and a < b and b < 5"),
    ("a if b", "expr_no_else", 6, "a if b else null"),
    ("(a", "expr_unclosed", 0, "(a)"),
    ("len([a, b", "expr_unclosed", 4, "len([a, b])"),
    ("a)", "expr_unopened", 1, None),
    ("(a]", "expr_unopened", 2, None),
    ("(1, 2)", "expr_tuple", 2, None),
    ("()", "expr_syntax", 0, None),
    ("a, b", "expr_syntax", 1, None),
    ("a b", "expr_syntax", 2, None),
    ("a not b", "expr_syntax", 2, None),
    ("a == not b", "expr_syntax", 5, "a != b"),
    ("+1", "expr_syntax", 0, "1"),
    ("a +", "expr_incomplete", 3, None),
    ("not", "expr_incomplete", 3, None),
    ("a[", "expr_incomplete", 2, None),
    ("a[]", "expr_syntax", 2, None),
    ("a[1:2:3]", "expr_slice_step", 5, None),
    ("a[::2]", "expr_slice_step", 3, None),
    ("{a: 1}", "expr_map_key", 1, '{"a": 1}'),
    ("{1: 2}", "expr_map_key", 1, None),
    ("{'a', 'b'}", "expr_map_key", 4, None),
    ("{'a': 1, 'a': 2}", "expr_duplicate_key", 9, None),
    ("[x for x in y]", "expr_comprehension", 3, None),
    ("any(x > 1 for x in y)", "expr_comprehension", 10, None),
]  # fmt: skip

DATA: dict[str, Any] = {
    "m": {"kind": 1, "size": 2, "none": None},
    "t": "text",
    "l": [1, 2],
    "n": 5,
    "b": True,
    "none": None,
    "words": ["a", "b"],
    "mixed": [1, "a"],
}

WRONG_VALUES: list[tuple[str, str, int, tuple[str, ...]]] = [
    ("unknown", "absent", 0, ("unknown", "present(unknown)")),
    ("n + unknown.x", "absent", 4, ("unknown",)),
    ("m.kynd", "expr_missing_key", 0, ("m", "'kynd'", "kind, ")),
    ("m['x' + 'y']", "expr_missing_key", 0, ("m", "'xy'")),
    ("{}.x", "expr_missing_key", 0, ("{}", "empty")),
    ("l[2]", "expr_index", 0, ("l", "2", "a list of 2 items")),
    ("1 + l[-3]", "expr_index", 4, ("l", "-3")),
    ("t[9]", "expr_index", 0, ("t", "a text of 4 characters")),
    ("m.none.deeper", "expr_null", 0, ("m.none", "'deeper'", "present(m.none)")),
    ("none[0]", "expr_null", 0, ("none", "place 0")),
    ("none[0:1]", "expr_null", 0, ("none",)),
    ("t.key", "expr_type", 0, ("t", "a text", "'key'")),
    ("l.key", "expr_type", 0, ("l", "a list of 2 items", "[0]")),
    ("n.key", "expr_type", 0, ("n", "a number")),
    ("m[0]", "expr_type", 0, ("m", "a map")),
    ("l[b]", "expr_type", 0, ("l", "true")),
    ("l['0']", "expr_type", 0, ("l",)),
    ("l[1.0]", "expr_type", 0, ("l",)),
    ("l['a':]", "expr_type", 0, ("l", "whole numbers")),
    ("m[:1]", "expr_type", 0, ("m", "a map of 3 keys")),
    ("n[:1]", "expr_type", 0, ("n",)),
    ("n + t", "expr_type", 0, ("`n + t`", "a number", "a text", "str(x)")),
    ("1 + n + none", "expr_type", 0, ("null", "present")),
    ("b + 1", "expr_type", 0, ("true",)),
    ("l + 1", "expr_type", 0, ("a list",)),
    ("m + m", "expr_type", 0, ("a map",)),
    ("t * 3", "expr_type", 0, ("two numbers",)),
    ("3 * l", "expr_type", 0, ("two numbers",)),
    ("t % n", "expr_type", 0, ("two numbers",)),
    ("-t", "expr_type", 0, ("a number",)),
    ("n < t", "expr_type", 0, ("two numbers or two texts",)),
    ("l < l", "expr_type", 0, ("a list",)),
    ("none > 1", "expr_type", 0, ("null", "present")),
    ("true < false", "expr_type", 0, ("true", "false")),
    ("n in t", "expr_type", 0, ("text in text",)),
    ("t in n", "expr_type", 0, ("item in list",)),
    ("1 in m", "expr_type", 0, ("key in map",)),
    ("len(n)", "expr_type", 0, ("len(n)", "a number")),
    ("len(none)", "expr_type", 0, ("null", "present")),
    ("min(n)", "expr_type", 0, ("a list",)),
    ("max(mixed)", "expr_type", 0, ("a text of 1 character",)),
    ("min(1, true)", "expr_type", 0, ("true",)),
    ("sum(mixed)", "expr_type", 0, ("item 1",)),
    ("sum(n)", "expr_type", 0, ("a list",)),
    ("abs(t)", "expr_type", 0, ("a number",)),
    ("round(t)", "expr_type", 0, ("a number",)),
    ("round(1.5, 0.5)", "expr_type", 0, ("decimals",)),
    ("round(1.5, 99)", "expr_type", 0, ("22",)),
    ("int(l)", "expr_type", 0, ("a list",)),
    ("float(none)", "expr_type", 0, ("null",)),
    ("lower(n)", "expr_type", 0, ("a text",)),
    ("startswith(t, 1)", "expr_type", 0, ("a text",)),
    ("any(words)", "expr_not_boolean", 0, ("item 0",)),
    ("n and b", "expr_not_boolean", 0, ("`n`", "n != 0")),
    ("min([])", "expr_empty_list", 0, ("min([])",)),
    ("int('4.2')", "expr_conversion", 0, ("'4.2'", "float")),
    ("int('1_0')", "expr_conversion", 0, ("'1_0'",)),
    ("int('\u0661')", "expr_conversion", 0, ("int",)),
    ("float('nan')", "expr_conversion", 0, ("'nan'",)),
    ("float('inf')", "expr_conversion", 0, ("'inf'",)),
    ("n / 0", "expr_zero_division", 0, ("n / 0",)),
    ("n // 0.0", "expr_zero_division", 0, ("n // 0.0",)),
    ("n % (n - n)", "expr_zero_division", 0, ("b != 0",)),
    ("18446744073709551615 + 1", "expr_overflow", 0, ("64 bits",)),
    ("-9223372036854775808 - 1", "expr_overflow", 0, ("64 bits",)),
    ("9999999999 * 9999999999", "expr_overflow", 0, ("64 bits",)),
    ("1e308 * 10", "expr_overflow", 0, ("1e308 * 10",)),
    ("1e308 - -1e308", "expr_overflow", 0, ("stored",)),
    ("round(1e300)", "expr_overflow", 0, ("stored",)),
    ("int(1e300)", "expr_overflow", 0, ("stored",)),
    ("float('1e999')", "expr_overflow", 0, ("stored",)),
    ("sum([1e308, 1e308])", "expr_overflow", 0, ("stored",)),
    ("1e308 // 1e-308", "expr_overflow", 0, ("stored",)),
]  # fmt: skip


def refusal(text: str) -> ExpressionError:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize(("text", "code", "position", "suggestion"), WRONG_TEXTS)
def test_a_wrong_text_is_refused_with_place_and_remedy(
    text: str, code: str, position: int, suggestion: str | None
) -> None:
    error = refusal(text)
    assert (error.code, error.position, error.suggestion) == (code, position, suggestion)
    assert error.remedy
    assert len(str(error)) < 500


@pytest.mark.parametrize("suggestion", [row[3] for row in WRONG_TEXTS if row[3] is not None])
def test_applying_a_suggestion_removes_the_error(suggestion: str) -> None:
    parse(suggestion)


@pytest.mark.parametrize(("text", "code", "position", "words"), WRONG_VALUES)
def test_a_wrong_value_is_an_error_that_names_it(
    text: str, code: str, position: int, words: tuple[str, ...]
) -> None:
    expression = parse(text)
    with pytest.raises(ExpressionError) as caught:
        expression.evaluate(DATA.__getitem__)
    error = caught.value
    assert (error.code, error.position) == (code, position)
    assert error.remedy
    for word in words:
        assert word in str(error)


def test_there_is_a_code_for_each_kind_of_error() -> None:
    codes = {row[1] for row in WRONG_TEXTS} | {row[1] for row in WRONG_VALUES}
    assert len(codes) >= 40


def test_what_is_no_text_is_no_expression() -> None:
    for given_value in (True, 5, None, b"a"):
        with pytest.raises(ExpressionError) as caught:
            parse(given_value)  # pyright: ignore[reportArgumentType]
        assert caught.value.code == "expr_not_text"


def test_the_nearest_of_many_keys_come_first() -> None:
    data = {"m": {f"key_{n}": n for n in range(40)}}
    with pytest.raises(ExpressionError) as caught:
        parse("m.kee_17").evaluate(data.__getitem__)
    assert caught.value.allowed[0] == "key_17"
    assert len(caught.value.allowed) == 10


def test_an_unknown_function_lists_the_known() -> None:
    error = refusal("lenn(x)")
    assert "len" in error.remedy
    assert error.allowed == tuple(
        "abs all any bool endswith float int len lower max min present round startswith str sum upper".split()
    )


@pytest.mark.parametrize(
    ("text", "quoted"),
    [("(a + b) * c", "(a + b) * c"), ("-('x') + 1", "-('x')"), ("(a + b).x", "(a + b)"), ("not (a)", "(a)")],
)
def test_a_quoted_part_has_both_of_its_brackets(text: str, quoted: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text).evaluate({"a": "x", "b": "y", "c": 2}.__getitem__)
    assert f"`{quoted}`" in str(caught.value)


def test_a_name_of_any_length_is_shown_short() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("a" * 4_000).evaluate({}.__getitem__)
    assert len(str(caught.value)) < 500


def test_long_sources_are_shortened_in_messages() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("1 + " * 200 + "'a'").evaluate(DATA.__getitem__)
    assert len(str(caught.value)) < 300


pieces = st.sampled_from(
    "a b.c list.files 1 0.5 'x' \"y\" true null and or not in if else + - * / // % == != < <= > >= "
    "( ) [ ] { } , : . len( present( sum( True && ! = === ${ } ** lambda for is ? __x__ \\ ' \" é "
    "\n 007 1e5 str(".split(" ")
)


@settings(max_examples=500, deadline=None)
@given(
    st.text(max_size=60)
    | st.lists(pieces, max_size=25).map(" ".join)
    | st.lists(pieces, max_size=25).map("".join)
)
def test_any_text_is_an_expression_or_an_expression_error(text: str) -> None:
    error = None
    try:
        parse(text).evaluate({"a": 1, "b": {"c": "x"}, "list": {"files": [1, 2]}}.__getitem__)
    except ExpressionError as raised:
        error = raised
    if error is not None:
        assert error.code.startswith("expr_") or error.code == "absent"
        assert error.remedy
        assert 0 <= error.position <= len(text)
        if error.suggestion is not None:
            parse(error.suggestion)
