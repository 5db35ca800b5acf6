"""Fail call n: every call of the engine to the store, and of both to the system, fails once.

A lane is one kind of fault; in it the first call fails, then the second, until one pass goes through without
meeting it. After each, a fresh engine takes the run up: nothing acknowledged is lost, no effect is repeated,
nothing hangs, nothing is left behind. One by hand: `PYTHONPATH=src .venv/bin/python proof/calls.py LANE N`.
"""

from __future__ import annotations

import errno
import fcntl
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import apsw
from facts import Fact
from life import Life, again, live
from spawning import ERRNOS as ERRNOS_OF_PROCESSES
from spawning import failed_calls

import kedge
from kedge.base.errors import KedgeError, NotOwner, StoreDamaged, StoreError, StoreFull

USUAL = 900
"""More than it takes to bring every lane to its clean pass."""
SOURCES = str(Path(kedge.__file__).parent)
_FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - a folder of its own is made in it


@dataclass
class Strike:
    """Fails the n-th call, and remembers where that was."""

    n: int
    seen: int = 0
    where: str = ""
    armed: bool = True

    def now(self, where: str) -> bool:
        """Whether this is the one."""
        if not self.armed:
            return False
        self.seen += 1
        if self.seen == self.n:
            self.where = where
            return True
        return False


# --- the journal as the engine uses it

PORT = """claim release commit head read good_prefix blob runs driven data_version stats
    post posted find_posted decisions arrived undecided port""".split()
STORE_ERRORS: dict[str, Callable[[], KedgeError]] = {
    "full": lambda: StoreFull("no space left"),
    "busy": lambda: StoreError("the store is busy", code="store_busy"),
    "io": lambda: StoreError("disk I/O error", code="store_io"),
    "damaged": lambda: StoreDamaged("its bytes are not what was written", run_id="r", seq=3),
    "not_owner": lambda: NotOwner("another driver took it over", where="run r"),
}


class Faulty:
    """A journal of which one call fails, before it did its work or after."""

    def __init__(self, inner: Any, strike: Strike, error: Callable[[], KedgeError], *, after: bool) -> None:
        self.durable = inner.durable
        self.close = inner.close
        for name in PORT:
            setattr(self, name, self._wrapped(name, getattr(inner, name), strike, error, after=after))

    @staticmethod
    def _wrapped(
        name: str, call: Callable[..., Any], strike: Strike, error: Callable[[], KedgeError], *, after: bool
    ) -> Callable[..., Any]:
        def wrapped(*args: Any, **named: Any) -> Any:
            hit = strike.now(name)
            if hit and not after:
                raise error()
            found = call(*args, **named)
            if hit:
                raise error()
            return found

        return wrapped


def store_lane(error: str, *, after: bool) -> Callable[[Life, int], Strike]:
    """A method of the journal raises this; with `after`, though it did its work."""

    def run(life: Life, n: int) -> Strike:
        strike = Strike(n)
        live(life, lambda inner: Faulty(inner, strike, STORE_ERRORS[error], after=after))
        return strike

    return run


# --- below SQLite

DISK_ERRORS: dict[str, tuple[type[apsw.Error], int, str]] = {
    "read": (apsw.IOError, apsw.SQLITE_IOERR_READ, "xRead"),
    "read_nomem": (apsw.NoMemError, apsw.SQLITE_NOMEM, "xRead"),
    "short_read": (apsw.IOError, 0, "xRead"),
    "write": (apsw.IOError, apsw.SQLITE_IOERR_WRITE, "xWrite"),
    "write_full": (apsw.FullError, apsw.SQLITE_FULL, "xWrite"),
    "sync": (apsw.IOError, apsw.SQLITE_IOERR_FSYNC, "xSync"),
    "sync_done": (apsw.IOError, apsw.SQLITE_IOERR_FSYNC, "xSync"),
    "truncate": (apsw.IOError, apsw.SQLITE_IOERR_TRUNCATE, "xTruncate"),
    "lock": (apsw.IOError, apsw.SQLITE_IOERR_LOCK, "xLock"),
    "lock_busy": (apsw.BusyError, apsw.SQLITE_BUSY, "xLock"),
    "unlock": (apsw.IOError, apsw.SQLITE_IOERR_UNLOCK, "xUnlock"),
    "size": (apsw.IOError, apsw.SQLITE_IOERR_FSTAT, "xFileSize"),
    "open": (apsw.CantOpenError, apsw.SQLITE_CANTOPEN, "xOpen"),
    "delete": (apsw.IOError, apsw.SQLITE_IOERR_DELETE, "xDelete"),
    "access": (apsw.IOError, apsw.SQLITE_IOERR_ACCESS, "xAccess"),
}


