"""One turn of the ring: the events that inputs and readiness lead to, folded as they come."""

from __future__ import annotations

from kedge.base.codec import digest
from kedge.flow.events import NONE, Event, Raw
from kedge.flow.evolve import HANDLERS
from kedge.flow.state import RunState, StepState
from kedge.flow.words import INLINE_BYTES, Blob

Launch = tuple[StepState, bytes, int]
"""A call to make: the step, its arguments, and the event that must be durable first if it has effects."""


class Turn:
    """Collects what one turn produces. Everything in it is appended in one piece or not at all."""

    __slots__ = ("asked_at", "blobs", "events", "launches", "now", "state")

    def __init__(self, state: RunState, now_ms: int) -> None:
        self.state = state
        self.now = max(state.at, now_ms)
        self.asked_at = self.now
        """When the command that is being decided was sent: one may have waited for a driver."""
        self.events: list[Event] = []
        self.launches: list[Launch] = []
        self.blobs: dict[str, bytes] = {}
        state.at_hand = self.blobs

    def emit(self, event: Event) -> None:
        """Fold an event and keep it for the append."""
        state = self.state
        state.at = self.now
        state.seq += 1
        HANDLERS[type(event)](state, event)  # what `evolve` does, without one more call
        self.events.append(event)

    def store(self, raw: bytes) -> tuple[Raw, Blob | None]:
        """A value as an event holds it: inline, or as a blob that is stored with the event."""
        if len(raw) <= INLINE_BYTES:
            return Raw(raw), None
        blob = Blob(digest(raw), len(raw))
        self.blobs[blob.sha] = raw
        return NONE, blob
