"""Words for what is logged besides the events of runs: stable, so that alarms can be set on them."""

from __future__ import annotations

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
"""What happens to an engine, by the word that is the record's `action`."""
