"""What a planner or an agent is shown of a run: plain data, frozen, of bounded size.

Whoever decides sees this and nothing else: not the state, not the store. So a planner for tests sees
what a real one would, and what was decided on can be written down and looked at later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, cast

import msgspec

from kedge.base.codec import decode
from kedge.base.errors import BadInput
from kedge.flow.conversation import Message
from kedge.flow.decision import AgentDecision, Point, key_of
from kedge.flow.names import bytes_of, render_args
from kedge.flow.state import RunState, StepState
from kedge.flow.trouble import Fault, Trouble
from kedge.flow.words import Failure, StepStatus
from kedge.plan.model import Plan
from kedge.plan.tools import ToolSpec

STEPS = 1_000
"""Steps that are shown: those with trouble first, then what is not settled, then what ended last."""
TOOLS = 500
EXCERPT = 300
"""Characters of a result, at most."""
EXCERPTS = 60_000
"""Characters of all of them."""
QUESTIONS = 100
DECISIONS = 20
ARGS = 4_096
"""Bytes of the arguments of a failed call."""
ARGS_MEASURED = 1_000_000
"""Bytes of larger arguments that are still measured."""


class StepView(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One step, or one item, as it stands."""

    path: str
    """`outer[3]/inner`"""
    status: StepStatus
    """How it stands."""
    worker: str
    """The tool, the role, or the kind of a step that needs nobody."""
    attempt: int = 0
    """Number of its last attempt."""
    result: str = ""
    """The beginning of its result as JSON."""
    error: Failure | None = None
    """Why it failed, or its last attempt did."""


class FailedCall(msgspec.Struct, frozen=True, kw_only=True):
    """What a failed call was given."""

    args: dict[str, Any] | None = None
    """None where they are large, or could not be made."""
    sizes: dict[str, int] = {}
    """How many items each list among them has."""


class QuestionView(msgspec.Struct, frozen=True, kw_only=True):
    """A question that a person is asked."""

    id: str
    """What it is answered by."""
    reason: str
    """Why it is asked, in a word."""
    text: str
    """What is asked."""
    path: str = ""
    """The step it is about; empty for the run."""


class PastDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent decided before."""

    number: int
    """In the run, from 1."""
    points: tuple[Point, ...]
    """Why it was asked."""
    commands: tuple[str, ...] = ()
    """A word for each command that it gave."""
    refused: dict[int, str] = {}
    """Why some of them were refused, by their place."""
    missed: str = ""
    """Why there was no answer."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """A run, for whoever is to decide how it goes on."""

    run_id: str
    """Its name in the store."""
    goal: str
    """What it is for."""
    plan: Plan
    """The plan that is followed."""
    version: int
    """Its version: a patch is made for that."""
    inputs: dict[str, Any] = {}
    """What the run was given; empty where that is large."""
    steps: tuple[StepView, ...] = ()
    """The steps as they stand: those with trouble first, where there are too many."""
    left_out: int = 0
    """Steps not shown."""
    held: tuple[str, ...] = ()
    """Failures that are being decided on: they can be tried again, waived, or given a fallback."""
    running: tuple[str, ...] = ()
    """Calls in flight: they can be cancelled."""
    troubles: tuple[Trouble, ...] = ()
    """What is to be mended."""
    calls: dict[str, FailedCall] = {}
    """The failed calls among them, by path."""
    repair: int = 0
    """Number of the repair."""
    round: int = 0
    """How often the planner was asked for it, this time included."""
    refused: str = ""
    """Why the last round's patch was refused."""
    findings: tuple[Fault, ...] = ()
    """All that was wrong with it."""
    left: dict[str, float] = {}
    """What is left of limits."""
    decision: int = 0
    """Number of the decision that an agent is asked for."""
    points: tuple[Point, ...] = ()
    """Why it is asked."""
    questions: tuple[QuestionView, ...] = ()
    """What people are asked at the moment. Only people can answer."""
    messages: tuple[Message, ...] = ()
    """What was said last."""
    notes: dict[str, Any] = {}
    """What was noted."""
    decisions: tuple[PastDecision, ...] = ()
    """What was decided last."""
    positions: dict[str, int] = {}
    """Numbers of events that were given a name."""
    tools: tuple[ToolSpec, ...] = ()
    """Tools that the engine has, also those that cannot be used now."""


