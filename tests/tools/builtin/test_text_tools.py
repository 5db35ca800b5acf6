import contextlib
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.base.errors import ToolError
from kedge.tools.builtin import scan
from kedge.tools.builtin import text as text_module
from kedge.tools.builtin.text import text_tools

TEXT = {t.spec.name: t for t in text_tools()}


def test_stats_count(call):
    assert call(TEXT["text.stats"], text="two wörds\nx\n") == {
        "characters": 12,
        "bytes": 13,
        "words": 3,
        "lines": 2,
    }
    assert call(TEXT["text.stats"], text="") == {"characters": 0, "bytes": 0, "words": 0, "lines": 0}


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"what": "between", "start": "<b>", "end": "</b>", "text": "<b>1</b> <b></b> <b>2"}, ["1", ""]),
        ({"what": "between", "start": "|", "end": "|", "text": "|a|b|c|"}, ["a", "c"]),
        ({"what": "lines", "containing": "x", "text": "ax\nb\r\nx"}, ["ax", "x"]),
        ({"what": "numbers", "text": "1, -2.5 and 3e2; v1.2.3 a4 5kg +6 .7"}, [1, -2.5, 300.0, 5, 6]),
        ({"what": "numbers", "text": "2024-11-18"}, [2024, 11, 18]),
        ({"what": "numbers", "text": "1.2.3 10.0.0.1 2024.11.18 3.5e2.1 0x1f -0X1 0.5. 1."}, [0.5, 1]),
        ({"what": "numbers", "text": "1,000 a[1,2.5]"}, [1, 0, 1, 2.5]),
        ({"what": "numbers", "text": "12345678901234567890123"}, [1.2345678901234568e22]),
        (
            {"what": "emails", "text": "a.b+c@x.org, <d@e.co.uk>. no@dot @x a@ b@.c"},
            ["a.b+c@x.org", "d@e.co.uk"],
        ),
        ({"what": "emails", "text": "x@y.de." + "a" * 100 + "@x.org"}, ["x@y.de"]),
        (
            {
                "what": "urls",
                "text": "see https://a.b/c?d=1#e, (http://x.y/z_(1)) or HTTP://q.r. https:// ftp://x",
            },
            ["https://a.b/c?d=1#e", "http://x.y/z_(1)", "HTTP://q.r"],
        ),
        ({"what": "urls", "text": '<a href="http://a.b/">'}, ["http://a.b/"]),
    ],
)
def test_parts_are_taken_out_in_order(call, arguments, found):
    result = call(TEXT["text.extract"], **arguments)
    if arguments["what"] == "emails" and "a" * 100 in arguments["text"]:
        assert not any(len(address) > 320 for address in result)
    else:
        assert result == found


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"what": "between", "start": "a"}, "needs 'end'"),
        ({"what": "between", "end": "a"}, "needs 'start'"),
        ({"what": "lines"}, "needs 'containing'"),
        ({"what": "numbers", "containing": "x"}, "does not use 'containing'"),
        ({"what": "regex"}, "allowed: 'between', 'lines', 'numbers', 'emails', 'urls'"),
    ],
)
def test_an_extract_needs_what_belongs_to_it_and_no_more(call, arguments, says):
    with pytest.raises(ToolError, match=says) as caught:
        call(TEXT["text.extract"], text="x", **arguments)
    assert caught.value.category == "invalid_input"


def test_a_number_too_large_to_exist_is_an_error(call):
    for text in ("9" * 5000, "1e999"):
        with pytest.raises(ToolError, match="too large"):
            call(TEXT["text.extract"], text=text, what="numbers")


HOSTILE = [
    "1" * 300_000,
    "a1" * 150_000,
    "-" * 300_000,
    "1." * 150_000,
    "1e" * 150_000,
    "1" * 150_000 + ".1" * 75_000,
    "-1.1.1" * 50_000,
    "@" * 300_000,
    "a@" * 150_000,
    "a" * 300_000 + "@",
    "http://" * 40_000,
    "http://x" + ")" * 300_000,
    "http://(" * 40_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("scanner", [scan.numbers, scan.emails, scan.urls])
def test_scanners_are_linear_on_hostile_text(scanner, text):
    started = time.perf_counter()
    with contextlib.suppress(ToolError):  # "too large" is an answer as well
        list(scanner(text))
    assert time.perf_counter() - started < 1.0


@given(st.text(st.sampled_from("a1.@-+e/:htps() é,"), max_size=60))
def test_what_scanners_find_is_in_the_text(text):
    for found in (*scan.emails(text), *scan.urls(text)):
        assert found in text
    assert all(isinstance(n, int | float) for n in scan.numbers(text))


def test_replace_is_literal_and_bounded(call, monkeypatch):
    assert call(TEXT["text.replace"], text="a.c abc", old=".", new="$1") == "a$1c abc"
    with pytest.raises(ToolError, match="'old' is empty"):
        call(TEXT["text.replace"], text="a", old="", new="b")
    monkeypatch.setattr(text_module, "TEXT_MAX", 100)
    assert call(TEXT["text.replace"], text="a" * 10, old="a", new="b" * 10) == "b" * 100
    with pytest.raises(ToolError, match="110 characters, and at most 100") as caught:
        call(TEXT["text.replace"], text="a" * 10, old="a", new="b" * 11)
    assert caught.value.category == "limit"


def test_join_takes_text_and_numbers_and_is_bounded(call, monkeypatch):
    assert call(TEXT["text.join"], parts=["a", 1, 2.5, True]) == "a\n1\n2.5\ntrue"
    assert call(TEXT["text.join"], parts=[]) == ""
    assert call(TEXT["text.join"], parts=["a", "b"], separator=", ") == "a, b"
    with pytest.raises(ToolError, match=r"\$\.parts\[1\]"):
        call(TEXT["text.join"], parts=["a", None])
    monkeypatch.setattr(text_module, "TEXT_MAX", 10)
    with pytest.raises(ToolError, match="at most 10"):
        call(TEXT["text.join"], parts=["a"] * 6)


def test_more_parts_than_allowed_is_a_limit(call, monkeypatch):
    monkeypatch.setattr(text_module, "FOUND_MAX", 2)
    with pytest.raises(ToolError, match="more than 2"):
        call(TEXT["text.extract"], text="1 2 3", what="numbers")
