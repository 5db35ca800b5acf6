"""The only code that changes a run's state.

One small function per event kind. In place, a constant amount of work per event (a settled step
touches those that wait for it, each once), no expression evaluated, nothing scanned: resuming a run
of a million events is a million of these.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappush
from typing import Any

import msgspec

from kedge.base.errors import InternalError
from kedge.flow import decisions, repairs
from kedge.flow import events as ev
from kedge.flow.adopt import follow
from kedge.flow.branch import forked, result_kept, take_kept
from kedge.flow.consent import plan_approved, want_consent
from kedge.flow.guards import leaving
from kedge.flow.missing import input_given, note_missing
from kedge.flow.questions import closed, opened, void
from kedge.flow.reopen import go_on_inside, reopen, reopen_step
from kedge.flow.scopes import open_inner, open_scope
from kedge.flow.settle import count_settled, settle, settle_failure, unblock
from kedge.flow.state import RunState, Span, StepState, Stored, Version
from kedge.flow.stopping import stop_all
from kedge.flow.transitions import TABLE, illegal
from kedge.flow.undone import begin, end
from kedge.flow.unwind import doubt_settled
from kedge.flow.usage import Told, Usage
from kedge.flow.words import Blob, Outcome, StepStatus
from kedge.plan.patch import Patch, apply

decode_patch = msgspec.json.Decoder(Patch).decode

_RUNNING = StepStatus.RUNNING  # as globals: an enum's members are looked up through its class each time
_DONE = Outcome.DONE


def evolve(state: RunState, event: ev.Event, at: int) -> None:
    """Fold one event into the state."""
    state.at = at
    state.seq += 1
    HANDLERS[type(event)](state, event)


def _move(state: RunState, event: Any) -> StepState:
    """Take the event's step along the transition table."""
    try:
        step = state.steps[event.path]
    except KeyError:
        step = state.undos[event.path]
    status = step.status
    to = TABLE[type(event)].get(status)
    if to is None:
        raise illegal(step.path, status, event)
    if status is _RUNNING and step.items is None and step.node.scope is None:
        state.running -= 1
    elif step.awaits == "signal" and status is StepStatus.WAITING:
        state.listening -= 1
    step.status = to
    return step


def _stored(raw: ev.Raw, blob: Blob | None) -> Stored | None:
    if blob is not None:
        return blob
    return None if raw is ev.NONE else bytes(raw)


# --- the run


def _run_started(state: RunState, event: ev.RunStarted) -> None:
    state.started_at = state.at
    state.inputs = state.inputs_at_start = bytes(event.inputs)
    state.tools.update(event.tools)
    state.settings = event.settings
    state.look_at_calls()
    if event.settings.ask != "never":  # somebody is there to ask
        note_missing(state)
    decisions.begin(state)


def _plan_adopted(state: RunState, event: ev.PlanAdopted) -> None:
    state.version = event.version
    state.tools.update(event.tools)
    if event.patch:
        patch = decode_patch(event.patch)
        leaving(state, patch)
        follow(state, apply(state.plan, patch), patch)
        failures = (*patch.retry, *patch.waive)
    else:
        open_scope(state, state.root)
        failures = ()
    repairs.plan_adopted(state, event)
    state.versions.append(
        Version(event.version, state.plan, event.plan, state.at, state.seq, event.cause, event.by, event.why)
    )
    want_consent(state, failures)


def _command_taken(state: RunState, event: ev.CommandTaken) -> None:
    state.commands[event.key] = ""


def _command_refused(state: RunState, event: ev.CommandRefused) -> None:
    state.commands[event.key] = event.message


def _reopened(state: RunState, event: ev.Reopened) -> None:
    step = state.steps[event.path]
    if step.status is not StepStatus.FAILED:
        raise InternalError(f"step {step.path} is {step.status} and cannot be opened again")
    reopen_step(state, step)


