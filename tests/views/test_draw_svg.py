import re

from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.limits import Limits
from kedge.flow.words import StepStatus
from kedge.plan.model import Plan, Step
from kedge.views.draw import draw

SVG = "{http://www.w3.org/2000/svg}"


def test_a_run_as_a_picture(story, parse_xml):
    run = story()
    tree = parse_xml(draw(run.plan, run.state, "svg"))
    texts = ["".join(t.itertext()) for t in tree.iter(f"{SVG}text")]
    assert texts[0] == "Compare the tone of the two newest reports"
    assert "✓ sum_up" in texts
    assert "✗ publish" in texts
    boxes = [r.get("class") for r in tree.iter(f"{SVG}rect") if r.get("class", "").startswith("step")]
    assert len(boxes) == 9
    assert sum("critical" in css for css in boxes) >= 2
    assert sum("failed" in css for css in boxes) == 1
    edges = [p.get("class") for p in tree.iter(f"{SVG}path") if (p.get("class") or "").startswith("edge")]
    assert "edge fallback critical" in edges
    assert "edge critical" in edges
    bars = [r.get("class") for r in tree.iter(f"{SVG}rect") if r.get("class", "").startswith("bar")]
    assert {"bar done", "bar failed", "bar wait"} <= set(bars)


def test_boxes_lie_inside_the_picture_and_children_inside_their_parents(story, parse_xml):
    run = story()
    tree = parse_xml(draw(run.plan, run.state, "svg"))
    width, height = float(tree.get("width")), float(tree.get("height"))
    found = [
        tuple(float(r.get(k)) for k in ("x", "y", "width", "height"))
        for r in tree.iter(f"{SVG}rect")
        if r.get("x")
    ]
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in found)
    group = next(r for r in tree.iter(f"{SVG}rect") if "group" in r.get("class", ""))
    x, y, w, h = (float(group.get(k)) for k in ("x", "y", "width", "height"))
    inside = [
        b for b in found if b[2] < w and x < b[0] and b[0] + b[2] < x + w and y < b[1] and b[1] + b[3] < y + h
    ]
    assert len(inside) >= 2


def test_steps_that_stand_for_many_say_how_many_are_done(play):
    steps = [{"id": "each", "foreach": list(range(20)), "steps": [{"id": "inner", "tool": "t"}]}]
    slow = 5, {}
    run = play({"steps": steps}, lambda path, _: (1, {}) if "[0]" in path else slow, 2, Limits(parallel=20))
    drawn = draw(run.plan, run.state, "svg", now_ms=run.now)
    assert ">1 of 20, t<" in drawn
    assert "12 more items" in drawn
    assert "bar running many open" in drawn
    assert draw(run.plan, play({"steps": steps}, until_s=-1).state, "svg")


def test_a_plan_has_no_strip(story, parse_xml):
    drawn = draw(story(0).plan, form="svg")
    assert 'class="bar' not in drawn
    assert len(list(parse_xml(drawn).iter(f"{SVG}path"))) > 5


@settings(max_examples=60)
@given(st.lists(st.text(st.characters(), max_size=40), min_size=3, max_size=3))
def test_whatever_the_texts_it_is_xml_with_nothing_active(texts):
    import xml.etree.ElementTree as ET

    a, b, c = texts
    inner = (Step(id=c, do=a, tool=b),)
    drawn = draw(
        Plan(goal=a, steps=(Step(id=b, do=c, tool=a), Step(id=c, do=b, steps=inner, after=(b,)))), form="svg"
    )
    tree = ET.fromstring(drawn)
    tags = {element.tag.removeprefix(SVG) for element in tree.iter()}
    assert tags <= {"svg", "title", "style", "defs", "marker", "path", "rect", "text"}
    assert not {
        name for element in tree.iter() for name in element.attrib if "href" in name or name.startswith("on")
    }


def test_it_stands_alone_and_knows_dark_pages(story):
    run = story()
    drawn = draw(run.plan, run.state, "svg")
    assert "prefers-color-scheme:dark" in drawn
    assert set(re.findall(r"https?://[^\"<]+", drawn)) == {"http://www.w3.org/2000/svg"}
    assert set(re.findall(r"url\(([^)]*)\)", drawn)) == {"#kedge-arrow"}
    assert "@import" not in drawn


def test_bars_have_the_colour_of_what_the_attempt_came_to(play, fails):
    steps = [{"id": "y", "steps": [{"id": "p", "tool": "t"}], "retry": {"attempts": 2, "backoff_s": 1}}]
    run = play({"steps": steps}, {"y/p": [(1, fails("busy", "transient")), (1, {})]})
    drawn = draw(run.plan, run.state, "svg")
    assert re.findall(r'class="(bar (?!key)\w+)"', drawn) == [
        "bar failed", "bar wait", "bar done", "bar failed", "bar done",
    ]  # fmt: skip
    run.state.steps["y/p"].status = StepStatus.IN_DOUBT
    assert 'class="bar in_doubt"' in draw(run.plan, run.state, "svg")


def test_a_legend_says_what_the_bars_and_the_star_mean(story, parse_xml):
    texts = [
        "".join(t.itertext())
        for t in parse_xml(draw(story(1).plan, story(1).state, "svg")).iter(f"{SVG}text")
    ]
    assert {"waits for a time", "waits for a place", "* critical path"} <= set(texts)


def test_milestones_are_named(story):
    assert "✓ compare · milestone<" in draw(story().plan, story().state, "svg")
