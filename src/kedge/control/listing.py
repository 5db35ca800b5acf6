"""What lists show of a run: one line, kept beside its events so that listing reads no log."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from kedge.base.codec import UNREADABLE
from kedge.flow.state import RunState
from kedge.flow.words import ENDED
from kedge.journal.entry import Head


class Headline(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The stored line."""

    goal: str = ""
    plan: str = ""
    status: str = "running"
    started_at: int = 0
    ended_at: int = 0
    total: int = 0
    settled: int = 0
    done: int = 0
    questions: int = 0
    retries: int = 0
    cost: float = 0.0
    tokens: int = 0


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """One run in a list."""

    id: str
    """Its name in the store."""
    plan: str
    """The hash of its plan."""
    goal: str
    """The plan's goal, its beginning."""
    status: str
    """As of its last event; `damaged` if its log cannot be read whole."""
    started_at: datetime | None
    """When it began."""
    updated_at: datetime | None
    """When its last event happened."""
    ended_at: datetime | None
    """When it ended; None if it has not."""
    position: int
    """Number of its last event."""
    total: int
    """Steps there are."""
    done: int
    """Steps that succeeded."""
    questions: int
    """Questions that wait for an answer."""
    size_bytes: int
    """Bytes of its events and large values."""
    retries: int = 0
    """Attempts that were followed by another one."""
    cost: float = 0.0
    """What its calls cost, as far as their tools told."""
    tokens: int = 0
    """A model's tokens that they used, as far as their tools told."""
    driven: bool = False
    """Some process drives it at this moment. One that has not ended and is not driven can be resumed."""
    damaged: str = ""
    """What is wrong with it."""

    @property
    def ended(self) -> bool:
        """Nothing more happens to it by itself."""
        return self.status in ENDED


COUNTS_MS = 100
"""Steps that were done meanwhile may be missing in the line of a run whose driver was killed."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Headline).decode


def headline(state: RunState, plan_id: str) -> bytes:
    """The line of a run as it stands."""
    return _encode(
        Headline(
            goal=state.plan.goal[:200],
            plan=plan_id,
            status=str(state.status),
            started_at=state.started_at,
            ended_at=state.ended_at,
            total=state.total,
            settled=state.settled,
            done=state.done,
            questions=0 if state.ended else state.open_questions,
            retries=state.retries,
            cost=state.usage.cost,
            tokens=state.usage.tokens,
        )
    )


class Line:
    """The line of a run for each commit: None where the last one still tells enough.

    Counts may be a moment behind the log in it. How the run stands never is, and its position is the log's.
    """

    def __init__(self, state: RunState, plan_id: str) -> None:
        self._state = state
        self._plan_id = plan_id
        self._told: tuple[int, object, int] = (0, None, 0)

    def __call__(self) -> bytes | None:
        state = self._state
        at, status, questions = self._told
        now = (state.at, state.status, state.open_questions)
        if now[1] is status and now[2] == questions and now[0] - at < COUNTS_MS:
            return None
        self._told = now
        return headline(state, self._plan_id)


def info(head: Head, driven: Callable[[str], bool]) -> RunInfo:
    """A list's line from what the store keeps."""
    damaged = head.damaged
    try:
        line = _decode(head.headline) if head.headline else Headline(status="unknown")
        moment(line.started_at)
        moment(line.ended_at)
    except (*UNREADABLE, ValueError, OverflowError, OSError) as error:
        line = Headline(status="unknown")
        damaged = damaged or f"its line in the list cannot be read: {error}"
    status = "damaged" if damaged else line.status
    return RunInfo(
        id=head.run_id,
        plan=line.plan,
        goal=line.goal,
        status=status,
        started_at=moment(line.started_at or head.created_at),
        updated_at=moment(head.updated_at),
        ended_at=moment(line.ended_at),
        position=head.seq,
        total=line.total,
        done=line.done,
        questions=line.questions,
        size_bytes=head.bytes,
        retries=line.retries,
        cost=line.cost,
        tokens=line.tokens,
        driven=status not in ENDED and driven(head.run_id),
        damaged=damaged,
    )


def moment(ms: int) -> datetime | None:
    """A time as people have it; None for none."""
    return datetime.fromtimestamp(ms / 1000, UTC) if ms else None
