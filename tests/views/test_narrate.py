import json
import random
import re

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow import inputs as inp
from kedge.flow.result import RunResult
from kedge.plan.model import Plan, Step
from kedge.views.narrate import Narrator, wanted
from kedge.views.progress import percent


def narrate(run):
    narrator = Narrator("run1", run.state.program)
    return [told for seq, at, event in run.journal for told in narrator.tell(seq, at, event)]


def assert_percents_are_sound(told):
    percents = [event.percent for event in told]
    assert percents == sorted(percents)
    assert all(0 <= p < 100 for p in percents[:-1])


def test_a_whole_run_in_sentences(story):
    told = narrate(story())
    assert [f"{e.level}: {e}" for e in told if e.level != "step"] == [
        "run:   0 %  Run run1 started: Compare the tone of the two newest reports",
        "run:   0 %  Plan version 1 is followed",
        "group:   0 %  Group compare started: 2 to do",
        "group:  14 %  Group read started: 3 to do",
        "group:  28 %  Group read ended",
        "group:  57 %  Group compare ended",
        "run: 100 %  The run is done in 8.5 s",
    ]
    messages = [e.message for e in told]
    for sentence in [
        "Step list started: List the report files",
        "Step list done in 0.3 s (1 of 9)",
        "Step read has 3 items",
        "Item read[1]: attempt 1 failed: too slow; attempt 2 in 0.5 s",
        "Item read[1]: attempt 2 started",
        "Item read[2] done in 1.0 s (3 of 12)",
        "Step check skipped: its condition is false: len(read) > 5 (6 of 12)",
        "Step compare/tone: round 1 done, next in 0.2 s",
        "Step compare/tone: round 2 started",
        "Step publish failed in 0.5 s: no permission (10 of 12)",
        "Step rest waits for 2.0 s",
        "Step rest done in 2.0 s (12 of 12)",
    ]:
        assert sentence in messages
    assert_percents_are_sound(told)
    assert told[-1].percent == 100.0


def test_every_event_is_told_and_told_as_it_is(story):
    run = story()
    told = narrate(run)
    own = [e for e in told if e.level != "group"]
    assert [e.seq for e in own] == list(range(1, len(run.journal) + 1))
    for event, (_, at, source) in zip(own, run.journal, strict=True):
        assert event.at == at
        assert event.run_id == "run1"
        assert event.data == ev.plain(source)
        assert event.kind.replace("_", "") == ev.kind_of(source).lower()
        assert event.path == getattr(source, "path", "")
    assert json.loads(msgspec.json.encode(told[0].plain()))["data"]["goal"] == run.plan.goal


def test_live_or_later_it_is_the_same(story):
    run = story()
    stored = [(seq, at, ev.decode_event(ev.encode_event(event))) for seq, at, event in run.journal]
    later = Narrator("run1", run.plan)
    assert [e.plain() for e in narrate(run)] == [e.plain() for row in stored for e in later.tell(*row)]


def test_groups_begin_and_end_once(play, fails):
    run = play(
        {
            "steps": [
                {
                    "id": "each", "foreach": [1, 2], "steps": [{"id": "x", "tool": "t"}],
                    "loop": {"times": 3}, "retry": {"attempts": 2, "backoff_s": 0},
                }
            ]
        },
        {"each[1]#1/x": [(1, fails("again", "transient")), (1, {})]},
    )  # fmt: skip
    groups = [(e.kind, e.path) for e in narrate(run) if e.level == "group"]
    assert sorted(groups) == sorted(
        (kind, path) for kind in ("group_started", "group_ended") for path in ("each", "each[0]", "each[1]")
    )
    assert groups[0] == ("group_started", "each")
    assert groups[-1] == ("group_ended", "each")


