"""One SQLite file, held so that nothing acknowledged can be lost and no fault goes unnamed.

Two connections: one that writes, one that reads beside it without waiting for the disk. Each has a
lock; whoever needs both takes the writing one first.

What is done about each fault, and why:
- *busy* (another process writes): wait with jitter, up to a minute. Short transactions that begin
  with the write lock cannot deadlock, so waiting is always enough.
- *full*: the transaction is undone and nothing else: the same connection works when there is room.
- *I/O error*: both connections are dropped and opened again. A failed fsync is never tried again:
  the kernel may have marked the lost pages clean, and the second one would lie.
- *error in COMMIT*: the outcome is unknown. After opening again, which lets SQLite recover, and after
  forcing what it recovered to disk, the caller looks whether its rows are there.
- *the file was deleted, moved or replaced*: SQLite would go on writing into a file that has no name.
  Its inode is looked at again and again, and a commit after which it is another one does not count.
- *a shortened file*: SQLite refuses all of it, though most pages are there. It is opened for reading
  alone, so that the runs before the cut can be had.
- *a fork*: SQLite's locks do not survive one. The child is refused.
"""

from __future__ import annotations

import os
import random
import stat
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from kedge.base.errors import InternalError, KedgeError, StoreDamaged, StoreError, StoreFull
from kedge.base.failpoints import armed, reach
from kedge.journal import faults
from kedge.journal.db import ERRORS, Db, connect, disconnect, result_code
from kedge.journal.schema import check_identity, check_tables, migrate

_T = TypeVar("_T")

BUSY_S = 60.0
LOOK_S = 0.02
"""How often it is looked whether the file is still the one that was opened."""
LOG_LOOK_S = 1.0
"""The same of its log (-wal)."""
_CHECKPOINT_PAGES = 2_000
_WAL_BYTES_KEPT = 64 * 1024 * 1024

# SQLite's POSIX locks vanish when any descriptor of the file is closed in this process, so a file is
# made (opened and closed by us) only while nobody else opens one.
_making = threading.Lock()


def sqlite_safe() -> tuple[bool, str]:
    """Whether SQLite keeps what several processes write, and a sentence about it.

    From 3.7.0 to 3.51.2 a checkpoint that races with a writer can lose committed rows (WAL-reset
    bug); 3.44.6 and 3.50.7 have the repair too.
    """
    version = apsw.sqlite_lib_version()
    parts = tuple(int(part) for part in version.split("."))
    repaired = parts >= (3, 51, 3) or (3, 50, 7) <= parts < (3, 51) or (3, 44, 6) <= parts < (3, 45)
    if repaired:
        return True, f"SQLite {version}"
    return False, f"SQLite {version} can lose committed data in WAL mode; install apsw 3.51.3 or newer"


