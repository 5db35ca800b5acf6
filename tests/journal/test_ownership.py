# pyright: reportOptionalMemberAccess=false
"""Locks: one driver for each run, a dead one replaced at once, names only for people."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from kedge.base.errors import NotOwner, StoreError
from kedge.journal import ownership
from kedge.journal.ownership import Owner, RunLocks, is_another_live_process, this_process
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="lock files go away on POSIX only")


def owner_row(path):
    db = apsw.Connection(str(path))
    row = db.execute("select pid, port from lease").fetchone()
    db.close()
    return row


def lock_files(path):
    return sorted(path.with_name("kedge.db.locks").glob("*"))


def test_a_lock_file_goes_with_its_lock(path, open_sqlite):
    journal = open_sqlite()
    leases = [journal.claim(run_id, 1) for run_id in ("a", "b")]
    assert len(lock_files(path)) == 2
    assert all(len(file.stem) == 32 for file in lock_files(path))
    journal.release(leases[0])
    assert len(lock_files(path)) == 1
    journal.close()
    assert lock_files(path) == []


def test_a_claim_that_fails_leaves_no_lock(path, open_sqlite):
    journal = open_sqlite()
    other = apsw.Connection(str(path))
    journal._file._writer.set_busy_handler(lambda _: False)
    other.execute("begin immediate")
    with pytest.raises(StoreError):
        journal.claim("a", 1)
    assert lock_files(path) == []
    other.execute("rollback")
    other.close()
    assert journal.claim("a", 1).epoch == 1


def test_a_lock_file_left_by_a_dead_process_stops_nobody(path, open_sqlite):
    journal = open_sqlite()
    journal.release(journal.claim("a", 1))
    folder = path.with_name("kedge.db.locks")
    (folder / RunLocks(folder)._path("a").rpartition("/")[2]).touch()
    assert journal.claim("a", 1).epoch == 2


def test_whoever_locks_a_file_that_has_just_gone_starts_again(tmp_path, monkeypatch):
    """Between opening and locking, the holder releases: its file has no name any more."""
    locks = RunLocks(tmp_path)
    try_lock, stolen = ownership._try_lock, []

    def slow(fd):
        if not stolen:
            stolen.append(fd)
            Path(locks._path("a")).unlink()
        return try_lock(fd)

    monkeypatch.setattr(ownership, "_try_lock", slow)
    assert locks.take("a")
    assert stolen
    assert Path(locks._path("a")).exists()
    assert not RunLocks(tmp_path).take("a")
    locks.drop("a")


def test_one_of_many_threads_gets_a_run(tmp_path):
    taken, barrier = [], threading.Barrier(8)

    def take(locks):
        barrier.wait()
        if locks.take("run"):
            taken.append(locks)

    threads = [threading.Thread(target=take, args=(RunLocks(tmp_path),)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 1
    taken[0].drop("run")


HOLD = """
import sys
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver
journal = SqliteJournal(sys.argv[1])
driver = Driver(journal, "run", now_ms=1_700_000_000_000)
driver.write(3)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(path, environment):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout.readline() == "ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_whoever_takes_a_run_from_a_dead_process_is_its_owner_and_can_be_woken(path, holder, open_sqlite):
    journal = open_sqlite()
    assert owner_row(path) == (holder.pid, 0)
    holder.kill()
    holder.wait()
    journal.claim("run", 1, port=9)
    assert owner_row(path) == (os.getpid(), 9)
    assert journal.port("run") == 9


def test_a_live_owner_is_named(holder, open_sqlite):
    journal = open_sqlite()
    for call in (lambda: journal.claim("run", 1), lambda: journal.delete(["run"])):
        with pytest.raises(NotOwner) as caught:
            call()
        for word in ("run run", f"process {holder.pid}", this_process(0).host, "2023-11-14 22:13:20+00:00"):
            assert word in str(caught.value)
    assert len(journal.read("run")) == 3


def test_a_killed_owner_is_replaced_at_once(holder, open_sqlite):
    journal = open_sqlite()
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    driver = Driver(journal, "run")
    assert driver.lease.epoch == 2
    driver.write(2)
    assert [entry.epoch for entry in journal.read("run")] == [1, 1, 1, 2, 2]


def test_a_killed_owner_does_not_keep_its_run_from_being_deleted(holder, open_sqlite):
    journal = open_sqlite()
    holder.kill()
    holder.wait()
    journal.delete(["run"])
    assert journal.runs() == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only /proc tells when a process started")