def _run_resumed(state: RunState, event: ev.RunResumed) -> None:
    state.taken_up = True
    if event.retry_failed and state.ended:
        reopen(state)


def _run_paused(state: RunState, event: ev.RunPaused) -> None:
    state.paused = True


def _run_unpaused(state: RunState, event: ev.RunUnpaused) -> None:
    state.paused = False


def _run_cancelling(state: RunState, event: ev.RunCancelling) -> None:
    state.cancelling = True
    state.paused = False
    state.undo_after = state.undo_after or event.compensate


def _compensation_started(state: RunState, event: ev.CompensationStarted) -> None:
    begin(state, event)


def _compensation_ended(state: RunState, event: ev.CompensationEnded) -> None:
    if state.undoing is None:
        raise InternalError("a compensation ends that has not begun")
    end(state, state.undoing)


def _run_ended(state: RunState, event: ev.RunEnded) -> None:
    state.end = event.status
    state.taken_up = False
    state.ended_at = state.at
    state.error = event.error
    state.outputs = _stored(event.outputs, event.blob)
    state.answer = event.answer
    stop_all(state)


# --- steps


def _step_started(state: RunState, event: ev.StepStarted) -> None:
    step = _move(state, event)
    step.starts += 1
    step.attempt = event.attempt
    step.attempt_at = state.at
    if not step.started_at:
        step.started_at = state.at
    scope = step.node.scope
    if event.cause == ev.AGAIN:
        go_on_inside(state, step)
    elif scope is not None:
        step.generation = event.generation
        open_inner(state, step, scope)
    else:
        state.running += 1
        state.calls += 1


def _step_succeeded(state: RunState, event: ev.StepSucceeded) -> None:
    step = _move(state, event)
    raw = event.result
    step.result = event.blob if raw is ev.NONE else bytes(raw)
    step.ended_at = state.at
    step.ended_seq = state.seq
    state.done += 1
    if step.node.expected_ms and step.items is None:
        repairs.step_took(state, step)
    if state.decides:
        decisions.succeeded(state, step)
    settle(state, step, _DONE)


def _result_reused(state: RunState, event: ev.ResultReused) -> None:
    _move(state, event)
    state.running += 1  # until its success, which follows at once
    state.borrowed[event.path] = None
    take_kept(state, event.source)


def _round_ended(state: RunState, event: ev.RoundEnded) -> None:
    step = _move(state, event)
    value: Stored = event.blob or bytes(event.result)
    loop = step.node.step.loop
    keep_all = loop is not None and (loop.collect == "all" or step.node.undo is not None)
    if step.rounds is None or not keep_all:
        step.rounds = [value]
    else:
        step.rounds.append(value)
    if step.attempt:  # else no call was made for it
        _span(step, state.at, "done")
    step.iteration = event.iteration + 1
    step.attempt = 0
    step.approved, step.given = "", None
    _sleep_until(state, step, event.next_at)


def _step_failed(state: RunState, event: ev.StepFailed) -> None:
    step = _move(state, event)
    step.error = event.error
    step.ended_at = state.at
    step.ended_seq = state.seq
    step.held = event.held
    repairs.step_failed(state, step, event)
    if event.result is not ev.NONE or event.blob is not None:
        state.unfit[step.path] = event.blob or bytes(event.result)
    if not event.held:
        settle(state, step, Outcome.FAILED if step.required else Outcome.ABSENT)


def _failure_settled(state: RunState, event: ev.FailureSettled) -> None:
    settle_failure(state, state.steps[event.path], waived=event.waived)


def _retry_scheduled(state: RunState, event: ev.RetryScheduled) -> None:
    step = _move(state, event)
    state.retries += 1
    step.error = event.error
    step.attempt = event.attempt
    _span(step, state.at, event.error.category)
    _sleep_until(state, step, event.at)


def _span(step: StepState, end: int, outcome: str) -> None:
    if step.spans is None:
        step.spans = []
    step.spans.append(Span(step.attempt_at, end, step.attempt, step.iteration, outcome))


