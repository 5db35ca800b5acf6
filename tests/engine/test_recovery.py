"""A log that makes no sense, or claims more than it holds, is damaged: said, and never guessed."""

from __future__ import annotations

import pytest

from kedge.base.codec import digest, encode
from kedge.base.errors import StoreDamaged, StoreFull
from kedge.engine.recovery import fold
from kedge.journal.entry import Entry
from kedge.plan.tools import Catalog

PLAN = encode(
    {"goal": "g", "steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t", "foreach": "${inputs.x}"}]}
)
BLOBS = {digest(PLAN): PLAN}
START = b'{"kind":"RunStarted","plan":"%s","goal":"g","inputs":{"x":[1]}}' % digest(PLAN).encode()
ADOPTED = b'{"kind":"PlanAdopted","version":1,"plan":"p"}'


def folded(*events: bytes, blobs: dict[str, bytes] = BLOBS):
    entries = [Entry(seq, 1, 1_000 + seq, data, 0) for seq, data in enumerate(events, 1)]
    return fold("r", entries, blobs.__getitem__, Catalog())


def test_a_log_that_makes_sense_is_folded():
    state = folded(START, ADOPTED, b'{"kind":"StepStarted","path":"a","args":{"k":"\xc3\xa9\\u0001"}}').state
    assert str(state.steps["a"].status) == "running"
    state = folded(START, ADOPTED, b'{"kind":"StepExpanded","path":"b","count":2,"items":[1,2]}').state
    assert len(state.steps["b"].items or ()) == 2


SENSELESS = [
    (3, b'{"kind":"StepStarted","path":"nobody"}'),
    (3, b'{"kind":"StepSucceeded","path":"a","result":1}'),
    (3, b'{"kind":"QuestionAnswered","question":"q","answer":"yes"}'),
    (3, b'{"kind":"StepExpanded","path":"b","count":1000000000000,"items":[1]}'),
    (3, b'{"kind":"StepExpanded","path":"b","count":-1,"items":[1]}'),
    (
        3,
        b'{"kind":"StepExpanded","path":"b","count":9,"blob":{"sha":"%s","size":99}}'
        % digest(b"[]").encode(),
    ),
    (3, b'{"kind":"StepExpanded","path":"b","count":9,"blob":{"sha":"gone","size":99}}'),
    (3, b'{"kind":"StepStarted","path":"a","args":"\xff"}'),
    (3, b'{"kind":"StepStarted","path":"\xff"}'),
    (3, b'{"kind":"StepStarted","path":"a","args":"\\ud800"}'),
    (3, b'{"kind":"StepStarted","path":"a","more":' + b"[" * 100_000),
    (3, b'{"kind":"OsSystem","args":["id"]}'),
    (3, b"\x80\x04\x95"),
    (3, b'{"kind":"' + b"x" * 5_000 + b'"}'),
]


@pytest.mark.parametrize(("seq", "data"), SENSELESS, ids=[ascii(data[:60]) for _, data in SENSELESS])
def test_an_event_that_makes_none_is_named(seq, data):
    with pytest.raises(StoreDamaged) as caught:
        folded(START, ADOPTED, data, blobs=BLOBS | {digest(b"[]"): b"[]"})
    assert (caught.value.run_id, caught.value.seq) == ("r", seq)
    assert caught.value.remedy
    assert len(str(caught.value)) < 1_000


@pytest.mark.parametrize(
    ("start", "plan"),
    [
        (START, b'{"goal":"g"}'),
        (START, b"not a plan"),
        (START, encode({"goal": "g", "steps": [{"id": "a", "tool": "t", "when": "eval('1')"}]})),
        (START, encode({"goal": "g", "steps": [{"id": "a", "tool": "t", "after": ["nobody"]}]})),
        (START.replace(b'{"x":[1]}', b"[1]"), PLAN),
        (START.replace(b'{"x":[1]}', b""), PLAN),
        (ADOPTED, PLAN),
    ],
)
def test_a_run_that_cannot_have_begun_is_damaged(start, plan):
    with pytest.raises(StoreDamaged) as caught:
        folded(start, ADOPTED, blobs={digest(PLAN): plan})
    assert caught.value.seq == 1


def test_no_events_are_no_run():
    with pytest.raises(StoreDamaged, match="no events"):
        folded()


@pytest.mark.parametrize(
    "broken", [b'{"kind":"StepExpanded","path":"b","count":1,"blob":{"sha":"s","size":3}}', START]
)
def test_a_store_that_cannot_be_read_now_is_not_called_damaged(broken):
    def fetch(sha: str) -> bytes:
        if broken == START or sha == "s":
            raise StoreFull("no room")
        return BLOBS[sha]

    entries = [Entry(seq, 1, 0, data, 0) for seq, data in enumerate((START, ADOPTED, broken), 1)]
    with pytest.raises(StoreFull):
        fold("r", entries, fetch, Catalog())
