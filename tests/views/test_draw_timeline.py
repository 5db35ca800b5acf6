import re
import textwrap

from kedge.base.limits import Limits
from kedge.views.draw import draw
from kedge.views.text import columns


def rows(drawn: str) -> dict[str, str]:
    """Label to cells."""
    found = {}
    for line in drawn.split("\n")[2:]:
        match = re.match(r"[* ]. +(\S+(?: more \w+)?) ([ █░┄─✗▸0-9+]*?) (?:[\d.]+ \w+.*)$", line)
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
