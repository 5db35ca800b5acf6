"""Commands in the file: an older store gets a table for them, and no byte of one changes unnoticed."""

from pathlib import Path

import apsw
import pytest

import kedge
from kedge import commands
from kedge.base.errors import StoreDamaged
from kedge.journal.entry import Sent
from kedge.journal.schema import migrations
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver

VERSION_1 = Path(__file__).with_name("version_1.sql")


@pytest.fixture
def posted(open_sqlite):
    journal = open_sqlite()
    driver = Driver(journal)
    driver.write(1)
    one = journal.post([Sent("run", "k", 0, 5, b'{"command":"pause"}')])[0]
    return journal, driver, one


def sql(path, statement, *values):
    db = apsw.Connection(str(path))
    db.execute(statement, values)
    db.close()


@pytest.fixture
def old_store(path):
    path.parent.mkdir()
    db = apsw.Connection(str(path))
    db.execute(VERSION_1.read_text())
    db.close()
    return path


async def test_a_store_of_version_1_is_brought_up_to_date_and_its_run_takes_commands(old_store):
    @kedge.tool(effect="pure")
    async def quick() -> str:
        return "quick"

    async with kedge.Engine(tools=[quick], store=old_store) as engine:
        receipt = await engine.send("old", commands.Signal(name="go"))
        assert not receipt.driven
        run = await engine.resume("old")
        assert (await receipt.decided(5)).taken
        assert (await run.result()).status == "done"
    db = apsw.Connection(str(old_store))
    assert db.pragma("user_version") == len(migrations())
    db.close()


def test_a_version_1_file_that_was_cut_short_is_read_as_it_is(old_store):
    journal = SqliteJournal(old_store)
    driver = Driver(journal, "big")
    driver.write(400)
    driver.release()
    journal.close()
    db = apsw.Connection(str(old_store))
    db.execute("drop table command; alter table lease drop column port; pragma user_version = 1; vacuum")
    db.close()
    whole = old_store.read_bytes()
    old_store.write_bytes(whole[: len(whole) - 4096])
    with pytest.raises(StoreDamaged):
        SqliteJournal(old_store).claim("old", 1)
    assert len(SqliteJournal(old_store).read("old")) > 3


@pytest.mark.parametrize(
    "change",
    [
        "data = x'7b7d'", "data = 'text'", "id = 'other'", "at = at + 1", "at = 'x'", "port = 99", "crc = 0",
    ],
)  # fmt: skip
def test_a_changed_command_is_told_from_one_that_was_sent(posted, path, change):
    journal, _, one = posted
    sql(path, f"update command set {change}")
    found = journal.posted("run")[0]
    assert found.damaged
    assert found.position == one.position
    assert found.data == b""


@pytest.mark.parametrize("change", ["decision = x'00'", "decision = 'text'", "decision_crc = 0"])
def test_a_changed_decision_is_refused(posted, path, change):
    journal, driver, one = posted
    journal.commit([driver.next(b"x")._replace(decisions=((one.position, b"yes"),))])
    sql(path, f"update command set {change}")
    with pytest.raises(StoreDamaged):
        journal.decisions([one.position])
    with pytest.raises(StoreDamaged):
        journal.find_posted("run", "k")


def test_a_decision_for_another_runs_command_changes_nothing(posted):
    journal, _, one = posted
    other = Driver(journal, "other")
    journal.commit([other.next(b"x")._replace(decisions=((one.position, b"yes"),))])
    assert journal.decisions([one.position]) == {}


def test_what_became_of_a_command_and_its_events_are_written_together_or_not_at_all(posted):
    from kedge.base.errors import StoreError
    from kedge.testing.failpoints import disarm, raise_at

    journal, driver, one = posted
    append = driver.next(b"taken")._replace(decisions=((one.position, b"yes"),))
    try:
        raise_at("journal.append.decided", apsw.IOError("by the test"))
        with pytest.raises(StoreError):
            journal.commit([append])
    finally:
        disarm()
    assert journal.decisions([one.position]) == {}
    assert len(journal.read("run")) == 1
    journal.commit([append])
    assert journal.decisions([one.position]) == {one.position: b"yes"}
    assert len(journal.read("run")) == 2


def test_a_post_whose_commit_fails_and_has_happened_is_one(posted, monkeypatch):
    from kedge.testing.failpoints import disarm, raise_at

    journal, _, _ = posted
    try:
        raise_at("file.commit.after", apsw.IOError("by the test"))
        found = journal.post([Sent("run", "second", 0, 5, b"{}")])
    finally:
        disarm()
    assert journal.posted("run")[-1] == found[0]


def test_a_post_whose_commit_fails_and_has_not_happened_is_an_error(posted):
    from kedge.base.errors import StoreError
    from kedge.testing.failpoints import disarm, raise_at

    journal, _, one = posted
    try:
        raise_at("file.commit.before", apsw.IOError("by the test"))
        with pytest.raises(StoreError):
            journal.post([Sent("run", "second", 0, 5, b"{}")])
    finally:
        disarm()
    assert journal.posted("run") == [one]


def test_a_post_whose_run_is_gone_has_not_happened(posted):
    from kedge.journal.command_rows import have_arrived
    from kedge.journal.entry import Posted

    journal, _, one = posted
    with journal._file.reading() as db:
        assert have_arrived(db, [one])
        assert not have_arrived(db, [Posted(one.position, "nobody", "k", 0, 5, b"")])
        assert not have_arrived(db, [Posted(one.position, "run", "other", 0, 5, b"")])


def test_an_id_that_the_index_has_and_the_table_has_not_is_damage(posted, monkeypatch):
    from kedge.journal import command_rows

    journal, _, _ = posted
    monkeypatch.setattr(command_rows, "find_command", lambda *_: None)
    with pytest.raises(StoreDamaged, match="leads nowhere"):
        journal.post([Sent("run", "k", 0, 5, b"{}")])


def test_what_a_power_cut_takes_back_was_never_sent():
    from kedge.testing.world.disk import Disk, SimulatedJournal

    class Cut:
        def before(self, call, patience_s): ...
        def after(self, call): ...

        def written(self, call):
            if call == "post":
                raise RuntimeError("the power fails before the sync")

    disk = Disk()
    journal = SimulatedJournal(disk, Cut())
    Driver(journal).write(1)
    with pytest.raises(RuntimeError):
        journal.post([Sent("run", "k", 0, 5, b"{}")])
    assert [one.id for one in journal.posted("run")] == ["k"]
    disk.power_cut(survive=0)
    assert journal.posted("run") == []
    assert journal.find_posted("run", "k") is None
