"""Adds logs up in a process of its own, with another order of hashes.

Started by the laboratory. Each line it reads is a folder with a store; it answers with a line of JSON: the
picture of run `r` after its last event, or what broke on the way. The laws are checked after every event, so
every prefix of every log that a kill left behind is looked at.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

from crash_life import STORE, drawn
from crash_tools import all_tools

import kedge
from kedge.engine.recovery import fold
from kedge.flow.events import decode_event
from kedge.flow.evolve import evolve
from kedge.flow.program import compile_plan
from kedge.flow.state import RunState
from kedge.journal.entry import Entry
from kedge.testing.laws import check_laws
from kedge.tools.registry import Registry


def answer(folder: Path, tools: Registry) -> dict[str, Any]:
    """What the store in `folder` comes to."""
    with closing(sqlite3.connect(folder / STORE)) as db:
        found = db.execute("select key from run where run_id = 'r'").fetchone()
        if found is None:
            return {}
        blobs = {sha.hex(): data for sha, data in db.execute("select sha, data from blob")}
        rows = db.execute(
            "select id & 4294967295, epoch, at, data, chain from event where id >> 32 = ? order by id", found
        )
        entries = [Entry(*row) for row in rows]
    if not entries:
        return {}
    whole = fold("r", entries, blobs.__getitem__, tools.catalog).state
    step_by_step = _prefixes(entries, blobs, tools)
    one = drawn(whole)
    if one != drawn(step_by_step):
        raise AssertionError("a log in one piece comes to something else than event by event")
    return {"picture": one}


def _prefixes(entries: list[Entry], blobs: dict[str, bytes], tools: Registry) -> RunState:
    started = json.loads(entries[0].data)
    plan = kedge.Plan.parse(blobs[started["plan"]].decode())
    effects = {name: mark["effect"] for name, mark in started.get("tools", {}).items()}
    state = RunState("r", compile_plan(plan, tools.catalog, effects), json.dumps(started["inputs"]).encode())
    state.fetch = blobs.__getitem__
    for entry in entries:
        evolve(state, decode_event(entry.data), entry.at)
        check_laws(state)
    return state


def main() -> None:
    """Until the input ends."""
    builtin = [tool for tool in kedge.builtin_tools() if tool.spec.name.startswith("files.")]
    tools = Registry([*all_tools(), *builtin])
    for line in sys.stdin:
        try:
            found = answer(Path(line.strip()), tools)
        except Exception as error:  # whatever breaks is what is looked for
            found = {"broke": f"{type(error).__name__}: {error}"}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
