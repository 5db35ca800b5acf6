import re
import textwrap
import unicodedata
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.errors import BadInput
from kedge.flow.result import RunResult
from kedge.plan.model import Approval, Estimate, Loop, Plan, Step, Wait
from kedge.testing.ring import Ring
from kedge.views.draw import draw
from kedge.views.text import columns


def lines(text: str) -> str:
    return textwrap.dedent(text).strip()


def test_a_plan(story):
    assert draw(story(0).plan) == lines("""
        Compare the tone of the two newest reports
        9 steps · estimated 6.2 s (6 of them without an estimate)

        ├─ list [normal]  List the report files · files.list
        ├─ read [foreach]  Read them · files.read · for each of ${list.files} · after: list
        ├─ check [conditional] · text.stats · if len(read) > 5 · after: read
        ├─ compare [composite] · milestone
        │  ├─ tone [loop]  Judge the tone · ask · 2 rounds · after: read
        │  └─ sum_up [normal] · ask · after: tone
        ├─ publish [normal] · wiki.put · about 4.0 s · after: compare
        │  └─ ↳ draft [fallback] · files.write · instead of: publish · after: compare
        └─ rest [normal] · sleep · about 2.0 s · after: publish
        """)


def test_a_run_on_its_way(story):
    run = story(1.0)
    drawn = draw(run.plan, run.state, now_ms=run.now)
    assert "run run1 · running · 14 % · 1.0 s · started 2023-11-14 22:13:20 UTC" in drawn
    assert "├─ ✓ list [normal]  List the report files · files.list · 0.3 s" in drawn
    assert (
        "├─ ▸ read [foreach]  Read them · files.read · 0 of 3 items, 0 % · running 0.7 s · after: list"
        in drawn
    )
    waits = "│  ├─ ◷ read[1] · waiting, 0.2 s to go · attempt 2 of 3 · attempt 1 failed: timeout: too slow"
    assert waits in drawn
    assert "├─ ◌ publish [normal] · wiki.put · after: compare" in drawn


def test_a_run_that_is_done(story):
    run = story()
    assert draw(run.plan, RunResult(run.state, "p1")) == lines("""
        Compare the tone of the two newest reports
        9 steps · estimated 6.2 s (6 of them without an estimate)
        run run1 · done · 100 % · 8.5 s · started 2023-11-14 22:13:20 UTC
        ████████████████████████████████████████

        ├─ ✓ list [normal]  List the report files · files.list · 0.3 s
        ├─ ✓ read [foreach]  Read them · files.read · 3 of 3 items, 100 % · 1.5 s · after: list
        │  ├─ ✓ read[0] · 1.0 s
        │  ├─ ✓ read[1] · 1.5 s · attempt 2 of 3
        │  └─ ✓ read[2] · 1.0 s
        ├─ ↷ check [conditional] · text.stats · skipped: its condition is false: len(read) > 5 · after: read
        ├─ ✓ compare [composite] · 5.0 s · milestone
        │  ├─ ✓ tone [loop]  Judge the tone · ask · 2.2 s · round 2 of 2 · after: read
        │  └─ ✓ sum_up [normal] · ask · 1.0 s · after: tone
        ├─ ✗ publish [normal] · wiki.put · failed 0.5 s · permission: no permission · replaced by draft
        │  │    after: compare
        │  └─ ↳ ✓ draft [fallback] · files.write · 1.0 s · instead of: publish · after: compare
        └─ ✓ rest [normal] · sleep · 2.0 s · after: publish
        """) + drawn_closing(draw(run.plan, run.state))


def drawn_closing(drawn: str) -> str:
    closing = drawn[drawn.rindex("\n\n") :]
    facts = r"done: 10 done, 1 failed, 1 skipped · in 8\.5 s · parallel efficiency \d+ %"
    assert re.fullmatch(rf"\n\n{facts}\ncritical path .*: .*→ rest", closing)
    return closing


def test_plain_letters_where_the_terminal_has_no_more(story):
    run = story()
    drawn = draw(run.plan, run.state, unicode=False, width=60)
    assert drawn.isascii()
    assert "|- D list [normal]  List the report files - files.list\n|       0.3 s\n" in drawn
    assert "|- S check" in drawn
    assert "|  `- > D draft" in drawn
    assert "`- D rest" in drawn


def test_many_items_become_a_few_and_a_count(play, fails):
    document = {"steps": [{"id": "a", "tool": "t", "foreach": list(range(100)), "on_error": "continue"}]}
    run = play(document, {"a[57]": (1, fails("broken"))})
    drawn = draw(run.plan, run.state)
    shown = re.findall(r"a\[(\d+)\]", drawn)
    assert shown == ["0", "1", "2", "3", "4", "5", "6", "57"]
    assert "✗ a[57] · failed 1.0 s · permanent: broken" in drawn
    assert "└─ … 92 more: 92 done" in drawn