def _step_waiting(state: RunState, event: ev.StepWaiting) -> None:
    step = _move(state, event)
    step.attempt = step.attempt or 1
    step.attempt_at = state.at
    if not step.started_at:
        step.started_at = state.at
    _sleep_until(state, step, event.until)
    if event.reason == "signal":
        _listen(state, step, event.signal)
    elif event.reason == "approval":
        step.awaits = "approval"
    elif event.reason == "input":
        step.awaits = "input"


def _sleep_until(state: RunState, step: StepState, at: int) -> None:
    step.awaits = ""
    step.wake_at = at
    if at:
        state.order += 1
        heappush(state.timers, (at, state.order, step))


def _listen(state: RunState, step: StepState, name: str) -> None:
    step.awaits = "signal"
    step.signal = name
    state.listening += 1
    state.listeners.setdefault(name, deque()).append(step)
    if state.signals.get(name):
        state.heard.append(name)


def _signal_received(state: RunState, event: ev.SignalReceived) -> None:
    value = _stored(event.data, event.blob)
    state.signals.setdefault(event.name, deque()).append(b"null" if value is None else value)
    if state.listeners.get(event.name):
        state.heard.append(event.name)


def _signal_taken(state: RunState, event: ev.SignalTaken) -> None:
    kept = state.signals[event.name]
    kept.popleft()
    if not kept:
        del state.signals[event.name]


def _step_skipped(state: RunState, event: ev.StepSkipped) -> None:
    step = _move(state, event)
    if step.awaits == "approval":
        void(state, step.path)
    step.reason = event.reason
    step.because = event.because
    step.ended_at = state.at
    step.ended_seq = state.seq
    broken = event.reason == "dependency" and step.required
    settle(state, step, Outcome.FAILED if broken else Outcome.ABSENT)


def _step_cancelled(state: RunState, event: ev.StepCancelled) -> None:
    step = _move(state, event)
    step.ended_at = state.at
    step.ended_seq = state.seq
    if step.unwanted:
        settle(state, step, Outcome.ABSENT)
    else:
        count_settled(state, step, Outcome.CANCELLED)  # its dependents do not start: the run is ending


def _step_in_doubt(state: RunState, event: ev.StepInDoubt) -> None:
    step = _move(state, event)
    step.error = event.error
    if state.doubted is not None:
        state.doubted.add(step.call)


def _step_interrupted(state: RunState, event: ev.StepInterrupted) -> None:
    step = _move(state, event)
    _span(step, state.at, "interrupted")
    unblock(state, step, again=True)


def _step_expanded(state: RunState, event: ev.StepExpanded) -> None:
    step = _move(state, event)
    step.started_at = step.started_at or state.at
    step.attempt_at = state.at
    step.generation = event.generation
    step.items_value = _stored(event.items, event.blob)
    step.items_split = None
    step.items = []
    step.open = event.count
    state.total += event.count
    for index in range(event.count):
        item = StepState(step.node, f"{step.path}[{index}]", step.scope, 0)
        item.owner = step
        item.index = index
        item.generation = event.generation
        item.missed = step.missed
        item.troubled = step.troubled
        if state.retired:
            item.starts = state.retired.pop(item.path, 0)
        step.items.append(item)
        state.steps[item.path] = item
        unblock(state, item)
    if not event.count:
        state.closing.append(step)


def _discovered(state: RunState, event: ev.Discovered) -> None:
    state.discoveries.append((event.path, event.what, event.need))
    repairs.discovered(state, event)


def _feedback_given(state: RunState, event: ev.FeedbackGiven) -> None:
    told = state.told.get(event.path)
    if told is None:
        told = state.told[event.path] = Told()
    if event.quality is not None:
        told.quality = event.quality
    usage = Usage(tokens=event.tokens, cost=event.cost, cpu_s=event.cpu_s, memory_mb=event.memory_mb)
    told.usage.add(usage)
    state.usage.add(usage)


