"""From each event of each golden run another can branch off: it begins as that was, and comes to an end."""

from __future__ import annotations

import golden
import pytest
from test_golden_cuts import to_its_end, tools_of

import kedge
from kedge.engine.blobs import Blobs
from kedge.engine.recovery import fold
from kedge.flow.events import RoundEnded, StepFailed, StepSucceeded, decode_event
from kedge.plan.tools import Catalog
from kedge.testing import VirtualClock, assert_replays, virtual
from kedge.testing.laws import check_laws, picture


@pytest.mark.parametrize("path", golden.files(), ids=lambda path: path.stem)
@virtual
async def test_a_fork_begins_as_the_run_was_and_comes_to_its_end(path):
    kept = golden.read(path)
    for at in range(1, len(kept.entries) + 1):
        journal = golden.read(path).journal
        tools = tools_of(kept)
        async with kedge.Engine(tools, journal, clock=VirtualClock()) as engine:
            fork = _fork(engine, at)
            if fork is None:
                assert at >= _first_undone(kept)
                continue
            assert fork.at in (at, at + 1)
            run = await fork.start("forked", repeat=True)
            assert _began_as(journal, fork.at)
            assert run.state.forked_from == (golden.RUN_ID, fork.at)
            await to_its_end(run)
            check_laws(run.state)
        assert_replays(journal)
        assert journal.read(golden.RUN_ID) == kept.entries, "the other run is as it was"


def _fork(engine, at):
    """None if something that it would begin with has been undone."""
    try:
        return engine.fork(golden.RUN_ID, at)
    except kedge.Refused as refused:
        if refused.code != "fork_undone":
            raise
        return None


def _first_undone(kept):
    """Number of the event by which something is done that is undone later on."""
    events = [decode_event(entry.data) for entry in kept.entries]
    undone = {event.path.partition(".undo")[0] for event in events if ".undo" in getattr(event, "path", "")}
    done = (n for n, event in enumerate(events, 1) if getattr(event, "path", "") in undone and _ends(event))
    return next(done, len(events) + 1)


def _ends(event):
    return isinstance(event, StepSucceeded | StepFailed | RoundEnded)


def _began_as(journal, at):
    """Its first events are the other's, to the byte, and so is what they come to."""
    theirs, ours = journal.read(golden.RUN_ID, 0, at), journal.read("forked", 0, at)
    if [(e.at, e.data) for e in theirs] != [(e.at, e.data) for e in ours]:
        return False
    states = [
        fold(run_id, entries, Blobs(journal).fetch, Catalog()).state
        for run_id, entries in ((golden.RUN_ID, theirs), ("forked", ours))
    ]
    one, other = (picture(state, state.at) for state in states)
    return one == other
