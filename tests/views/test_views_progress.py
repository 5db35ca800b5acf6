import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.base.limits import Limits
from kedge.flow import commands as cmd
from kedge.flow import inputs as inp
from kedge.flow.words import StepStatus
from kedge.views.progress import Gauge, bar, eta, percent, tree_rows
from kedge.views.text import columns


def wide(count: int) -> dict:
    return {"steps": [{"id": f"s{i}", "tool": "t"} for i in range(count)]}


def shown(run, **more) -> list[str]:
    rows = tree_rows(run.state, run.now, **more)
    return [f"{'  ' * row.depth}{row.icon} {row.label} | {row.detail} | {row.seconds}" for row in rows]


def test_a_small_run_is_shown_whole(story):
    assert shown(story(1.0)) == [
        "✓ list  List the report files |  | 0.3",
        "▸ read  Read them | 0 of 3 | 0.7",
        "  ▸ read[0] |  | 0.7",
        "  ◷ read[1] | attempt 2, for another 0.2 s, too slow | 0.7",
        "  ▸ read[2] |  | 0.7",
        "◌ check |  | None",
        "▸ compare | 0 of 2 | 1.0",
        "  ◌ tone  Judge the tone |  | None",
        "  ◌ sum_up |  | None",
        "◌ publish |  | None",
        "◌ draft |  | None",
        "◌ rest |  | None",
    ]


def test_plain_letters(story):
    lines = shown(story(1.0), unicode=False)
    assert "".join(lines).isascii()
    assert lines[0] == "D list  List the report files |  | 0.3"


def test_of_many_steps_the_running_and_failed_ones_are_shown(play, fails):
    run = play(
        wide(10_000),
        lambda path, starts: (1, fails("broken")) if path == "s40" else (1, {}),
        until_s=100.5,
        limits=Limits(parallel=10),
    )
    rows = tree_rows(run.state, run.now)
    assert len(rows) <= 40
    running = [row.path for row in rows if row.status is StepStatus.RUNNING]
    assert running == [f"s{i}" for i in range(1000, 1010)]
    assert "✗ s40 | broken | 1.0" in shown(run)
    assert rows[0].label == "… 996 done"
    assert rows[-1].label == "… 8,987 ready"


def test_items_of_a_running_group_have_room(play):
    run = play(
        {"steps": [{"id": "big", "tool": "t", "foreach": list(range(5000))}, *wide(100)["steps"]]},
        until_s=20.5,
        limits=Limits(parallel=5),
    )
    rows = tree_rows(run.state, run.now)
    assert len(rows) <= 40
    assert sum(row.path.startswith("big[") and row.status is StepStatus.RUNNING for row in rows) == 5


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(3, 40), st.integers(0, 30))
def test_rows_keep_within_their_number(module_play, seed, rows_max, width):
    import random

    rng = random.Random(seed)

    def steps(depth: int) -> list[dict]:
        return [
            {"id": f"s{i}", "foreach": list(range(rng.randint(0, 12)))}
            | ({"steps": steps(depth + 1)} if depth < 2 and rng.random() < 0.4 else {"tool": "t"})
            for i in range(rng.randint(1, 6))
        ]

    played = module_play.Played(
        {"steps": steps(0)}, lambda path, starts: (rng.random() * 9, {}), Limits(parallel=4)
    )
    for until in (0.1, 2, 5, 20):
        played.play(until)
        rows = tree_rows(played.state, played.now, rows_max=rows_max)
        assert 1 <= len(rows) <= rows_max
        hidden = any(row.status is None for row in rows)
        assert hidden or len(rows) <= len(played.state.steps)


@pytest.mark.parametrize("until_s", [1, 300])
def test_ten_thousand_steps_cost_little(play, until_s):
    run = play(wide(10_000), until_s=until_s)

    def best(ask) -> float:
        times = []
        for _ in range(5):
            start = time.perf_counter()
            ask()
            times.append(time.perf_counter() - start)
        return min(times)

    gauge = Gauge(run.state)
    assert best(lambda: tree_rows(run.state, run.now)) < 0.008  # 1 to 2 ms where nothing else runs
    assert best(lambda: gauge.seconds_left(run.now)) < 0.001  # asked again within a second


# --- how long


def test_nothing_is_known_before_the_first_step_is_done(play):
    run = play(wide(3), until_s=0.5)
    assert eta(run.state, run.now) is None


def test_estimates_are_known_from_the_start(play):
    steps = [
        {"id": "a", "tool": "t", "estimate": {"seconds": 5}},
        {"id": "b", "tool": "t", "estimate": {"seconds": 7}, "after": ["a"]},
        {"id": "c", "tool": "sleep", "args": {"seconds": 3}, "after": ["b"]},
    ]
    run = play({"steps": steps}, {"a": (5, {}), "b": (7, {})}, until_s=2)
    assert eta(run.state, run.now) == pytest.approx(13.0)
    run = play({"steps": steps}, {"a": (5, {}), "b": (7, {})}, until_s=13)
    assert eta(run.state, run.now) == pytest.approx(2.0)