# --- questions and limits


def _question_asked(state: RunState, event: ev.QuestionAsked) -> None:
    opened(state, event)
    if event.reason == "salvaged":
        state.doubted = set()
    elif event.reason == "decision":
        decisions.question_asked(state, event)


def _question_answered(state: RunState, event: ev.QuestionAnswered) -> None:
    asked = closed(state, event.question, event.answer, event.by)
    match asked.reason:
        case "approval" if event.answer == "approve":
            _approve(state, asked, event)
        case "input":
            if event.answer == "give":
                input_given(state, asked.input, bytes(event.result))
        case "limit" if event.answer == "raise" and event.limit is not None:
            state.extend(asked.limit, event.limit)
        case "limit":
            state.stopped_by = asked.limit
        case "tool_changed" | "salvaged" if event.answer == "stop":
            state.stopped_by = asked.reason
        case "salvaged":
            if event.answer == "go on":
                state.doubted = None
        case "decision":
            decisions.question_answered(state, event)
        case "tool_changed":
            state.accepted_tools.update(asked.tools)
        case "in_doubt" if event.answer != "retry" and asked.path in state.steps:
            doubt_settled(state, state.steps[asked.path], done=event.answer == "done")
        case _:
            pass  # what follows for the step is an event of its own


def _approve(state: RunState, asked: ev.QuestionAsked, event: ev.QuestionAnswered) -> None:
    step = state.call_at(asked.path)
    step.approved = asked.binding
    step.given = _stored(event.result, event.blob)
    step.awaits = ""
    step.wake_at = 0
    unblock(state, step, again=True)


def _limit_reached(state: RunState, event: ev.LimitReached) -> None:
    """Kept for those who read the log; the question that follows is what blocks."""


HANDLERS: dict[type[ev.Event], Callable[[RunState, Any], None]] = {
    ev.RunStarted: _run_started,
    ev.PlanAdopted: _plan_adopted,
    ev.PlanApproved: plan_approved,
    ev.CommandTaken: _command_taken,
    ev.CommandRefused: _command_refused,
    ev.SignalReceived: _signal_received,
    ev.SignalTaken: _signal_taken,
    ev.Reopened: _reopened,
    ev.RunResumed: _run_resumed,
    ev.Forked: forked,
    ev.ResultKept: result_kept,
    ev.ResultReused: _result_reused,
    ev.RunPaused: _run_paused,
    ev.RunUnpaused: _run_unpaused,
    ev.RunCancelling: _run_cancelling,
    ev.CompensationStarted: _compensation_started,
    ev.CompensationEnded: _compensation_ended,
    ev.RunEnded: _run_ended,
    ev.StepStarted: _step_started,
    ev.StepSucceeded: _step_succeeded,
    ev.RoundEnded: _round_ended,
    ev.StepFailed: _step_failed,
    ev.FailureSettled: _failure_settled,
    ev.RetryScheduled: _retry_scheduled,
    ev.StepWaiting: _step_waiting,
    ev.StepSkipped: _step_skipped,
    ev.StepCancelled: _step_cancelled,
    ev.StepInterrupted: _step_interrupted,
    ev.StepInDoubt: _step_in_doubt,
    ev.StepExpanded: _step_expanded,
    ev.Discovered: _discovered,
    ev.TroubleFound: repairs.trouble_found,
    ev.RepairAsked: repairs.repair_asked,
    ev.RepairRefused: repairs.repair_refused,
    ev.DecisionAsked: decisions.asked,
    ev.DecisionTaken: decisions.taken,
    ev.DecisionMissed: decisions.missed,
    ev.Said: decisions.said,
    ev.Noted: decisions.noted,
    ev.Marked: decisions.marked,
    ev.FeedbackGiven: _feedback_given,
    ev.QuestionAsked: _question_asked,
    ev.QuestionAnswered: _question_answered,
    ev.LimitReached: _limit_reached,
}
