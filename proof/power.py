"""A model of a power cut: a VFS that writes down what is written and synced, and the files that are left.

What was synced is there. Of what was written to a file since its last sync each piece is there, is not, is
garbled, or came before one that was written earlier: a disk may do all of that. What a failed sync was for is
not there whatever is synced later, unless it is written again. Killing a process shows none
of it, because the kernel goes on and writes everything.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import apsw


class Op(NamedTuple):
    """One thing that was done to a file, or `ack`: somebody was told that all before it is safe."""

    kind: str
    name: str
    at: int = 0
    data: bytes = b""


class Recorder(apsw.VFS):
    """The machine's own files, and a list of what is done to them."""

    def __init__(self) -> None:
        self.base = apsw.vfs_names()[0]
        self.ops: list[Op] = []
        self.sync_to_fail = 0
        """The sync that is to fail, counted down; 0: none."""
        super().__init__("recorder", self.base, makedefault=True)

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001, N802
        super().xDelete(filename, syncdir)
        self.ops.append(Op("delete", Path(filename).name, at=int(syncdir)))


class _File(apsw.VFSFile):
    def __init__(self, recorder: Recorder, name: Any, flags: list[int]) -> None:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name or ""
        self._name = Path(path).name
        self._recorder = recorder
        self._ops = recorder.ops
        super().__init__(recorder.base, name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:  # noqa: N802
        super().xWrite(data, offset)
        self._ops.append(Op("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:  # noqa: N802
        super().xTruncate(newsize)
        self._ops.append(Op("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:  # noqa: N802
        self._recorder.sync_to_fail -= 1
        if self._recorder.sync_to_fail == 0:
            self._ops.append(Op("sync failed", self._name))
            error: Any = apsw.IOError("injected")
            error.result, error.extendedresult = apsw.SQLITE_IOERR, apsw.SQLITE_IOERR_FSYNC
            raise error
        super().xSync(flags)
        self._ops.append(Op("sync", self._name))


class Disk:
    """What is certain of each file, and what is not."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.safe: dict[str, bytearray | None] = {name: bytearray(raw) for name, raw in files.items()}
        self.pending: dict[str, list[Op]] = {}

    def take(self, op: Op) -> None:
        """One thing more was done."""
        if op.kind == "sync failed":
            # The kernel takes the pages for clean: they can still be read, and no later sync writes them.
            self.pending.pop(op.name, None)
        elif op.kind == "sync" or (op.kind == "delete" and op.at):
            for waiting in self.pending.pop(op.name, []):
                self._apply(self.safe, waiting)
            if op.kind == "delete":
                self.safe[op.name] = None
        elif op.kind != "ack":
            self.pending.setdefault(op.name, []).append(op)

    def cut(self, luck: Random) -> dict[str, bytes]:
        """The files after a power cut now."""
        files = {name: None if raw is None else bytearray(raw) for name, raw in self.safe.items()}
        whole = luck.random()
        for ops in self.pending.values():
            kept = [op for op in ops if luck.random() < whole]
            if luck.random() < 0.5:
                luck.shuffle(kept)
            for op in kept:
                self._apply(files, self._garbled(op, luck) if luck.random() < 0.1 else op)
        return {name: bytes(raw) for name, raw in files.items() if raw is not None}

    @staticmethod
    def _garbled(op: Op, luck: Random) -> Op:
        if op.kind != "write" or len(op.data) < 2:
            return op
        torn = luck.randrange(len(op.data))
        rest = luck.randbytes(len(op.data) - torn) if luck.random() < 0.5 else b""
        return op._replace(data=op.data[:torn] + rest)

    @staticmethod
    def _apply(files: dict[str, bytearray | None], op: Op) -> None:
        if op.kind == "delete":
            files[op.name] = None
            return
        raw = files.get(op.name)
        if raw is None:
            raw = files[op.name] = bytearray()
        if op.kind == "truncate":
            del raw[op.at :]
        else:
            if len(raw) < op.at:
                raw += bytes(op.at - len(raw))
            raw[op.at : op.at + len(op.data)] = op.data


def cuts(files: dict[str, bytes], ops: Iterable[Op], luck: Random) -> Iterable[tuple[int, dict[str, bytes]]]:
    """After each thing that was done: how many were told that they are safe, and the files of a cut there."""
    disk, told = Disk(files), 0
    for op in ops:
        disk.take(op)
        told += op.kind == "ack"
        yield told, disk.cut(luck)
