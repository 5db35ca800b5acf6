import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kedge.plan.model import Approval, Loop, Plan, Step, Wait
from kedge.views.draw import draw
from kedge.views.mermaid import escape
from kedge.views.text import clean


@pytest.fixture
def mermaid(request):
    """Draws, and leaves the picture where the real parser will look at it, if that is wanted."""

    def picture(plan, run=None) -> str:
        text = draw(plan, run, "mermaid")
        folder = os.environ.get("MERMAID_OUT")
        if folder:
            name = re.sub(r"\W+", "_", request.node.name)
            Path(folder, f"{name}.mmd").write_text(text, encoding="utf-8")
        return text

    return picture


def test_a_run_as_a_flowchart(story, mermaid):
    run = story()
    drawn = mermaid(run.plan, run.state)
    assert drawn.startswith('---\ntitle: "Compare the tone of the two newest reports"\n---\nflowchart TD\n')
    body = drawn.split("flowchart TD\n")[1].split("  linkStyle")[0]
    assert body == (
        '  s0["list#58; List the report files<br/>files.list<br/>done, 0.3 s"]\n'
        '  s1[["read#58; Read them<br/>files.read, foreach<br/>done, 3 of 3 items, 1.5 s"]]\n'
        '  s2{"check<br/>text.stats, conditional<br/>if len#40;read#41; #62; 5<br/>skipped"}\n'
        '  subgraph s3["compare<br/>milestone<br/>done, 5.0 s"]\n'
        '    s4{{"tone#58; Judge the tone<br/>ask, loop, 2 rounds at most<br/>done, 2.2 s"}}\n'
        '    s5["sum_up<br/>ask<br/>done, 1.0 s"]\n'
        "  end\n"
        '  s6["publish<br/>wiki.put<br/>failed, 0.5 s"]\n'
        '  s7("draft<br/>files.write, fallback<br/>done, 1.0 s")\n'
        '  s8(("rest<br/>sleep<br/>done, 2.0 s"))\n'
        "  s0 --> s1\n"
        "  s1 --> s2\n"
        "  s1 --> s4\n"
        "  s4 --> s5\n"
        "  s3 --> s6\n"
        "  s3 --> s7\n"
        '  s6 -. "fallback" .-> s7\n'
        "  s6 --> s8\n"
    )
    assert "class s0,s1,s3,s4,s5,s7,s8 done\n" in drawn
    assert re.search(r"classDef failed fill:#\w{6},stroke:#\w{6}", drawn)


def test_a_plan_has_no_statuses(story, mermaid):
    drawn = mermaid(story(0).plan)
    assert "classDef" not in drawn
    assert '"list#58; List the report files<br/>files.list"' in drawn


def test_every_kind_and_role_has_its_shape(mermaid):
    steps = [
        Step(id="tool", tool="t"),
        *(Step(id=role, role=role) for role in ("analyze", "generate", "transform", "validate", "other")),
        Step(id="nap", tool="sleep"),
        Step(id="cond", tool="t", when="x"),
        Step(id="rounds", tool="t", loop=Loop(times=3)),
        Step(id="each", tool="t", foreach=[1]),
        Step(id="instead", tool="t", fallback_for="tool"),
        Step(id="aim", goal="later"),
    ]
    drawn = mermaid(Plan(goal="shapes", steps=tuple(steps)))
    shapes = {
        re.sub(r"^\W*\w+|\".*\"", " ", line.strip())
        for line in drawn.split("\n")
        if line.startswith("  s") and '"' in line
    }
    assert len([line for line in drawn.split("\n") if re.match(r'  s\d+[^\s\w"]+"', line)]) == len(steps)
    assert len(shapes) >= len(steps) - 1  # any role and `analyze` look the same


HOSTILE = [
    "quote \" and ' and ` backtick",
    "]; end; subgraph x",
    "end",
    "%%{init: {'theme': 'dark'}}%%",
    "%% comment",
    "a\nend\nb --> c",
    "<script>alert(1)</script><b>x</b>",
    "#quot; #35; &lt; &#60;",
    "]) }} )) [[ {{ (( >",
    "style a:#fff; classDef x:#000;",
    "click s0 href javascript:alert(1)",
    "--> -.-> ==> --- :::done @{ shape: rect }",
    "`**bold** _it_ 1. list`",
    "---\ntitle: x\n---",
    "$$x^2$$ \\u0041 \\",
    "漢字 🙂 \u202e\x1b[31m é",
    "",
]


