"""Whatever the text and whatever the data: bounded time, bounded size, and a clear refusal."""

from __future__ import annotations

import sys
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from kedge.base.errors import ExpressionError
from kedge.plan.expr import parse, parse_template
from kedge.plan.expr.faults import MAX_DEPTH, MAX_NODES, MAX_TEXT, MAX_WORK

UNITS = [
    "-",
    "(",
    "[",
    "{",
    "a[",
    "not ",
    "a and ",
    "a or ",
    "1+",
    "a.b.",
    ".a",
    "a==",
    "a<",
    "9",
    "9.",
    "1e",
    "'",
    '"\\',
    "'\\n",
    "x if y else ",
    "True and ",
    "True&&",
    "!",
    "===",
    "${",
    "{{",
    "}",
    "\\",
    "len(",
    "present(a) and ",
    "[a,",
    "{'a':",
    "a[0]",
    "[:",
    "b][c]",
    "$",
    "é",
    "\u0430",
    "“”",
    "?:",
    "a?b:c ",
    "foo(",
    "a.x().",
    "1_",
    "0",
    "is not ",
    "\n",
    " ",
    "${a}",
    "'${a}'+",
    "{{a}}",
    "\ud800",
    "if ",
    "else ",
    "for ",
    "_",
    "f'",
    "a<b<c and ",
    "x(",
    "Z",
    "not in ",
    "a+b*c==d and not -e or ",
    "ﬁ",
    "(-",
    "~",
    "a,",
    ")",
    "+",
    "null ",
    "'a' ",
]


def full(unit: str, tail: str) -> str:
    return (unit * (MAX_TEXT // len(unit) + 1))[: MAX_TEXT - len(tail)] + tail


def cpu_s(run: Callable[[], object]) -> float:
    """CPU of one run, the best of three: other work on the machine is not ours."""
    best = 60.0
    for _ in range(3):
        started = time.thread_time()
        run()
        best = min(best, time.thread_time() - started)
    return best


def outcome(make: Callable[[str], object], text: str) -> str:
    try:
        make(text)
    except ExpressionError as error:
        return error.code
    return "ok"


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("tail", ["", "1"])
def test_any_text_at_the_limit_takes_under_10_ms(unit: str, tail: str) -> None:
    text = full(unit, tail)
    assert cpu_s(lambda: outcome(parse, text)) < 0.010
    assert cpu_s(lambda: outcome(parse_template, "${" + text + "}")) < 0.010


@pytest.mark.parametrize("size", [MAX_TEXT + 1, 10_000_000])
def test_a_longer_text_is_not_even_looked_at(size: int) -> None:
    text = "-" * size
    assert outcome(parse, text) == "expr_too_long"
    assert cpu_s(lambda: outcome(parse, text)) < 0.001


def nested(opening: str, closing: str, depth: int) -> str:
    return opening * depth + "1" + closing * depth


@pytest.mark.parametrize(
    ("opening", "closing"),
    [
        ("(", ")"),
        ("[", "]"),
        ("-", ""),
        ("not ", ""),
        ("a[", "]"),
        ("str(", ")"),
        ('{"a":', "}"),
        ("1 if a else ", ""),
        ("a or not b == c + d * -(", ")"),
    ],
)
def test_nesting_is_limited(opening: str, closing: str) -> None:
    deepest = 0
    for depth in range(1, MAX_DEPTH + 3):
        code = outcome(parse, nested(opening, closing, depth))
        deepest = depth if code == "ok" else deepest
        assert code in ("ok", "expr_too_deep")
    assert MAX_DEPTH // 3 <= deepest <= MAX_DEPTH


def test_the_deepest_expression_leaves_the_stack_to_others() -> None:
    text = nested("a or not b == c + d * -(", ")", 10)
    limit = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 500)
    try:
        parse(text)
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.parametrize("joint", [" and ", "+", ",", " or ", "*"])
def test_parts_are_limited(joint: str) -> None:
    def chain(count: int) -> str:
        return "[" + joint.join(["a"] * count) + "]"

    assert outcome(parse, chain(MAX_NODES - 2)) == "ok"
    assert outcome(parse, chain(MAX_NODES + 1)) == "expr_too_many_parts"


def test_a_long_chain_is_not_a_deep_one() -> None:
    assert parse("+".join(["1"] * 450)).evaluate(dict[str, Any]().__getitem__) == 450
    assert parse(" and ".join(["true"] * 450)).evaluate(dict[str, Any]().__getitem__) is True


BIG: dict[str, Any] = {
    "text": "x" * 600_000,
    "list": [0] * 600_000,
    "huge": "y" * 70_000_000,
    "long": [1] * 1_100_000,
    "words": ["word"] * 150_000,
    "pages": ["p" * 100_000] * 20,
    "copy": [0] * 600_000,
}


@pytest.mark.parametrize(
    "text",
    [
        "text + text",
        "list + list",
        "[text + 'a', text + 'b']",
        "huge[1:]",
        "huge[:50000000]",
        "upper(huge)",
        "lower(huge)",
        "long[:]",
        "sum(long)",
        "max(long)",
        "any(long)",
        "1 in long",
        "str(words)",
        "str(pages)",
        "str(long)",
        "list != copy or list != copy",
        " or ".join(["2 in list"] * 50),
        " or ".join(["'z' in huge"] * 50),
        " or ".join(["huge + 'a' == huge"] * 50),
        " or ".join(["not startswith(huge, huge)"] * 50),
        "+".join(["text"] * 400),
    ],
)
def test_an_evaluation_is_bounded_before_it_grows(text: str) -> None:
    expression = parse(text)
    tracemalloc.start()
    try:
        assert outcome(lambda _: expression.evaluate(BIG.__getitem__), "") == "expr_too_big"
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()
    assert cpu_s(lambda: outcome(lambda _: expression.evaluate(BIG.__getitem__), "")) < 1.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("len(huge) + len(long)", 71_100_000),
        ("huge[5]", "y"),
        ("long[-1]", 1),
        ("len(long[:100000])", 100_000),
        ("'y' in huge", True),
        ("sum(list)", 0),
        ("list == copy", True),
        ("huge == huge", True),
        ("len(text + 'abc')", 600_003),
    ],
)
def test_large_data_is_fine_as_long_as_little_is_done_with_it(text: str, expected: Any) -> None:
    assert parse(text).evaluate(BIG.__getitem__) == expected


