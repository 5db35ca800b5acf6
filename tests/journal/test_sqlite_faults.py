# pyright: reportOptionalMemberAccess=false
"""The disk fails: what is lost, what is kept, and what is said."""

import threading
import time

import apsw
import pytest

from kedge.base.codec import digest
from kedge.base.errors import StoreError, StoreFull
from kedge.journal import sqlite_file
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver


class FaultyDisk(apsw.VFS):
    """The machine's own files, with faults that are armed by hand."""

    def __init__(self):
        self.base = apsw.vfs_names()[0]
        self.fault = None
        self.syncs = 0
        self.log = []
        super().__init__("faulty", self.base, makedefault=True)

    def xOpen(self, name, flags):  # noqa: N802
        return FaultyFile(self, name, flags)

    def arm(self, method, suffix, error, *, after=0, first_do_it=False):
        self.fault = (method, suffix, error, first_do_it)
        self.after = after
        self.log.clear()

    def strike(self, method, name, do):
        if self.fault is None or self.fault[0] != method or not name.endswith(self.fault[1]):
            return do()
        if self.after:
            self.after -= 1
            return do()
        _, _, error, first_do_it = self.fault
        self.fault = None
        self.log.append((method, name))
        if first_do_it:
            do()
        raise error


class FaultyFile(apsw.VFSFile):
    def __init__(self, disk, name, flags):
        self.disk = disk
        self.name = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        super().__init__(disk.base, name, flags)

    def xSync(self, flags):  # noqa: N802
        self.disk.syncs += 1
        return self.disk.strike("sync", self.name, lambda: super(FaultyFile, self).xSync(flags))

    def xWrite(self, data, offset):  # noqa: N802
        return self.disk.strike("write", self.name, lambda: super(FaultyFile, self).xWrite(data, offset))

    def xRead(self, amount, offset):  # noqa: N802
        return self.disk.strike("read", self.name, lambda: super(FaultyFile, self).xRead(amount, offset))


@pytest.fixture
def disk():
    disk = FaultyDisk()
    yield disk
    disk.fault = None
    disk.unregister()


@pytest.fixture
def journal(disk, path):
    journal = SqliteJournal(path)
    yield journal
    disk.fault = None
    journal.close()


def failing(kind, code):
    error = kind("injected")
    error.result = code & 0xFF
    error.extendedresult = code
    return error


FSYNC = (apsw.IOError, apsw.SQLITE_IOERR_FSYNC)
WRITE = (apsw.IOError, apsw.SQLITE_IOERR_WRITE)
READ = (apsw.IOError, apsw.SQLITE_IOERR_READ)


def test_each_commit_is_synced_once(disk, journal):
    driver = Driver(journal)
    driver.write(1)  # the first after a checkpoint writes the log's header as well
    before = disk.syncs
    for _ in range(10):
        driver.write(3)
    assert disk.syncs - before == 10


@pytest.mark.parametrize("first_do_it", [False, True])
@pytest.mark.parametrize("others", [0, 1])
def test_a_failed_sync_is_not_tried_again_on_the_same_connection(disk, journal, first_do_it, others):
    driver = Driver(journal)
    driver.write(2)
    writer, reader = journal._file._writer, journal._file._reader
    append = driver.next(b"3")
    connections = [apsw.Connection(journal._file.path) for _ in range(others)]
    for other in connections:  # with one more user of the log it is not recovered when it is opened again
        other.execute("select * from run").fetchall()
    disk.arm("sync", "-wal", failing(*FSYNC), first_do_it=first_do_it)
    with pytest.raises(StoreError) as caught:
        journal.commit([append])
    for other in connections:
        other.close()
    assert caught.value.code == "store_io"
    assert not isinstance(caught.value, StoreFull)
    assert disk.log
    assert journal._file._writer is not writer
    assert journal._file._reader is not reader
    assert len(journal.read("run")) == 2
    journal.commit([append])
    assert len(journal.read("run")) == 3


class LyingCommit:
    """A connection that says COMMIT failed, after doing it or without."""

    def __init__(self, db, error, *, really):
        self._db, self._error, self._really = db, error, really

    def __getattr__(self, name):
        return getattr(self._db, name)

    def execute(self, sql, *more):
        if sql != "commit":
            return self._db.execute(sql, *more)
        if self._really:
            self._db.execute(sql)
        raise self._error