def test_an_open_question_is_shown(story, play):
    from kedge.flow import inputs as inp

    run = play({"steps": [{"id": "a", "tool": "t"}]}, until_s=0)
    run.give(inp.Exhausted(limit="run_s", value=1e9))
    drawn = draw(run.plan, run.state, now_ms=run.now)
    assert "question q1: The run used up its limit run_s" in drawn
    assert "raise, stop" in drawn


def test_a_failed_run_says_why_and_what_was_skipped_because_of_it(play, fails):
    run = play(
        {"steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", "after": ["a"]}]},
        {"a": (1, fails("no \x1b[31mfile\nthere", "permission"))},
    )
    drawn = draw(run.plan, run.state)
    assert "✗ a [normal] · t · failed 1.0 s · permission: no file there" in drawn
    assert "↷ b [normal] · t · skipped: it depends on what failed: a · after: a" in drawn
    assert drawn.endswith(
        "permission: step a failed: no file there (2 steps failed or were skipped because of it)"
    )


def test_plans_with_faults_are_drawn_all_the_same():
    ring = Plan(
        goal="",
        steps=(
            Step(id="a", tool="t", after=("b", "nowhere")),
            Step(id="b", tool="t", after=("a",), args={"x": "${oops"}),
            Step(id="c", tool="t", fallback_for="d"),
            Step(id="d", tool="t", fallback_for="c"),
            Step(id="e", tool="t", fallback_for="a"),
            Step(id="f", tool="t", fallback_for="a"),
            Step(id="a", steps=()),
        ),
    )
    drawn = draw(ring)
    assert re.findall(r"([a-f]) \[", drawn) == list("aebcdfa")
    for form in ("mermaid", "svg"):
        assert draw(ring, form=form)


def test_estimates_add_up_along_the_longest_chain():
    def step(id_, seconds, **more):
        return Step(id=id_, tool="t", estimate=Estimate(seconds=seconds), **more)

    plan = Plan(
        goal="g",
        steps=(
            step("a", 10),
            Step(id="b", after=("a",), steps=(step("x", 5), step("y", 7, after=("x",)), step("z", 11))),
            step("c", 20),
        ),
    )
    assert "6 steps · estimated 22 s\n" in draw(plan)


def test_long_lists_are_shortened(play):
    steps = [{"id": f"s{i}", "tool": "t", "after": [f"s{i - 1}"] if i else []} for i in range(20)]
    steps.append({"id": "last", "tool": "t", "after": [f"s{i}" for i in range(20)]})
    run = play({"steps": steps})
    drawn = draw(run.plan, run.state)
    assert "after: s0, s1, s2, s3, s4, s5 and 14 more" in drawn
    assert "critical path 21 s: s0 → s1 → s2 → s3 → … → s17 → s18 → s19 → last" in drawn


def test_plan_facts_say_how_often(play):
    steps = (
        Step(id="a", tool="t", foreach=[1, 2, 3]),
        Step(id="b", tool="t", loop=Loop(times=5, until="result.ok")),
        Step(id="c", tool="t", milestone=True),
    )
    drawn = draw(Plan(goal="g", steps=steps))
    assert "a [foreach] · t · for each of 3" in drawn
    assert "b [loop] · t · up to 5 rounds until result.ok" in drawn
    assert "c [normal] · t · milestone" in drawn


HOSTILE = st.text(st.characters(), max_size=60) | st.sampled_from(
    ["\x1b[2J\x1b]0;x\x07", "漢字" * 40, "a\u0301" * 80, "\u202eabc", "\r\nspoof: done", "🙂" * 60, "|" * 200]
)


def hostile_plan(texts: list[str]) -> Plan:
    a, b, c, d = texts
    inner: tuple[Step, ...] = (Step(id=a or "x", do=b, tool=c),)
    for depth in range(12):
        inner = (Step(id=f"n{depth}", do=d, steps=inner),)
    return Plan(
        goal=a,
        steps=(
            Step(id="s", do=b, tool=c, when=d),
            Step(id=c, do=d, role=a, foreach=b, fallback_for="s", after=tuple(texts)),
            Step(id="loop", do=a, wait=None, tool=d, after=("s",)),
            *inner,
        ),
    )


@settings(max_examples=80)
@given(st.lists(HOSTILE, min_size=4, max_size=4), st.integers(40, 120), st.booleans())
def test_no_text_acts_on_the_terminal_or_leaves_its_width(texts, width, unicode):
    drawn = draw(hostile_plan(texts), unicode=unicode, width=width)
    assert unicode or drawn.isascii()
    for line in drawn.split("\n"):
        assert columns(line) <= width
        assert not {unicodedata.category(char) for char in line} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


