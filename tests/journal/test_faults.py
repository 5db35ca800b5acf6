"""What the operating system refuses is told by what can be done about it."""

import errno
import os

import pytest
from msgspec.structs import replace

from kedge.base.errors import StoreDamaged, StoreFull
from kedge.journal import faults
from kedge.journal.memory import MemoryJournal
from kedge.testing.journal_kit import Driver


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (errno.ENOSPC, "store_full", "free some space"),
        (errno.EDQUOT, "store_full", "free some space"),
        (errno.EMFILE, "store_open_files", "ulimit -n"),
        (errno.EACCES, "store_permission", "right to write"),
        (errno.EROFS, "store_permission", "right to write"),
        (errno.EIO, "store_io", "check that path"),
    ],
)
def test_each_refusal_has_a_remedy(number, code, word):
    error = faults.from_os(OSError(number, os.strerror(number)), "/data/kedge.db")
    assert error.code == code
    assert isinstance(error, StoreFull) is (code == "store_full")
    for part in ("/data/kedge.db", os.strerror(number), word):
        assert part in str(error)


def test_memory_is_checked_as_well():
    journal = MemoryJournal()
    Driver(journal).write(4)
    entries = journal._runs["run"].entries
    entries[2] = replace(entries[2], data=b"changed")
    with pytest.raises(StoreDamaged) as caught:
        journal.read("run")
    assert (caught.value.run_id, caught.value.seq) == ("run", 3)
    assert journal.good_prefix("run") == entries[:2]
