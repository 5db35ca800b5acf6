"""Who drives a run: an OS lock per run, and the name of the process that holds it.

The lock decides. The operating system drops it when its process dies, however it dies, so a dead
owner is replaced at once and there is no lease time to wait for, to renew or to get wrong. The
owner's name is there for the error message, and for one case more: if somebody clears away the
lock files under a live driver, its process is still found alive by its name.

`flock` and not POSIX record locks: a process loses all of those on a file when it closes any
descriptor of that file. A forked child inherits flocks, and would keep a run of its dead parent
locked, so it closes them first thing.

A lock file goes when its lock is released. That is free of races because whoever takes a lock
looks afterwards whether its file still has that name, and starts again if not. On Windows an open
file cannot go; there the files stay.
"""

from __future__ import annotations

import functools
import hashlib
import os
import socket
import sys
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from kedge.base.errors import NotOwner
from kedge.base.failpoints import armed, reach

if sys.platform == "win32":
    import msvcrt

    def _try_lock(fd: int) -> bool:
        try:
            msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _try_lock(fd: int) -> bool:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Owner(NamedTuple):
    """A process that drives a run. Together the fields name it for ever: a pid alone is used again."""

    host: str
    pid: int
    boot: str
    started: str
    since: int
    """When it claimed the run, in ms."""
    port: int = 0
    """Where it listens; 0: nowhere."""


def this_process(since_ms: int) -> Owner:
    """The process we are in, as an owner."""
    pid = os.getpid()
    return Owner(socket.gethostname(), pid, _boot_id(), _started(pid), since_ms)


def is_another_live_process(owner: Owner) -> bool:
    """True only if that is certain: same machine, same boot, not us, and still there."""
    here = this_process(0)
    if not owner.started or (owner.host, owner.boot) != (here.host, here.boot) or owner.pid == here.pid:
        return False
    return _started(owner.pid) == owner.started


def owned_by(run_id: str, owner: Owner | None) -> NotOwner:
    """The error for a run that has a driver."""
    if owner is None:
        what = "another process is claiming or deleting it at this moment"
    else:
        since = datetime.fromtimestamp(owner.since / 1000, UTC).isoformat(sep=" ", timespec="seconds")
        what = f"it is being driven by process {owner.pid} on {owner.host} since {since}"
    return NotOwner(what, where=f"run {run_id}", remedy="watch it from here, or stop that process first")


class RunLocks:
    """The locks of one store, each a file in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def take(self, run_id: str) -> bool:
        """True if the run is ours now; False if anyone has it, another part of this process included."""
        return _take(self._path(run_id))

    def drop(self, run_id: str) -> None:
        """Give the run up; nothing happens if it is not held."""
        _drop(self._path(run_id))

    def is_taken(self, run_id: str) -> bool:
        """Whether anyone drives the run at this moment."""
        if not os.path.lexists(self._path(run_id)):
            return False
        if not self.take(run_id):
            return True
        self.drop(run_id)
        return False

    def sweep(self) -> None:
        """Remove the files of drivers that could not do so, most often because they were killed."""
        with suppress(OSError):
            for file in self._folder.glob("*.lock"):
                if _take(str(file)):
                    _drop(str(file))

    def _path(self, run_id: str) -> str:
        return str(self._folder / f"{hashlib.sha256(run_id.encode()).hexdigest()[:32]}.lock")


class _Held:
    """What this process holds. Where flock is per process, two stores still exclude each other by it."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.descriptors: dict[str, int] = {}

    def forget_after_fork(self) -> None:
        self.mutex = threading.Lock()  # the old one may be held by a thread that does not exist here
        for fd in self.descriptors.values():
            os.close(fd)  # closing leaves the parent its lock; unlocking would take it away
        self.descriptors.clear()


_held = _Held()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_held.forget_after_fork)


def _take(path: str) -> bool:
    with _held.mutex:
        if path in _held.descriptors:
            return False
        fd = _lock_file(path)
        if fd is None:
            return False
        _held.descriptors[path] = fd
        return True


def _drop(path: str) -> None:
    with _held.mutex:
        fd = _held.descriptors.pop(path, None)
        if fd is None:
            return
        # A file that stays behind harms nobody: the lock counts, and that goes with the descriptor.
        with suppress(OSError):
            if sys.platform != "win32" and _is_at(fd, path):
                Path(path).unlink()
                if armed:
                    reach("locks.drop.unlinked")
        with suppress(OSError):
            os.close(fd)


def _lock_file(path: str) -> int | None:
    while True:
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError:
            Path(path).parent.mkdir(mode=0o700, exist_ok=True)
            continue
        try:
            locked = _try_lock(fd)
            if locked:
                if armed:
                    reach("locks.take.locked")
                if _is_at(fd, path):
                    return fd
        except BaseException:
            os.close(fd)
            raise
        os.close(fd)
        if not locked:
            return None


def _is_at(fd: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), Path(path).stat())
    except FileNotFoundError:
        return False


@functools.cache
def _boot_id() -> str:
    return _text("/proc/sys/kernel/random/boot_id").strip()


def _started(pid: int) -> str:
    """When a process started, in ticks since boot; empty where the system does not tell."""
    fields = _text(f"/proc/{pid}/stat").rpartition(")")[2].split()  # the name before it may hold anything
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
