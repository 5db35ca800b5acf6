"""A limit of the run is used up."""

from __future__ import annotations

from kedge.flow import events as ev
from kedge.flow.failing import question_id
from kedge.flow.turn import Turn


def ask_limit(turn: Turn, limit: str, value: float) -> None:
    """Nothing starts until somebody says how to go on."""
    state = turn.state
    allowed = state.limit(limit)
    value = float(value)  # as it is when it is read back
    turn.emit(ev.LimitReached(limit=limit, value=value))
    turn.emit(
        ev.QuestionAsked(
            question=question_id(state),
            reason="limit",
            limit=limit,
            used=value,
            text=f"The run used up its limit {limit} ({allowed:,.10g}). Raise it, or stop?",
            options=("raise", "stop"),
        )
    )