def situation(state: RunState) -> Situation:
    """What there is to see of a run, for the repair or the decision that is open."""
    repair, decision = state.repair, state.decision
    troubles = _troubles(state)
    last = repair.refusals[-1] if repair is not None and repair.refusals else None
    held = [path for path in dict.fromkeys(one.path for one in troubles) if _is_held(state, path)]
    steps, left_out = _views(state, troubles)
    return Situation(
        run_id=state.run_id,
        goal=state.plan.goal,
        plan=state.plan,
        version=state.version,
        inputs=state.inputs_value() if len(state.inputs) <= ARGS else {},
        steps=steps,
        left_out=left_out,
        held=tuple(held),
        running=tuple(s.path for s in state.steps.values() if s.status is _RUNNING and s.is_call),
        troubles=troubles,
        calls={path: _failed_call(state, state.steps[path]) for path in held},
        repair=repair.number if repair is not None else 0,
        round=repair.round if repair is not None else 0,
        refused=last.message if last is not None else "",
        findings=last.findings if last is not None else (),
        left=_left(state),
        decision=decision.number if decision is not None else 0,
        points=decision.points[:STEPS] if decision is not None else (),
        questions=tuple(islice(_questions(state), QUESTIONS)),
        messages=tuple(state.messages.kept),
        notes=dict(state.notes.kept),
        decisions=tuple(_past(state, one) for one in state.decisions[-DECISIONS:] if one.outcome),
        positions=dict(state.positions.kept),
        tools=tuple(islice(state.program.catalog, TOOLS)),
    )


_RUNNING = StepStatus.RUNNING


def _troubles(state: RunState) -> tuple[Trouble, ...]:
    """Those of the open repair; without one, those that the open decision is about."""
    if state.repair is not None:
        return state.repair.troubles
    if state.decision is None:
        return tuple(state.unmended)
    about = {point.path for point in state.decision.points if point.at == "trouble"}
    latest = {one.path: one for one in state.troubles if one.path in about}
    return tuple(latest.values())


def _questions(state: RunState) -> Iterator[QuestionView]:
    for id_, question in state.questions.items():
        if question.open:
            asked = question.asked
            yield QuestionView(id=id_, reason=asked.reason, text=asked.text[:EXCERPT], path=asked.path)


def _past(state: RunState, decision: AgentDecision) -> PastDecision:
    said = [state.commands.get(key_of(decision.number, place), "") for place in range(len(decision.commands))]
    return PastDecision(
        number=decision.number,
        points=decision.points[:EXCERPT],
        commands=decision.commands,
        refused={place: why for place, why in enumerate(said) if why},
        missed=decision.why,
    )


def _left(state: RunState) -> dict[str, float]:
    return {
        "repairs": state.limit("repairs") - len(state.repairs),
        "calls": state.limit("calls") - state.calls,
        "steps": state.limits.steps - len(state.program.nodes),
    }


def _is_held(state: RunState, path: str) -> bool:
    step = state.steps.get(path)
    return step is not None and step.held


def _views(state: RunState, troubles: Iterable[Trouble]) -> tuple[tuple[StepView, ...], int]:
    chosen = list(state.steps.values())
    left_out = max(0, len(chosen) - STEPS)
    if left_out:
        first = {one.path for one in troubles}
        chosen.sort(key=lambda step: (step.path not in first, step.outcome is not None, -step.ended_seq))
        chosen = chosen[:STEPS]
    room = min(EXCERPT, EXCERPTS // max(1, len(chosen)))
    return tuple(_view(step, room) for step in chosen), left_out


def _view(step: StepState, room: int) -> StepView:
    result = step.result
    return StepView(
        path=step.path,
        status=step.status,
        worker=step.node.step.worker,
        attempt=step.attempt,
        result=_cut(result, room) if type(result) is bytes else "",
        error=step.error,
    )


def _cut(raw: bytes, room: int) -> str:
    text = raw[: room * 4 + 4].decode("utf-8", "ignore")
    return text if len(text) <= room else text[: room - 1] + "…"


def _failed_call(state: RunState, step: StepState) -> FailedCall:
    if not step.node.calls or step.items is not None:
        return FailedCall()
    try:
        raw = bytes_of(state, step.given) if step.given is not None else render_args(state, step)
    except BadInput:  # that is why it failed
        return FailedCall()
    if len(raw) > ARGS_MEASURED:
        return FailedCall()
    args = cast("dict[str, Any]", decode(raw))
    sizes = {name: len(cast("list[Any]", value)) for name, value in args.items() if isinstance(value, list)}
    return FailedCall(args=args if len(raw) <= ARGS else None, sizes=sizes)
