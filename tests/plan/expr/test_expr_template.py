"""Text with expressions in it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.errors import ExpressionError
from kedge.plan.expr import Absent, Expression, parse_template
from kedge.plan.expr.faults import MAX_RENDERED

DATA: dict[str, Any] = {
    "list": {"files": ["a", "b"], "n": 2, "}": "brace"},
    "name": "Ada",
    "none": None,
    "tricky": "${name} {{name}} $${name}",
}


def render(text: str) -> Any:
    return parse_template(text).render(DATA.__getitem__)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        ("plain $ {text} $name {{name}} }", "plain $ {text} $name {{name}} }"),
        ("${list.files}", ["a", "b"]),
        ("${list.n}", 2),
        ("${ none }", None),
        ("${list.files[:1]}", ["a"]),
        ('${{"a": {"b": list.n}}}', {"a": {"b": 2}}),
        ('${list["}"]}', "brace"),
        ("${'}' + \"{\"}", "}{"),
        ("${'\\'}'}", "'}"),
        (" ${list.n} ", " 2 "),
        ("${name}${name}", "AdaAda"),
        ("Hello ${name}: ${list.files} ${none} ${list.n > 1}", 'Hello Ada: ["a","b"] null true'),
        ("$${name}", "${name}"),
        ("$$${name}", "$${name}"),
        ("$${${name}}", "${Ada}"),
        ("costs $5, ${name}", "costs $5, Ada"),
        ("${tricky}", "${name} {{name}} $${name}"),
        ("<${tricky}>", "<${name} {{name}} $${name}>"),
        ("${'ä'}ö", "äö"),
        ("${name}\n${name}", "Ada\nAda"),
    ],
)
def test_rendered(text: str, expected: Any) -> None:
    found = render(text)
    assert (type(found), found) == (type(expected), expected)


def test_one_expression_alone_is_whole_and_keeps_the_type() -> None:
    template = parse_template("${list.files}")
    assert isinstance(template.whole, Expression)
    assert template.parts == (template.whole,)
    assert [str(path) for path in template.paths] == ["list.files"]
    assert template.names == {"list"}
    assert parse_template("a ${list.files}").whole is None
    assert parse_template("").whole is None


def test_names_and_paths_of_all_parts_in_order() -> None:
    template = parse_template("${b.x} and ${a[0]} and ${b.x} and ${present(c) and b.y}")
    assert [str(path) for path in template.paths] == ["b.x", "a[0]", "c", "b.y"]
    assert template.names == {"a", "b", "c"}
    assert parse_template("no names").names == frozenset()


def test_an_absent_name_is_an_error_in_text_too() -> None:
    with pytest.raises(Absent):
        render("Hello ${nobody}")


@pytest.mark.parametrize(
    ("text", "code", "position"),
    [
        ("a ${", "template_unclosed", 2),
        ("a ${name", "template_unclosed", 2),
        ("${'}", "expr_unclosed_string", 2),
        ("it's ${it's}", "expr_unclosed_string", 9),
        ("${}", "template_empty", 0),
        ("x ${  } y", "template_empty", 2),
        ("x ${True} y", "expr_python_literal", 4),
        ("${name}${name +}", "expr_incomplete", 15),
        ('${{"a": 1}', "expr_unclosed", 2),
        ("${a b}", "expr_syntax", 4),
        ("${" + "a" * 5000 + "}", "expr_too_long", 4098),
        ("${" + "a+" * 2500 + "}", "template_unclosed", 0),
        ("${a}" * 1001, "template_too_many_parts", 4000),
    ],
)
def test_a_wrong_template_says_where_in_the_whole_text(text: str, code: str, position: int) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_template(text)
    assert (caught.value.code, caught.value.position) == (code, position)
    assert caught.value.remedy


def test_a_suggestion_is_the_whole_text_mended() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_template("all: ${a && b}, done")
    assert caught.value.suggestion == "all: ${a and b}, done"


def test_rendered_text_has_a_limit() -> None:
    half = "x" * (MAX_RENDERED // 2 + 1)
    template = parse_template("${a}${a}${a}")
    with pytest.raises(ExpressionError) as caught:
        template.render({"a": half}.__getitem__)
    assert caught.value.code == "template_too_big"


def test_what_is_no_json_has_no_text() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse_template("a ${x}").render({"x": {1, 2}}.__getitem__)
    assert caught.value.code == "expr_no_text"


@settings(max_examples=200)
@given(st.text(), st.text())
def test_text_from_a_value_is_never_a_template(before: str, given_text: str) -> None:
    literal = before.replace("${", "$${")
    if literal.endswith("$"):
        literal += " "
    expected = literal.replace("$${", "${") + given_text
    assert parse_template(literal + "${a}").render({"a": given_text}.__getitem__) == expected


@settings(max_examples=300)
@given(st.text(alphabet="${}'\"\\ab.[] +") | st.text())
def test_any_text_is_a_template_or_an_expression_error(text: str) -> None:
    error = None
    try:
        template = parse_template(text)
        assert "${" in text or template.parts == (text,)
    except ExpressionError as raised:
        error = raised
    if error is not None:
        assert error.code
        assert error.remedy
        assert 0 <= error.position <= len(text)
