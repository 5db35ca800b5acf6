# pyright: reportOptionalMemberAccess=false, reportArgumentType=false
"""What hardly ever happens to a store, and has a name all the same."""

import errno
import os
from pathlib import Path

import apsw
import pytest

from kedge.base.errors import NotFound, NotOwner, StoreDamaged, StoreError, StoreFull
from kedge.journal import ownership, sqlite_file
from kedge.journal.db import connect
from kedge.journal.memory import MemoryJournal
from kedge.journal.opening import open_journal
from kedge.journal.rows import _has_last
from kedge.journal.schema import migrate, migrations
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver


class Bent:
    """A connection of which some members do something else."""

    def __init__(self, db, **members):
        self._db = db
        vars(self).update(members)

    def __getattr__(self, name):
        return getattr(self._db, name)


def failing(kind):
    def call(*_):
        raise kind("injected")

    return call


def failing_at(db, statement, kind):
    def execute(sql, *more):
        if sql == statement:
            raise kind("injected")
        return db.execute(sql, *more)

    return Bent(db, execute=execute)


@pytest.fixture
def journal(path):
    journal = SqliteJournal(path)
    yield journal
    journal._file._pid = os.getpid()
    journal.close()


def test_there_is_no_room_to_compact(journal):
    journal._file._writer = failing_at(journal._file._writer, "vacuum", apsw.FullError)
    with pytest.raises(StoreFull):
        journal.vacuum()


def test_the_version_of_the_data_cannot_be_read(journal):
    journal._file._writer = Bent(journal._file._writer, pragma=failing(apsw.IOError))
    with pytest.raises(StoreError) as caught:
        journal.data_version()
    assert caught.value.code == "store_io"


def test_a_rollback_that_fails_costs_the_connection(journal):
    driver = Driver(journal)
    append = driver.next(b"1")
    writer = journal._file._writer
    journal._file._writer = failing_at(writer, "rollback", apsw.IOError)
    with pytest.raises(ZeroDivisionError):
        journal._file.write(lambda db: 1 / 0)
    assert journal._file._writer is None
    journal.commit([append])
    assert len(journal.read("run")) == 1


def test_a_forked_process_uses_nothing_and_closes_nothing(journal):
    Driver(journal).write(1)
    writer = journal._file._writer
    journal._file._pid = -1
    for call in (lambda: journal.head("run"), lambda: journal.claim("x", 1)):
        with pytest.raises(StoreError) as caught:
            call()
        assert caught.value.code == "store_forked"
    journal._file.close()
    assert journal._file._writer is writer
    journal._file._pid, journal._file._closed = os.getpid(), False
    assert len(journal.read("run")) == 1


def test_a_file_that_was_shortened_while_it_was_open_can_still_be_read(path):
    journal = SqliteJournal(path)
    for n in range(30):
        driver = Driver(journal, f"r{n}")
        driver.write(2, headline=b"h" * 900)
        driver.release()
    journal.vacuum()
    journal._file._drop_connections()
    journal._file._opened_writer()
    os.truncate(path, path.stat().st_size - 4096)
    assert len(journal.read("r0")) == 2
    with pytest.raises(StoreError):
        journal.vacuum()
    journal.close()


@pytest.mark.parametrize(
    ("bend", "code"),
    [
        (lambda db: Bent(db, readonly=lambda _: True), "store_readonly"),
        (
            lambda db: Bent(db, pragma=lambda *a: "delete" if a[0] == "journal_mode" else db.pragma(*a)),
            "store_mode",
        ),
    ],
)
def test_a_file_that_cannot_be_used_as_it_must(path, monkeypatch, bend, code):
    SqliteJournal(path).close()
    monkeypatch.setattr(sqlite_file, "connect", lambda where: bend(connect(where)))
    with pytest.raises(StoreError) as caught:
        SqliteJournal(path)
    assert caught.value.code == code


def test_a_look_at_the_file_that_fails_does_not_say_that_it_was_moved(journal, monkeypatch):
    driver = Driver(journal)
    journal._file._looked_s = 0.0

    def refuse(_):
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr(sqlite_file, "_inode", refuse)
        with pytest.raises(StoreError) as caught:
            driver.write(1)
    assert caught.value.code == "store_open_files"


