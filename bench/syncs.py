"""What reaches the disk: an SQLite VFS that passes everything on, and counts and times the syncs."""

from __future__ import annotations

import time
from typing import Any

import apsw

count = 0
spent_s = 0.0
_usual = apsw.vfs_names()[0]


class _File(apsw.VFSFile):
    def __init__(self, name: Any, flags: list[int]) -> None:
        super().__init__(_usual, name, flags)

    def xSync(self, flags: int) -> None:  # noqa: N802
        global count, spent_s  # noqa: PLW0603
        began_s = time.perf_counter()
        super().xSync(flags)
        count += 1
        spent_s += time.perf_counter() - began_s


class _Counting(apsw.VFS):
    def __init__(self) -> None:
        super().__init__("counting", _usual, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(name, flags)


_installed: list[_Counting] = []


def install() -> None:
    """Count and time from here on, in every connection that is opened."""
    if not _installed:
        _installed.append(_Counting())
