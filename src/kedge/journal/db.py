"""What this room uses of an SQLite connection.

apsw's own stubs name `collections.abc.Buffer`, which Python has from 3.12 on: on 3.11 a strict type
checker knows nothing of the methods that take a value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol, cast

import apsw

Row = tuple[Any, ...]

UNREADABLE = (apsw.CorruptError, UnicodeDecodeError)
"""A flipped bit can break a page, or make a text that is none."""
ERRORS = (apsw.Error, UnicodeDecodeError)
"""What a statement can raise."""


class Rows(Protocol):
    """What a statement gives."""

    def __iter__(self) -> Iterator[Row]: ...
    def fetchall(self) -> list[Row]: ...


class Db(Protocol):
    """An open connection."""

    @property
    def in_transaction(self) -> bool: ...
    def execute(self, statements: str, bindings: Sequence[Any] | None = None, /) -> Rows: ...
    def executemany(self, statements: str, bindings: Iterable[Sequence[Any]], /) -> Rows: ...
    def pragma(self, name: str, value: str | int | None = None, /) -> Any: ...
    def changes(self) -> int: ...
    def last_insert_rowid(self) -> int: ...
    def readonly(self, name: str, /) -> bool: ...
    def set_busy_handler(self, handler: Callable[[int], bool], /) -> None: ...
    def wal_checkpoint(self, dbname: str | None = None, mode: int = 0) -> tuple[int, int]: ...
    def close(self, force: bool = False) -> None: ...  # noqa: FBT001, FBT002


class _OneCursor:
    """A connection with one cursor for all its statements, each of which is read to its end.

    A new cursor for each, as apsw makes them, takes three times as long as a quick statement.
    """

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection
        cursor = cast("Any", connection.cursor())
        self.execute = cursor.execute
        self.executemany = cursor.executemany
        self.changes = connection.changes

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


def connect(path: str) -> Db:
    """A connection that may write, with nothing set."""
    return cast("Db", _OneCursor(apsw.Connection(path)))


def disconnect(db: Db) -> None:
    """Close it, whatever SQLite finds to say: its last tidying up may fail, and nothing depends on that."""
    with suppress(apsw.Error):
        db.close(force=True)


def result_code(error: apsw.Error) -> int:
    """SQLite's extended code, 0 if the error did not come from there."""
    return getattr(error, "extendedresult", 0)