def test_a_commit_without_room_is_none_even_if_there_is_none_to_look_either(journal, monkeypatch):
    driver = Driver(journal)
    append = driver.next(b"1")
    with monkeypatch.context() as broken:
        journal._file._writer = failing_at(journal._file._writer, "commit", apsw.FullError)
        broken.setattr(sqlite_file, "connect", failing(apsw.FullError))
        with pytest.raises(StoreFull):
            journal.commit([append])
    journal.commit([append])
    assert len(journal.read("run")) == 1


def test_two_processes_make_the_file_at_once(path, monkeypatch):
    path.parent.mkdir()
    path.touch()
    with monkeypatch.context() as late:
        late.setattr(Path, "exists", lambda self: self != path)
        sqlite_file._make_file(path)
    assert path.stat().st_size == 0


def test_another_process_has_brought_the_tables_up_to_date_meanwhile():
    db = connect(":memory:")
    migrate(db)
    answers = [0]

    def pragma(name, *more):
        return answers.pop() if name == "user_version" and answers and not more else db.pragma(name, *more)

    migrate(Bent(db, pragma=pragma))
    assert db.pragma("user_version") == len(migrations())
    db.close()


def test_tables_that_cannot_be_made_leave_no_transaction():
    db = connect(":memory:")

    def execute(sql, *more):
        if sql == "commit":
            db.execute("rollback")  # as SQLite does by itself when there is no room
            raise apsw.FullError("injected")
        return db.execute(sql, *more)

    with pytest.raises(apsw.FullError):
        migrate(Bent(db, execute=execute))
    assert not db.in_transaction
    migrate(db)
    db.close()


def test_a_run_that_was_taken_out_of_the_table_under_its_driver(journal, path):
    driver = Driver(journal)
    driver.write(1)
    append = driver.next(headline=b"new")
    other = apsw.Connection(str(path))
    other.execute("delete from run")
    other.close()
    with pytest.raises(NotOwner, match="not claimed"):
        journal.commit([append])


def test_a_line_from_a_driver_that_was_overtaken(journal):
    driver = Driver(journal)
    driver.write(1)
    old, append = dict(journal._rows), driver.next(headline=b"old")
    driver.write(1)
    journal._rows = old
    with pytest.raises(NotOwner, match="its last event is 2, not 1"):
        journal.commit([append])


def test_what_was_never_begun_has_not_landed(journal):
    append = Driver(journal).next(b"1")
    with journal._file.reading() as db:
        assert not _has_last(db, append._replace(run_id="nobody"))


def test_a_lock_file_that_was_replaced_while_it_was_locked_is_locked_again(journal, monkeypatch):
    answers = [True, False]
    usual = ownership._is_at
    monkeypatch.setattr(ownership, "_is_at", lambda fd, path: answers.pop() if answers else usual(fd, path))
    journal.claim("run", 1)
    assert not answers
    assert journal.driven("run")


def test_a_forked_child_lets_go_of_its_parents_locks():
    held = ownership._Held()
    fd = os.open(os.devnull, os.O_RDONLY)
    held.descriptors["x"] = fd
    held.forget_after_fork()
    assert held.descriptors == {}
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)


def test_a_store_in_memory_tells_what_it_holds():
    journal = MemoryJournal()
    driver = Driver(journal)
    driver.write(2)
    assert (journal.driven("run"), journal.data_version()) == (True, 1)
    assert journal.stats() == {"store": "memory", "runs": 1, "blobs": 0, "bytes": journal.head("run").bytes}
    driver.release()
    assert not journal.driven("run")


def test_a_run_that_is_not_there_cannot_be_deleted(journal):
    with pytest.raises(NotFound):
        journal.delete(["nobody"])


def test_a_damaged_file_says_so_to_whoever_wants_to_write(path):
    journal = SqliteJournal(path)
    for n in range(30):
        Driver(journal, f"r{n}").write(2, headline=b"h" * 900)
    journal.close()
    os.truncate(path, path.stat().st_size - 4096)
    journal = SqliteJournal(path)
    for call in (journal.vacuum, journal.data_version, lambda: journal.claim("new", 1)):
        with pytest.raises(StoreDamaged):
            call()
    journal.close()


def test_a_lock_that_cannot_be_looked_at_is_not_kept(journal, monkeypatch):
    with monkeypatch.context() as broken:
        broken.setattr(ownership, "_is_at", failing(OSError))
        with pytest.raises(StoreError):
            journal.claim("run", 1)
    journal.claim("run", 2)


def test_what_a_user_writes_for_a_store_becomes_one(path):
    assert isinstance(open_journal(":memory:"), MemoryJournal)
    journal = open_journal(path)
    assert isinstance(journal, SqliteJournal)
    journal.close()
