# pyright: reportOptionalMemberAccess=false
"""Real processes: many writers at once, and writers that are killed."""

import os
import random
import signal
import subprocess
import sys
import time

import apsw
import pytest

from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")

APPEND = """
import sys
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver
journal = SqliteJournal(sys.argv[1])  # all of them make the file at the same moment
driver = Driver(journal, sys.argv[2])
for n in range(20):
    driver.write(5)
journal.close()
"""


def test_sixteen_processes_write_at_once(path, environment):
    names = [f"run{n}" for n in range(16)]
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", APPEND, str(path), name],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    errors = [writer.communicate(timeout=60)[1] for writer in writers]
    assert errors == [""] * 16
    journal = SqliteJournal(path)
    assert {head.run_id: head.seq for head in journal.runs()} == dict.fromkeys(names, 100)
    for name in names:
        assert len(journal.read(name)) == 100
    journal.close()


WRITE = """
import sys, os
from kedge.base.codec import digest
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver
journal = SqliteJournal(sys.argv[1])
a, b = Driver(journal, "a"), Driver(journal, "b")
n = a.seq // 7
while True:
    n += 1
    content = b"%d" % n * 3_000
    journal.commit([
        a.next(*[b"a%d" % n] * 7, blobs={digest(content): content}, headline=b"%d" % n),
        b.next(*[b"b%d" % n] * 3),
    ])
    os.write(1, b"%d\\n" % n)
    if n % 40 == 0:
        journal.vacuum()
"""


def test_a_killed_commit_is_there_or_not_but_never_half(path, environment):
    """Batches over two runs and a blob, killed at any moment, also in a checkpoint or a vacuum."""
    chance = random.Random(7)
    most = 0
    for _ in range(20):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITE, str(path)], env=environment, stdout=subprocess.PIPE
        )
        first = writer.stdout.readline()
        time.sleep(chance.uniform(0, 0.06))
        writer.send_signal(signal.SIGKILL)
        told = (first + writer.stdout.read()).decode().split("\n")
        writer.wait()
        writer.stdout.close()
        acknowledged = int(told[-2])
        journal = SqliteJournal(path)
        a, b = journal.head("a"), journal.head("b")
        n = a.seq // 7
        assert (a.seq, b.seq, a.headline) == (7 * n, 3 * n, b"%d" % n)
        assert acknowledged <= n <= acknowledged + 1
        assert [entry.data for entry in journal.read("a", a.seq - 7)] == [b"a%d" % n] * 7
        assert len(journal.read("b")) == b.seq
        assert journal.stats()["blobs"] == n
        assert n > most
        most = n
        journal.close()
    db = apsw.Connection(str(path))
    assert db.pragma("integrity_check") == "ok"
    db.close()


VACUUM = """
import sys
from kedge.journal.sqlite import SqliteJournal
journal = SqliteJournal(sys.argv[1])
print("ready", flush=True)
while True:
    journal.vacuum()
"""


def test_a_killed_vacuum_loses_nothing(path, environment):
    journal = SqliteJournal(path)
    entries = Driver(journal).write(3_000)
    journal.close()
    for pause_s in (0.0, 0.005, 0.02):
        cleaner = subprocess.Popen(
            [sys.executable, "-c", VACUUM, str(path)], env=environment, stdout=subprocess.PIPE
        )
        assert cleaner.stdout.readline() == b"ready\n"
        time.sleep(pause_s)
        os.kill(cleaner.pid, signal.SIGKILL)
        cleaner.wait()
        cleaner.stdout.close()
        journal = SqliteJournal(path)
        assert journal.read("run") == entries
        journal.close()
