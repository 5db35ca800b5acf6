"""What an input means: events, or nothing (late, repeated), or a refusal.

Reads the state and never changes it; `turn.emit` folds what is decided. An attempt is known by the
number of its start, so the word of an attempt that was given up is not taken for its successor's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_never

import msgspec

from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow import inputs as inp
from kedge.flow.approvals import ask_person
from kedge.flow.branching import branch_off, edit
from kedge.flow.compensation import may_be_undone_twice
from kedge.flow.conclude import conclude, succeed
from kedge.flow.consulting import ask_instead, take_decision, take_silence
from kedge.flow.failing import ask_what_to_do, backoff_s, fail, question_id
from kedge.flow.input_question import ask_for_inputs
from kedge.flow.limiting import ask_limit
from kedge.flow.mending import take_failure, take_patch
from kedge.flow.names import render_args
from kedge.flow.repairs import is_mended
from kedge.flow.state import UNDO, RunState, StepState
from kedge.flow.steer import steer
from kedge.flow.turn import Turn
from kedge.flow.words import Failure, Outcome, StepStatus

RETRYABLE_UNASKED = ("pure", "read", "idempotent")
"""Effect classes whose calls may be made again: repeating them does no harm."""


_LOST = "The part of the log that would tell is lost"
_NAMED = 20
"""Steps that a question names."""
_UNDER_WAY = frozenset({StepStatus.RUNNING, StepStatus.IN_DOUBT})


def decide(turn: Turn, given: inp.Input) -> None:
    """Fold what `given` means into the turn."""
    match given:
        case inp.Returned():  # first: all but a few inputs are these
            _returned(turn, given)
        case inp.Raised():
            _raised(turn, given)
        case cmd.Order():
            steer(turn, given)
        case inp.Reported():
            if _attempt(turn.state, given.path, given.starts) is not None:
                turn.emit(ev.Discovered(path=given.path, what=given.what, need=given.need))
        case inp.Used():
            _used(turn, given)
        case inp.Exhausted():
            _exhausted(turn, given)
        case inp.Repaired():
            take_patch(turn, given)
        case inp.RepairFailed():
            take_failure(turn, given)
        case inp.Decided():
            take_decision(turn, given)
        case inp.DecisionFailed():
            take_silence(turn, given)
        case inp.Resumed():
            _resumed(turn, given)
        case inp.Salvaged():
            _salvaged(turn, given)
        case inp.Branched():
            _branched(turn, given)
        case inp.Ticked():
            pass  # time itself is the message: `due` looks at the timers
        case _:
            assert_never(given)


def _attempt(state: RunState, path: str, starts: int) -> StepState | None:
    """The step, if that attempt is still the one that counts."""
    step = state.steps.get(path) or state.undos.get(path)
    if step is None or step.starts != starts or state.end is not None:
        return None
    return step if step.status in _UNDER_WAY else None


def _returned(turn: Turn, given: inp.Returned) -> None:
    step = _attempt(turn.state, given.path, given.starts)
    if step is None:
        return
    if step.status is StepStatus.IN_DOUBT:
        _close_doubt(turn, step, "done", "late result")
    if step.node.tested:
        conclude(turn, step, given.raw)
    else:
        succeed(turn, step, given.raw)


def _used(turn: Turn, given: inp.Used) -> None:
    """Also of an attempt that does not count any more: what it used is used."""
    used = {name: amount for name, amount in msgspec.structs.asdict(given.usage).items() if amount}
    if used and turn.state.end is None:
        turn.emit(ev.FeedbackGiven(path=given.path, **used))


def _raised(turn: Turn, given: inp.Raised) -> None:
    state, error = turn.state, given.error
    step = _attempt(state, given.path, given.starts)
    if step is None:
        return
    certain = error.classified or error.not_done
    if step.status is StepStatus.IN_DOUBT:
        if not certain:
            return
        _close_doubt(turn, step, "failed", "late failure")
    elif (state.cancelling or step.unwanted) and (certain or step.node.effect != "effect"):
        turn.emit(ev.StepCancelled(path=step.path))
        return
    if step.node.effect == "effect" and not certain:
        _doubt(turn, step, error)
    elif _may_retry(step, error):
        wait_s = _wait_s(step, error, given.jitter)
        at = turn.now + int(wait_s * 1000)
        turn.emit(ev.RetryScheduled(path=step.path, attempt=step.attempt + 1, error=error, at=at))
    else:
        fail(turn, step, error)


def _may_retry(step: StepState, error: Failure) -> bool:
    retry = step.node.retry
    if step.attempt >= retry.attempts or error.category not in retry.on:
        return False
    return error.not_done or step.node.effect != "effect"


def _wait_s(step: StepState, error: Failure, jitter: float) -> float:
    """Not before the tool wants it; spread out by half, so that many do not come back at once."""
    wait_s = backoff_s(step)
    if error.retry_after_s is not None:
        wait_s = max(wait_s, min(error.retry_after_s, step.node.retry.max_backoff_s))
    return wait_s * (1.0 + jitter / 2.0)


def _doubt(turn: Turn, step: StepState, error: Failure) -> None:
    turn.emit(ev.StepInDoubt(path=step.path, error=error))
    _ask_about(turn, step, f"The attempt ended without an answer: {error.message}")


def _ask_about(turn: Turn, step: StepState, why: str) -> None:
    tool = step.node.step.tool
    turn.emit(
        ev.QuestionAsked(
            question=question_id(turn.state),
            reason="in_doubt",
            path=step.path,
            text=f"Did {tool} (step {step.path}) have its effect? {why}",
            options=("done", "failed", "retry"),
        )
    )


def doubt_first(turn: Turn, step: StepState) -> None:
    """A call that is about to be made may have been made already, in what is lost of the log."""
    error = Failure(category="in_doubt", code="salvaged", message=_LOST)
    turn.emit(ev.StepInDoubt(path=step.path, error=error))
    _ask_about(turn, step, _LOST)


def _close_doubt(turn: Turn, step: StepState, answer: str, by: str) -> None:
    turn.emit(ev.QuestionAnswered(question=turn.state.asked_about[step.path], answer=answer, by=by))


def _resumed(turn: Turn, given: inp.Resumed) -> None:
    state = turn.state
    turn.emit(ev.RunResumed(retry_failed=given.retry_failed, changed_tools=tuple(given.changed_tools)))
    if state.end is not None and not given.undo:
        return
    calls = (*state.steps.values(), *state.undos.values())
    for step in [s for s in calls if s.status is StepStatus.RUNNING and s.is_call]:
        if step.node.effect in RETRYABLE_UNASKED:
            gone = ev.StepCancelled if step.unwanted else ev.StepInterrupted
            turn.emit(gone(path=step.path))
        else:
            error = Failure(
                category="in_doubt",
                code="driver_lost",
                message="the process that drove the run ended during the call",
            )
            _doubt(turn, step, error)
    if given.changed_tools:
        _ask_about_tools(turn, given.changed_tools)


def _ask_about_tools(turn: Turn, changed: Mapping[str, str]) -> None:
    tools = dict(changed)
    if any(q.open and q.asked.tools == tools for q in turn.state.questions.values()):
        return  # asked when it was resumed before
    names = ", ".join(tools)
    turn.emit(
        ev.QuestionAsked(
            question=question_id(turn.state),
            reason="tool_changed",
            text=f"These tools with effects are not what they were when the run began: {names}. "
            "Go on with them?",
            options=("go on", "stop"),
            tools=tools,
        )
    )


def _ask_anew(turn: Turn, step: StepState) -> None:
    if step.status is StepStatus.IN_DOUBT:
        _ask_about(turn, step, _LOST)
    elif step.held and step.outcome is None and _is_anybodys(turn.state, step):
        ask_what_to_do(turn, step, step.error.message if step.error is not None else _LOST)
    elif step.status is StepStatus.WAITING and step.awaits == "approval":
        ask_person(turn, step, render_args(turn.state, step) if step.node.calls else b"{}")


def _is_anybodys(state: RunState, step: StepState) -> bool:
    """Neither the planner nor the agent is to say what its failure means."""
    return not is_mended(state, step) and step.path not in state.deciding


def _ask_what_is_not_asked(turn: Turn) -> None:
    """The cut may have gone between what happened and its question."""
    state = turn.state
    asked = {question.asked.path for question in state.questions.values() if question.open}
    for step in (*state.steps.values(), *state.undos.values()):
        if step.path not in asked:
            _ask_anew(turn, step)
    for decision in state.decisions[-1:]:
        ask_instead(turn, decision)
    ask_for_inputs(turn)


def _branched(turn: Turn, given: inp.Branched) -> None:
    branch_off(turn, given)
    if given.lost:
        _salvaged(turn, inp.Salvaged(given.lost))
    else:
        _ask_what_is_not_asked(turn)
    edit(turn, given)


def _salvaged(turn: Turn, given: inp.Salvaged) -> None:
    """Of what has effects and is not known to be done, nothing may start before somebody has looked."""
    state = turn.state
    _ask_what_is_not_asked(turn)
    open_ones = [
        step.path
        for step in state.root.steps
        if step.outcome is not Outcome.DONE and step.node.effect == "effect"
    ]
    open_ones += [f"{step.path}{UNDO}" for step in state.steps.values() if may_be_undone_twice(state, step)]
    if not open_ones:
        return
    named = ", ".join(open_ones[:_NAMED]) + (" …" if len(open_ones) > _NAMED else "")
    turn.emit(
        ev.QuestionAsked(
            question=question_id(state),
            reason="salvaged",
            text=f"{given.lost} Steps with effects may have had them there: {named}. Ask about each call "
            "before it is made, go on as if none was made, or stop?",
            options=("ask", "go on", "stop"),
        )
    )


def _exhausted(turn: Turn, given: inp.Exhausted) -> None:
    state = turn.state
    over = state.end is not None or state.ending
    asked = any(q.open and q.asked.limit == given.limit for q in state.questions.values())
    if given.limit == "calls":
        return  # counted by the state itself: `due` asks when a call is to be made that may not be
    if not over and not asked and given.value >= state.limit(given.limit):
        ask_limit(turn, given.limit, given.value)