def test_groups_that_a_cancel_cuts_short_end_with_the_run(play):
    run = play(
        {
            "steps": [
                {"id": "g", "steps": [{"id": "x", "tool": "t"}, {"id": "y", "tool": "t", "after": ["x"]}]}
            ]
        },
        until_s=0.5,
    )
    run.give(cmd.Cancel(by="me", reason="enough"))
    run.give(inp.Raised("g/x", 1, ev.Failure(category="cancelled", code="c", message="m", classified=True)))
    told = narrate(run)
    assert [e.kind for e in told][-2:] == ["group_ended", "run_ended"]
    assert "Run run1 is being cancelled by me: enough" in [e.message for e in told]
    assert told[-1].message.startswith("The run was cancelled")
    assert told[-1].percent == 100.0


def test_levels_are_nested(story):
    told = narrate(story())
    narrator = Narrator("run1", story(0).plan)
    told.append(narrator.progress("list", 0.5, "", 0))
    chosen = {level: [e for e in told if wanted(e, level)] for level in ("run", "group", "step", "all")}
    sizes = [len(chosen[level]) for level in ("run", "group", "step", "all")]
    assert sizes == sorted(set(sizes))
    assert {e.kind for e in chosen["run"]} == {"run_started", "plan_adopted", "run_ended"}
    assert {e.kind for e in chosen["group"]} - {e.kind for e in chosen["run"]} == {
        "group_started",
        "group_ended",
    }
    assert "progress" not in {e.kind for e in chosen["step"]}


def test_what_tools_report_counts_and_is_never_taken_back(play):
    run = play({"steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}]}, {"a": (1, {}), "b": (5, {})})
    narrator = Narrator("run1", run.plan)
    told = []
    for row in run.journal:
        if row[2] == ev.StepSucceeded(path="a", result=ev.Raw(b"{}")):
            told.append(narrator.progress("b", 0.9, "nearly", row[1]))
        told += narrator.tell(*row)
        if isinstance(row[2], ev.StepStarted):
            told.append(narrator.progress(row[2].path, 0.5, "half\x1b[2J way", row[1]))
    assert_percents_are_sound(told)
    reports = [e for e in told if e.kind == "progress"]
    assert [e.percent for e in reports] == [25.0, 50.0, 70.0]
    assert reports[0].message == "Step a 50 %: half way"
    assert reports[0].data == {"kind": "Progress", "path": "a", "fraction": 0.5, "message": "half way"}
    assert reports[0].seq == next(seq for seq, _, e in run.journal if isinstance(e, ev.StepStarted))
    assert [e.percent for e in told if e.kind == "step_succeeded"] == [95.0, 99.9]


@pytest.mark.parametrize("fraction", [float("nan"), float("inf"), -3.0, 7.0, None])
def test_nonsense_from_tools_does_no_harm(play, fraction):
    run = play({"steps": [{"id": "a", "tool": "t"}]}, until_s=0)
    narrator = Narrator("run1", run.plan)
    for row in run.journal:
        narrator.tell(*row)
    event = narrator.progress("a", fraction, "x" * 10_000, 0)
    assert 0 <= event.percent < 100
    assert len(event.message) < 300
    assert narrator.progress("no such step", 0.5, "", 0).percent == event.percent


def test_a_run_taken_up_after_its_end_starts_from_what_is_done(play, fails):
    document = {
        "steps": [
            {"id": "a", "tool": "t"},
            {"id": "b", "tool": "t"},
            {"id": "c", "tool": "t", "after": ["b"]},
            {"id": "g", "steps": [{"id": "x", "tool": "t"}, {"id": "y", "tool": "t"}]},
        ]
    }
    run = play(document, {"b": [(1, fails("no")), (1, {})], "g/y": [(1, fails("no")), (1, {})]})
    ended = len(run.journal)
    run.give(inp.Resumed(retry_failed=True))
    run.play()
    narrator = Narrator("run1", run.plan)
    before = [e for row in run.journal[:ended] for e in narrator.tell(*row)]
    after = [e for row in run.journal[ended:] for e in narrator.tell(*row)]
    assert_percents_are_sound(before)
    assert before[-1].percent == 100.0
    assert after[0].percent == 37.5  # a and g/x
    percents = [e.percent for e in after]
    assert percents == sorted(percents)
    assert percents[-1] == 100.0
    assert after[-2].message.endswith("(6 of 6)")


def test_questions_limits_and_doubts_are_said(play):
    run = play({"steps": [{"id": "a", "tool": "t"}]}, until_s=0)
    run.give(inp.Exhausted(limit="run_s", value=1e6))
    run.give(cmd.Answer(by="Ann", question="q1", answer="raise"))
    run.give(inp.Reported("a", 1, "xml\x07 files", "parse xml"))
    run.give(cmd.Pause())
    run.give(cmd.Unpause(by="Bob"))
    messages = [e.message for e in narrate(run)]
    for sentence in [
        "Limit run_s is reached (1,000,000)",
        "Question q1 is answered by Ann: raise",
        "Step a found: xml files",
        "Run run1 is paused",
        "Run run1 goes on by Bob",
    ]:
        assert sentence in messages
    assert any(
        m.startswith("Question q1: The run used up its limit run_s") and m.endswith("(raise, stop)")
        for m in messages
    )


def test_every_kind_of_event_has_its_sentence():
    from kedge.views.sentences import _SENTENCES

    assert set(_SENTENCES) == set(ev.Event.__subclasses__())


@pytest.mark.parametrize(
    ("event", "told"),
    [
        ({"quality": 0.625}, "Step a has quality 0.62"),
        ({"tokens": 1_200, "cost": 0.02}, "Step a used 1,200 tokens, cost 0.02"),
        ({"cpu_s": 3.0, "memory_mb": 64.2}, "Step a used 3.0 s of processor time, 64 MB"),
        ({"quality": 0.0, "tokens": 1}, "Step a has quality 0.00 and used 1 tokens"),
    ],
)
def test_what_is_told_of_a_steps_work(event, told):
    narrator = Narrator("r", Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "t"}]}))
    (one,) = narrator.tell(1, 1, ev.FeedbackGiven(path="a", **event))
    assert (one.message, one.level, one.kind) == (told, "step", "feedback_given")