def test_tool_texts_are_cleaned_in_every_form(play, fails):
    run = play({"steps": [{"id": "a", "tool": "t"}]}, {"a": (1, fails("\x1b]0;owned\x07bad\u202e"))})
    for form in ("ascii", "mermaid", "timeline", "svg"):
        drawn = draw(run.plan, run.state, form)
        assert not set(drawn) & set("\x1b\x07\u202e")


@pytest.mark.parametrize(
    ("args", "code"),
    [({"form": "png"}, "form"), ({"form": "timeline"}, "form"), ({"width": 10}, "width")],
)
def test_what_cannot_be_drawn_is_refused_with_what_can(story, args, code):
    with pytest.raises(BadInput) as refused:
        draw(story(0).plan, **args)
    assert refused.value.code == code
    assert refused.value.allowed or refused.value.remedy


def test_what_is_no_plan_is_refused_with_how_to_draw_it(story):
    wrong: Any
    for wrong in (story(2), story(2).state, "plan.yaml"):
        with pytest.raises(BadInput, match=r"draw\(plan, result\)"):
            draw(wrong)


def test_the_same_run_gives_the_same_picture(story):
    for form in ("ascii", "mermaid", "timeline", "svg"):
        assert draw(story(2).plan, story(2).state, form) == draw(story(2).plan, story(2).state, form)


def test_what_a_plan_asks_for_is_told():
    plan = Plan(
        goal="g",
        steps=(
            Step(id="a", goal="find out more"),
            Step(id="b", wait=Wait(signal="go")),
            Step(id="c", use="other"),
            Step(id="d", role="r", approval=Approval(ask="sure?"), on_error="continue"),
            Step(id="e", tool="t", on_error="ask"),
        ),
    )
    drawn = draw(plan)
    told = (
        "[goal] · find out more",
        "for signal go",
        "uses other",
        "r · asks: sure? · may fail",
        "asks if it fails",
    )
    for text in told:
        assert text in drawn


def test_the_end_of_a_composite_is_a_milestone_unless_it_says_otherwise():
    inner = (Step(id="x", tool="t"),)
    drawn = draw(
        Plan(goal="g", steps=(Step(id="a", steps=inner), Step(id="b", steps=inner, milestone=False)))
    )
    assert "a [composite] · milestone" in drawn
    assert "b [composite]\n" in drawn


@pytest.mark.parametrize(
    ("step", "limits", "told"),
    [
        ({"tool": "t", "loop": {"times": 10, "delay_s": 60}, "estimate": {"seconds": 3}}, {}, "9 min 30 s"),
        ({"tool": "sleep", "args": {"seconds": 5}, "loop": {"times": 10}}, {}, "50 s"),
        ({"steps": [{"id": "x", "tool": "t", "estimate": {"seconds": 3}}], "loop": {"times": 5}}, {}, "15 s"),
        ({"tool": "t", "foreach": [1, 2, 3, 4], "estimate": {"seconds": 3}}, {}, "3.0 s"),
        ({"tool": "t", "foreach": [1, 2, 3, 4], "estimate": {"seconds": 3}}, {"parallel": 2}, "6.0 s"),
    ],
)
def test_rounds_delays_items_and_room_are_in_the_estimate(step, limits, told):
    plan = Plan.parse({"goal": "g", "limits": limits, "steps": [{"id": "a", **step}]})
    assert f"estimated {told}\n" in draw(plan)


def test_a_fallback_is_not_in_the_estimate():
    steps = (
        Step(id="a", tool="t", estimate=Estimate(seconds=1)),
        Step(id="f", tool="t", fallback_for="a", estimate=Estimate(seconds=100)),
    )
    assert "estimated 1.0 s\n" in draw(Plan(goal="g", steps=steps))


def test_how_good_a_result_is_stands_beside_it():
    ring = Ring(
        {"goal": "g", "steps": [
            {"id": "a", "tool": "t", "quality": "result"},
            {"id": "b", "tool": "t", "quality": "result", "quality_min": 0.5},
            {"id": "c", "tool": "t"},
        ]}
    ).start()  # fmt: skip
    assert "quality" not in draw(ring.plan, ring.state)
    ring.finish("a", 0.625).finish("b", 0.25).finish("c", 1)
    drawn = draw(ring.plan, ring.state)
    assert "a [normal] · t · 0 ms · quality 0.62\n" in drawn
    assert "b [normal] · t · failed 0 ms · quality 0.25\n" in drawn
    assert "c [normal] · t · 0 ms\n" in drawn
