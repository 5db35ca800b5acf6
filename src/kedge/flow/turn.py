"""One turn of the ring: the events that inputs and readiness lead to, folded as they come."""

from __future__ import annotations

from kedge.base.codec import digest
from kedge.flow.events import NONE, Event, Raw
from kedge.flow.evolve import evolve
from kedge.flow.state import RunState, StepState
from kedge.flow.words import INLINE_BYTES, Blob


class Launch:
    """A call to make, once its event is as durable as its effect class demands."""

    __slots__ = ("args", "seq", "starts", "step")

    def __init__(self, step: StepState, args: bytes, seq: int) -> None:
        self.step = step
        self.args = args
        self.starts = step.starts
        self.seq = seq
        """The event that says that the call was started."""


class Turn:
    """Collects what one turn produces. Everything in it is appended in one piece or not at all."""

    __slots__ = ("blobs", "events", "launches", "now", "state")

    def __init__(self, state: RunState, now_ms: int) -> None:
        self.state = state
        self.now = max(state.at, now_ms)
        self.events: list[Event] = []
        self.launches: list[Launch] = []
        self.blobs: dict[str, bytes] = {}

    def emit(self, event: Event) -> None:
        """Fold an event and keep it for the append."""
        evolve(self.state, event, self.now)
        self.events.append(event)

    def store(self, raw: bytes) -> tuple[Raw, Blob | None]:
        """A value as an event holds it: inline, or as a blob that is stored with the event."""
        if len(raw) <= INLINE_BYTES:
            return Raw(raw), None
        blob = Blob(digest(raw), len(raw))
        self.blobs[blob.sha] = raw
        return NONE, blob
