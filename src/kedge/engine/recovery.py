"""A run's state from its journal: decode, fold, and nothing else. User code is never replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from kedge.base.errors import StoreDamaged
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.flow.events import Event, RunStarted, decode_event
from kedge.flow.evolve import evolve
from kedge.flow.program import compile_plan
from kedge.flow.state import RunState
from kedge.journal.entry import Entry
from kedge.plan.model import Plan
from kedge.plan.tools import Catalog, Effect

_decode_plan = msgspec.json.Decoder(Plan).decode


def fold(
    run_id: str,
    entries: Iterable[Entry],
    fetch: Callable[[str], bytes],
    catalog: Catalog,
    limits: Limits = DEFAULT_LIMITS,
) -> tuple[RunState, RunStarted]:
    """The state that `entries` lead to, and how the run began."""
    state: RunState | None = None
    started: RunStarted | None = None
    for entry in entries:
        event = decode(run_id, entry)
        if state is None:
            if not isinstance(event, RunStarted):
                raise StoreDamaged("the log does not begin with RunStarted", run_id=run_id, seq=entry.seq)
            started = event
            state = _begin(run_id, event, fetch, catalog, limits)
        evolve(state, event, entry.at)
    if state is None or started is None:
        raise StoreDamaged("the run has no events", run_id=run_id, remedy="delete it and start it anew")
    return state, started


def decode(run_id: str, entry: Entry) -> Event:
    """One stored event. What this version cannot read is an error that names it, never skipped."""
    try:
        return decode_event(entry.data)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise StoreDamaged(
            f"this version of kedge cannot read the event: {error}",
            run_id=run_id,
            seq=entry.seq,
            remedy="open the store with the version that wrote it, or a newer one",
        ) from error


def _begin(
    run_id: str, event: RunStarted, fetch: Callable[[str], bytes], catalog: Catalog, limits: Limits
) -> RunState:
    plan = _decode_plan(fetch(event.plan))
    effects: dict[str, Effect] = {name: mark.effect for name, mark in event.tools.items()}
    state = RunState(run_id, compile_plan(plan, catalog, effects), bytes(event.inputs), limits)
    state.fetch = fetch
    return state
