"""Agents in the loop: when one is asked, what its answer means, and how the run goes on without one."""

from __future__ import annotations

import msgspec

from kedge.base.errors import InternalError, KedgeError
from kedge.flow import events as ev
from kedge.flow import inputs as inp
from kedge.flow.commands import Command
from kedge.flow.decision import AgentDecision, key_of
from kedge.flow.failing import question_id, settle_held
from kedge.flow.state import RunState
from kedge.flow.steer import steer
from kedge.flow.turn import Turn

SHOWN = 20
"""Points that the log repeats for one decision; all are in the state."""


def consult(turn: Turn) -> None:
    """Ask the agent, if there is something that it was not asked about yet."""
    state = turn.state
    if state.blocked_by or state.decision is not None or not state.points:
        return
    points = state.points
    turn.emit(
        ev.DecisionAsked(
            decision=len(state.decisions) + 1, points=tuple(points[:SHOWN]), more=max(0, len(points) - SHOWN)
        )
    )


def take_decision(turn: Turn, given: inp.Decided) -> None:
    """The agent answered: its commands are anybody's, with an agent's authority."""
    decision = _awaited(turn.state, given.decision)
    if decision is None:
        return
    words = tuple(str(type(one).__struct_config__.tag) for one in given.commands)
    turn.emit(ev.DecisionTaken(decision=decision.number, by=given.by, commands=words))
    for place, command in enumerate(given.commands):
        ours = msgspec.structs.replace(
            command, role="agent", by=command.by or given.by, key=key_of(decision.number, place)
        )
        _steer(turn, ours)
    _settle(turn, decision)


def _steer(turn: Turn, command: Command) -> None:
    try:
        steer(turn, command)
    except InternalError:
        raise
    except KedgeError:
        return  # that it was refused, and why, stands in the log under its key


def take_silence(turn: Turn, given: inp.DecisionFailed) -> None:
    """The agent did not answer, or not with commands."""
    state = turn.state
    decision = _awaited(state, given.decision)
    if decision is None:
        return
    ask = state.settings.agent_default == "ask"
    turn.emit(
        ev.DecisionMissed(decision=decision.number, code=given.code, message=given.why, by=given.by, ask=ask)
    )
    if ask:
        ask_instead(turn, decision)
    _settle(turn, decision, ask=ask)


def ask_instead(turn: Turn, decision: AgentDecision) -> None:
    """Ask a person what the agent did not answer, as far as something waits for that."""
    state = turn.state
    done = [one.path for one in decision.points if one.at != "trouble" and one.path in state.deciding]
    if not done or decision.outcome != "missed" or decision.question:
        return
    shown = ", ".join(done[:SHOWN]) + (" …" if len(done) > SHOWN else "")
    turn.emit(
        ev.QuestionAsked(
            question=question_id(state), reason="decision", path=done[0],
            text=f"The agent did not decide how to go on after {shown}: {decision.why}. Go on, ask it again, "
            "or stop?",
            options=("go on", "again", "stop"),
        )
    )  # fmt: skip


def _awaited(state: RunState, number: int) -> AgentDecision | None:
    decision = state.decision
    if decision is None or state.end is not None or decision.number != number:
        return None
    return decision


def _settle(turn: Turn, decision: AgentDecision, *, ask: bool = False) -> None:
    settle_held(turn, [point.path for point in decision.points], ask=ask)
