"""Decisions of agents, and what is said, in a run's state. Part of `evolve`: called from nowhere else.

What reads a step about which the agent is asked waits for the decision; nothing else does. One decision is
open at a time. Points that are reached meanwhile are the next one's.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heappush

from kedge.base.codec import decode
from kedge.flow.conversation import message
from kedge.flow.decision import DECIDE_AT, AgentDecision, Point
from kedge.flow.events import (
    DecisionAsked,
    DecisionMissed,
    DecisionTaken,
    Marked,
    Noted,
    QuestionAnswered,
    QuestionAsked,
    Said,
)
from kedge.flow.state import RunState, StepState


def begin(state: RunState) -> None:
    """The settings of the run are known."""
    state.decides = DECIDE_AT.index(state.settings.decide_at)


def succeeded(state: RunState, step: StepState) -> None:
    """A step of a run in which an agent decides is done."""
    if step.owner is not None:
        return
    if step.node.step.is_milestone and state.decides >= DECIDE_AT.index("milestone"):
        reached(state, Point("milestone", step.path))
    elif state.decides >= DECIDE_AT.index("every_step"):
        reached(state, Point("step", step.path))


def reached(state: RunState, point: Point) -> None:
    """The agent is to be asked about it."""
    state.points.append(point)
    state.deciding[point.path] = None


def asked(state: RunState, event: DecisionAsked) -> None:
    """The agent is asked about everything that was reached."""
    decision = AgentDecision(number=event.decision, points=tuple(state.points), asked_at=state.at)
    state.points = []
    state.decision = decision
    state.decisions.append(decision)


def taken(state: RunState, event: DecisionTaken) -> None:
    """It said what it wants; each of its commands has events of its own."""
    decision = state.decision
    if decision is not None:
        decision.outcome, decision.by, decision.commands = "decided", event.by, event.commands
        _close(state, decision)
        _let_go(state, decision.points)


def missed(state: RunState, event: DecisionMissed) -> None:
    """It said nothing that could be used."""
    decision = state.decision
    if decision is None:
        return
    decision.outcome, decision.by, decision.why = "missed", event.by, event.message
    _close(state, decision)
    if event.ask:
        _let_go(state, [point for point in decision.points if point.at == "trouble"])
    else:
        _let_go(state, decision.points)


def question_asked(state: RunState, event: QuestionAsked) -> None:
    """A person is asked in the agent's place."""
    state.decisions[-1].question = event.question


def question_answered(state: RunState, event: QuestionAnswered) -> None:
    """A person said how to go on."""
    points = _asked_about(state, event.question)
    if event.answer == "stop":
        state.stopped_by = "decision"
    if event.answer == "again":
        state.points += points
    else:
        _let_go(state, points)


def question_void(state: RunState, question: str) -> None:
    """What a person was asked in the agent's place means nothing any more."""
    _let_go(state, _asked_about(state, question))


def _asked_about(state: RunState, question: str) -> list[Point]:
    decision = next(one for one in state.decisions if one.question == question)
    return [one for one in decision.points if one.at != "trouble" and one.path in state.deciding]


def run_ended(state: RunState) -> None:
    """Nothing is decided any more."""
    if state.decision is not None:
        state.decision.outcome = "ended"
        _close(state, state.decision)
    state.points = []
    state.deciding.clear()
    state.undecided_fresh.clear()
    state.undecided_ready.clear()


def said(state: RunState, event: Said) -> None:
    """Somebody said something."""
    state.messages.append(message(state.seq, event.by, event.role, event.text))


def noted(state: RunState, event: Noted) -> None:
    """An agent wants to know it later."""
    state.notes.merge(decode(bytes(event.values)))


def marked(state: RunState, event: Marked) -> None:
    """This position of the run has a name."""
    state.positions.merge({event.name: state.seq})


def _close(state: RunState, decision: AgentDecision) -> None:
    decision.ended_at = state.at
    state.decision = None


def _let_go(state: RunState, points: Iterable[Point]) -> None:
    """What waited for the decision goes on, if nothing else about it is to be decided."""
    for point in points:
        state.deciding.pop(point.path, None)
    for point in state.points:
        state.deciding[point.path] = None
    state.fresh.extend(state.undecided_fresh)
    state.undecided_fresh.clear()
    for entry in state.undecided_ready:
        heappush(state.ready, entry)
    state.undecided_ready.clear()