class SqliteFile:
    """A file with our tables. Opens, migrates, and runs transactions."""

    def __init__(self, path: Path, *, wal: bool) -> None:
        self.path = os.path.realpath(path)
        self._log_path = f"{self.path}-wal"
        self._wal = wal
        self._pid = os.getpid()
        self._writing = threading.Lock()
        self._reading = threading.Lock()
        self._writer: Db | None = None
        self._reader: Db | None = None
        self._closed = False
        self._version = 0
        self._patience_s = BUSY_S
        """How long the next transaction waits for others."""
        self._log_inode: tuple[int, int] | None = None
        self._log_looked_s = 0.0
        self._looked_s = 0.0
        safe, sentence = sqlite_safe()
        if wal and not safe:
            raise StoreError(
                sentence, code="store_sqlite", where=self.path, remedy="or open it with wal=False"
            )
        try:
            with _making:
                _make_file(Path(self.path))
                if armed:
                    reach("file.open.made")
                self._open_first()
                self._inode = _inode(self.path)
        except OSError as error:
            raise faults.from_os(error, self.path) from error

    @contextmanager
    def reading(self) -> Generator[Db]:
        """A snapshot to read from."""
        with self._reading:
            self._check_usable()
            if self._reader is None:
                self._reader = self._connect_reader()
            db = self._reader
            try:
                db.execute("begin")
                yield db
            except apsw.IOError as error:
                self._reader = None
                disconnect(db)
                raise self._named(error) from error
            except ERRORS as error:
                raise self._named(error) from error
            finally:
                if self._reader is not None and db.in_transaction:
                    db.execute("rollback")

    def write(
        self,
        work: Callable[[Db], _T],
        landed: Callable[[Db], bool] | None = None,
        patience_s: float = BUSY_S,
    ) -> _T:
        """Do `work` in one transaction, which is on disk, in the file of that name, when this returns.

        `landed` tells, after an error in COMMIT, whether the transaction happened all the same.
        """
        with self._writing:
            db = self._opened_writer()
            self._patience_s = patience_s
            if armed:
                reach("file.begin.before")
            try:
                db.execute("begin immediate")
                if armed:
                    reach("file.begin.after")
                done = work(db)
            except BaseException as error:
                self._undo(db, error)
                if isinstance(error, ERRORS):
                    raise self._named(error) from error
                raise
            try:
                if armed:
                    reach("file.commit.before")
                db.execute("commit")
                if armed:
                    reach("file.commit.after")
            except apsw.Error as error:
                self._settle(db, error, landed)
            self._check_same_file()
            return done

    def compact(self) -> int:
        """Rewrite the file without holes; the bytes that were given back."""
        with self._writing:
            db = self._opened_writer()
            before = self._bytes_on_disk()
            try:
                if armed:
                    reach("file.compact.before")
                db.execute("vacuum")
                if armed:
                    reach("file.compact.rewritten")
                db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            except apsw.Error as error:
                self._undo(db, error)
                raise self._named(error) from error
            if armed:
                reach("file.compact.after")
            return max(0, before - self._bytes_on_disk())

    def data_version(self) -> int:
        """Changes when another process (or another journal here) has committed.

        Only the writing connection does not count its own commits. While it is busy the last answer
        is given again: a reader must not wait for the disk.
        """
        if self._writing.acquire(blocking=False):
            try:
                self._version = self._opened_writer().pragma("data_version")
            except ERRORS as error:
                raise self._named(error) from error
            finally:
                self._writing.release()
        return self._version

    def facts(self) -> dict[str, Any]:
        """What a health report wants to know of the file."""
        with self._writing:
            db = self._opened_writer()
            facts: dict[str, Any] = {
                name: db.pragma(name)
                for name in ("journal_mode", "synchronous", "page_size", "page_count", "freelist_count")
            }
        return {
            "sqlite": apsw.sqlite_lib_version(),
            "path": self.path,
            **facts,
            "file_bytes": _size(self.path),
            "wal_bytes": _size(f"{self.path}-wal"),
        }

    def close(self) -> None:
        with self._writing:
            try:
                if self._writer is not None and os.getpid() == self._pid:
                    self._looked_s = 0.0
                    self._check_same_file()  # the last commits may not have been followed by a look
            finally:
                if os.getpid() == self._pid:  # a forked child leaves its parent's connections alone
                    self._drop_connections()
                self._closed = True

    def _open_first(self) -> None:
        try:
            self._writer = self._connect()
        except StoreDamaged:
            self._reader = self._connect(salvage=True)  # whoever wants to write gets the error again

    def _connect_reader(self) -> Db:
        try:
            return self._connect()
        except StoreDamaged:
            return self._connect(salvage=True)

    def _connect(self, *, salvage: bool = False) -> Db:
        deadline = time.monotonic() + BUSY_S
        while True:
            db: Db | None = None
            try:
                db = connect(self.path)
                db.set_busy_handler(_patience(lambda: self._patience_s))
                if salvage:
                    db.pragma("writable_schema", "on")  # only with this does SQLite open a shortened file
                    db.pragma("query_only", "on")
                    check_identity(db, self.path)
                    check_tables(db, self.path)
                else:
                    self._set_up(db)
                return db
            except BaseException as error:
                if db is not None:
                    disconnect(db)
                # SQLite does not ask the busy handler in each step of making and recovering a WAL.
                if not isinstance(error, apsw.BusyError) or time.monotonic() > deadline:
                    if isinstance(error, ERRORS):
                        raise self._named(error) from error
                    raise
                time.sleep(random.uniform(0.001, 0.02))  # noqa: S311

    def _set_up(self, db: Db) -> None:
        if db.readonly("main"):
            raise apsw.ReadOnlyError("the file cannot be written")
        check_identity(db, self.path)
        mode = "wal" if self._wal else "delete"
        found = db.pragma("journal_mode", mode)
        if found != mode:
            raise StoreError(
                f"SQLite keeps journal mode {found!r} where {mode!r} is asked for",
                code="store_mode",
                where=self.path,
                remedy="put the store on a local disk, and let every process open it with the same wal=",
            )
        # In rollback mode only EXTRA makes the end of a transaction (a deleted file) durable.
        db.pragma("synchronous", "full" if self._wal else "extra")
        db.pragma("fullfsync", "on")  # macOS: its plain fsync does not reach the disk
        db.pragma("checkpoint_fullfsync", "on")
        db.pragma("wal_autocheckpoint", _CHECKPOINT_PAGES)
        db.pragma("journal_size_limit", _WAL_BYTES_KEPT)
        db.pragma("cell_size_check", "on")  # finds a damaged page before it is followed
        db.pragma("mmap_size", 0)  # a mapped page that cannot be read kills the process
        if armed:
            reach("file.open.set_up")
        migrate(db)
        check_tables(db, self.path)

    def _opened_writer(self) -> Db:
        self._check_usable()
        if self._writer is None:
            self._writer = self._connect()
        return self._writer

    def _check_usable(self) -> None:
        if self._closed:
            raise faults.closed(self.path)
        if os.getpid() != self._pid:
            raise StoreError(
                f"it was opened by process {self._pid}, before a fork",
                code="store_forked",
                where=self.path,
                remedy="open a journal of your own in the child",
            )

    def _check_same_file(self) -> None:
        """What was committed is where others, and we after a crash, will look for it.

        Not with each of many quick commits: a look is a sixth of what one takes beside its sync. The log
        (-wal) is looked at even less: after a stat ext4 notes a finer time at the next write, and that
        sync takes half as long again (150 instead of 105 us).
        """
        now_s = time.monotonic()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        what = "the file was deleted or moved while it was open"
        try:
            if _inode(self.path) != self._inode:
                what = "the file was replaced while it was open"
            elif not self._wal or self._is_same_log(now_s):
                return
            else:
                what = "its log (-wal) was deleted, moved or replaced while it was open"
        except FileNotFoundError:
            pass
        except OSError as error:  # nobody can tell
            raise faults.from_os(error, self.path) from error
        raise StoreError(
            what,
            code="store_moved",
            where=self.path,
            remedy="put it back, or open the store again; what came last is not acknowledged",
        )

    def _is_same_log(self, now_s: float) -> bool:
        if not os.access(self._log_path, os.F_OK):
            return False
        if self._log_inode is not None and now_s - self._log_looked_s < LOG_LOOK_S:
            return True
        self._log_looked_s = now_s
        known, self._log_inode = self._log_inode, _inode(self._log_path)
        return known in (None, self._log_inode)

    def _undo(self, db: Db, error: BaseException) -> None:
        """Leave no transaction open; after an I/O error leave no connection either."""
        try:
            if db.in_transaction:
                db.execute("rollback")
        except apsw.Error:
            self._drop_connections()
        if isinstance(error, apsw.IOError):
            self._drop_connections()

    def _settle(self, db: Db, error: apsw.Error, landed: Callable[[Db], bool] | None) -> None:
        """COMMIT failed: find out what happened, and raise unless it happened."""
        self._undo(db, error)
        self._drop_connections()
        happened = False
        try:
            again = self._opened_writer()
            if armed:
                reach("file.settle.opened")
            happened = landed is not None and landed(again)
            if happened:
                # What recovery finds in the log may never have reached the disk. The checkpoint writes it
                # anew to the main file and syncs that one.
                again.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                if armed:
                    reach("file.settle.checkpointed")
        except (*ERRORS, KedgeError) as failed:
            second = failed if isinstance(failed, KedgeError) else self._named(failed)
            self._drop_connections()
            first = self._named(error)
            if not happened and isinstance(first, StoreFull) and isinstance(second, StoreFull):
                raise first from error  # a commit without room for all of it is none
            raise StoreError(
                f"{error}; the store could not be opened again to see what is in it: {second}",
                code="store_io",
                where=self.path,
                remedy="check the disk, then read the run again before writing to it",
            ) from error
        if not happened:
            raise self._named(error) from error

    def _drop_connections(self) -> None:
        if armed:
            reach("file.close")
        with self._reading:
            for db in (self._reader, self._writer):
                if db is not None:
                    disconnect(db)
            self._reader = self._writer = None
            self._log_inode = None

    def _bytes_on_disk(self) -> int:
        return _size(self.path) + _size(f"{self.path}-wal")

    def _named(self, error: apsw.Error | UnicodeDecodeError) -> KedgeError:
        """SQLite's error as one of ours."""
        text, where = str(error), self.path
        match error:
            case apsw.FullError():
                return faults.full(where, text)
            case apsw.IOError() if _is_write(error):
                return faults.full(where, f"{text} while writing: a disk, quota or file size limit")
            case apsw.CorruptError() | apsw.FormatError() | UnicodeDecodeError():
                return StoreDamaged(
                    f"{where}: {text}", remedy="restore the store from a copy; runs that read well are intact"
                )
            case apsw.NotADBError():
                code, remedy = "store_foreign", "name another file, or restore the store from a copy"
            case apsw.ReadOnlyError():
                code, remedy = "store_readonly", "give this user the right to write the file and its folder"
            case apsw.CantOpenError() | apsw.PermissionsError() | apsw.AuthError():
                code, remedy = "store_permission", "check that it is a file this user may read and write"
            case apsw.BusyError() | apsw.LockedError():
                code, remedy = "store_busy", f"a process has kept it for {BUSY_S:g} s: find and end that one"
            case apsw.TooBigError():
                code, remedy = (
                    "store_too_big",
                    "a value has at most 1,000,000,000 bytes: write a file instead",
                )
            case apsw.IOError() | apsw.NoMemError() | apsw.ProtocolError():
                code, remedy = "store_io", "check the disk, then read the run again before writing to it"
            case _:
                return InternalError(f"{where}: {type(error).__name__}: {text}")
        return StoreError(text, code=code, where=where, remedy=remedy)