def test_without_an_estimate_the_tool_s_own_times_count_then_all(play):
    steps = [
        {"id": "a", "tool": "fast"},
        {"id": "b", "tool": "slow", "after": ["a"]},
        {"id": "c", "tool": "slow", "after": ["b"]},
        {"id": "d", "tool": "new", "after": ["c"]},
    ]
    table = {"a": (2, {}), "b": (10, {}), "c": (10, {}), "d": (1, {})}
    run = play({"steps": steps}, table, until_s=12)
    assert eta(run.state, run.now) == pytest.approx(10 + 6)


def test_many_steps_share_the_places_there_are(play):
    run = play(wide(101), until_s=10, limits=Limits(parallel=10))
    assert eta(run.state, run.now) == pytest.approx(0.1, abs=1)
    run = play(wide(1000), until_s=10, limits=Limits(parallel=10))
    assert eta(run.state, run.now) == pytest.approx(90, abs=1)


def test_items_children_and_rounds_are_counted(play):
    steps = [
        {"id": "first", "tool": "t"},
        {"id": "each", "tool": "t", "foreach": list(range(40)), "after": ["first"]},
        {
            "id": "g",
            "after": ["each"],
            "steps": [{"id": "x", "tool": "t"}, {"id": "y", "tool": "t", "after": ["x"]}],
        },
        {"id": "l", "tool": "t", "after": ["g"], "loop": {"times": 5}},
    ]
    run = play({"steps": steps}, until_s=3, limits=Limits(parallel=10))
    assert run.state.steps["each"].open == 20
    assert eta(run.state, run.now) == pytest.approx(2 + 2 + 5)


def test_nobody_can_tell_while_people_are_asked_and_nothing_is_left_at_the_end(play):
    run = play(wide(3), limits=Limits(parallel=1), until_s=1)
    assert eta(run.state, run.now) == pytest.approx(2)
    run.give(cmd.Pause())
    assert eta(run.state, run.now) is None
    assert eta(play(wide(1)).state, 0) is None


def test_a_gauge_counts_down_between_two_looks(play):
    run = play(wide(30), limits=Limits(parallel=1), until_s=5)
    gauge = Gauge(run.state)
    assert gauge.seconds_left(run.now) == pytest.approx(25)
    assert gauge.seconds_left(run.now + 400) == pytest.approx(24.6)
    run.play(7)
    assert gauge.seconds_left(run.now) == pytest.approx(23)


# --- how far


def test_a_gauge_never_goes_back_unless_the_run_is_taken_up_again(play, fails):
    document = {
        "steps": [
            {"id": "g", "retry": {"attempts": 2, "backoff_s": 0, "on": ["transient"]},
             "steps": [{"id": "x", "tool": "t"}, {"id": "y", "tool": "t", "after": ["x"]}]},
            {"id": "b", "tool": "t", "after": ["g"]},
        ]
    }  # fmt: skip
    table = {"g/y": [(1, fails("again", "transient")), (1, {})], "b": [(1, fails("no")), (1, {})]}
    run = play(document, table, until_s=0)
    gauge = Gauge(run.state)
    seen = []
    for until in range(40):
        run.play(until / 4)
        seen.append(gauge.percent())
    assert seen == sorted(seen)
    assert seen[-1] == 100.0
    run.give(inp.Resumed(retry_failed=True))
    assert gauge.percent() == 50.0


def test_percent_is_where_the_run_stands(play):
    run = play(
        {"steps": [{"id": "a", "tool": "t", "foreach": [1, 2, 3, 4]}, {"id": "b", "tool": "t"}]}, until_s=0.5
    )
    assert percent(run.state) == 0.0
    run = play({"steps": [{"id": "a", "tool": "t", "loop": {"times": 4}}]}, until_s=2.5)
    assert percent(run.state) == 50.0
    assert percent(run.play().state) == 100.0


def test_a_run_is_done_to_100_percent_only_when_it_has_ended(play):
    run = play(wide(3), until_s=0.5)
    run.give(cmd.Pause())
    run.play(5)
    assert all(step.status is StepStatus.DONE for step in run.state.steps.values())
    assert not run.state.ended
    assert 99 < percent(run.state) < 100
    run.give(cmd.Unpause())
    run.play(6)
    assert run.state.ended
    assert percent(run.state) == 100.0


@pytest.mark.parametrize(
    ("done", "text"), [(0, "░░░░"), (50, "██░░"), (99.9, "███░"), (100, "████"), (-5, "░░░░"), (500, "████")]
)
def test_bars(done, text):
    assert bar(done, 4) == text
    assert columns(bar(done, 4)) == 4
    assert bar(done, 4, unicode=False) == text.replace("█", "#").replace("░", ".")
