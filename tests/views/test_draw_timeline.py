import re
import textwrap

from kedge.base.limits import Limits
from kedge.flow import commands as cmd
from kedge.flow import inputs as inp
from kedge.flow.words import StepStatus
from kedge.views.draw import draw
from kedge.views.text import columns


def rows(drawn: str) -> dict[str, str]:
    """Label to cells."""
    found = {}
    for line in drawn.split("\n")[2:]:
        match = re.match(r"[* ]. +(\S+(?: more \w+)?) ([ █░┄─✗⊘▸?0-9+]*?) (?:[\d.]+ \w+.*)$", line)
        if match:
            found[match[1]] = match[2]
    return found


def test_what_ran_when(play, fails):
    run = play(
        {
            "steps": [
                {"id": "a", "tool": "t"},
                {"id": "b", "tool": "t", "after": ["a"], "retry": {"attempts": 2, "backoff_s": 1}},
                {"id": "c", "tool": "sleep", "args": {"seconds": 2}, "after": ["a"]},
            ]
        },
        {"a": (2, {}), "b": [(2, fails("slow", "timeout")), (3, {})]},
    )
    drawn = draw(run.plan, run.state, "timeline", width=60)
    assert drawn == textwrap.dedent("""\
        run run1 · done · 8.0 s
             ▏0        ▏2.0 s     ▏4.0 s    ▏6.0 s
        *✓ a ███████████                                2.0 s
        *✓ b           ██████████✗░░░░░████████████████ 6.0 s x2
         ✓ c           ░░░░░░░░░░░                      2.0 s

        █ running   ░ waits for a time   ┄ waits for a place
        ✗ attempt failed   ─ group   * critical path""")


def test_waiting_for_a_place_to_run_is_shown_apart(play):
    steps = [{"id": name, "tool": "t"} for name in "ab"]
    run = play({"steps": steps}, {"a": (2, {}), "b": (2, {})}, limits=Limits(parallel=1))
    shown = rows(draw(run.plan, run.state, "timeline"))
    assert set(shown["a"].strip()) == {"█"}
    assert re.fullmatch(r"┄+█+", shown["b"].strip())


def test_what_still_runs_is_open_ended(story):
    run = story(1.0)
    drawn = draw(run.plan, run.state, "timeline", now_ms=run.now)
    shown = rows(drawn)
    assert shown["read[0]"].endswith("█▸")
    assert "▸" not in shown["list"]
    assert shown["read[1]"].rstrip("░▸").endswith("✗")


def test_rows_stand_under_their_parents_and_many_become_one(play):
    run = play(
        {"steps": [{"id": "a", "tool": "t", "foreach": list(range(50))}, {"id": "b", "tool": "t"}]},
        limits=Limits(parallel=20),
    )
    labels = list(rows(draw(run.plan, run.state, "timeline")))
    assert labels == ["a", *(f"a[{i}]" for i in range(8)), "42 more items", "b"]
    crowd = rows(draw(run.plan, run.state, "timeline"))["42 more items"].strip()
    assert set(crowd) <= set("123456789+")
    assert "+" in crowd


def test_thousands_of_steps_become_rows_that_can_be_read(play):
    run = play({"steps": [{"id": f"s{i}", "tool": "t"} for i in range(1000)]}, limits=Limits(parallel=100))
    drawn = draw(run.plan, run.state, "timeline")
    assert len(drawn.split("\n")) < 420
    assert "600 more steps" in drawn


def test_every_width_is_kept(story):
    run = story()
    for width in range(40, 130, 7):
        for unicode in (True, False):
            drawn = draw(run.plan, run.state, "timeline", width=width, unicode=unicode)
            assert max(columns(line) for line in drawn.split("\n")) <= width
            assert unicode or drawn.isascii()


def test_a_run_that_has_not_begun(play):
    run = play({"steps": [{"id": "a", "tool": "t"}]}, until_s=0)
    run.state.steps["a"].started_at = 0
    assert draw(run.plan, run.state, "timeline").endswith("nothing has started")


def looped(**more):
    steps = [{"id": "p", "tool": "t"}, {"id": "q", "tool": "t", "after": ["p"]}]
    return {"steps": [{"id": "y", "steps": steps, **more}]}


def test_rounds_of_a_composite_and_the_delays_between_them_are_shown(play):
    run = play(looped(loop={"times": 2, "delay_s": 4}))
    shown = rows(draw(run.plan, run.state, "timeline", width=60))
    assert re.fullmatch(r"─+░+─+", shown["y"].strip())
    for child in "pq":
        assert re.fullmatch(r"█+ +█+", shown[child].strip())


def test_attempts_of_a_composite_are_shown_with_all_that_was_tried_in_them(play, fails):
    table = {"y/q": [(1, fails("busy", "transient")), (1, {})]}
    run = play(looped(retry={"attempts": 2, "backoff_s": 4}), table)
    drawn = draw(run.plan, run.state, "timeline", width=60)
    shown = rows(drawn)
    assert re.fullmatch(r"─+✗░+─+", shown["y"].strip())
    assert re.fullmatch(r"█+ +█+", shown["p"].strip())
    assert re.fullmatch(r"█*✗ +█+", shown["q"].strip())
    assert re.search(r"\*✓   q .* 2\.0 s x2\n", drawn)


def test_nothing_is_drawn_while_a_run_had_ended_before_it_was_taken_up(play, fails):
    run = play({"steps": [{"id": "a", "tool": "t"}]}, {"a": [(1, fails("no")), (1, {})]})
    run.now += 8000
    run.give(inp.Resumed(retry_failed=True))
    run.play()
    drawn = draw(run.plan, run.state, "timeline", width=60)
    assert re.fullmatch(r"█+✗ +█+", rows(drawn)["a"].strip())
    assert " 2.0 s x2\n" in drawn


def test_cut_off_in_doubt_and_failed_have_marks_of_their_own(play, fails):
    act = {"a": (1, fails("no")), "b": (2, {}), "c": (9, {})}
    run = play({"steps": [{"id": name, "tool": "t"} for name in "abc"]}, act, until_s=3)
    run.give(cmd.Cancel())
    run.give(inp.Raised("c", 1, fails("cancelled", "cancelled")))
    drawn = draw(run.plan, run.state, "timeline")
    assert [rows(drawn)[name].strip()[-1] for name in "abc"] == ["✗", "█", "⊘"]
    assert "⊘ cut off" in drawn
    assert "? in doubt" not in drawn
    run.state.steps["c"].status = StepStatus.IN_DOUBT
    drawn = draw(run.plan, run.state, "timeline")
    assert rows(drawn)["c"].strip()[-1] == "?"
    assert "? in doubt" in drawn


def test_steps_in_groups_are_marked_where_the_critical_path_leads_through_them(play):
    run = play(
        {"steps": [{"id": "y", "steps": [{"id": "p", "tool": "t"}, {"id": "q", "tool": "t"}]}]},
        {"y/q": (3, {})},
    )
    drawn = draw(run.plan, run.state, "timeline").split("\n")[2:5]
    marks = {line.split("█")[0].split("─")[0].split()[-1]: line[0] for line in drawn}
    assert marks == {"y": "*", "p": " ", "q": "*"}


def test_digits_are_explained_where_rows_stand_for_many(play):
    run = play({"steps": [{"id": "a", "tool": "t", "foreach": list(range(50))}]})
    assert "so many at once" in draw(run.plan, run.state, "timeline")
    run = play({"steps": [{"id": "a", "tool": "t"}]})
    assert "so many at once" not in draw(run.plan, run.state, "timeline")