class Disk(apsw.VFS):
    """The machine's own files; one call of one kind fails."""

    def __init__(self, strike: Strike, kind: str) -> None:
        self.base = apsw.vfs_names()[0]
        self.strike = strike
        self.kind = kind
        self.error, self.code, self.method = DISK_ERRORS[kind]
        super().__init__("striking", self.base, makedefault=True)

    def hit(self, method: str, name: str) -> bool:
        return method == self.method and self.strike.now(f"{method} {name}")

    def failure(self) -> apsw.Error:
        error: Any = self.error("injected")
        error.result, error.extendedresult = self.code & 0xFF, self.code
        return error

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        if self.hit("xOpen", Path(path).name):
            raise self.failure()
        return _File(self, name, flags, Path(path).name)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802
        if self.hit("xDelete", Path(filename).name):
            raise self.failure()
        super().xDelete(filename, syncdir)

    def xAccess(self, pathname: str, flags: int) -> bool:  # noqa: N802
        if self.hit("xAccess", Path(pathname).name):
            raise self.failure()
        return super().xAccess(pathname, flags)


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int], path: str) -> None:
        self._disk = disk
        self._path = path
        super().__init__(disk.base, name, flags)

    def _strike(self, method: str) -> None:
        if self._disk.hit(method, self._path):
            raise self._disk.failure()

    def xRead(self, amount: int, offset: int) -> bytes:  # noqa: N802
        if self._disk.hit("xRead", self._path):
            if self._disk.kind == "short_read":
                return super().xRead(amount, offset)[: amount // 2]
            raise self._disk.failure()
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        self._strike("xWrite")
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:  # noqa: N802
        if self._disk.hit("xSync", self._path):
            if self._disk.kind == "sync_done":
                super().xSync(flags)
            raise self._disk.failure()
        super().xSync(flags)

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        self._strike("xTruncate")
        super().xTruncate(newsize)

    def xLock(self, level: int) -> None:  # noqa: N802
        self._strike("xLock")
        super().xLock(level)

    def xUnlock(self, level: int) -> None:  # noqa: N802
        super().xUnlock(level)
        self._strike("xUnlock")

    def xFileSize(self) -> int:  # noqa: N802
        self._strike("xFileSize")
        return super().xFileSize()


def disk_lane(kind: str) -> Callable[[Life, int], Strike]:
    """A call of SQLite to the system fails."""

    def run(life: Life, n: int) -> Strike:
        strike = Strike(n)
        disk = Disk(strike, kind)
        try:
            live(life, fault=_until_over(strike))
        finally:
            disk.unregister()
        return strike

    return run


@contextmanager
def _until_over(strike: Strike) -> Generator[None]:
    try:
        yield
    finally:
        strike.armed = False


# --- our own calls to the system

SYSTEM: list[tuple[Any, str]] = [
    *((os, name) for name in (
        "open close stat fstat unlink mkdir rename fsync write read fchmod chmod access scandir pipe"
    ).split()),
    (fcntl, "flock"),
]  # fmt: skip
ERRNOS = {"eio": errno.EIO, "enospc": errno.ENOSPC, "eacces": errno.EACCES, "emfile": errno.EMFILE}
_PASSED_THROUGH = ("pathlib", "contextlib", "posixpath", "genericpath", "/os.py")


def system_lane(number: int) -> Callable[[Life, int], Strike]:
    """A call of ours to the system fails with this number."""

    def run(life: Life, n: int) -> Strike:
        strike = Strike(n)
        live(life, fault=_failing_system(strike, number))
        return strike

    return run


@contextmanager
def _failing_system(strike: Strike, number: int) -> Generator[None]:
    usual = {(module, name): getattr(module, name) for module, name in SYSTEM}
    for (module, name), call in usual.items():
        setattr(module, name, _failing(name, call, strike, number))
    try:
        yield
    finally:
        strike.armed = False
        for (module, name), call in usual.items():
            setattr(module, name, call)


def _failing(name: str, call: Callable[..., Any], strike: Strike, number: int) -> Callable[..., Any]:
    def wrapped(*args: Any, **named: Any) -> Any:
        where = _from_us()
        if where and strike.now(f"{name} in {where}"):
            if name == "close":
                call(*args, **named)  # it is closed all the same
            raise OSError(number, os.strerror(number))
        return call(*args, **named)

    return wrapped


def _from_us() -> str:
    """The function of kedge that makes the call; empty if none of it does."""
    frame = sys._getframe(2)  # noqa: SLF001
    while frame.f_back is not None and any(part in frame.f_code.co_filename for part in _PASSED_THROUGH):
        frame = frame.f_back
    name = frame.f_code.co_filename
    return f"{Path(name).stem}.{frame.f_code.co_name}" if name.startswith(SOURCES) else ""


# --- no memory, no stack: in a process of its own, which may die of it


def memory_lane(life: Life, n: int) -> Strike:
    """An allocation fails, of whatever part of the process."""
    luck = random.Random(n)

    def fault() -> None:
        import _testcapi

        at = luck.randrange(60_000)
        _testcapi.set_nomemory(at, at + luck.choice([1, 2, 10]))

    return _in_child(life, n, fault)


def stack_lane(life: Life, n: int) -> Strike:
    """There is hardly any stack."""
    return _in_child(life, n, lambda: sys.setrecursionlimit(25 + n * 3))


def _in_child(life: Life, n: int, fault: Callable[[], None]) -> Strike:
    life.store.parent.mkdir(exist_ok=True)
    pid = os.fork()
    if not pid:
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            live(Life(life.folder), fault=_armed(fault))
        finally:
            os._exit(0)
    until_s = time.monotonic() + 60.0
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > until_s:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            life.wrong.append("it hangs")
            break
        time.sleep(0.002)
    again(life)
    return Strike(n, where="anywhere")


@contextmanager
def _armed(fault: Callable[[], None]) -> Generator[None]:
    fault()
    yield
    os._exit(0)  # what was acknowledged counts, not how this ends


# --- lanes

Lane = Callable[[Life, int], Strike]
LANES: dict[str, Lane] = {
    **{f"store_{name}": store_lane(name, after=False) for name in STORE_ERRORS},
    **{f"store_{name}_done": store_lane(name, after=True) for name in STORE_ERRORS},
    **{f"disk_{name}": disk_lane(name) for name in DISK_ERRORS},
    **{f"system_{name}": system_lane(number) for name, number in ERRNOS.items()},
    "stack": stack_lane,
}
ENDLESS = {"stack": 30, "memory": 60}
"""Lanes in which every number is a fault: so many of them, of the last as many more as are asked for."""
try:
    import _testcapi  # noqa: F401  # pyright: ignore[reportUnusedImport]
except ImportError:
    pass
else:
    LANES["memory"] = memory_lane


def prove(count: int | None) -> Iterator[Fact]:
    """Go through the lanes side by side, until each has had its clean pass or there were enough cases."""
    wanted, cases, wrong = count or USUAL, 0, list[str]()
    endless = {**ENDLESS, "memory": max(ENDLESS["memory"], wanted - USUAL)}
    todo = dict.fromkeys(LANES, 1)
    met: Counter[str] = Counter()
    while todo and cases < wanted:
        for name, n in list(todo.items()):
            if cases >= wanted:
                break
            life, strike = case(name, n)
            todo[name] += 1
            if not strike.where or n >= endless.get(name, 1 << 30):
                del todo[name]
            cases += 1
            met[name.partition("_")[0]] += 1
            if life.wrong:
                wrong.append(f"proof/calls.py {name} {n}: {strike.where}: {'; '.join(life.wrong)}")
                print(f"  {wrong[-1]}", file=sys.stderr)
    kinds = ", ".join(f"{number:,} {name}" for name, number in met.items())
    yield Fact(
        "calls that failed once",
        f"{cases:,}, {len(wrong)} after which something was wrong",
        "0",
        not wrong,
        f"first: PYTHONPATH=src .venv/bin/python {wrong[0]}" if wrong else kinds,
    )
    struck = list(_spawned())
    broken = [f"proof/spawning.py {name}: {at}: {'; '.join(bad)}" for name, at, bad in struck if bad]
    for one in broken:
        print(f"  {one}", file=sys.stderr)
    yield Fact(
        "calls that failed once around a tool's process",
        f"{len(struck)}, {len(broken)} after which something was wrong",
        "0",
        not broken,
        f"first: PYTHONPATH=src .venv/bin/python {broken[0]}" if broken else "each to its clean pass",
    )
    yield Fact("kinds of fault taken to a clean pass", f"{len(LANES) - len(todo)} of {len(LANES)}")


def _spawned() -> Iterator[tuple[str, str, list[str]]]:
    for name, number in ERRNOS_OF_PROCESSES.items():
        for where, wrong in failed_calls(number):
            yield name, where, wrong


def case(name: str, n: int) -> tuple[Life, Strike]:
    """The n-th call of a lane fails."""
    with tempfile.TemporaryDirectory(dir=_FAST) as folder:
        life = Life(Path(folder))
        before = _open_files()
        strike = LANES[name](life, n)
        more = _open_files() - before
        if more > 0:
            life.wrong.append(f"{more} files stay open")
        return life, strike


def _open_files() -> int:
    listed = Path("/proc/self/fd")
    return len(list(listed.iterdir())) if listed.exists() else 0


if __name__ == "__main__":
    lived, struck = case(sys.argv[1], int(sys.argv[2]))
    print(f"{struck.where or 'nothing was hit'}; it said: {lived.said or 'nothing'}")
    print("\n".join(lived.wrong) or "nothing is wrong")
    sys.exit(1 if lived.wrong else 0)