def test_a_live_owner_keeps_its_run_when_its_lock_file_is_cleared_away(holder, path, open_sqlite):
    journal = open_sqlite()
    shutil.rmtree(path.with_name("kedge.db.locks"))
    for call in (lambda: journal.claim("run", 1), lambda: journal.delete(["run"])):
        with pytest.raises(NotOwner, match=f"process {holder.pid}"):
            call()
    holder.kill()
    holder.wait()
    assert journal.claim("run", 1).epoch == 2


ME = this_process(0)


@pytest.mark.parametrize(
    ("change", "alive"),
    [
        ({}, True),
        ({"boot": "an earlier boot"}, False),
        ({"host": "elsewhere"}, False),
        ({"started": "12"}, False),  # the pid was given to another process
        ({"started": ""}, False),
        ({"pid": 2**22 + 1}, False),
    ],
)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only /proc tells when a process started")
def test_a_process_is_known_by_more_than_its_pid(change, alive):
    parent = os.getppid()
    owner = Owner(ME.host, parent, ME.boot, ownership._started(parent), 0)
    assert is_another_live_process(owner._replace(**change)) is alive


def test_we_are_not_another_process():
    assert not is_another_live_process(ME)


def test_a_row_that_names_a_reused_pid_stops_nobody(path, open_sqlite):
    journal = open_sqlite()
    journal.claim("run", 1)
    journal.close()
    db = apsw.Connection(str(path))
    db.execute("insert into lease values (1, ?, ?, ?, '1', 5, 0)", (ME.host, os.getppid(), ME.boot))
    db.close()
    assert open_sqlite().claim("run", 1).epoch == 2


def test_a_newer_epoch_stops_an_owner_that_lost_its_lock(path, open_sqlite):
    """Frozen, its lock gone with the folder, then overtaken: the database itself refuses it."""
    journal = open_sqlite()
    old = Driver(journal)
    old.write(1)
    db = apsw.Connection(str(path))
    epoch_two = SqliteJournal(path)
    ownership._held.descriptors.clear()  # as if it had been another process
    shutil.rmtree(path.with_name("kedge.db.locks"))
    new = Driver(epoch_two)
    assert new.lease.epoch == 2
    with pytest.raises(NotOwner, match="epoch 1 was followed by 2"):
        old.write(1)
    assert new.write(1)[0].seq == 2
    db.close()
    epoch_two.close()


def test_too_many_open_files_says_what_to_do(open_sqlite, monkeypatch):
    journal = open_sqlite()

    def none_left(*_):
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(ownership.os, "open", none_left)
    with pytest.raises(StoreError, match="ulimit -n") as caught:
        journal.claim("run", 1)
    assert caught.value.code == "store_open_files"


def test_a_run_that_is_being_claimed_elsewhere_has_no_name_yet(path, open_sqlite):
    journal = open_sqlite()
    locks = RunLocks(path.with_name("kedge.db.locks"))
    assert locks.take("run")
    with pytest.raises(NotOwner, match="claiming or deleting it at this moment"):
        journal.claim("run", 1)
    locks.drop("run")
    assert journal.claim("run", 1).epoch == 1


def test_a_run_that_somebody_removed_takes_no_events(path, open_sqlite):
    journal = open_sqlite()
    driver = Driver(journal)
    db = apsw.Connection(str(path))
    db.execute("delete from run")
    db.close()
    with pytest.raises(NotOwner, match="not claimed here"):
        driver.write(1)


def test_a_lock_file_that_cannot_be_removed_does_not_keep_the_lock(path, monkeypatch):
    journal = SqliteJournal(path)
    lease = journal.claim("run", 1)

    def refuse(*_):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(ownership, "_is_at", refuse)
        journal.release(lease)
    locks = path.with_name("kedge.db.locks")
    assert len(list(locks.iterdir())) == 1
    assert not journal.driven("run")
    journal.release(journal.claim("run", 2))
    journal.close()
    assert list(locks.iterdir()) == []


def test_lock_files_of_killed_drivers_are_swept_when_a_store_is_closed(path):
    journal, other = SqliteJournal(path), SqliteJournal(path)
    locks = path.with_name("kedge.db.locks")
    other.claim("driven", 1)
    (locks / "0123456789abcdef0123456789abcdef.lock").touch()
    journal.close()
    assert len(list(locks.iterdir())) == 1
    assert other.driven("driven")
    other.close()
    assert list(locks.iterdir()) == []


def test_whether_a_run_is_driven_that_cannot_be_found_out_is_named(path, monkeypatch):
    journal = SqliteJournal(path)
    journal.claim("run", 1)

    def refuse(_):
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as broken:
        broken.setattr(journal._locks, "is_taken", refuse)
        with pytest.raises(StoreError) as caught:
            journal.driven("run")
    assert caught.value.code == "store_open_files"
    journal.close()
