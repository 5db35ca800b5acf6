"""A ready callback: the events of a run as records of Python's `logging`."""

from __future__ import annotations

import logging

from kedge.flow.events import RunEnded
from kedge.flow.words import RunStatus
from kedge.views.narrate import RunEvent
from kedge.views.text import clean

_log = logging.getLogger("kedge.run")

WARNINGS = frozenset(
    {"command_refused", "limit_reached", "question_asked", "retry_scheduled", "step_failed", "step_in_doubt"}
)
"""Kinds of events after which somebody may want to look."""
ACTIONS = {
    "callback_behind": "A callback was too slow, and was not told all events of a run that ended.",
    "callback_off": "A callback raised, and is called no more. The run goes on.",
    "discoveries_dropped": "A tool discovered more in one call than is kept.",
    "driver_stops": "A run cannot be driven on here; whoever waits for it is told why.",
    "loop_stalled": "A tool kept the event loop busy: nothing else could go on meanwhile.",
    "store_close": "The store did not close well. What was acknowledged is on disk.",
    "store_full": "The store has no room: runs wait.",
    "store_has_room": "The store has room again: runs go on.",
}
"""What is logged besides events, by the word that is the record's `action`: stable, to set alarms on."""
_BAD_ENDS = frozenset({RunStatus.FAILED, RunStatus.EMPTY})


def log_events(event: RunEvent) -> None:
    """Log each event of a run with the logger `kedge.run`: `start(plan, on_event=kedge.log_events)`.

    Each record has `action` (the event's kind), `run`, `step` (its path), `seq` and `percent`.
    """
    level = level_of(event)
    if _log.isEnabledFor(level):
        about = {
            "action": event.kind,
            "run": event.run_id,
            "step": clean(event.path, 500),
            "seq": event.seq,
            "percent": event.percent,
        }
        _log.log(level, "%s: %s", event.run_id, event.message, extra=about)


def level_of(event: RunEvent) -> int:
    """Errors are runs that ended badly; the run's own events and milestones are news, all else is detail."""
    if event.kind == "run_ended" and isinstance(event.source, RunEnded):
        return logging.ERROR if event.source.status in _BAD_ENDS else logging.INFO
    if event.kind in WARNINGS:
        return logging.WARNING
    return logging.INFO if event.level == "run" or event.milestone else logging.DEBUG
