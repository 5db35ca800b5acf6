"""Stores for the tests of the journal, closed when a test ends."""

import os
from pathlib import Path

import pytest

import kedge
from kedge.journal.sqlite import SqliteJournal


@pytest.fixture
def path(tmp_path):
    return tmp_path / "store" / "kedge.db"


@pytest.fixture
def open_sqlite(path):
    opened = []

    def open_one(**more):
        opened.append(SqliteJournal(path, **more))
        return opened[-1]

    yield open_one
    for journal in opened:
        journal.close()


@pytest.fixture
def environment():
    """For processes that use the package as this one does."""
    return {**os.environ, "PYTHONPATH": str(Path(kedge.__file__).parents[1])}
