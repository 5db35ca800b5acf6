"""Migrations add up, and one that is killed leaves nothing."""

import re
import signal
import subprocess
import sys
from importlib.resources import files

import apsw
import pytest

from kedge.base.errors import StoreError, StoreVersion
from kedge.journal import schema
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver

SECOND = "create table extra (a integer); insert into extra values (1);"


def tables(path):
    db = apsw.Connection(str(path))
    names = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
    version = db.pragma("user_version")
    db.close()
    return names, version


def test_migrations_are_numbered_from_one_without_gaps():
    folder = files("kedge.journal").joinpath("sql")
    names = sorted(item.name for item in folder.iterdir() if item.name != "queries.sql")
    assert [int(name[:4]) for name in names] == list(range(1, len(schema.migrations()) + 1))


def test_migrations_add_up_to_what_the_queries_need(path):
    SqliteJournal(path).close()
    db = apsw.Connection(str(path))
    for name, sql in schema.SQL.items():
        assert db.execute(f"explain {sql}", (None,) * count_parameters(db, sql)).fetchall(), name
    db.close()


def count_parameters(db, sql):
    return max([int(n) for n in re.findall(r"\?(\d+)", sql)] or [sql.count("?")])


def test_every_query_is_used():
    texts = [
        item.read_text(encoding="utf-8")
        for item in files("kedge.journal").iterdir()
        if item.name.endswith(".py")
    ]
    used = {name for text in texts for name in re.findall(r'SQL\["(\w+)"\]', text)}
    assert used == set(schema.SQL)


@pytest.mark.parametrize(
    "name",
    [
        "find_run",
        "read_events",
        "event_link",
        "find_blob",
        "find_owner",
        "find_command",
        "undecided_commands",
        "runs_commanded",
    ],
)
def test_lookups_do_not_scan(path, name):
    SqliteJournal(path).close()
    db = apsw.Connection(str(path))
    sql = schema.SQL[name]
    plan = [row[3] for row in db.execute(f"explain query plan {sql}", (1,) * count_parameters(db, sql))]
    db.close()
    assert plan
    assert not [step for step in plan if step.startswith("SCAN")], plan


def test_an_older_store_is_brought_up_to_date(path, monkeypatch):
    journal = SqliteJournal(path)
    Driver(journal).write(3)
    journal.close()
    scripts = [*schema.migrations(), SECOND]
    monkeypatch.setattr(schema, "migrations", lambda: scripts)
    journal = SqliteJournal(path)
    assert len(journal.read("run")) == 3
    journal.close()
    names, version = tables(path)
    assert version == len(scripts)
    assert "extra" in names


def test_a_migration_that_fails_leaves_nothing(path, monkeypatch):
    SqliteJournal(path).close()
    before = tables(path)
    scripts = [*schema.migrations(), SECOND + "select no_such_function();"]
    monkeypatch.setattr(schema, "migrations", lambda: scripts)
    with pytest.raises(Exception, match="no_such_function"):
        SqliteJournal(path)
    assert tables(path) == before


KILLED = """
import os, signal, sys, apsw
from kedge.journal import schema
from kedge.journal.sqlite import SqliteJournal
def die():
    os.kill(os.getpid(), signal.SIGKILL)
apsw.connection_hooks.append(lambda db: db.create_scalar_function("die", die, 0))
scripts = schema.migrations() if sys.argv[2] == "second" else []
scripts.append("create table extra (a integer); insert into extra values (1); select die();")
schema.migrations = lambda: scripts
SqliteJournal(sys.argv[1])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize("which", ["first", "second"])
def test_a_migration_that_is_killed_is_undone(path, which, environment):
    if which == "second":
        journal = SqliteJournal(path)
        Driver(journal).write(3)
        journal.close()
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), which], env=environment, check=False)
    assert done.returncode == -signal.SIGKILL
    journal = SqliteJournal(path)
    assert len(journal.runs()) == (1 if which == "second" else 0)
    Driver(journal, "another").write(1)
    journal.close()
    names, version = tables(path)
    assert "extra" not in names
    assert version == len(schema.migrations())


def test_a_newer_store_is_refused_and_left_alone(path):
    journal = SqliteJournal(path)
    Driver(journal).write(1)
    journal.close()
    db = apsw.Connection(str(path))
    db.pragma("user_version", 99)
    db.close()
    with pytest.raises(StoreVersion, match=r"version 99.*upgrade kedge"):
        SqliteJournal(path)
    assert tables(path)[1] == 99


@pytest.mark.parametrize("application_id", [0, 0x0F055112])
def test_a_foreign_database_is_refused_and_left_alone(tmp_path, application_id):
    path = tmp_path / "places.sqlite"
    db = apsw.Connection(str(path))
    db.pragma("application_id", application_id)
    db.execute("create table bookmarks (url)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(StoreError) as caught:
        SqliteJournal(path)
    assert caught.value.code == "store_foreign"
    assert str(path) in str(caught.value)
    assert path.read_bytes() == before
    assert [item.name for item in tmp_path.iterdir()] == ["places.sqlite"]
