"""A store is read whole, or it is said which run is not, and why."""

from __future__ import annotations

import shutil

import apsw
import msgspec
import pytest

import kedge
from kedge.journal.opening import open_journal
from kedge.testing import Hang, assert_replays, rehearsal, scripted, virtual

PLAN = """
goal: Some of all
steps:
  - {id: each, tool: one, foreach: [1, 2, 3], args: {x: "${item}"}}
  - {id: end, tool: two, args: {x: "${each}"}, timeout_s: 5}
"""


@kedge.tool
async def two(x: list) -> None:
    """Have an effect."""


@virtual
async def _fill(path, run_tools):
    async with rehearsal(PLAN, run_tools, store=path) as run:
        return await run.result()


@pytest.fixture
def store(tmp_path):
    path = tmp_path / "kedge.db"
    assert _fill(path, {"one": 1, "two": 2}).status == "done"
    return path


def test_a_store_that_can_be_read_tells_what_was_read(store):
    (read,) = assert_replays(store)
    assert (read.run_id, read.status) == ("rehearsal", "done")
    assert read.events > 10
    assert read.checked == read.events - 1
    assert assert_replays(store, "rehearsal") == [read]


def test_a_run_that_waits_for_a_person_is_read_too(tmp_path):
    path = tmp_path / "kedge.db"
    _fill(path, scripted({"one": 1, "two": Hang()}, [two, kedge.tool(name="one")(_one)]))
    (read,) = assert_replays(path)
    assert read.status == "waiting"


def _one(x: int) -> int:
    return x


def test_a_journal_can_be_given_instead_of_a_path(store):
    journal = open_journal(store)
    assert [read.status for read in assert_replays(journal)] == ["done"]
    journal.close()


def test_a_store_that_is_not_there_is_not_made(tmp_path):
    for path in (tmp_path / "none.db", ":memory:"):
        with pytest.raises(kedge.BadInput, match="no such store"):
            assert_replays(path)
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_run_is_told(store):
    with pytest.raises(kedge.NotFound, match="no such run"):
        assert_replays(store, "other")


def _change(store, sql):
    copy = store.with_name("copy.db")
    shutil.copy(store, copy)
    connection = apsw.Connection(str(copy))
    connection.execute(sql)
    connection.close()
    return copy


def test_a_changed_byte_is_told_with_its_event(store):
    copy = _change(store, "update event set data = cast(replace(data, 'each[1]', 'each[2]') as blob)")
    with pytest.raises(AssertionError, match=r"1 of 1 runs:\n  run rehearsal event \d+: its bytes are not"):
        assert_replays(copy)


def test_a_line_that_says_otherwise_than_the_log_is_told(store):
    journal = open_journal(store)
    (head,) = journal.runs()
    other = msgspec.structs.replace(head, headline=head.headline.replace(b'"done"', b'"failed"'))
    journal.runs = lambda holding=b"", lacking=b"": [other]
    with pytest.raises(AssertionError, match="come to done, and the store's list says failed"):
        assert_replays(journal)
    journal.close()


def test_an_unlawful_event_is_told(store, monkeypatch):
    def broken(state):
        raise AssertionError("running: kept 1, counted 2")

    monkeypatch.setattr("kedge.testing.replays.check_laws", broken)
    with pytest.raises(AssertionError, match=r"event 2 \(PlanAdopted\): running: kept 1"):
        assert_replays(store)


def test_of_a_log_too_long_to_recount_at_each_event_some_prefixes_are(store, monkeypatch):
    monkeypatch.setattr("kedge.testing.replays.RECOUNTS", 20)
    (read,) = assert_replays(store)
    assert 2 <= read.checked < read.events - 1
