"""Golden journals: runs as some version wrote them, kept for ever as text.

One file holds one run: what it was about, the script its tools followed, blobs (the plan is one), every
event with its header and checksum, and at the end the state that the events came to. Bytes of events and
blobs stand in the lines as they were stored, so reading gives them back exactly.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from kedge._version import __version__
from kedge.engine.blobs import Blobs
from kedge.engine.recovery import fold
from kedge.flow.state import RunState
from kedge.journal.entry import Append, Entry, Head
from kedge.journal.memory import MemoryJournal
from kedge.plan.tools import Catalog
from kedge.testing.laws import picture

FOLDER = Path(__file__).parent
HASHES = FOLDER / "hashes.txt"
RUN_ID = "golden"
FORM = 1


class _Line(msgspec.Struct, tag_field="line"):
    """One line of a file."""


class About(_Line, tag="about"):
    golden: int
    shape: str
    says: str
    kedge: str


class Script(_Line, tag="script"):
    tools: dict[str, Any]


class BlobLine(_Line, tag="blob"):
    sha: str
    json: msgspec.Raw


class EventLine(_Line, tag="event"):
    seq: int
    epoch: int
    at: int
    chain: int
    data: msgspec.Raw


class HeadLine(_Line, tag="head"):
    headline: dict[str, Any]


class StateLine(_Line, tag="state"):
    of: str
    now: Any


Line = About | Script | BlobLine | EventLine | HeadLine | StateLine
_read_line = msgspec.json.Decoder(Line).decode
_write_line = msgspec.json.Encoder().encode


class Golden(NamedTuple):
    """A file, read."""

    about: About
    journal: MemoryJournal
    """The run as it was stored."""
    entries: list[Entry]
    state: dict[str, Any]
    """What the events came to when they were written: the lines of a picture by what they are of."""


def files() -> list[Path]:
    return sorted(FOLDER.glob("*.jsonl"))


def read(path: Path) -> Golden:
    lines = [_read_line(line) for line in path.read_bytes().splitlines()]
    (about,) = (line for line in lines if isinstance(line, About))
    (head,) = (line for line in lines if isinstance(line, HeadLine))
    blobs = {line.sha: bytes(line.json) for line in lines if isinstance(line, BlobLine)}
    for sha, content in blobs.items():
        assert hashlib.sha256(content).hexdigest() == sha
    entries = [
        Entry(line.seq, line.epoch, line.at, bytes(line.data), line.chain)
        for line in lines
        if isinstance(line, EventLine)
    ]
    state = {line.of: line.now for line in lines if isinstance(line, StateLine)}
    return Golden(about, _stored(entries, blobs, head.headline), entries, state)


def _stored(entries: list[Entry], blobs: dict[str, bytes], headline: dict[str, Any]) -> MemoryJournal:
    """The journal that held them."""
    journal = MemoryJournal()
    line = msgspec.json.encode(headline)
    for epoch in range(1, entries[-1].epoch + 1):
        lease = journal.claim(RUN_ID, entries[0].at)
        own = [entry for entry in entries if entry.epoch == epoch]
        if own:
            journal.commit([Append(RUN_ID, epoch, own[0].seq - 1, own, blobs, line)])
        journal.release(lease)
    return journal


def write(shape: str, says: str, script: dict[str, Any], journal: MemoryJournal) -> bytes:
    """The text of a new file."""
    head, entries = journal.head(RUN_ID), journal.read(RUN_ID)
    assert head is not None
    lines: list[Line] = [About(FORM, shape, says, __version__), Script(script)]
    lines += [BlobLine(sha, msgspec.Raw(raw)) for sha, raw in journal._blobs.items()]
    lines += [EventLine(e.seq, e.epoch, e.at, e.chain, msgspec.Raw(e.data)) for e in entries]
    lines.append(_head_line(head))
    lines += [StateLine(of, now) for of, now in state_lines(folded(journal))]
    return b"".join(_write_line(line) + b"\n" for line in lines)


def _head_line(head: Head) -> HeadLine:
    return HeadLine(json.loads(head.headline))


def folded(journal: MemoryJournal) -> RunState:
    return fold(RUN_ID, journal.read(RUN_ID), Blobs(journal).fetch, Catalog()).state


def state_lines(state: RunState) -> Iterator[tuple[str, Any]]:
    """A picture of the state, a line for the run and one for each step."""
    whole = picture(state, state.at)
    steps = whole.pop("steps")
    yield "run", plain(whole)
    for path, step in steps.items():
        yield f"step {path}", plain(step)


def plain(value: Any) -> Any:
    """As JSON has it."""
    match value:
        case dict():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case set() | frozenset():
            return sorted(map(plain, value))
        case bytes():
            return value.decode()
        case msgspec.Struct():
            return msgspec.json.decode(msgspec.json.encode(value))
        case None | bool() | int() | float() | str():
            return value
        case _:
            pass
    raise TypeError(f"{value!r} has no form in a golden journal")


def missing(kept: Any, now: Any, at: str = "") -> str:
    """Where `now` does not hold what was kept. What a later version adds beside it is its own affair."""
    if isinstance(kept, dict) and isinstance(now, dict):
        found = (
            missing(kept[key], now[key], f"{at}.{key}") if key in now else f"{at}.{key} is gone"
            for key in kept
        )
        return next(filter(None, found), "")
    if isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        pairs = enumerate(zip(kept, now, strict=True))
        return next(filter(None, (missing(one, other, f"{at}[{i}]") for i, (one, other) in pairs)), "")
    return "" if kept == now else f"{at}: kept {kept!r}, now {now!r}"


def hashes() -> dict[str, str]:
    """File name -> SHA-256, as they were when the files were added."""
    lines = HASHES.read_text(encoding="utf-8").splitlines() if HASHES.exists() else []
    return {name: sha for sha, name in (line.split("  ") for line in lines)}
