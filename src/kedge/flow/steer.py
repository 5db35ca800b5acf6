"""What a command means: what it does, or why it cannot be done.

Each rule looks first and acts later: it gives back what is to be done, or raises, and has changed
nothing by then. So a command is taken whole or refused whole.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kedge.base.codec import encode
from kedge.base.errors import BadInput, KedgeError, NotFound, Refused
from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow.answers import answer, refuse_late
from kedge.flow.authority import refuse_agent, widening
from kedge.flow.changes import Act, changed, rolled_back
from kedge.flow.conversation import MARK, MESSAGE, NAMES, NOTES_BYTES
from kedge.flow.plan_question import own_change
from kedge.flow.state import RunState, StepState
from kedge.flow.trouble import DEMANDED, Trouble, of_need
from kedge.flow.turn import Turn
from kedge.flow.undoing import compensate, refuse_meanwhile, refuse_redoing, rolled_back_undone
from kedge.flow.words import Outcome, StepStatus
from kedge.plan.findings import invalid
from kedge.plan.nearest import nearest
from kedge.plan.patch import Addition, Patch, between

_SKIPPABLE = frozenset({StepStatus.PENDING, StepStatus.READY, StepStatus.WAITING})


def steer(turn: Turn, command: cmd.Command) -> None:
    """Fold what the command means into the turn; KedgeError says why it cannot be done."""
    state = turn.state
    if command.key and (said := state.commands.get(command.key)) is not None:
        if said:
            raise Refused(said, code="already_refused", where=f"command {command.key}")
        return
    undoes = isinstance(command, cmd.Compensate) and state.taken_up
    if state.end is not None and not undoes:  # its log is closed, and its driver lets go of it
        raise run_ended(state.run_id, state.end)
    word = str(type(command).__struct_config__.tag)
    try:
        if isinstance(command, cmd.Answer):
            refuse_late(state, command, turn.asked_at)
        refuse_meanwhile(state, command)
        if command.role != "person":
            refuse_agent(state, command)
        act = _RULES[type(command)](state, command)
    except KedgeError as refusal:
        if command.key and state.end is None:
            turn.emit(
                ev.CommandRefused(
                    key=command.key, command=word, code=refusal.code, message=str(refusal),
                    by=command.by, role=command.role,
                )
            )  # fmt: skip
        raise
    if command.key:
        turn.emit(ev.CommandTaken(key=command.key, command=word, by=command.by, role=command.role))
    if command.role == "person":
        own_change(turn, act, command.by)
    else:
        act(turn)


def run_ended(run_id: str, status: str) -> Refused:
    """Whatever is asked of a run after its end."""
    return Refused(
        f"the run has ended ({status})", code="run_ended", where=f"run {run_id}",
        remedy="fork it, or start another run",
    )  # fmt: skip


def _emits(*events: ev.Event) -> Act:
    def act(turn: Turn) -> None:
        for event in events:
            turn.emit(event)

    return act


def _both(one: Act, other: Act) -> Act:
    def act(turn: Turn) -> None:
        one(turn)
        other(turn)

    return act


def _nothing(turn: Turn) -> None:
    return None


def _step(state: RunState, path: str) -> StepState:
    step = state.steps.get(path)
    if step is not None:
        return step
    known = list(state.steps)
    near = nearest(path, known[:10_000])
    raise NotFound(
        f"run {state.run_id} has no step {path[:80]!r}",
        code="unknown_step",
        allowed=known[:10],
        remedy=f"did you mean {near!r}?" if near else "name a step of the run",
    )


# --- the run


def _pause(state: RunState, given: cmd.Pause) -> Act:
    if state.paused or state.cancelling:
        raise Refused(f"the run is {state.status}", code="cannot_pause", allowed=["unpause", "cancel"])
    return _emits(ev.RunPaused(by=given.by))


def _unpause(state: RunState, given: cmd.Unpause) -> Act:
    if not state.paused:
        raise Refused(f"the run is {state.status}, not paused", code="not_paused", allowed=["pause"])
    return _emits(ev.RunUnpaused(by=given.by))


def _cancel(state: RunState, given: cmd.Cancel) -> Act:
    if state.cancelling and (state.undo_after or not given.compensate):
        return _nothing
    if state.compensating and given.compensate:
        return _nothing
    return _emits(ev.RunCancelling(by=given.by, reason=given.reason, compensate=given.compensate))


SIGNALS_MAX = 10_000
"""Signals that a run keeps for steps that may still come to wait for them."""


def _signal(state: RunState, given: cmd.Signal) -> Act:
    raw = encode(given.data)
    if sum(map(len, state.signals.values())) >= SIGNALS_MAX:
        raise Refused(
            f"{SIGNALS_MAX:,} signals are kept already that no step has taken",
            code="too_many_signals", where=f"run {state.run_id}",
            remedy="look whether any step waits for them",
        )  # fmt: skip

    def act(turn: Turn) -> None:
        value, blob = turn.store(raw)
        turn.emit(ev.SignalReceived(name=given.name, data=value, blob=blob))

    return act


# --- steps


def _skip(state: RunState, given: cmd.Skip) -> Act:
    step = _step(state, given.step)
    if step.held:
        return _emits(ev.FailureSettled(path=step.path, waived=True))
    if step.status not in _SKIPPABLE or step.inner is not None or step.items is not None:
        raise Refused(
            f"it is {step.status}: only a step that has not begun can be skipped",
            code="cannot_skip",
            where=f"step {step.path}",
            remedy=_instead(step),
        )
    because = (given.reason,) if given.reason else ()
    return _emits(ev.StepSkipped(path=step.path, reason="command", because=because))


def _instead(step: StepState) -> str:
    if step.status is StepStatus.RUNNING:
        return "cancel it with an edit that names it in `cancel`"
    if step.status is StepStatus.IN_DOUBT:
        return "answer the question about it"
    return "it has ended"


def _retry(state: RunState, given: cmd.Retry) -> Act:
    step = _step(state, given.step)
    where = f"step {step.path}"
    if step.status is not StepStatus.FAILED:
        raise Refused(f"it is {step.status}, not failed", code="cannot_retry", where=where)
    if not step.held and (step.outcome is None or step.outcome is Outcome.DONE):
        raise Refused("its fallback stands in for it", code="cannot_retry", where=where)
    if not step.held and step.node.fallback_for >= 0:
        target = step.scope.steps[step.node.fallback_for].path
        raise Refused(
            f"it stood in for {target}, which has settled",
            code="cannot_retry", where=where, remedy=f"retry {target}",
        )  # fmt: skip
    around = step.owner or step.scope.owner
    if around is not None:
        _refuse_part(step, around)
    refuse_redoing(state, step.path)
    return _emits(ev.Reopened(path=step.path, by=given.by))


def _refuse_part(step: StepState, around: StepState) -> None:
    """Refused if what the step is part of is not under way: whatever began in it, nobody would wait for."""
    where = f"step {step.path}"
    if around.outcome is not None or around.held:
        raise Refused(
            f"{around.path}, which it is part of, {'has failed' if around.held else 'has ended'}",
            code="cannot_retry", where=where, remedy=f"retry {around.path}",
        )  # fmt: skip
    if around.status is StepStatus.FAILED:
        text = f"a fallback stands in for {around.path}, which it is part of"
        raise Refused(text, code="cannot_retry", where=where, remedy="wait for what becomes of that")
    if around.status is not StepStatus.RUNNING or (step.owner is None and step.scope is not around.inner):
        text = f"the round or attempt of {around.path} that it is part of is over"
        raise Refused(text, code="cannot_retry", where=where, remedy="wait for the next one")


def _repair(state: RunState, given: cmd.Repair) -> Act:
    if not state.settings.repair:
        raise Refused(
            "its plan is not repaired", code="no_repair", where=f"run {state.run_id}",
            remedy="start it in an engine with a planner, or change the plan with an edit",
        )  # fmt: skip
    path = _step(state, given.step).path if given.step else ""
    trouble = Trouble(kind="demand", severity=DEMANDED, path=path, what=given.need, need=given.need)
    return _emits(ev.TroubleFound(trouble=trouble, by=given.by))


# --- words


def _say(state: RunState, given: cmd.Say) -> Act:
    if len(given.text) > MESSAGE:
        raise BadInput(
            f"a message may have {MESSAGE:,} characters, this one has {len(given.text):,}",
            code="message_too_long", remedy="write a file, and say where it is",
        )  # fmt: skip
    return _emits(ev.Said(text=given.text, by=given.by, role=given.role))


def _note(state: RunState, given: cmd.Note) -> Act:
    raw = encode(given.values)
    kept = state.notes.kept | given.values
    if len(kept) > NAMES or len(encode(kept)) > NOTES_BYTES:
        raise BadInput(
            f"notes have room for {NAMES:,} names and {NOTES_BYTES:,} bytes",
            code="too_many_notes", remedy="take some out with null, or write a file",
        )  # fmt: skip
    return _emits(ev.Noted(values=ev.Raw(raw), by=given.by))


def _mark(state: RunState, given: cmd.Mark) -> Act:
    if not 0 < len(given.name) <= MARK or len(state.positions.kept) >= NAMES:
        raise BadInput(
            f"a position is named with 1 to {MARK} characters, and a run has {NAMES:,} at most",
            code="position_name", remedy="choose another name",
        )  # fmt: skip
    return _emits(ev.Marked(name=given.name, by=given.by))


# --- the plan


def _insist_on_person(state: RunState, given: cmd.Order, patch: Patch) -> None:
    if given.role != "person" and (faults := list(widening(state, patch))):
        raise invalid(faults)


def _inject(state: RunState, given: cmd.Inject) -> Act:
    patch = Patch(why=given.why, add=(Addition(step=given.step, into=given.into),))
    _insist_on_person(state, given, patch)
    return changed(state, patch, "inject", given.by)


def _remove(state: RunState, given: cmd.Remove) -> Act:
    return changed(state, Patch(why=given.why, remove=(given.step,)), "remove", given.by)


def _edit(state: RunState, given: cmd.Edit) -> Act:
    _insist_on_person(state, given, given.patch)
    return changed(state, given.patch, "edit", given.by)


def _rewire(state: RunState, given: cmd.Rewire) -> Act:
    return changed(state, Patch(why=given.why, rewire={given.step: given.reads}), "rewire", given.by)


def _set_goal(state: RunState, given: cmd.SetGoal) -> Act:
    return changed(state, Patch(why=given.why, plan={"goal": given.goal}), "set_goal", given.by)


def _set_context(state: RunState, given: cmd.SetContext) -> Act:
    merged = {**state.plan.context, **given.values}
    context = {name: value for name, value in merged.items() if value is not None}
    act = changed(state, Patch(why=given.why, plan={"context": context}), "set_context", given.by)
    if not given.need:
        return act
    trouble = of_need("context", "", f"the context has other values: {', '.join(given.values)}", given.need)
    return _both(act, _emits(ev.TroubleFound(trouble=trouble, by=given.by)))


def _prioritise(state: RunState, given: cmd.Prioritise) -> Act:
    change: dict[str, dict[str, Any]] = {given.step: {"priority": given.priority}}
    return changed(state, Patch(change=change), "prioritise", given.by)


def _rollback(state: RunState, given: cmd.Rollback) -> Act:
    wanted = next((one.plan for one in state.versions if one.number == given.version), state.plan)
    _insist_on_person(state, given, between(state.plan, wanted))
    if given.compensate:
        return rolled_back_undone(state, given)
    return rolled_back(state, given.version, given.why, given.by)


_RULES: dict[type[cmd.Order], Callable[[RunState, Any], Act]] = {
    cmd.Pause: _pause,
    cmd.Unpause: _unpause,
    cmd.Cancel: _cancel,
    cmd.Compensate: compensate,
    cmd.Answer: answer,
    cmd.Inject: _inject,
    cmd.Remove: _remove,
    cmd.Edit: _edit,
    cmd.Rewire: _rewire,
    cmd.Skip: _skip,
    cmd.Retry: _retry,
    cmd.Repair: _repair,
    cmd.Say: _say,
    cmd.Note: _note,
    cmd.Mark: _mark,
    cmd.SetGoal: _set_goal,
    cmd.SetContext: _set_context,
    cmd.Prioritise: _prioritise,
    cmd.Rollback: _rollback,
    cmd.Signal: _signal,
}
