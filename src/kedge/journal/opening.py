"""From what a user writes for a store to the store."""

from __future__ import annotations

from pathlib import Path

from kedge.journal.memory import MemoryJournal
from kedge.journal.sqlite import SqliteJournal

MEMORY = ":memory:"


def open_journal(store: str | Path) -> MemoryJournal | SqliteJournal:
    """`:memory:` for a store that ends with the process, else the path of a SQLite file."""
    if str(store) == MEMORY:
        return MemoryJournal()
    return SqliteJournal(store)
