"""Damaged, replaced, full and power-cut stores: none tells anything but the truth, or an error with a name.

One case is one damaged store. A case again: `PYTHONPATH=src .venv/bin/python proof/damage.py KIND SEED`.
"""

from __future__ import annotations

import os
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from random import Random

import apsw
from facts import Fact
from power import Op, Recorder, cuts
from stores import EVENTS, RUNS, Truth, Verdict, judge, make

from kedge.base.errors import KedgeError, StoreError, StoreFull, StoreVersion
from kedge.journal import sqlite_file
from kedge.journal.entry import Entry
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver

USUAL = 6_000
PAGE = 4096

Kind = Callable[[Random, Path], Verdict]


# --- bytes of the file


def flip(luck: Random, folder: Path) -> Verdict:
    """One bit anywhere."""
    path, truth = _copy(folder)
    raw = bytearray(path.read_bytes())
    used = luck.random() < 0.9
    at = luck.randrange(len(raw))
    while used and not raw[at]:
        at = luck.randrange(len(raw))
    raw[at] ^= 1 << luck.randrange(8)
    path.write_bytes(raw)
    return judge(path, truth)


def event(luck: Random, folder: Path) -> Verdict:
    """One bit of one event's own bytes: SQLite sees nothing, and the event must be named."""
    path, truth = _copy(folder)
    run_id, n = luck.choice(RUNS), luck.randrange(EVENTS)
    raw = bytearray(truth.events[run_id][n].data)
    raw[luck.randrange(len(raw))] ^= 1 << luck.randrange(8)
    with closing(apsw.Connection(str(path))) as db:
        key = (RUNS.index(run_id) + 1 << 32) + n + 1
        db.execute("update event set data = ? where id = ?", (bytes(raw), key))
    verdict = judge(path, truth)
    if verdict.damaged != {run_id: n + 1}:
        verdict.wrong.append(f"event {n + 1} of {run_id} was hit, and {verdict.damaged} is blamed")
    return verdict


def short(luck: Random, folder: Path) -> Verdict:
    """The file ends too early."""
    path, truth = _copy(folder)
    os.truncate(path, luck.randrange(path.stat().st_size))
    return judge(path, truth)


