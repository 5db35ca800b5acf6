"""Commands in the SQLite file: what is asked of runs, and what became of it.

Functions over an open connection, inside somebody else's transaction. Each row bears a CRC of the request
and one of the decision: an answer with a flipped byte in it would be another answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any
from zlib import crc32

from kedge.base.errors import StoreDamaged
from kedge.base.failpoints import armed, reach
from kedge.journal.db import Db
from kedge.journal.entry import Posted, Sent
from kedge.journal.schema import SQL

_numbers = struct.Struct(">QQQ").pack


def post_commands(db: Db, keys: Sequence[int], sent: Sequence[Sent]) -> list[Posted]:
    """Store commands, each for the run of that key; for one that is there already, that one."""
    return [_post(db, key, one) for key, one in zip(keys, sent, strict=True)]


def _post(db: Db, key: int, sent: Sent) -> Posted:
    crc = _crc(key, sent.id, sent.port, sent.at, sent.data)
    db.execute(SQL["post_command"], (key, sent.id, sent.port, sent.at, sent.data, crc))
    if armed:
        reach("journal.post.inserted")
    if db.changes():
        position = db.last_insert_rowid()
        return Posted(position, sent.run_id, sent.id, sent.port, sent.at, sent.data)
    found = find_command(db, key, sent.run_id, sent.id)
    if found is None:
        raise StoreDamaged(f"command {sent.id}: the index of commands leads nowhere", run_id=sent.run_id)
    return found


def have_arrived(db: Db, posted: Iterable[Posted]) -> bool:
    """Whether a transaction of unknown outcome happened: its commands are there."""
    return all(_has_position(db, one) for one in posted)


def _has_position(db: Db, posted: Posted) -> bool:
    found = db.execute(SQL["find_run"], (posted.run_id,)).fetchall()
    row = find_command(db, found[0][0], posted.run_id, posted.id) if found else None
    return row is not None and row.position == posted.position


def find_command(db: Db, key: int, run_id: str, id_: str) -> Posted | None:
    """A run's command by its id."""
    found = db.execute(SQL["find_command"], (key, id_)).fetchall()
    return _posted(key, run_id, found[0]) if found else None


def undecided_commands(db: Db, key: int, run_id: str, after: int, limit: int) -> list[Posted]:
    """A run's commands after a position that nobody has decided on."""
    rows = db.execute(SQL["undecided_commands"], (key, after, limit)).fetchall()
    return [_posted(key, run_id, row) for row in rows]


def decide_commands(db: Db, key: int, decisions: Iterable[tuple[int, bytes]]) -> None:
    """Write down what became of commands."""
    rows = [(made, _decision_crc(position, made), position, key) for position, made in decisions]
    db.executemany(SQL["decide_command"], rows)
    if armed:
        reach("journal.append.decided")


def find_decisions(db: Db, positions: Iterable[int]) -> dict[int, bytes]:
    """What became of those commands that are decided."""
    made: dict[int, bytes] = {}
    for position in positions:
        for row in db.execute(SQL["find_decision"], (position,)).fetchall():
            made[position] = _checked_decision(*row)
    return made


def _posted(key: int, run_id: str, row: tuple[Any, ...]) -> Posted:
    position, id_, port, at, data, crc, decision, decision_crc = row
    try:
        damaged = crc != _crc(key, id_, port, at, data)
    except (TypeError, AttributeError, struct.error):  # a flipped byte can change a value's type
        damaged = True
    if damaged:
        id_, port, at, data = str(id_), 0, 0, b""
    if decision is not None:
        decision = _checked_decision(position, decision, decision_crc)
    return Posted(position, run_id, id_, port, at, data, decision, damaged)


def _checked_decision(position: int, decision: Any, crc: Any) -> bytes:
    if not isinstance(decision, bytes) or crc != _decision_crc(position, decision):
        raise StoreDamaged(
            f"command {position}: what became of it is not what was written",
            remedy="look into the run's log: what was decided stands there too",
        )
    return decision


def _crc(key: int, id_: str, port: int, at: int, data: bytes) -> int:
    return crc32(data, crc32(id_.encode(), crc32(_numbers(key, port, at))))


def _decision_crc(position: int, decision: bytes) -> int:
    return crc32(decision, position & 0xFFFFFFFF)
