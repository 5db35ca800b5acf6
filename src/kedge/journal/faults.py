"""The sentences of this room: what a person reads when a store refuses or fails."""

from __future__ import annotations

import errno
import os
from typing import Any

from kedge.base.codec import digest
from kedge.base.errors import NotFound, NotOwner, StoreDamaged, StoreError, StoreFull

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_OPEN_FILES = {errno.EMFILE, errno.ENFILE}


def no_such_run(run_id: str) -> NotFound:
    """Nobody has claimed a run of that name yet, or it was deleted."""
    return NotFound("no such run in this store", where=f"run {run_id}")


def not_claimed(run_id: str) -> NotOwner:
    """Somebody writes without a lease."""
    return NotOwner("it is not claimed here", where=f"run {run_id}", remedy="claim it before writing to it")


def replaced(run_id: str, epoch: int, current: int) -> NotOwner:
    """A newer lease was given out."""
    return NotOwner(
        f"another driver took it over: epoch {epoch} was followed by {current}",
        where=f"run {run_id}",
        remedy="stop driving it here",
    )


def overtaken(run_id: str, after_seq: int, seq: int) -> NotOwner:
    """The events are not the next ones."""
    return NotOwner(
        f"its last event is {seq}, not {after_seq}: another driver wrote to it",
        where=f"run {run_id}",
        remedy="stop driving it here",
    )


def damaged(run_id: str, seq: int, what: str) -> StoreDamaged:
    """The run's events are intact only before `seq`."""
    intact = f"the {seq - 1} events before it are intact: " if seq > 1 else ""
    return StoreDamaged(
        what,
        run_id=run_id,
        seq=seq,
        remedy=f"{intact}restore the store from a copy, salvage the run, or delete it",
    )


def closed(store: str) -> StoreError:
    """Somebody uses a journal after its end."""
    return StoreError("the journal is closed", code="store_closed", where=store, remedy="open it again")


def checked_blob(sha: str, content: Any) -> bytes:
    """`content` if it is what its name says."""
    if content is None:
        raise NotFound("no such blob in this store", where=f"blob {sha}")
    if not isinstance(content, bytes) or digest(content) != sha:
        raise StoreDamaged(
            f"blob {sha}: its bytes are not what was written", remedy="restore the store from a copy"
        )
    return content


def from_os(error: OSError, path: str | os.PathLike[str]) -> StoreError:
    """What the operating system refused, as the store's error."""
    where, reason = os.fspath(path), error.strerror or str(error)
    if error.errno in _FULL:
        return full(where, reason)
    if error.errno in _OPEN_FILES:
        return StoreError(
            reason,
            code="store_open_files",
            where=where,
            remedy="each driven run keeps a file open: raise `ulimit -n`, or drive fewer at once",
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return StoreError(
            reason,
            code="store_permission",
            where=where,
            remedy="give this user the right to write the file and its folder, or name another store",
        )
    return StoreError(reason, code="store_io", where=where, remedy="check that path and its disk")


def full(where: str, reason: str) -> StoreFull:
    """There is no room."""
    return StoreFull(reason, where=where, remedy="free some space; the runs go on where they were")