def random_document(rng: random.Random, depth: int = 0) -> list[dict]:
    steps: list[dict] = []
    for i in range(rng.randint(1, 4)):
        step: dict = {"id": f"s{i}"}
        if depth < 2 and rng.random() < 0.3:
            step["steps"] = random_document(rng, depth + 1)
        else:
            step["tool"] = "t"
        if rng.random() < 0.3:
            step["foreach"] = list(range(rng.choice([0, 1, 3, 9])))
        if rng.random() < 0.3:
            until = {"until": "len(loop.previous) > 99 or loop.index >= 1"} if rng.random() < 0.5 else {}
            step["loop"] = {"times": rng.randint(1, 5), "delay_s": 0.1, **until}
        if rng.random() < 0.3:
            step["retry"] = {"attempts": 3, "backoff_s": 0.1}
        if rng.random() < 0.2:
            step["on_error"] = "continue"
        if i and rng.random() < 0.5:
            step["after"] = [f"s{rng.randrange(i)}"]
        steps.append(step)
    if rng.random() < 0.5:
        target = rng.choice(steps)["id"]
        steps.append({"id": "instead", "tool": "t", "fallback_for": target})
    return steps


@settings(max_examples=150)
@given(st.integers(0, 10**9))
def test_percents_never_go_back_whatever_happens(play_random, seed):
    run = play_random(seed)
    told = narrate(run)
    assert_percents_are_sound(told)
    assert told[-1].percent == 100.0
    assert percent(run.state) == 100.0
    for event in told:
        assert not re.search(r"[\x00-\x1f\x7f]", event.message)
    starts = [e.path for e in told if e.kind == "group_started"]
    ends = [e.path for e in told if e.kind == "group_ended"]
    assert sorted(starts) == sorted(ends)
    counted = [re.search(r"\((\d+) of (\d+)\)$", e.message) for e in told]
    assert all(int(found[1]) <= int(found[2]) for found in counted if found)


