"""What should be happening and is not: the scheduler, as a pure function of the state.

Runs to a fixed point: a condition that skips a step may free another, a composite that is empty may
end its parent. So the finish of a step and the starts of its successors are one append.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Protocol, cast

from kedge.base.codec import decode, digest, encode
from kedge.base.errors import BadInput
from kedge.flow import events as ev
from kedge.flow.approvals import ask, binding, expire, must_ask
from kedge.flow.closing import close
from kedge.flow.conclude import conclude
from kedge.flow.consulting import consult
from kedge.flow.decide import doubt_first
from kedge.flow.failing import fail
from kedge.flow.input_question import awaits_input
from kedge.flow.limiting import ask_limit
from kedge.flow.mending import mend
from kedge.flow.names import bytes_of, fill_hole, render_args, resolver
from kedge.flow.plan_question import ask_for_plan
from kedge.flow.program import Node
from kedge.flow.render import Args
from kedge.flow.reuse import reuse
from kedge.flow.scopes import next_generation
from kedge.flow.state import RunState, StepState, Undo
from kedge.flow.turn import Turn
from kedge.flow.undoing import end_run, finish, is_over
from kedge.flow.words import INLINE_BYTES, Failure, Outcome, RunStatus, StepStatus
from kedge.plan.expr import Template, evaluate_condition
from kedge.plan.model import YEAR_S


class Gate(Protocol):
    """Limits that calls share with calls of other steps and runs."""

    def take(self, node: Node) -> str:
        """Take a place for one call; "" if there is one, else the name of what is used up."""
        ...

    def give(self, node: Node) -> None:
        """The place is not needed after all."""
        ...

    def room(self, name: str) -> int:
        """Places left of what `take` named."""
        ...


SIGNAL_NAME_MAX = 200

_READY = StepStatus.READY


def due(turn: Turn, gate: Gate) -> None:
    """Fold into the turn all that should be happening now."""
    state = turn.state
    if state.end is not None:
        return
    if state.cancelling or state.stopped_by:
        if not state.running:
            _stop(turn)
        if not state.compensating:
            return
    _advance(turn, gate)
    while state.undoing is not None and is_over(state.undoing) and state.end is None:
        finish(turn, state.undoing)
        _advance(turn, gate)


def _advance(turn: Turn, gate: Gate) -> None:
    """To the fixed point."""
    state = turn.state
    if state.end is not None:
        return
    if state.paused or state.blocked_by:
        if state.unapproved and not state.ending:
            ask_for_plan(turn)
        return
    if state.timers:
        _wake(turn)
    if state.parked:
        _unpark(state, gate)
    while True:
        if state.fresh:
            _look_at(turn, state.fresh.popleft())
        elif state.heard:
            _hear(turn, state.heard.pop())
        elif state.closing and not (state.closing[-1] is None and (state.mends or state.deciding)):
            close(turn, state.closing.pop())
            if state.end is not None:
                return
        elif (
            not _start_next(turn, gate)
            and (state.blocked_by or not ((state.timers or state.parked) and _has_more(turn, gate)))
            and not (state.mends and _advise(turn))
        ):
            return


def _advise(turn: Turn) -> bool:
    """Ask the planner or the agent. True: something came of that at once."""
    if mend(turn):
        return True
    consult(turn)
    return False


def _has_more(turn: Turn, gate: Gate) -> bool:
    """What this turn itself made possible: a round without a delay, a place that was not needed."""
    state = turn.state
    return (bool(state.timers) and _wake(turn)) or (bool(state.parked) and _unpark(state, gate))


def next_wake(state: RunState) -> int | None:
    """When the first timer goes off, in ms; None if no timer is set."""
    timers = state.timers
    while timers:
        at, _, step = timers[0]
        if step.status is StepStatus.WAITING and step.wake_at == at:
            return at
        heappop(timers)
    return None


def _stop(turn: Turn) -> None:
    """A person chose to cancel, or to stop at a limit, and nothing runs any more."""
    state = turn.state
    if state.cancelling:
        end_run(turn, RunStatus.CANCELLED)
    else:
        message = f"stopped at {state.stopped_by}"
        error = Failure(category="limit", code="stopped", message=message, classified=True)
        end_run(turn, RunStatus.FAILED, error)


def _wake(turn: Turn) -> bool:
    """Go on with what waited for this time; False if nothing did."""
    state = turn.state
    woken = False
    while (at := next_wake(state)) is not None and at <= turn.now:
        woken = True
        step = heappop(state.timers)[2]
        step.wake_at = 0
        try:
            _go_on(turn, step)
        except BadInput as error:
            _fail(turn, step, error)
    return woken


def _go_on(turn: Turn, step: StepState) -> None:
    state, node = turn.state, step.node
    if step.awaits == "approval":
        expire(turn, step)
    elif node.is_sleep:
        _wake_sleep(turn, step)
    elif node.signal is not None:
        _wake_wait(turn, step, node.signal)
    elif node.scope is not None:
        _start_composite(turn, step)
    else:
        state.order += 1
        heappush(state.ready, (node.rank, state.order, step))


def _hear(turn: Turn, name: str) -> None:
    """Who has waited longest for a signal takes the oldest one of that name."""
    state = turn.state
    listeners = state.listeners.get(name)
    while listeners and state.signals.get(name):
        step = listeners.popleft()
        if step.status is StepStatus.WAITING and step.awaits == "signal" and step.signal == name:
            raw = bytes_of(state, state.signals[name][0])
            turn.emit(ev.SignalTaken(path=step.path, name=name))
            conclude(turn, step, raw)
    if not listeners:
        state.listeners.pop(name, None)


def _wake_wait(turn: Turn, step: StepState, signal: Template) -> None:
    if not step.attempt:  # the pause before its next round
        _start_wait(turn, step, signal)
        return
    failure = Failure(
        category="timeout",
        code="signal_expired",
        message=f"no signal {step.signal!r} came in time",
        classified=True,
    )
    fail(turn, step, failure)


def _start_wait(turn: Turn, step: StepState, signal: Template) -> None:
    wait = step.node.step.wait
    name = signal.render(resolver(turn.state, step))
    if not isinstance(name, str) or not 0 < len(name) <= SIGNAL_NAME_MAX:
        raise BadInput(
            f"a signal is named with 1 to {SIGNAL_NAME_MAX} characters, this is {repr(name)[:80]}",
            code="signal_name", where=f"step {step.path}", remedy="name it in text",
        )  # fmt: skip
    until = turn.now + int(wait.expires_s * 1000) if wait is not None and wait.expires_s is not None else 0
    turn.emit(ev.StepWaiting(path=step.path, until=until, reason="signal", signal=name))


def _wake_sleep(turn: Turn, step: StepState) -> None:
    if step.attempt:  # it slept; without an attempt it was the pause before its next round
        conclude(turn, step, b"null")
    else:
        _start_sleep(turn, step)


def _unpark(state: RunState, gate: Gate) -> bool:
    """As many as there are places for now; False if that is none."""
    found = False
    for name in list(state.parked):
        heap = state.parked[name]
        room = gate.room(name)
        while room > 0 and heap:
            entry = heappop(heap)
            if _can_start(entry[2]):  # after a crash there may be two entries for one step
                heappush(state.ready, entry)
                room -= 1
                found = True
        if not heap:
            del state.parked[name]
    return found


def _can_start(step: StepState) -> bool:
    if step.status is _READY:
        return True
    return step.status is StepStatus.WAITING and not step.wake_at and not step.awaits


# --- steps that are to be looked at before they can run


def _look_at(turn: Turn, step: StepState) -> None:
    if step.status is not StepStatus.READY or (step.attempt and step.node.calls):
        return  # a call is looked at before its first attempt only; folding a log leaves its entry here
    state, node = turn.state, step.node
    if state.deciding and state.is_undecided(step):
        state.undecided_fresh.append(step)
        return
    if step.reason == "not_needed":
        turn.emit(ev.StepSkipped(path=step.path, reason="not_needed", because=(_target_id(step),)))
        return
    if state.missing and awaits_input(turn, step):
        return
    try:
        if step.items is not None or (step.inner is not None and not step.wake_at):
            _start_again(turn, step)
            return
        if step.owner is None and step.inner is None and not _enter(turn, step):
            return
        if step.owner is None and node.foreach is not None:
            _expand(turn, step, node.foreach)
        elif node.scope is not None:
            _start_composite(turn, step)
        elif node.is_sleep:
            _start_sleep(turn, step)
        elif node.signal is not None:
            _start_wait(turn, step, node.signal)
        else:
            state.order += 1
            heappush(state.ready, (node.rank, state.order, step))
    except BadInput as error:
        _fail(turn, step, error)


def _target_id(step: StepState) -> str:
    return step.scope.steps[step.node.fallback_for].id


def _enter(turn: Turn, step: StepState) -> bool:
    """Dependencies by `join`, then `when`. False: the step was skipped."""
    if step.troubled and not _joined(turn, step):
        return False
    when = step.node.when
    if when is not None and not evaluate_condition(when, resolver(turn.state, step)):
        turn.emit(ev.StepSkipped(path=step.path, reason="condition", because=(when.text,)))
        return False
    return True


def _joined(turn: Turn, step: StepState) -> bool:
    node = step.node
    deps = [step.needed(name) for name in node.places]
    outcomes = [dep.outcome for dep in deps]
    if node.join == "settled":
        return True
    if node.join == "any":
        go = Outcome.DONE in outcomes
    else:
        broken = Outcome.FAILED in outcomes or Outcome.CANCELLED in outcomes
        go = not broken and (Outcome.DONE in outcomes or not outcomes)
    if go:
        return True
    failed = tuple(d.id for d in deps if d.outcome in (Outcome.FAILED, Outcome.CANCELLED))
    if failed:
        turn.emit(ev.StepSkipped(path=step.path, reason="dependency", because=failed))
    else:
        turn.emit(ev.StepSkipped(path=step.path, reason="absent", because=tuple(d.id for d in deps)))
    return False


def _expand(turn: Turn, step: StepState, foreach: Template | Args) -> None:
    state = turn.state
    if isinstance(foreach, Args):
        value: object = decode(foreach.fill(lambda hole: fill_hole(state, step, hole)))["items"]
    else:
        value = foreach.render(resolver(state, step))
    if not isinstance(value, list):
        raise _foreach_error(step, f"foreach needs a list, this is {type(value).__name__}")
    items = cast("list[object]", value)
    allowed = state.limit("expansions")
    if len(items) > allowed:
        raise _foreach_error(
            step, f"foreach over {len(items):,} items, the limit expansions is {allowed:,.0f}"
        )
    raw, blob = turn.store(encode(items))
    turn.emit(
        ev.StepExpanded(path=step.path, count=len(items), items=raw, blob=blob, generation=step.generation)
    )


def _foreach_error(step: StepState, text: str) -> BadInput:
    remedy = "name a value that is a list and not longer than that"
    return BadInput(text, code="foreach", where=f"step {step.path}", remedy=remedy)


def _start_composite(turn: Turn, step: StepState) -> None:
    if step.node.ask is not None and _allowed(turn, step, b"{}") is None:
        return
    attempt = step.attempt or 1
    turn.emit(
        ev.StepStarted(
            path=step.path, attempt=attempt, iteration=step.iteration, generation=next_generation(step)
        )
    )  # fmt: skip


def _start_again(turn: Turn, step: StepState) -> None:
    turn.emit(
        ev.StepStarted(path=step.path, iteration=step.iteration, generation=step.generation, cause=ev.AGAIN)
    )


def _start_sleep(turn: Turn, step: StepState) -> None:
    seconds = decode(render_args(turn.state, step)).get("seconds")
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 <= seconds <= YEAR_S:
        raise BadInput(
            f"sleep needs seconds, a number from 0 to {YEAR_S:.0f}, not {repr(seconds)[:80]}",
            code="sleep",
            where=step.path,
            remedy="pass a number within a year",
        )
    turn.emit(ev.StepWaiting(path=step.path, until=turn.now + int(seconds * 1000)))


def _too_large(state: RunState, size: int) -> BadInput:
    return BadInput(
        f"the arguments are {size:,} bytes, the limit args_bytes is {state.limit('args_bytes'):,.0f}",
        code="args_bytes",
        remedy="write a file and pass its path",
    )


def _fail(turn: Turn, step: StepState, error: BadInput) -> None:
    if turn.state.missing and awaits_input(turn, step):
        return  # that is what is wrong with it
    category = "limit" if error.code == "args_bytes" else "invalid_input"
    failure = Failure(category=category, code=error.code, message=str(error), classified=True, not_done=True)
    fail(turn, step, failure)


# --- calls


def _start_next(turn: Turn, gate: Gate) -> bool:
    """Start calls until no more can be; False when the frontier is as far as it gets."""
    state = turn.state
    ready = state.ready
    limit = state.parallel
    while ready and state.running < limit:
        entry = heappop(ready)
        step = entry[2]
        if not _can_start(step):
            continue
        if state.deciding and not isinstance(step, Undo) and state.is_undecided(step):
            state.undecided_ready.append(entry)
            continue
        if state.calls >= state.max_calls and not isinstance(step, Undo):  # an effect must not stay for that
            heappush(ready, entry)
            ask_limit(turn, "calls", state.calls)
            return False
        taken = gate.take(step.node)
        if taken:
            heappush(state.parked.setdefault(taken, []), entry)
            continue
        if not _start(turn, step):
            gate.give(step.node)
            return True  # it failed, which may have freed others
    return False


def _emit_started(turn: Turn, step: StepState, raw: bytes) -> None:
    small = len(raw) <= INLINE_BYTES
    turn.emit(
        ev.StepStarted(
            path=step.path,
            attempt=step.attempt or 1,
            iteration=step.iteration,
            generation=step.generation,
            args=ev.Raw(raw) if small else ev.NONE,
            args_hash="" if small else digest(raw),
        )
    )


def _allowed(turn: Turn, step: StepState, raw: bytes) -> bytes | None:
    """The arguments that may be used; None if a person has to say so first, and was asked."""
    state = turn.state
    if not must_ask(state, step.node):
        return raw
    if step.approved != binding(step.node, raw):
        ask(turn, step, raw)
        return None
    return bytes_of(state, step.given) if step.given is not None else raw


def _start(turn: Turn, step: StepState) -> bool:
    try:
        raw = render_args(turn.state, step)
        if step.node.ask is not None or turn.state.asks:
            if turn.state.missing and awaits_input(turn, step):
                return False
            if turn.state.kept and reuse(turn, step, raw):
                return False
            allowed = _allowed(turn, step, raw)
            if allowed is None:
                return False
            raw = allowed
    except BadInput as error:
        _fail(turn, step, error)
        return False
    if len(raw) > turn.state.max_args_bytes:
        _fail(turn, step, _too_large(turn.state, len(raw)))
        return False
    if step.starts == 0 and step.generation == 0 and len(raw) <= INLINE_BYTES:
        turn.emit(ev.StepStarted(path=step.path, args=ev.Raw(raw)))  # nearly all of them
    else:
        _emit_started(turn, step, raw)
    doubted = turn.state.doubted
    if doubted is not None and step.node.effect == "effect" and step.call not in doubted:
        doubt_first(turn, step)
        return False
    turn.launches.append((step, raw, turn.state.seq))
    return True