@pytest.mark.parametrize("text", HOSTILE, ids=[f"hostile_{i}" for i in range(len(HOSTILE))])
def test_no_text_breaks_out_of_its_label(text, mermaid, play, fails):
    inner = (Step(id=text or "x", do=text, tool=text or "t"),)
    steps = (
        Step(id="a", do=text, tool="t"),
        Step(id=text or "b", do=text, role=text or "r", when=text or "x", after=("a",)),
        Step(id="c", do=text, steps=inner, after=("a",)),
        Step(id="d", do=text, tool="t", foreach=text, fallback_for="a"),
    )
    drawn = mermaid(Plan(goal=text, steps=steps))
    check_lines(drawn)


@given(st.text(st.characters(), max_size=80))
def test_an_escaped_label_has_nothing_special_in_it(text):
    assert re.fullmatch(r"(?:[A-Za-z0-9 ,._-]|[^\x00-\x7f]|#\d+;)*", escape(clean(text)))


@given(st.lists(st.text(st.characters(), max_size=40), min_size=2, max_size=2))
def test_only_our_own_syntax_stands_outside_quotes(texts):
    check_lines(
        draw(Plan(goal=texts[0], steps=(Step(id=texts[1], do=texts[0], tool=texts[1]),)), form="mermaid")
    )


def check_lines(drawn: str) -> None:
    title, *rest = drawn.split("\n")[1:]
    assert re.fullmatch(r'title: "(?:[A-Za-z0-9 ,._-]|[^\x00-\x7f]|\\u[0-9a-f]{4})*"', title)
    for line in rest:
        outside = re.sub(r'"[^"]*"', '""', line)
        assert re.fullmatch(
            r"---|flowchart TD| *end| *subgraph s\d+\[\"\"\]| *s\d+[\[\](){}<>/\\]+\"\"[\[\](){}<>/\\]+"
            r"|  s\d+ --> s\d+|  s\d+ -\. \"\" \.-> s\d+",
            outside,
        ), line
        for label in re.findall(r'"([^"]*)"', line):
            assert re.fullmatch(r"(?:[A-Za-z0-9 ,._-]|[^\x00-\x7f]|#\d+;|<br/>)*", label)


def test_ids_are_ours_even_where_the_plan_repeats_its_own(mermaid):
    drawn = mermaid(
        Plan(goal="twice", steps=(Step(id="end", tool="t"), Step(id="end", tool="t", after=("end",))))
    )
    assert len(set(re.findall(r"^  (s\d+)\[", drawn, re.MULTILINE))) == 2


def test_items_inside_composites_are_counted_together(play, mermaid):
    run = play(
        {"steps": [{"id": "each", "foreach": [1, 2, 3], "steps": [{"id": "inner", "tool": "t"}]}]},
        lambda path, starts: (1 if "[0]" in path else 5, {}),
        until_s=2,
    )
    drawn = mermaid(run.plan, run.state)
    assert "inner<br/>t<br/>running, 1 of 3 done" in drawn
    assert "each<br/>foreach<br/>milestone<br/>running, 1 of 3 items" in drawn


def test_the_critical_path_is_marked_in_groups_and_over_fallbacks(play, fails, mermaid):
    inside = [{"id": "p", "tool": "t"}, {"id": "q", "tool": "t", "after": ["p"]}]
    steps = [
        {"id": "a", "foreach": [1, 2], "steps": inside},
        {"id": "b", "tool": "t", "after": ["a"]},
        {"id": "f", "tool": "t", "fallback_for": "b"},
        {"id": "c", "tool": "t", "after": ["b"]},
        {"id": "aside", "tool": "t", "after": ["a"]},
    ]
    run = play({"steps": steps}, {"b": (1, fails("no"))})
    drawn = mermaid(run.plan, run.state)
    edges = [line.strip() for line in drawn.split("\n") if "-->" in line or ".->" in line]
    numbers = re.search(r"linkStyle ([\d,]+)", drawn)
    assert numbers is not None
    marked = [edges[int(number)] for number in numbers[1].split(",")]
    assert marked == ["s1 --> s2", "s0 --> s3", 's3 -. "fallback" .-> s4']


def test_what_a_plan_asks_for_is_told(mermaid):
    drawn = mermaid(ASKING)
    for text in (
        "find out more",
        "for signal go",
        "uses other",
        "asks#58; sure#63;",
        "may fail",
        "milestone",
    ):
        assert text in drawn


ASKING = Plan(
    goal="g",
    steps=(
        Step(id="a", goal="find out more"),
        Step(id="b", wait=Wait(signal="go")),
        Step(id="c", use="other"),
        Step(id="d", role="r", approval=Approval(ask="sure?"), on_error="continue"),
        Step(id="e", steps=(Step(id="x", tool="t", milestone=True),), milestone=False),
    ),
)