def page(luck: Random, folder: Path) -> Verdict:
    """A page, or part of one, is zeroes or garbage."""
    path, truth = _copy(folder)
    size = luck.choice([512, PAGE])
    at = luck.randrange(path.stat().st_size // size) * size
    with path.open("r+b") as file:
        file.seek(at)
        file.write(bytes(size) if luck.random() < 0.5 else luck.randbytes(size))
    return judge(path, truth)


# --- the log beside the file, after a crash


def log_torn(luck: Random, folder: Path) -> Verdict:
    """The log ends too early: what is left is a whole number of commits."""
    path, truth = _crashed(folder)
    log = Path(f"{path}-wal")
    os.truncate(log, luck.randrange(log.stat().st_size))
    return judge(path, truth, may_be_older=True)


def log_flip(luck: Random, folder: Path) -> Verdict:
    """One bit of the log."""
    path, truth = _crashed(folder)
    log = Path(f"{path}-wal")
    raw = bytearray(log.read_bytes())
    raw[luck.randrange(len(raw))] ^= 1 << luck.randrange(8)
    log.write_bytes(raw)
    return judge(path, truth, may_be_older=True)


def log_gone(luck: Random, folder: Path) -> Verdict:
    """The log was deleted after the crash."""
    path, truth = _crashed(folder)
    Path(f"{path}-wal").unlink()
    return judge(path, truth, may_be_older=True)


def log_older(luck: Random, folder: Path) -> Verdict:
    """The log of an earlier copy beside a newer file."""
    path, truth = _copy(folder)
    _, log = _old_log()
    Path(f"{path}-wal").write_bytes(log[: luck.randrange(len(log) + 1)])
    return judge(path, truth, may_be_older=True)


def log_foreign(luck: Random, folder: Path) -> Verdict:
    """The log of another store, which SQLite takes for this one's: a mix that must not pass for the truth."""
    path, truth = _copy(folder)
    make(folder / "other.db", runs=("strange",))
    journal = SqliteJournal(folder / "other.db")
    Driver(journal, "strange").write(luck.randrange(1, 30))
    log = (folder / "other.db-wal").read_bytes()
    journal.close()
    Path(f"{path}-wal").write_bytes(log)
    verdict = judge(path, truth)
    _forgive_replaced(verdict)
    return verdict


def _forgive_replaced(verdict: Verdict) -> None:
    """All of the runs are gone with the pages that held them: it *is* the other store then, and says so."""
    gone = [text for text in verdict.wrong if "not found" in text or "is not in the list" in text]
    if verdict.damaged or verdict.refused or len([text for text in gone if "not found" in text]) == len(RUNS):
        verdict.wrong = [text for text in verdict.wrong if text not in gone and not text.startswith("blob")]


# --- the file is another one


def moved(luck: Random, folder: Path) -> Verdict:
    """Deleted, replaced or linked while it is open: what is written after that is not acknowledged."""
    path, _ = _copy(folder)
    verdict = Verdict()
    with _closing(SqliteJournal(path)) as journal:
        driver = Driver(journal, "hurt")
        driver.write(1)
        how = luck.choice(["deleted", "replaced", "linked", "log deleted", "log replaced"])
        log = Path(f"{path}-wal")
        if how == "deleted":
            path.unlink()
        elif how == "replaced":
            shutil.copy(path, folder / "copy.db")
            (folder / "copy.db").replace(path)
        elif how == "linked":
            os.link(path, folder / "second.db")
        elif how == "log deleted":
            log.unlink()
        else:
            shutil.copy(log, folder / "copy-wal")
            (folder / "copy-wal").replace(log)
        time.sleep(sqlite_file.LOG_LOOK_S + 0.01 if how == "log replaced" else sqlite_file.LOOK_S + 0.002)
        try:
            driver.write(1)
            verdict.wrong.append(f"{how}: a commit was acknowledged")
        except StoreError as error:
            if error.code not in ("store_moved", "store_linked", "store_damaged", "store_io"):
                verdict.wrong.append(f"{how}: {error.code}: {error}")
    return verdict


def foreign(luck: Random, folder: Path) -> Verdict:
    """A file of another kind, schema or version, a store with two names, an SQLite that loses data."""
    how, path = luck.choice(list(_FOREIGN)), folder / "k.db"
    shutil.copy(_whole()[0], path)
    verdict = Verdict()
    with _FOREIGN[how](path):
        try:
            SqliteJournal(path).close()
            verdict.wrong.append(f"{how}: it was opened")
        except KedgeError as error:
            verdict.refused = error.code
            if error.code not in _REFUSED_AS[how]:
                verdict.wrong.append(f"{how}: {error.code}: {error}")
    return verdict


@contextmanager
def _versioned(path: Path, version: int) -> Generator[None]:
    _sql(path, f"pragma user_version = {version}")
    yield


@contextmanager
def _linked(path: Path) -> Generator[None]:
    os.link(path, path.with_name("second.db"))
    yield


@contextmanager
def _text(path: Path) -> Generator[None]:
    path.write_text("goal: this is a plan, not a store\n" * 50)
    yield


@contextmanager
def _of_another(path: Path) -> Generator[None]:
    _sql(path, "pragma application_id = 7")
    yield


@contextmanager
def _without_table(path: Path) -> Generator[None]:
    _sql(path, "drop table lease")
    yield


@contextmanager
def _with_bug(_: Path) -> Generator[None]:
    usual = apsw.sqlite_lib_version
    apsw.sqlite_lib_version = lambda: "3.50.4"
    try:
        yield
    finally:
        apsw.sqlite_lib_version = usual


_FOREIGN: dict[str, Callable[[Path], AbstractContextManager[None]]] = {
    "newer": lambda path: _versioned(path, 99),
    "half migrated": lambda path: _versioned(path, 0),
    "no version": lambda path: _versioned(path, -3),
    "linked": _linked,
    "text": _text,
    "another's": _of_another,
    "a table gone": _without_table,
    "buggy": _with_bug,
}
_REFUSED_AS = {
    "newer": (StoreVersion.code,), "half migrated": ("store_damaged",), "no version": ("store_damaged",),
    "linked": ("store_linked",), "text": ("store_foreign",), "another's": ("store_foreign",),
    "a table gone": ("store_damaged",), "buggy": ("store_sqlite",),
}  # fmt: skip


# --- no room


def full(luck: Random, folder: Path) -> Verdict:
    """No room, in two ways, and room again: what was refused is not there, what was not is, and it heals."""
    path, truth = _copy(folder)
    verdict = Verdict()
    with _closing(SqliteJournal(path)) as journal:
        driver = Driver(journal, "hurt")
        append = driver.next()
        with _bounded(journal, path, luck):
            for _ in range(200):
                append = driver.next(luck.randbytes(luck.randrange(10, 6_000)))
                try:
                    journal.commit([append])
                except StoreFull:
                    break
                truth.events["hurt"] += append.entries
            else:
                verdict.wrong.append("it was never full")
            if journal.read("hurt") != truth.events["hurt"]:
                verdict.wrong.append("a refused commit is there, or one that was made is not")
        journal.commit([append])
        truth.events["hurt"] += append.entries
    seen = judge(path, truth)
    verdict.wrong += seen.wrong + [f"{run} is damaged" for run in seen.damaged]
    return verdict


@contextmanager
def _bounded(journal: SqliteJournal, path: Path, luck: Random) -> Generator[None]:
    more = luck.randrange(1, 12)
    if luck.random() < 0.5:
        pages = path.stat().st_size // PAGE
        set_pages = "pragma max_page_count = {}"
        journal._file.write(lambda db: db.execute(set_pages.format(pages + more)).fetchall())  # noqa: SLF001
        yield
        journal._file.write(lambda db: db.execute(set_pages.format(1 << 30)).fetchall())  # noqa: SLF001
        return
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = Path(f"{path}-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (max(size, path.stat().st_size) + more * 1_000, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


# --- power


def power(luck: Random, folder: Path) -> Verdict:
    """Power is cut after anything that is done to a file: nothing acknowledged is lost or damaged."""
    return cut_power(luck, folder, wal=luck.random() < 0.8)


def sync_fails(luck: Random, folder: Path) -> Verdict:
    """A sync fails once, and the power is cut after that: no sync may be taken for the one that failed."""
    return cut_power(luck, folder, sync_to_fail=luck.randrange(1, 40))


def cut_power(
    luck: Random, folder: Path, *, wal: bool = True, synchronous: str = "", sync_to_fail: int = 0
) -> Verdict:
    """A store is written to, and one cut is looked at for each commit or so."""
    path = folder / "k.db"
    recorder, verdict = Recorder(), Verdict()
    usual, sqlite_file._CHECKPOINT_PAGES = sqlite_file._CHECKPOINT_PAGES, luck.choice([4, 12, 2_000])  # noqa: SLF001
    try:
        with _closing(SqliteJournal(path, wal=wal)) as journal:
            driver = Driver(journal, "run")
            if synchronous:
                journal._file._opened_writer().pragma("synchronous", synchronous)  # noqa: SLF001
            files = {file.name: file.read_bytes() for file in (path, Path(f"{path}-wal")) if file.exists()}
            begun = len(recorder.ops)
            recorder.sync_to_fail = sync_to_fail
            histories = list(_write(driver, recorder, luck))
            ops = recorder.ops[begun:]
    finally:
        sqlite_file._CHECKPOINT_PAGES = usual  # noqa: SLF001
        recorder.unregister()
    acked = [op.at for op in ops if op.kind == "ack"]
    for number, (told, left) in enumerate(cuts(files, ops, luck)):
        if luck.random() > 0.25:
            continue
        safe = acked[told - 1] if told else 0
        faults = [_after_cut(folder / "cut", left, history, safe, wal=wal) for history in histories]
        if all(faults):
            verdict.wrong.append(f"cut {number}: {faults[-1]}")
    return verdict


def _write(driver: Driver, recorder: Recorder, luck: Random) -> Iterator[list[Entry]]:
    """Write until luck has enough; the histories that may be found: what failed may be there as well."""
    journal, known = driver.journal, list[Entry]()
    for _ in range(luck.randrange(2, 20)):
        contents = [luck.randbytes(100) for _ in range(luck.randrange(1, 4))]
        append = driver.next(*contents, headline=luck.randbytes(luck.randrange(3_000)))
        try:
            journal.commit([append])
        except StoreError:
            yield [*known, *append.entries]
            with suppress(StoreError):  # the lock goes all the same
                driver.release()
            driver = Driver(journal, "run")
            known = journal.read("run")
        else:
            known += append.entries
            recorder.ops.append(Op("ack", "", driver.seq))
    yield known


def _after_cut(place: Path, left: dict[str, bytes], history: list[Entry], safe: int, *, wal: bool) -> str:
    """What is wrong with these files, if that is what was written and so much of it acknowledged."""
    place.mkdir()
    for name, raw in left.items():
        (place / name).write_bytes(raw)
    seen = judge(place / "k.db", Truth({"run": history}), may_be_older=True, at_least=safe, wal=wal)
    shutil.rmtree(place)
    return seen.refused or "; ".join(seen.wrong) or (f"damaged at {seen.damaged}" if seen.damaged else "")


KINDS: dict[str, tuple[Kind, int]] = {
    "flip": (flip, 40), "event": (event, 15), "short": (short, 10), "page": (page, 10),
    "log_torn": (log_torn, 5), "log_flip": (log_flip, 5), "log_gone": (log_gone, 1),
    "log_older": (log_older, 3), "log_foreign": (log_foreign, 2), "moved": (moved, 1),
    "foreign": (foreign, 3), "full": (full, 2), "power": (power, 3), "sync_fails": (sync_fails, 2),
}  # fmt: skip
"""Each with its share of a hundred cases."""


def prove(count: int | None) -> Iterator[Fact]:
    """Damage many stores, one after another."""
    plan = [name for name, (_, share) in KINDS.items() for _ in range(share)]
    told: Counter[str] = Counter()
    wrong: list[str] = []
    total = count or USUAL
    for seed in range(total):
        name = plan[seed * 37 % len(plan)]
        verdict = case(name, seed)
        told[name] += 1
        if verdict.wrong:
            wrong.append(f"proof/damage.py {name} {seed}: {verdict.wrong[0]}")
            print(f"  {wrong[-1]}", file=sys.stderr)
    hit = f"first: PYTHONPATH=src .venv/bin/python {wrong[0]}" if wrong else ""
    kinds = ", ".join(f"{number:,} {name}" for name, number in told.most_common())
    yield Fact(
        "damaged stores",
        f"{total:,}, {len(wrong)} that told something else than the truth",
        "0",
        not wrong,
        hit or kinds,
    )
    lost = sum(_loses_without_syncs(seed) for seed in range(20))
    yield Fact(
        "power cuts without a sync for each commit that lose something",
        f"{lost} of 20",
        "> 0",
        lost > 0,
        "the model sees it",
    )


def _loses_without_syncs(seed: int) -> bool:
    with tempfile.TemporaryDirectory(dir=_FAST) as folder:
        return bool(cut_power(Random(seed), Path(folder), synchronous="normal").wrong)


def case(name: str, seed: int) -> Verdict:
    """One case; the same number is the same case."""
    with tempfile.TemporaryDirectory(dir=_FAST) as folder:
        return KINDS[name][0](Random(seed), Path(folder))


_FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of its own is made in it
_made: dict[str, tuple[Path, Truth, bytes]] = {}


def _whole() -> tuple[Path, Truth]:
    """A store that nobody damages, made once."""
    if "whole" not in _made:
        folder = tempfile.TemporaryDirectory(dir=_FAST)
        _keep.append(folder)
        path = Path(folder.name) / "k.db"
        truth = make(path)
        _made["whole"] = path, truth, b""
    path, truth, _ = _made["whole"]
    return path, truth


_keep: list[tempfile.TemporaryDirectory[str]] = []


def _copy(folder: Path) -> tuple[Path, Truth]:
    path, truth = _whole()
    shutil.copy(path, folder / "k.db")
    return folder / "k.db", Truth({run: list(events) for run, events in truth.events.items()}, truth.blobs)


def _crashed(folder: Path) -> tuple[Path, Truth]:
    """A store as a killed process leaves it: the newest commits are in the log alone."""
    path, truth = _copy(folder)
    with _closing(SqliteJournal(path)) as journal:
        driver = Driver(journal, "hurt")
        for _ in range(5):
            truth.events["hurt"] += driver.write(2)
        (folder / "crashed").mkdir()
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", folder / "crashed" / f"k.db{end}")
    return folder / "crashed" / "k.db", truth


def _old_log() -> tuple[Truth, bytes]:
    """The log of the store as it was some events before."""
    if "log" not in _made:
        with tempfile.TemporaryDirectory(dir=_FAST) as folder:
            path, truth = Path(folder) / "k.db", Truth()
            make(path, events=EVENTS - 4)
            journal = SqliteJournal(path)
            Driver(journal, "hurt").write(2)
            log = Path(f"{path}-wal").read_bytes()
            journal.close()
            _made["log"] = path, truth, log
    return _made["log"][1], _made["log"][2]


def _sql(path: Path, statement: str) -> None:
    with closing(apsw.Connection(str(path))) as db:
        db.execute(statement).fetchall()


@contextmanager
def _closing(journal: SqliteJournal) -> Generator[SqliteJournal]:
    """Its end may find out that the store is not what it was."""
    try:
        yield journal
    finally:
        with suppress(KedgeError):
            journal.close()


if __name__ == "__main__":
    found = case(sys.argv[1], int(sys.argv[2]))
    print(found)
    sys.exit(1 if found.wrong else 0)