@settings(max_examples=100)
@given(st.integers(0, 10**9))
def test_nor_when_a_run_is_taken_up_again_after_its_end(play_random, seed):
    run = play_random(seed)
    ended = len(run.journal)
    run.give(inp.Resumed(retry_failed=True))
    run.play()
    narrator = Narrator("run1", run.plan)
    before = [e for row in run.journal[:ended] for e in narrator.tell(*row)]
    after = [e for row in run.journal[ended:] for e in narrator.tell(*row)]
    assert before[-1].percent == after[-1].percent == 100.0
    assert_percents_are_sound(after)
    counted = [re.search(r"\((\d+) of (\d+)\)$", e.message) for e in after]
    assert all(int(found[1]) <= int(found[2]) for found in counted if found)


@pytest.fixture(scope="module")
def play_random(module_play):
    def start(seed: int):
        rng = random.Random(seed)
        fail = module_play.fails

        def act(path, starts):
            if rng.random() < 0.2:
                return rng.random(), fail("no", rng.choice(["transient", "permanent"]))
            return rng.random(), {}

        return module_play.play({"steps": random_document(rng)}, act)

    return start


@settings(max_examples=150)
@given(st.randoms(use_true_random=False))
def test_even_events_in_no_order_at_all_do_no_harm(rng):
    plan = Plan(goal="g", steps=(Step(id="a", tool="t"), Step(id="g", steps=(Step(id="x", tool="t"),))))
    failure = ev.Failure(category="permanent", code="c", message="m")
    paths = ["a", "a[0]", "g", "g/x", "g#1/x", "zz", "g[2]/x"]
    made: list[ev.Event] = []
    for path in paths:
        made += [
            ev.StepStarted(path=path),
            ev.StepSucceeded(path=path),
            ev.StepFailed(path=path, error=failure),
            ev.StepExpanded(path=path, count=3),
            ev.RoundEnded(path=path, iteration=1),
            ev.StepCancelled(path=path),
            ev.RetryScheduled(path=path, attempt=2, error=failure, at=5),
        ]
    rng.shuffle(made)
    narrator = Narrator("run1", plan)
    told = [e for seq, event in enumerate(made) for e in narrator.tell(seq, seq, event)]
    told += narrator.tell(99, 99, ev.RunEnded(status=ev.RunStatus.DONE))
    assert_percents_are_sound(told)


def test_the_end_of_a_milestone_is_marked(play):
    steps = [
        {"id": "a", "tool": "t", "milestone": True, "foreach": [1, 2]},
        {"id": "b", "steps": [{"id": "x", "tool": "t"}]},
        {"id": "c", "steps": [{"id": "x", "tool": "t"}], "milestone": False},
    ]
    run = play({"steps": steps})
    told = narrate(run)
    assert [(e.kind, e.path) for e in told if e.milestone] == [
        ("step_succeeded", "a"),
        ("step_succeeded", "b"),
    ]
    assert told[0].plain()["milestone"] is False
    assert [path for path, step in RunResult(run.state, "").steps.items() if step.milestone] == ["a", "b"]


def test_attempts_of_a_composite_leave_room_for_those_that_may_follow(play, fails):
    inside = [{"id": "x", "tool": "t"}, {"id": "y", "tool": "t", "after": ["x"]}]
    document = {"steps": [{"id": "a", "retry": {"attempts": 5}, "steps": inside}]}
    run = play(document, {"a/y": [(1, fails("busy", "transient"))] * 4 + [(1, {})]})
    told = narrate(run)
    ends = [e.percent for e in told if e.kind == "retry_scheduled"]
    assert ends == [50.0, 75.0, 87.5, 93.75]
    assert_percents_are_sound(told)


def test_a_group_that_somebody_else_named_is_told_in_plain_characters(story):
    narrator = Narrator("run1", story().state.program)
    told = narrator.tell(1, 1, ev.StepExpanded(path="\x00\x1b[31m", count=7))
    assert [event.kind for event in told] == ["step_expanded", "group_started"]
    assert all(event.message.isprintable() for event in told)
