"""The SQL of this room: named queries, and the migrations that make the tables.

A migration is `sql/<number>_<name>.sql`. Each is applied in one transaction together with its
number in `user_version`, so that one cut short by a kill leaves nothing. Files are only added.
"""

from __future__ import annotations

import functools
import re
from importlib.resources import files

from kedge.base.errors import StoreDamaged, StoreError, StoreVersion
from kedge.base.failpoints import armed, reach
from kedge.journal.db import Db, Row, connect

APPLICATION_ID = 1801806951  # "kedg"

_HEADING = re.compile(r"^-- name: (\w+): .+$", re.MULTILINE)


def _load_queries() -> dict[str, str]:
    """The statements of queries.sql by name."""
    _, *parts = _HEADING.split(files("kedge.journal").joinpath("sql/queries.sql").read_text(encoding="utf-8"))
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}


SQL = _load_queries()


def migrations() -> list[str]:
    """The scripts in order: the first takes a file to version 1."""
    folder = files("kedge.journal").joinpath("sql")
    scripts = sorted((item.name, item) for item in folder.iterdir() if re.match(r"\d{4}_", item.name))
    return [item.read_text(encoding="utf-8") for _, item in scripts]


def check_identity(db: Db, where: str) -> None:
    """Refuse a database that is not ours, or of a newer kedge. Changes nothing."""
    if db.pragma("application_id") != APPLICATION_ID:
        if db.pragma("user_version") == 0 and _is_empty(db):
            return
        raise StoreError(
            "this is another program's SQLite database",
            code="store_foreign",
            where=where,
            remedy="name another file; kedge makes it if it is not there",
        )
    if db.pragma("user_version") < 1 and not _is_empty(db):
        raise StoreDamaged(
            f"{where}: it has tables and no version of them", remedy="restore the store from a copy"
        )
    version, known = db.pragma("user_version"), len(migrations())
    if version > known:
        raise StoreVersion(
            f"the store has version {version}, this kedge knows {known}",
            where=where,
            remedy="upgrade kedge, or name another store",
        )


def check_tables(db: Db, where: str) -> None:
    """Refuse a file whose own description of its tables has changed: what is read by it means nothing."""
    found, version = _tables(db), min(db.pragma("user_version"), len(migrations()))
    if _wanted_tables(version) <= found:
        return
    raise StoreDamaged(
        f"{where}: its tables are not what they were made as", remedy="restore the store from a copy"
    )


@functools.cache
def _wanted_tables(version: int) -> frozenset[Row]:
    """Those of that version: a file that can only be read stays what it is."""
    db = connect(":memory:")
    for script in migrations()[:version]:
        db.execute(script)
    wanted = _tables(db)
    db.close()
    return wanted


def _tables(db: Db) -> frozenset[Row]:
    return frozenset(db.execute(SQL["list_tables"]).fetchall())


def migrate(db: Db) -> None:
    """Bring the tables up to date. Several processes may do so at once: one does, the others see it."""
    scripts = migrations()
    while db.pragma("user_version") < len(scripts):
        if armed:
            reach("schema.migrate.before")
        db.execute("begin immediate")
        try:
            version: int = db.pragma("user_version")
            if version < len(scripts):
                db.execute(scripts[version])
                db.pragma("user_version", version + 1)
            if armed:
                reach("schema.migrate.applied")
            db.execute("commit")
            if armed:
                reach("schema.migrate.after")
        except BaseException:
            if db.in_transaction:
                db.execute("rollback")
            raise


def _is_empty(db: Db) -> bool:
    return bool(db.execute(SQL["is_empty"]).fetchall()[0][0])