ERRORS = [
    failing(*FSYNC),
    failing(apsw.BusyError, apsw.SQLITE_BUSY),
    failing(apsw.FullError, apsw.SQLITE_FULL),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_commit_that_failed_but_happened_is_no_error(journal, error):
    driver = Driver(journal)
    driver.write(2)
    sha = digest(b"value")
    appends = [driver.next(b"3", blobs={sha: b"value"}), driver.next(b"4"), driver.next(headline=b"new")]
    journal._file._writer = LyingCommit(journal._file._writer, error, really=True)
    journal.commit(appends)
    assert [entry.data for entry in journal.read("run", 2)] == [b"3", b"4"]
    assert (journal.head("run").headline, journal.blob(sha)) == (b"new", b"value")
    assert journal.stats()["wal_bytes"] == 0  # forced to the main file before it was believed
    driver.write(1)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_commit_that_failed_and_did_not_happen_is_an_error(journal, error):
    driver = Driver(journal)
    driver.write(2)
    append = driver.next(b"3")
    journal._file._writer = LyingCommit(journal._file._writer, error, really=False)
    with pytest.raises(StoreError):
        journal.commit([append])
    assert len(journal.read("run")) == 2
    journal.commit([append])
    assert len(journal.read("run")) == 3


def test_a_store_that_cannot_be_opened_again_says_that_the_outcome_is_unknown(journal, monkeypatch):
    driver = Driver(journal)
    append = driver.next(b"1")

    def cannot(_):
        raise failing(apsw.CantOpenError, apsw.SQLITE_CANTOPEN)

    journal._file._writer = LyingCommit(journal._file._writer, ERRORS[0], really=True)
    with monkeypatch.context() as broken:
        broken.setattr(sqlite_file, "connect", cannot)
        with pytest.raises(StoreError, match=r"could not be opened again.*read the run again") as caught:
            journal.commit([append])
    assert caught.value.code == "store_io"
    assert len(journal.read("run")) == 1


@pytest.mark.parametrize("skip", range(4))
def test_a_write_that_fails_means_no_room(disk, journal, skip):
    driver = Driver(journal)
    driver.write(2)
    append = driver.next(*[b"x" * 3_000] * 5)
    disk.arm("write", "-wal", failing(*WRITE), after=skip)
    with pytest.raises(StoreFull, match="free some space"):
        journal.commit([append])
    assert disk.log
    assert len(journal.read("run")) == 2
    journal.commit([append])
    assert len(journal.read("run")) == 7


def test_a_read_that_fails_is_named_and_the_next_one_works(disk, journal):
    driver = Driver(journal)
    driver.write(200)
    journal.vacuum()
    journal._file._drop_connections()
    journal.head("run")
    disk.arm("read", "kedge.db", failing(*READ))
    with pytest.raises(StoreError) as caught:
        journal.read("run")
    assert (caught.value.code, bool(disk.log)) == ("store_io", True)
    assert len(journal.read("run")) == 200


@pytest.mark.parametrize("method", ["write", "sync", "read"])
def test_whatever_fails_all_or_nothing_is_there(disk, path, method):
    """Fail the n-th call for each n until a commit, an open and a read pass untouched."""
    for n in range(200):
        journal = SqliteJournal(path)
        run = f"{method}{n}"
        driver = Driver(journal, run)
        append = driver.next(*[b"y" * 2_000] * 3)
        journal._file._drop_connections()
        code = {"write": WRITE, "sync": FSYNC, "read": READ}[method]
        disk.arm(method, "", failing(*code), after=n)
        try:
            journal.commit([append])
            acknowledged = True
        except StoreError:
            acknowledged = False
        untouched = not disk.log
        disk.fault = None
        journal._file._drop_connections()
        found = len(journal.read(run))
        assert found in ((3,) if acknowledged else (0, 3))
        journal.close()
        if untouched:
            assert n > 0
            assert acknowledged
            return
    raise AssertionError("never a clean pass")


def test_a_full_disk_stops_and_heals(path):
    journal = SqliteJournal(path)
    driver = Driver(journal)
    driver.write(5)
    db = journal._file._writer
    db.pragma("max_page_count", db.pragma("page_count") + 3)
    kept, said = None, ""
    while kept is None:
        append = driver.next(b"z" * 3_000, headline=b"big")
        try:
            journal.commit([append])
        except StoreFull as full:
            kept, said = append, str(full)
    assert str(path) in said
    before = journal.head("run")
    assert before.seq == kept.after_seq
    assert len(journal.read("run")) == before.seq
    for _ in range(3):
        with pytest.raises(StoreFull):
            journal.commit([kept])
    assert journal._file._writer is db  # no need to open again: nothing is in doubt
    db.pragma("max_page_count", 100_000)
    journal.commit([kept])
    assert journal.read("run")[-1] == kept.entries[-1]
    journal.close()


def test_a_busy_store_is_waited_for(path):
    journal = SqliteJournal(path)
    driver = Driver(journal)
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    timer = threading.Timer(0.2, lambda: other.execute("commit"))
    timer.start()
    started = time.monotonic()
    driver.write(1)
    assert time.monotonic() - started >= 0.15
    timer.join()
    other.close()
    journal.close()


def test_a_store_that_is_busy_for_ever_is_named(path):
    journal = SqliteJournal(path)
    driver = Driver(journal)
    append = driver.next(b"1")
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    with pytest.raises(StoreError, match="find and end that one") as caught:
        journal.commit([append], 0.1)
    assert caught.value.code == "store_busy"
    other.execute("commit")
    journal.commit([append])
    other.close()
    journal.close()


def test_reading_does_not_wait_for_a_commit(path):
    journal = SqliteJournal(path)
    driver = Driver(journal)
    driver.write(3)

    def look(db):
        db.execute("delete from event")
        started = time.monotonic()
        assert len(journal.read("run")) == 3
        journal.data_version()
        assert time.monotonic() - started < 1
        db.execute("rollback")
        db.execute("begin")

    journal._file.write(look)
    journal.close()


@pytest.mark.parametrize("room", range(0, 30_000, 3_000))
def test_a_disk_that_is_full_in_the_middle_of_a_commit_heals(path, room):
    """Then there is no room to tidy up either: it is still no room, and nothing worse."""
    resource = pytest.importorskip("resource")
    journal = SqliteJournal(path)
    driver = Driver(journal)
    driver.write(5)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = max(file.stat().st_size for file in (path, path.with_name("kedge.db-wal")))
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + room, before[1]))
    try:
        append = driver.next(b"z" * 200_000)
        for _ in range(3):
            with pytest.raises(StoreFull):
                journal.commit([append])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    journal.commit([append])
    assert len(journal.read("run")) == 6
    journal.close()
