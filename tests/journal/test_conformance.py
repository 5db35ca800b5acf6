"""Both stores keep the same contracts, and the kit that says so can find a store that does not."""

import pytest

from kedge.base.codec import digest
from kedge.journal.command_table import CommandTable
from kedge.journal.entry import Lease
from kedge.journal.memory import MemoryJournal
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import CASES, check


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sqlite(case, open_sqlite):
    case.run(open_sqlite)


@pytest.mark.parametrize("case", [c for c in CASES if not c.needs_sharing], ids=lambda case: case.name)
def test_memory(case):
    case.run(MemoryJournal)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_sqlite_without_wal(case, path):
    opened = []

    def open_one():
        opened.append(SqliteJournal(path, wal=False))
        return opened[-1]

    try:
        case.run(open_one)
    finally:
        for journal in opened:
            journal.close()


def test_the_report_names_what_was_skipped():
    report = check(lambda _: MemoryJournal())
    assert report.ok
    assert set(report.skipped) == {case.name for case in CASES if case.needs_sharing}
    assert "two_objects_exclude_each_other" in str(report)


def test_the_report_of_a_shared_store_skips_nothing(tmp_path):
    report = check(lambda name: SqliteJournal(tmp_path / name))
    assert report.ok, str(report)
    assert len(report.passed) == len(CASES)


class TwoDrivers(MemoryJournal):
    def claim(self, run_id, now_ms, port=0):
        self._owners.pop(run_id, None)
        return super().claim(run_id, now_ms, port)


class OneEpoch(MemoryJournal):
    def claim(self, run_id, now_ms, port=0):
        super().claim(run_id, now_ms, port)
        run = self._runs[run_id]
        run.head = type(run.head)(run_id, run.head.seq, run.head.chain, 1)
        return Lease(run_id, 1)


class HalfBatches(MemoryJournal):
    def commit(self, appends, patience_s=0.0):
        for append in appends:
            super().commit([append])


class LosesHeadlines(MemoryJournal):
    def commit(self, appends, patience_s=0.0):
        super().commit([append._replace(headline=append.headline or b"") for append in appends])


class KeepsBlobs(MemoryJournal):
    def delete(self, run_ids):
        blobs = dict(self._blobs)
        super().delete(run_ids)
        self._blobs = blobs


class SweepsTooMuch(MemoryJournal):
    def delete(self, run_ids):
        super().delete(run_ids)
        self._blobs.clear()


class OldestFirst(MemoryJournal):
    def runs(self, holding=b"", lacking=b""):
        return super().runs(holding, lacking)[::-1]


class OffByOne(MemoryJournal):
    def read(self, run_id, after_seq=0, limit=None):
        return super().read(run_id, max(0, after_seq - 1), limit)


class SilentlyEmpty(MemoryJournal):
    def read(self, run_id, after_seq=0, limit=None):
        return super().read(run_id, after_seq, limit) if self.head(run_id) else []


class ForeignBlob(MemoryJournal):
    def blob(self, sha):
        return super().blob(sha) if sha != digest(b"") else b"something"


class ForgetsIds(MemoryJournal):
    def post(self, sent):
        return super().post([one._replace(id=f"{one.id}{n}") for n, one in enumerate(sent)])


class DecidesAtOnce(MemoryJournal):
    def commit(self, appends, patience_s=0.0):
        for append in appends:
            self._commands.decide(append.decisions)
        super().commit(appends, patience_s)


class KeepsCommands(MemoryJournal):
    def delete(self, run_ids):
        commands = self._commands
        self._commands = CommandTable()
        super().delete(run_ids)
        self._commands = commands


@pytest.mark.parametrize(
    "broken",
    [
        TwoDrivers, OneEpoch, HalfBatches, LosesHeadlines, KeepsBlobs,
        SweepsTooMuch, OldestFirst, OffByOne, SilentlyEmpty, ForeignBlob,
        ForgetsIds, DecidesAtOnce, KeepsCommands,
    ],
)  # fmt: skip
def test_the_kit_finds_a_broken_store(broken):
    report = check(lambda _: broken())
    assert not report.ok
    assert "FAILED" in str(report)