def test_the_budget_is_one_for_the_whole_evaluation_and_new_for_the_next() -> None:
    half = MAX_WORK // 2
    data = {"a": "x" * half}
    twice = parse("len(a[:]) + len(a[:])")
    thrice = parse("len(a[:]) + len(a[:]) + len(a[:])")
    for _ in range(3):
        assert twice.evaluate(data.__getitem__) == 2 * half
        assert outcome(lambda _: thrice.evaluate(data.__getitem__), "") == "expr_too_big"


def test_data_may_nest_deeper_than_the_stack() -> None:
    left: Any = 1
    right: Any = 1
    for _ in range(50_000):
        left, right = [left], [right]
    assert parse("a == b").evaluate({"a": left, "b": right}.__getitem__) is True


def test_speed_is_of_the_right_order() -> None:
    """Ten times what it takes: a plan has a hundred thousand of these."""
    names = [f"n{index}" for index in range(2_000)]
    assert cpu_s(lambda: [parse(name) for name in names]) / 2_000 < 20e-6
    assert cpu_s(lambda: [parse_template("${" + name + "}") for name in names]) / 2_000 < 30e-6
    expression = parse("a.b > 0.5")
    resolve = {"a": {"b": 0.7}}.__getitem__
    assert cpu_s(lambda: [expression.evaluate(resolve) for _ in range(2_000)]) / 2_000 < 20e-6


def test_long_expressions_are_not_kept():
    texts = [f"{n} + " + " + ".join(f"a.b{n}_{k}" for k in range(100)) for n in range(200)]
    parse(texts[0])
    tracemalloc.start()
    try:
        for text in texts:
            parse(text)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept < 1_000_000
