"""What any version wrote, this one reads: the same checksums, lawful at every prefix, and the same state."""

from __future__ import annotations

import hashlib
import json
import typing

import golden
import golden_shapes as shapes
import make
import msgspec
import pytest

from kedge.engine.blobs import Blobs
from kedge.engine.recovery import decode, fold
from kedge.flow import events as ev
from kedge.flow.evolve import evolve
from kedge.flow.words import Blob, Failure
from kedge.journal.entry import chain
from kedge.plan.tools import Catalog
from kedge.testing import assert_replays
from kedge.testing.laws import check_event, check_laws

NEVER_WRITTEN = {
    ("PlanAdopted", "by"): "a plan is adopted at the start only, by whoever started the run",
    ("StepSucceeded", "version"): "there is one plan version until plans can be changed",
    ("StepSucceeded", "cause"): "a step succeeds by its own result only",
    ("StepWaiting", "reason"): "the only reason to wait with this event is a sleep, the default",
}
"""Fields that no version writes yet, and why."""

each_file = pytest.mark.parametrize("path", golden.files(), ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def shown():
    """(kind or part, field) of all that stands in some golden event."""
    found = set()
    for path in golden.files():
        for entry in golden.read(path).entries:
            data = json.loads(entry.data)
            found |= {(data["kind"], field) for field in data}
            found |= {("Failure", field) for field in data.get("error", ())}
            found |= {("Blob", field) for field in data.get("blob", ())}
            marks = data["tools"].values() if data["kind"] == "RunStarted" and "tools" in data else ()
            found |= {("ToolMark", field) for mark in marks for field in mark}
    return found


@each_file
def test_a_golden_journal_has_its_checksums(path):
    previous = 0
    for number, entry in enumerate(golden.read(path).entries, 1):
        previous = chain(previous, entry.seq, entry.epoch, entry.at, entry.data)
        assert (entry.seq, entry.chain) == (number, previous)


@each_file
def test_every_event_is_read_without_losing_anything(path):
    for entry in golden.read(path).entries:
        event = decode(golden.RUN_ID, entry)
        assert golden.missing(json.loads(entry.data), ev.plain(event)) == ""


@each_file
def test_every_prefix_is_lawful(path):
    kept = golden.read(path)
    state = fold(golden.RUN_ID, kept.entries[:1], Blobs(kept.journal).fetch, Catalog()).state
    for entry in kept.entries[1:]:
        event = typing.cast("ev.AnyEvent", decode(golden.RUN_ID, entry))
        if not isinstance(event, ev.StepInterrupted):  # also what was announced and certainly not called
            check_event(state, event)
        evolve(state, event, entry.at)
        check_laws(state)


@each_file
def test_the_state_is_what_it_was(path):
    kept = golden.read(path)
    now = dict(golden.state_lines(golden.folded(kept.journal)))
    assert golden.missing(kept.state, now) == ""
    assert len(now) == len(kept.state), "steps that were not there"


@each_file
def test_a_golden_journal_replays_as_a_user_would_have_it_replayed(path):
    kept = golden.read(path)
    (read,) = assert_replays(kept.journal)
    assert read.events == len(kept.entries)


@each_file
def test_no_golden_journal_was_changed(path):
    known = golden.hashes()
    assert path.name in known, f"run {make.__file__}: it adds new files to the list"
    assert hashlib.sha256(path.read_bytes()).hexdigest() == known[path.name], "a golden journal never changes"


def test_no_golden_journal_was_removed():
    there = {path.name for path in golden.files()}
    assert set(golden.hashes()) - there == set()


def test_every_shape_has_its_journal():
    names = [shape.name for shape in shapes.SHAPES]
    assert len(set(names)) == len(names) >= 24
    assert {f"{name}.jsonl" for name in names} <= set(golden.hashes()), f"run {make.__file__}"


def test_every_kind_of_event_and_every_field_is_shown(shown):
    kinds = [*typing.get_args(ev.AnyEvent), Failure, Blob, ev.ToolMark]
    fields = {(kind.__name__, field.name) for kind in kinds for field in msgspec.structs.fields(kind)}
    assert {kind for kind, _ in fields} <= {kind for kind, _ in shown}
    assert fields - shown == set(NEVER_WRITTEN), (
        "add a shape that shows it to golden_shapes.py, then run make.py"
    )


def test_all_ends_of_a_run_are_shown():
    ends = {str(golden.folded(golden.read(path).journal).status) for path in golden.files()}
    assert ends >= {"done", "failed", "empty", "cancelled"}


def test_what_is_there_is_never_written_again(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(golden, "FOLDER", tmp_path)
    monkeypatch.setattr(golden, "HASHES", tmp_path / "hashes.txt")
    monkeypatch.setattr(make, "SHAPES", shapes.SHAPES[:3])
    (tmp_path / "chain.jsonl").write_text("as it was")
    golden.HASHES.write_text(f"{'0' * 64}  diamond.jsonl\n")
    make.main()
    assert capsys.readouterr().out.startswith("made fan_out.jsonl")
    assert (tmp_path / "chain.jsonl").read_text() == "as it was"
    assert not (tmp_path / "diamond.jsonl").exists(), "one that was removed is not made anew in silence"
    assert list(golden.hashes()) == ["diamond.jsonl", "fan_out.jsonl"]
    assert golden.read(tmp_path / "fan_out.jsonl").about.shape == "fan_out"


@pytest.mark.parametrize(
    ("kept", "now", "told"),
    [
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ".a.b[1]: kept 2, now 3"),
        ({"a": 1}, {}, ".a is gone"),
        ({"a": [1]}, {"a": [1, 2]}, ".a: kept [1], now [1, 2]"),
        ({"a": 1}, {"a": 1, "b": 2}, ""),
        ({"a": None}, {"a": {}}, ".a: kept None, now {}"),
    ],
)
def test_a_difference_is_told_with_its_place_and_an_addition_is_none(kept, now, told):
    assert golden.missing(kept, now) == told