def _is_write(error: apsw.Error) -> bool:
    return result_code(error) in (apsw.SQLITE_IOERR_WRITE, apsw.SQLITE_IOERR_SHMSIZE)


def _patience(most_s: Callable[[], float]) -> Callable[[int], bool]:
    """A busy handler: short random sleeps, so that many writers do not wake together."""
    since = 0.0

    def wait(tries: int) -> bool:
        nonlocal since
        now = time.monotonic()
        if tries == 0:
            since = now
        if now - since >= most_s():
            return False
        time.sleep(random.uniform(0.0005, 0.001 * 2 ** min(tries, 4)))  # noqa: S311
        return True

    return wait


def _make_file(path: Path) -> None:
    """An empty file for its owner alone, with the folders above it; nothing if it is there."""
    missing = [folder for folder in path.parents if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(mode=0o700, exist_ok=True)
    if not path.exists():
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return  # another process was faster
        os.close(fd)
        path.chmod(0o600)  # whatever the umask took away


def _inode(path: str) -> tuple[int, int]:
    found = os.stat(path)  # noqa: PTH116 - twice for each commit, and making a Path takes longer than asking
    if found.st_nlink > 1 and stat.S_ISREG(found.st_mode):
        raise StoreError(
            f"the file has {found.st_nlink} names (hard links)",
            code="store_linked",
            where=path,
            remedy="keep one: SQLite has a log for each name, and would damage the data",
        )
    return found.st_dev, found.st_ino


def _size(path: str) -> int:
    try:
        return Path(path).stat().st_size
    except FileNotFoundError:
        return 0
