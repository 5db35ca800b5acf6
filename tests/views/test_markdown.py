"""Text of others in Markdown is text, whatever it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.views.markdown import bullets, code, prose, quoted, table


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain words, and more: 3.5 %", "plain words, and more: 3.5 %"),
        ("market_guess and on_error", "market_guess and on_error"),
        ("_so_ *so* `so`", r"\_so\_ \*so\* \`so\`"),
        ("# no heading", r"\# no heading"),
        ("- no list", r"\- no list"),
        ("+ none", r"\+ none"),
        ("=== none", r"\=== none"),
        ("1. none", r"1\. none"),
        ("12) none", r"12\) none"),
        ("2026-11-19", "2026-11-19"),
        ("<script>alert(1)</script>", r"\<script\>alert(1)\</script\>"),
        ("[a](javascript:b) ![x](y)", r"\[a\](javascript:b) !\[x\](y)"),
        ("see https://x.y or www.x.y", r"see https\://x.y or www\.x.y"),
        ("a | b", r"a \| b"),
        ("&lt; ~~x~~ $y$", r"\&lt; \~\~x\~\~ \$y\$"),
        ("a\n\n# b\x1b[31m", r"a \# b"),
        ("", ""),
    ],
)
def test_prose_is_what_it_says(text, shown):
    assert prose(text, 100) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a", "`a`"),
        ("a`b", "``a`b``"),
        ("`", "`` ` ``"),
        ("```x", "```` ```x ````"),
        ("a|b", r"`a\|b`"),
        ("<b>&amp;", "`<b>&amp;`"),
        ("a\nb\x00", "`a b`"),
        ("", ""),
    ],
)
def test_code_is_character_by_character(text, shown):
    assert code(text) == shown


@given(st.text())
def test_code_is_never_left_before_its_end(text):
    shown = code(text)
    assert "\n" not in shown
    if shown:
        ticks = shown[: len(shown) - len(shown.lstrip("`"))]
        inside = shown[len(ticks) : -len(ticks)]
        assert shown.endswith(ticks)
        assert ticks not in re.findall(r"`+", inside)


@given(st.text())
def test_prose_has_no_mark_that_is_not_escaped(text):
    shown = prose(text, 200)
    assert "\n" not in shown
    assert not re.search(r"[`*\[\]<>#|~&$]", re.sub(r"\\.", "", shown))


def test_lines_stay_inside_their_quote_list_and_table():
    assert quoted("a\n\n> b\n# c", 10) == "> a\n>\n> \\> b\n> \\# c"
    assert bullets(["a", "b"]) == "- a\n- b"
    assert table(("x", "y"), [("1", "2")]) == "| x | y |\n| --- | --- |\n| 1 | 2 |"
