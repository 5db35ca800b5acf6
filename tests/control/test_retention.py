"""Which runs are forgotten."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kedge
from kedge.base.errors import BadInput
from kedge.control.listing import RunInfo
from kedge.control.retention import STATUSES, Retention, age_s, chosen
from kedge.flow.words import ENDED

NOW = datetime(2026, 1, 31, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def run(name, status="done", days=0.0):
    moved = NOW - timedelta(days=days)
    return RunInfo(
        id=name, plan="", goal="", status=status, started_at=moved, updated_at=moved,
        ended_at=moved if status in ENDED else None, position=1, total=1, done=1, questions=0, size_bytes=1,
    )  # fmt: skip


RUNS = [
    run("new"),
    run("live", "running", 1),
    run("week", "failed", 7),
    run("asks", "waiting", 20),
    run("month", "done", 30.5),
    run("hurt", "damaged", 40),
    run("year", "cancelled", 365),
]


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ({"older_than_s": age_s("30d")}, ["month", "year"]),
        ({"older_than_s": 0.0}, ["new", "week", "month", "year"]),
        ({"keep": 2}, ["month", "year"]),
        ({"keep": 0}, ["new", "week", "month", "year"]),
        ({"keep": 3, "older_than_s": age_s("52w")}, ["year"]),
        ({"statuses": ("failed",)}, ["week"]),
        ({"statuses": ("waiting", "damaged")}, ["asks", "hurt"]),
        ({"statuses": ("waiting",), "older_than_s": age_s("30d")}, []),
        ({"statuses": ("done",), "keep": 1}, ["month"]),
    ],
)
def test_a_policy_gives_up_exactly_these(policy, names):
    assert [one.id for one in chosen(RUNS, Retention(**policy), NOW_MS)] == names


@pytest.mark.parametrize(
    ("policy", "code"),
    [({}, "retention"), ({"keep": -1}, "retention"), ({"statuses": ("fine",)}, "status")],
)
def test_a_policy_that_says_nothing_or_nonsense_is_refused(policy, code):
    with pytest.raises(BadInput) as caught:
        Retention(**policy)
    assert caught.value.code == code


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 2_592_000), ("12h", 43_200), ("90m", 5400), ("2W", 1_209_600), ("1.5s", 1.5)],
)
def test_ages_are_read(text, seconds):
    assert age_s(text) == seconds


@pytest.mark.parametrize("text", ["", "30", "d", "-1d", "1y", "1 d", "٣d", "9" * 30 + "d", "1d2h"])
def test_what_is_no_age_is_refused(text):
    with pytest.raises(BadInput):
        age_s(text)


@given(st.lists(st.tuples(st.sampled_from(STATUSES), st.floats(0, 100)), max_size=30), st.integers(0, 40))
def test_keeping_n_always_keeps_the_newest_n_that_fit(facts, keep):
    runs = [run(str(number), status, days) for number, (status, days) in enumerate(facts)]
    gone = chosen(runs, Retention(keep=keep), NOW_MS)
    ended = [one for one in runs if one.status in ENDED]
    assert gone == ended[keep:]


@kedge.tool(effect="effect")
async def unclear() -> None:
    raise RuntimeError


WAITS = kedge.Plan.parse({"goal": "Ask", "steps": [{"id": "a", "tool": "unclear"}]})
ENDS = kedge.Plan.parse({"goal": "End", "steps": [{"id": "a", "tool": "fail", "args": {"message": "no"}}]})


async def finished(engine, *names):
    for name in names:
        await (await engine.start(ENDS, run_id=name)).result()


async def test_prune_deletes_and_gives_the_space_back(tmp_path):
    store = tmp_path / "kedge.db"
    async with kedge.Engine(kedge.builtin_tools([tmp_path]), store) as engine:
        await finished(engine, "a", "b", "c")
    async with kedge.Engine((), store) as engine:
        dry = engine.prune(Retention(keep=1), dry_run=True)
        assert [one.id for one in dry.runs] == ["b", "a"]
        assert len(engine.runs()) == 3
        assert [one.id for one in engine.prune(Retention(keep=1)).runs] == ["b", "a"]
        assert [one.id for one in engine.runs()] == ["c"]


async def test_prune_never_touches_a_run_that_is_driven(tmp_path):
    store = tmp_path / "kedge.db"
    async with kedge.Engine([unclear], store) as driver:
        await (await driver.start(WAITS, run_id="open")).result()
        async with kedge.Engine((), store) as engine:
            assert engine.prune(Retention(older_than_s=0.0)).runs == (), "it has not ended and is not named"
            pruned = engine.prune(Retention(statuses=("waiting",)))
            assert (pruned.runs, [one.id for one in pruned.kept]) == ((), ["open"])
            assert pruned.freed_bytes == 0
        assert [one.id for one in driver.runs()] == ["open"]
    async with kedge.Engine((), store) as engine:
        assert [one.id for one in engine.prune(Retention(statuses=("waiting",))).runs] == ["open"]
