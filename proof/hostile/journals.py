"""Logs that somebody else wrote, with checksums that are right: folded into a state, told, and drawn."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import msgspec

from hostile.corpus import texts_of
from hostile.guard import Broken, is_plain, watched
from hostile.luck import Luck, Seeded
from hostile.plans import CATALOG, JUNK
from kedge.base.codec import digest, encode
from kedge.base.errors import KedgeError, StoreDamaged
from kedge.control.reading import Reader
from kedge.engine.recovery import fold
from kedge.flow.events import AnyEvent
from kedge.flow.result import RunResult
from kedge.journal.entry import Entry, chain, verify
from kedge.plan.model import Plan
from kedge.testing.ring import Ring
from kedge.views.draw import FORMS, draw

FOLD_S = 0.250
EVENTS_MAX = 60
Log = list[bytes]
"""The plan first, then the events, as they are stored."""

_PLAN: dict[str, Any] = {
    "goal": "g",
    "inputs": {"many": {"default": [1, 2]}},
    "steps": [
        {"id": "a", "tool": "get", "retry": {"attempts": 3, "backoff_s": 1}},
        {"id": "b", "tool": "put", "foreach": "${inputs.many}", "args": {"v": "${item}"}, "after": ["a"]},
        {"id": "c", "tool": "send", "when": "present(b)", "on_error": "continue"},
        {"id": "d", "tool": "get", "fallback_for": "c"},
        {"id": "e", "steps": [{"id": "x", "tool": "get"}, {"id": "y", "tool": "get", "after": ["x"]}]},
        {"id": "f", "tool": "get", "loop": {"times": 3, "until": "loop.index >= 1", "collect": "all"}},
        {"id": "g", "tool": "sleep", "args": {"seconds": 1}},
    ],
    "outputs": {"o": "a"},
}
_KINDS: tuple[type[msgspec.Struct], ...] = AnyEvent.__args__
_FIELDS = {kind.__name__: kind.__struct_fields__ for kind in _KINDS}
_NAMES = tuple(sorted({field for fields in _FIELDS.values() for field in fields}))
_PATHS = (
    "a",
    "b",
    "b[0]",
    "b[1]",
    "b[99]",
    "c",
    "d",
    "e",
    "e/x",
    "e/y",
    "f",
    "g",
    "",
    "nobody",
    "e/x/y",
    "../a",
)
_STATUSES = ("done", "failed", "running", "cancelled", "empty", "waiting", "nonsense")
_BYTES = (
    b"{", b"}", b'"', b"\\", b"\xff", b"\\ud800", b"\x00", b"[" * 500, b"1e400", b"null", b"-1", b"9" * 40,
    b'{"kind":', b"kind", b",", b":", b"\xc3\xa9", b"true", b'"RunEnded"', b"NaN", b" ",
)  # fmt: skip


@cache
def _histories() -> tuple[Log, ...]:
    """Logs of runs that really went so, each another way."""
    found: list[Log] = []
    for number in range(12):
        luck = Seeded(number)
        ring = Ring(_PLAN, {"put": "idempotent", "send": "effect"})
        ring.laws = False
        ring.start()
        for _ in range(30):
            _happen(luck, ring)
        plan = encode(msgspec.to_builtins(ring.plan))
        first = msgspec.json.decode(ring.log[0][0]) | {"plan": digest(plan)}
        found.append([plan, encode(first), *(data for data, _ in ring.log[1:])])
    return tuple(found)


def _happen(luck: Luck, ring: Ring) -> None:
    """One thing that can happen to a run."""
    try:
        if ring.questions and luck.percent(40):
            ring.answer(luck.pick(("done", "not_done", "fail")), 1)
        elif ring.calls and luck.percent(70):
            ring.finish(luck.pick(ring.calls), luck.pick((None, 1, {"x": [1, "é"]}, "y" * 30_000)))
        elif ring.calls:
            ring.fail(luck.pick(ring.calls), luck.pick(("transient", "timeout", "permanent")))
        elif luck.percent(20):
            ring.crash().resume()
        else:
            ring.tick(2_000)
    except KedgeError:  # it has ended, or the answer is none of those
        return


def log(luck: Luck) -> Log:
    """A log that was right, and had something done to it."""
    if luck.percent(10):
        return of_text(luck.pick(texts_of("events")))
    given = list(luck.pick(_histories()))
    for _ in range(luck.below(4)):
        _bend(luck, given)
    return given[:EVENTS_MAX]


def of_text(text: str) -> Log:
    """A line for each event; a plan before them if the first says so."""
    lines = text.encode("utf-8", "surrogateescape").split(b"\n")
    if not lines[0].startswith(b'{"goal"'):
        lines.insert(0, encode(_PLAN))
    return [line.replace(b"PLAN", digest(lines[0]).encode()) for line in lines]


def _bend(luck: Luck, given: Log) -> None:
    at = luck.below(len(given))
    match luck.below(10):
        case 0 if len(given) > 1:
            del given[at]
        case 1:
            given.insert(at, given[luck.below(len(given))])
        case 2:
            other = luck.below(len(given))
            given[at], given[other] = given[other], given[at]
        case 3:
            raw = given[at]
            place = luck.below(len(raw) + 1)
            given[at] = raw[:place] + luck.pick(_BYTES) + raw[place + luck.below(4) :]
        case 4:
            del given[at + 1 :]
        case 5:
            kind = luck.pick(tuple(_FIELDS))
            event = {name: _value(luck, name) for name in _FIELDS[kind] if luck.percent(80)}
            given.insert(at + 1, _written({"kind": kind} | event))
        case _:
            try:
                event = msgspec.json.decode(given[at])
            except ValueError:
                return
            if isinstance(event, dict):
                name = luck.pick(tuple(event)) if event and luck.percent(80) else luck.pick(_NAMES)
                event[name] = _value(luck, name)
                given[at] = _written(event)


def _value(luck: Luck, name: str) -> Any:
    if luck.percent(15):
        return luck.pick(JUNK)()
    match name:
        case "path" | "because":
            return luck.pick(_PATHS)
        case "kind":
            return luck.pick(tuple(_FIELDS))
        case "count" | "attempt" | "iteration" | "generation" | "at" | "until" | "next_at" | "version":
            return luck.pick((0, 1, 2, -1, 7, 10**6, 10**12, 2**63 - 1, 1e300))
        case "error":
            return {
                "category": luck.pick(("transient", "bug")),
                "code": "c",
                "message": luck.pick(("m", "\x1b[2J")),
            }
        case "blob":
            return {"sha": luck.pick(("0" * 64, "../../etc/passwd", "")), "size": luck.pick((0, -1, 10**15))}
        case "status":
            return luck.pick(_STATUSES)
        case "options":
            return luck.pick(([], ["yes", "no"], ["raise", "stop"], "x"))
        case "reason":
            return luck.pick(
                ("in_doubt", "limit", "tool_changed", "condition", "dependency", "sleep", "empty")
            )
        case "limit" | "question":
            return luck.pick(("calls", "q1", "run_s", "nonsense", 5, 1e308))
        case _:
            return luck.pick(("x", 1, [1, 2], {"a": 1}, "\x1b]52;c;aGk=\x07", "done", None, True))


def _written(event: Any) -> bytes:
    """As JSON, whatever is in it."""
    return json.dumps(event, allow_nan=True).encode("utf-8", "replace")


class _Store:
    """What a reader needs of a journal, over a log in memory. The checksums are right, as a forger's are."""

    def __init__(self, plan: bytes, events: list[bytes]) -> None:
        self.blobs = {digest(plan): plan}
        self.entries: list[Entry] = []
        before = 0
        for seq, data in enumerate(events, 1):
            before = chain(before, seq, 1, 1_000 * seq, data)
            self.entries.append(Entry(seq, 1, 1_000 * seq, data, before))
        verify(self.entries, 0, 1, "r")

    def blob(self, sha: str) -> bytes:
        if sha not in self.blobs:
            raise StoreDamaged(f"blob {sha[:80]!r} is missing", run_id="r")
        return self.blobs[sha]

    def read(self, _run_id: str, after_seq: int, limit: int) -> list[Entry]:
        return self.entries[after_seq : after_seq + limit]


def judge(given: Log) -> str:
    """Fold it, tell it, and look at what it came to."""
    store = _Store(given[0], given[1:])
    # What is told on the way to the damage is told all the same.
    told, _ = watched(lambda: list(Reader(store, "r").news()), (StoreDamaged,), FOLD_S)  # type: ignore[arg-type]
    for event in told or ():
        if not event.message.isprintable() or not 0 <= event.percent <= 100:
            raise Broken(f"was told as {event.percent} % {event.message!r:.300}")
    folded, error = watched(lambda: fold("r", store.entries, store.blob, CATALOG), (StoreDamaged,), FOLD_S)
    if folded is None:
        return getattr(error, "code", "")
    form = FORMS[len(given) % len(FORMS)]
    drawn, _ = watched(lambda: draw(Plan.parse(_PLAN), folded.state, form), (), FOLD_S)
    if not drawn or "\x1b" in drawn or "\x07" in drawn:
        raise Broken(f"was drawn as {drawn!r:.300}")
    result = RunResult(folded.state, "p")
    outputs, _ = watched(lambda: result.outputs, (KedgeError,), FOLD_S)
    if not is_plain(outputs):
        raise Broken(f"came to {outputs!r:.300}")
    return "value"
