"""The tables of the core are whole, and the core is pure."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import msgspec
import pytest

import kedge.flow
from kedge.base.codec import encode
from kedge.base.errors import InternalError
from kedge.flow.events import AnyEvent, ResultReused, StepStarted, decode_event, encode_event, kind_of
from kedge.flow.evolve import HANDLERS, evolve
from kedge.flow.transitions import SETTLED, TABLE
from kedge.flow.words import StepStatus
from kedge.testing.ring import Ring

KINDS = get_args(AnyEvent)
ROOM = Path(kedge.flow.__file__).parent
PURE = frozenset(
    """__future__ bisect collections datetime enum functools heapq itertools math msgspec re typing
    kedge.base kedge.checks kedge.flow kedge.plan""".split()
)


def test_every_event_kind_has_one_handler():
    assert set(HANDLERS) == set(KINDS)


def test_the_table_covers_every_event_that_moves_a_step_and_no_other():
    about_a_step = {
        kind for kind in KINDS if kind.__name__.startswith(("Step", "Round", "Retry")) or kind is ResultReused
    }
    assert set(TABLE) == about_a_step
    assert all("path" in kind.__struct_fields__ for kind in TABLE)


def test_every_status_can_be_reached_but_those_of_later_parts():
    reached = {to for moves in TABLE.values() for to in moves.values()}
    by_what_settles_before_it = {StepStatus.PENDING, StepStatus.READY}
    assert set(StepStatus) - reached - by_what_settles_before_it == {StepStatus.COMPENSATED}


def test_no_event_moves_a_settled_step():
    assert not {status for moves in TABLE.values() for status in moves} & SETTLED


@pytest.mark.parametrize("status", sorted(SETTLED))
def test_an_event_the_table_does_not_know_is_our_bug_and_says_where(status):
    ring = Ring({"goal": "g", "steps": [{"id": "a", "tool": "t"}]}).start()
    ring.step("a").status = status
    with pytest.raises(InternalError, match="step a is"):
        evolve(ring.state, StepStarted(path="a"), 1)


@pytest.mark.parametrize("kind", KINDS)
def test_an_events_published_kind_is_its_class_name(kind):
    assert kind.__struct_config__.tag == kind.__name__
    assert kind.__struct_config__.tag_field == "kind"


def test_events_come_back_from_their_bytes_as_they_were():
    ring = Ring(
        {"goal": "g", "steps": [{"id": "a", "tool": "t", "foreach": [1], "args": {"x": "${item}"}}]}
    ).start()
    ring.finish("a[0]", {"b": [1, None]})
    for event, (data, _) in zip(ring.events, ring.log, strict=True):
        assert encode_event(decode_event(data)) == data == encode_event(event)
        assert encode(msgspec.json.decode(data))  # and are JSON for everybody else
        assert msgspec.json.decode(data)["kind"] == kind_of(event)


@pytest.mark.parametrize("file", sorted(ROOM.glob("*.py")), ids=lambda file: file.stem)
def test_the_core_imports_nothing_that_does_anything(file):
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""]
        for name in names:
            known = ".".join(name.split(".")[:2]) if name.startswith("kedge") else name.split(".")[0]
            assert known in PURE, f"{file.name} imports {name}"


@pytest.mark.parametrize(
    "module",
    [
        "adopt",
        "decisions",
        "evolve",
        "reopen",
        "repairs",
        "revise",
        "scopes",
        "settle",
        "state",
        "transitions",
    ],
)
def test_what_folds_the_log_evaluates_no_expression(module):
    text = (ROOM / f"{module}.py").read_text("utf-8")
    assert "plan.expr" not in text
    assert "evaluate" not in text.replace("evaluates no", "").replace("never evaluates", "").replace(
        "no expression evaluated", ""
    )
