"""A run's state from its journal: decode, fold, and nothing else. User code is never replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import msgspec

from kedge.base import codec
from kedge.base.errors import StoreDamaged, StoreError
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.flow.events import Event, RunResumed, RunStarted, StepExpanded, decode_event
from kedge.flow.evolve import evolve
from kedge.flow.program import compile_plan
from kedge.flow.state import RunState
from kedge.flow.words import RunStatus
from kedge.journal.entry import Entry
from kedge.plan.model import Plan
from kedge.plan.tools import Catalog, Effect

_RESTS = (RunStatus.WAITING, RunStatus.PAUSED)


class Folded(NamedTuple):
    """What a log comes to."""

    state: RunState
    started: RunStarted
    driven_s: float
    """How long the run was driven, while it could move by itself."""


_decode_plan = msgspec.json.Decoder(Plan).decode


def fold(
    run_id: str,
    entries: Iterable[Entry],
    fetch: Callable[[str], bytes],
    catalog: Catalog,
    limits: Limits = DEFAULT_LIMITS,
) -> Folded:
    """The state that `entries` lead to, and how the run began."""
    state: RunState | None = None
    started: RunStarted | None = None
    driven_ms, before_ms, rests = 0, 0, True
    for entry in entries:
        event = decode(run_id, entry)
        if not rests and type(event) is not RunResumed:
            driven_ms += entry.at - before_ms
        before_ms = entry.at
        if state is None:
            if not isinstance(event, RunStarted):
                raise StoreDamaged("the log does not begin with RunStarted", run_id=run_id, seq=entry.seq)
            started = event
            try:
                state = _begin(run_id, event, fetch, catalog, limits)
            except StoreError:
                raise
            except Exception as error:
                raise senseless(run_id, entry, error) from error
        _evolve(state, event, entry)
        waits = bool(state.open_questions or state.paused) and state.status in _RESTS
        rests = waits or state.end is not None
    if state is None or started is None:
        raise StoreDamaged("the run has no events", run_id=run_id, remedy="delete it and start it anew")
    return Folded(state, started, driven_ms / 1000)


def decode(run_id: str, entry: Entry) -> Event:
    """One stored event. What this version cannot read is an error that names it, never skipped."""
    data = entry.data
    try:
        event = decode_event(data)
        # Values stay bytes until somebody needs them: what is no text, or spells none, is found out now.
        if not data.isascii():
            str(data, "utf-8")
        if b"\\u" in data:
            codec.decode(data)
    except codec.UNREADABLE as error:
        raise StoreDamaged(
            f"this version of kedge cannot read the event: {str(error)[:500]}",
            run_id=run_id,
            seq=entry.seq,
            remedy="open the store with the version that wrote it, or a newer one",
        ) from error
    return event


def _evolve(state: RunState, event: Event, entry: Entry) -> None:
    """Fold it in. The chain of checksums shows changed bytes, not that the events make sense."""
    try:
        check_items(event, state.fetch)
        evolve(state, event, entry.at)
    except StoreError:
        raise
    except Exception as error:
        raise senseless(state.run_id, entry, error) from error


def _begin(
    run_id: str, event: RunStarted, fetch: Callable[[str], bytes], catalog: Catalog, limits: Limits
) -> RunState:
    plan = _decode_plan(fetch(event.plan))
    effects: dict[str, Effect] = {name: mark.effect for name, mark in event.tools.items()}
    state = RunState(run_id, compile_plan(plan, catalog, effects), bytes(event.inputs), limits)
    if not isinstance(state.inputs_value(), dict):
        raise TypeError("the inputs are no map")
    state.fetch = fetch
    return state


def check_items(event: Event, fetch: Callable[[str], bytes]) -> None:
    """ValueError for more items than there is room for: each of them would be made, before it is missed."""
    if isinstance(event, StepExpanded):
        size = len(fetch(event.blob.sha)) if event.blob is not None else len(bytes(event.items))
        if not 0 <= event.count <= size // 2:
            raise ValueError(f"{event.count:,} items in {size:,} bytes")


def senseless(run_id: str, entry: Entry, error: Exception) -> StoreDamaged:
    """An event that can be read, and that nothing can be made of."""
    return StoreDamaged(
        f"the event does not follow from those before it: {type(error).__name__}: {str(error)[:500]}",
        run_id=run_id,
        seq=entry.seq,
        remedy="if nobody wrote to the store but kedge, this is a bug: please report it with the run's log",
    )
