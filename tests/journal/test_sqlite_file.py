"""The file: who may read it, what is refused, what happens when it moves."""

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import threading
import time
from typing import Any

import apsw
import pytest

from kedge.base.errors import StoreDamaged, StoreError
from kedge.journal import rows, sqlite_file
from kedge.journal.sqlite import SqliteJournal
from kedge.journal.sqlite_file import sqlite_safe
from kedge.testing.failpoints import counting
from kedge.testing.journal_kit import Driver


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_only_the_owner_may_look(tmp_path, umask):
    before = os.umask(umask)
    try:
        journal = SqliteJournal(tmp_path / "new" / "deep" / "kedge.db")
        Driver(journal).write(1)
        modes = {item.name: stat.S_IMODE(item.stat().st_mode) for item in (tmp_path / "new").rglob("*")}
        journal.close()
    finally:
        os.umask(before)
    folders = {"deep", "kedge.db.locks"}
    assert {name: mode for name, mode in modes.items() if name in folders} == dict.fromkeys(folders, 0o700)
    assert {mode for name, mode in modes.items() if name not in folders} == {0o600}
    assert {"kedge.db", "kedge.db-wal", "kedge.db-shm"} < set(modes)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700


def test_a_file_that_is_there_keeps_its_mode(tmp_path):
    path = tmp_path / "kedge.db"
    path.touch()
    path.chmod(0o640)
    SqliteJournal(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_settings_are_those_that_keep_a_promise(open_sqlite):
    facts = open_sqlite().stats()
    assert (facts["journal_mode"], facts["synchronous"]) == ("wal", 2)
    assert facts["file_bytes"] == facts["page_size"] * facts["page_count"] or facts["wal_bytes"]
    assert facts["sqlite"] == apsw.sqlite_lib_version()


def test_without_wal_a_commit_syncs_the_folder_too(path):
    journal = SqliteJournal(path, wal=False)
    facts = journal.stats()
    journal.close()
    assert (facts["journal_mode"], facts["synchronous"]) == ("delete", 3)


def test_every_connection_has_the_settings(open_sqlite):
    journal = open_sqlite()
    Driver(journal).write(1)
    journal.read("run")
    for db in (journal._file._writer, journal._file._reader):
        assert db.pragma("synchronous") == 2
        assert db.pragma("mmap_size") == 0
        assert db.pragma("cell_size_check") == 1
        assert db.pragma("fullfsync") == 1


def test_a_file_that_is_no_database_is_refused(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("not a database\n" * 500, encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        SqliteJournal(path)
    assert caught.value.code == "store_foreign"
    assert path.read_text(encoding="utf-8").startswith("not a database")


def test_a_folder_is_refused(tmp_path):
    with pytest.raises(StoreError) as caught:
        SqliteJournal(tmp_path)
    assert caught.value.code == "store_permission"
    assert str(tmp_path) in str(caught.value)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StoreError) as caught:
        SqliteJournal(tmp_path / "file" / "kedge.db")
    assert str(tmp_path / "file") in str(caught.value)


READ_ONLY = """
import os, sys
from kedge.base.errors import StoreError
from kedge.journal.sqlite import SqliteJournal
if os.getuid() == 0:
    os.setuid(65534)  # root may write everything
try:
    SqliteJournal(sys.argv[1])
except StoreError as error:
    print(error.code, error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no modes")
@pytest.mark.parametrize(("mode", "code"), [(0o444, "store_readonly"), (0o000, "store_permission")])
def test_a_file_that_may_not_be_written_is_named(mode, code, open_folder, environment):
    path = open_folder / "kedge.db"
    SqliteJournal(path).close()
    path.chmod(mode)
    done = subprocess.run(
        [sys.executable, "-c", READ_ONLY, str(path)],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith(f"{code} {path}: "), done.stdout + done.stderr
    assert "right to write" in done.stdout or "may read and write" in done.stdout


@pytest.fixture
def open_folder(tmp_path_factory):
    """A folder that any user can reach: pytest's own are its user's alone."""
    folder = tmp_path_factory.mktemp("open")
    for part in [folder, *folder.parents]:
        if part.name.startswith("pytest-"):
            part.chmod(0o755)
    folder.chmod(0o777)
    return folder


@pytest.fixture
def looks_each_time(monkeypatch):
    monkeypatch.setattr(sqlite_file, "LOOK_S", 0.0)


@pytest.mark.parametrize("how", ["deleted", "moved", "replaced"])
@pytest.mark.usefixtures("looks_each_time")
def test_a_file_that_goes_away_while_it_is_open_is_noticed(path, how):
    journal = SqliteJournal(path)
    driver = Driver(journal)
    driver.write(1)
    lost = driver.next(b"2")
    if how == "deleted":
        path.unlink()
    else:
        path.rename(path.with_suffix(".old"))
        if how == "replaced":
            shutil.copy(path.with_suffix(".old"), path)
    with pytest.raises(StoreError) as caught:
        journal.commit([lost])
    assert caught.value.code == "store_moved"
    if how == "moved":
        path.with_suffix(".old").rename(path)
        assert journal.read("run")[1:] == lost.entries, "not acknowledged, and there"
        driver.write(3)
        journal.close()
    else:
        with pytest.raises(StoreError):
            journal.close()


@pytest.mark.usefixtures("looks_each_time")
def test_a_file_replaced_during_a_commit_is_not_acknowledged(path):
    journal = SqliteJournal(path)
    driver = Driver(journal)

    def move():
        path.rename(path.with_suffix(".old"))
        return False

    writer: Any = journal._file._writer
    writer.set_commit_hook(move)
    with pytest.raises(StoreError) as caught:
        driver.write(1)
    assert caught.value.code == "store_moved"
    path.with_suffix(".old").rename(path)
    writer.set_commit_hook(None)
    journal.close()


def test_it_is_looked_for_the_file_often_enough(path):
    """Without help from a test: what is written too soon after is told apart from what was kept."""
    journal = SqliteJournal(path)
    driver = Driver(journal)
    path.rename(path.with_suffix(".old"))
    time.sleep(sqlite_file.LOOK_S)
    with pytest.raises(StoreError) as caught:
        driver.write(1)
    assert caught.value.code == "store_moved"
    path.with_suffix(".old").rename(path)
    journal.close()


def test_two_names_of_one_file_are_refused(path, tmp_path):
    SqliteJournal(path).close()
    os.link(path, tmp_path / "second.db")
    with pytest.raises(StoreError, match="hard links") as caught:
        SqliteJournal(tmp_path / "second.db")
    assert caught.value.code == "store_linked"


def test_a_symbolic_link_is_the_same_store(path, tmp_path):
    first = SqliteJournal(path)
    Driver(first).write(1)
    (tmp_path / "link.db").symlink_to(path)
    second = SqliteJournal(tmp_path / "link.db")
    assert len(second.read("run")) == 1
    with pytest.raises(Exception, match="being driven"):
        second.claim("run", 1)
    second.close()
    first.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # forking with threads about is what is tested
def test_a_forked_child_is_refused_and_holds_nothing(path):
    journal = SqliteJournal(path)
    driver = Driver(journal)
    driver.write(1)
    reading, writing = os.pipe()
    go_reading, go_writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for call in (lambda: journal.head("run"), lambda: driver.write(1), lambda: journal.claim("b", 1)):
                try:
                    call()
                except StoreError as error:
                    os.write(writing, error.code.encode() + b" ")
            os.write(writing, b".")
            os.read(go_reading, 1)
        finally:
            os._exit(0)
    told = b""
    while not told.endswith(b"."):
        told += os.read(reading, 100)
    assert told == b"store_forked store_forked store_forked ."
    driver.release()
    journal.claim("run", 1)  # the child lives, and does not keep the lock
    os.write(go_writing, b".")
    os.waitpid(child, 0)
    for fd in (reading, writing, go_reading, go_writing):
        os.close(fd)
    journal.close()


@pytest.mark.parametrize(
    ("version", "safe"),
    [
        ("3.6.23", False), ("3.40.1", False), ("3.44.5", False), ("3.44.6", True), ("3.45.0", False),
        ("3.50.6", False), ("3.50.7", True), ("3.51.0", False), ("3.51.2", False), ("3.51.3", True),
        ("3.54.1", True), ("4.0.0", True),
    ],
)  # fmt: skip
def test_versions_that_lose_data_are_known(monkeypatch, path, version, safe):
    monkeypatch.setattr(sqlite_file.apsw, "sqlite_lib_version", lambda: version)
    found, sentence = sqlite_safe()
    assert found is safe
    assert version in sentence
    if not safe:
        with pytest.raises(StoreError, match="can lose committed data") as caught:
            SqliteJournal(path)
        assert caught.value.code == "store_sqlite"
        SqliteJournal(path, wal=False).close()


def test_the_version_in_use_is_safe():
    assert sqlite_safe()[0]


def test_a_store_in_wal_mode_is_not_changed_under_its_users(open_sqlite, monkeypatch):
    monkeypatch.setattr(sqlite_file, "BUSY_S", 0.05)
    first = open_sqlite()
    Driver(first).write(1)
    with pytest.raises(StoreError) as caught:
        open_sqlite(wal=False)
    assert caught.value.code in {"store_mode", "store_busy"}
    assert first.stats()["journal_mode"] == "wal"


def test_a_value_that_is_too_big_is_refused(open_sqlite):
    journal = open_sqlite()
    driver = Driver(journal)
    driver.write(1)
    journal._file._writer.limit(apsw.SQLITE_LIMIT_LENGTH, 1_000)
    with pytest.raises(StoreError) as caught:
        journal.commit([driver.next(b"x" * 2_000)])
    assert caught.value.code == "store_too_big"
    assert len(journal.read("run")) == 1
    assert not isinstance(caught.value, StoreDamaged)


def test_a_run_has_room_for_so_many_events_only(open_sqlite, monkeypatch):
    """One more would have the number of another run's first event."""
    monkeypatch.setattr(rows, "SEQ_MAX", 5)
    driver = Driver(open_sqlite())
    driver.write(5)
    with pytest.raises(StoreError, match="at most 5 events"):
        driver.write(1)


@pytest.mark.parametrize("how", ["deleted", "replaced"])
@pytest.mark.usefixtures("looks_each_time")
def test_a_log_file_that_goes_away_while_it_is_open_is_noticed(path, how, monkeypatch):
    monkeypatch.setattr(sqlite_file, "LOG_LOOK_S", 0.0 if how == "replaced" else 1e9)
    journal = SqliteJournal(path)
    driver = Driver(journal)
    driver.write(1)
    wal = path.with_name(path.name + "-wal")
    content = wal.read_bytes()
    wal.unlink()
    if how == "replaced":
        wal.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        driver.write(2)
    assert caught.value.code == "store_moved"
    with contextlib.suppress(StoreError):
        journal.close()


def test_looking_whether_a_run_is_driven_does_not_keep_anybody_from_driving_it(path):
    ours, theirs = SqliteJournal(path), SqliteJournal(path)
    assert theirs._locks.take("run")
    timer = threading.Timer(0.002, theirs._locks.drop, ["run"])
    timer.start()
    assert ours.claim("run", 1).epoch == 1
    timer.join()
    ours.close()
    theirs.close()


def test_there_is_a_named_place_after_each_event(open_sqlite):
    driver = Driver(open_sqlite())
    with counting() as passed:
        driver.write(3)
    assert passed["journal.append.event"] == 3
