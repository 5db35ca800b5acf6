"""What a name means at a step: the one place where expressions meet the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kedge.base.codec import decode, encode
from kedge.base.errors import InternalError
from kedge.flow.compensation import has_result
from kedge.flow.render import Hole
from kedge.flow.state import RunState, ScopeState, StepState, Stored, Undo
from kedge.flow.words import Outcome
from kedge.plan.expr import Absent, Expression, Template

_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def bytes_of(state: RunState, stored: Stored) -> bytes:
    """The canonical bytes of a value."""
    if isinstance(stored, bytes):
        return stored
    return state.at_hand.get(stored.sha) or state.fetch(stored.sha)


def result_bytes(state: RunState, step: StepState) -> bytes:
    """A settled step's result as bytes; `null` where there is none."""
    while step.stand_in is not None:
        step = step.stand_in
    if step.result is not None:
        return bytes_of(state, step.result)
    if step.items is not None:
        return b"[" + b",".join(result_bytes(state, item) for item in step.items) + b"]"
    if step.inner is not None and (step.outcome is not Outcome.ABSENT or has_result(step)):
        return scope_bytes(state, step.inner)
    return b"null"


def scope_bytes(state: RunState, scope: ScopeState) -> bytes:
    """The results of a scope's steps as one map."""
    pairs = sorted(
        (step.node.id, result_bytes(state, step)) for step in scope.steps if step.node.fallback_for < 0
    )
    return b"{" + b",".join(b'"' + id_.encode() + b'":' + raw for id_, raw in pairs) + b"}"


def _has(step: StepState, name: str, dep: StepState) -> bool:
    """`dep`, which `step` calls `name`, has a result for it."""
    return dep.outcome is Outcome.DONE and (step.missed is None or name not in step.missed)


def resolver(
    state: RunState, step: StepState, result: bytes | None = None, previous: bytes | None = None
) -> Callable[[str], Any]:
    """How names resolve in the expressions of `step`. `result` is its own, where it may be used."""
    node = step.node

    def resolve(name: str) -> Any:
        if name in node.places:
            return _dependency(state, step, name)
        match name:
            case "inputs":
                return decode(state.inputs)
            case "context":
                return state.plan.context
            case "goal":
                return state.plan.goal
            case "results":
                return _results(state, step)
            case "result" | node.id if result is not None:
                return decode(result)
            case "item" | "index":
                return _item(state, step, name)
            case "loop":
                return _loop(state, step, previous)
            case _:
                raise Absent(name, "it means nothing here")

    return resolve


def _dependency(state: RunState, step: StepState, name: str) -> Any:
    dep = step.needed(name)
    if not _has(step, name, dep):
        raise Absent(name, _why_absent(dep))
    return decode(result_bytes(state, dep))


def _why_absent(dep: StepState) -> str:
    if dep.outcome is None or dep.outcome is Outcome.DONE:
        return f"step {dep.path} was not finished when this one went ahead"
    return f"step {dep.path} was {dep.status}" + (f" ({dep.reason})" if dep.reason else "")


def _results(state: RunState, step: StepState) -> Any:
    """The dependency's result where there is one; a map by id where there are several."""
    deps = {name: step.needed(name) for name in step.node.places}
    if len(deps) == 1:
        return _dependency(state, step, next(iter(deps)))
    return {name: decode(result_bytes(state, dep)) for name, dep in deps.items() if _has(step, name, dep)}


def _item(state: RunState, step: StepState, name: str) -> Any:
    instance = _instance(step)
    return instance.index if name == "index" else decode(item_bytes(state, instance))


def _instance(step: StepState) -> StepState:
    """The instance of a foreach that `step` is, or is inside of."""
    found: StepState | None = step
    while found is not None:
        if found.owner is not None:
            return found
        found = found.scope.owner
    raise Absent("item", "there is no foreach around this step")


def item_bytes(state: RunState, step: StepState) -> bytes:
    """The item that this instance of a foreach was made for."""
    owner = step.owner
    if owner is None or owner.items_value is None:
        raise InternalError(f"step {step.path} is no instance of a foreach")
    if owner.items_split is None:
        owner.items_split = _split_list(bytes_of(state, owner.items_value))
    return bytes(owner.items_split[step.index])


def _loop(state: RunState, step: StepState, previous: bytes | None) -> Any:
    found: StepState | None = step
    while found is not None and found.node.step.loop is None:
        found = found.scope.owner
    if found is None:
        raise Absent("loop", "there is no loop around this step")
    if previous is None and found.rounds:
        previous = bytes_of(state, found.rounds[-1])
    return {"index": found.iteration, "previous": decode(previous) if previous is not None else None}


def fill_hole(state: RunState, step: StepState, hole: Hole) -> bytes:
    """The bytes that an argument's hole gets."""
    if isinstance(hole, str):
        if hole in step.node.places:
            dep = step.needed(hole)
            if _has(step, hole, dep):
                return result_bytes(state, dep)
        elif hole == "item":
            return item_bytes(state, _instance(step))
    resolve = resolver(state, step)
    if step.node.join != "all":
        return _with_nulls(hole, resolve)
    return encode(resolve(hole) if isinstance(hole, str) else hole.render(resolve))


def _with_nulls(hole: Hole, resolve: Callable[[str], Any]) -> bytes:
    """The hole's bytes where a reference to what is absent is null. In an expression it stays an error."""

    def absent(name: str) -> bool:
        try:
            resolve(name)
        except Absent:
            return True
        return False

    if isinstance(hole, str):
        return b"null" if absent(hole) else encode(resolve(hole))
    parts = tuple(
        "null"
        if isinstance(part, Expression) and part.simple is not None and absent(part.simple.root)
        else part
        for part in hole.parts
    )
    if hole.whole is not None and parts[0] == "null":
        return b"null"
    return encode(Template(parts, hole.whole).render(resolve))


def render_args(state: RunState, step: StepState) -> bytes:
    """The step's arguments as canonical bytes."""
    args = step.node.args
    if args.constant is not None:
        return args.constant
    if step.node.holes is not None and not step.troubled:
        # The hot path: every hole is the result of a step of this scope, done and inline. A step has
        # such a result only once it is done; what is taken back has one too, and troubles whoever reads it.
        steps = step.scope.steps
        out: list[bytes] = []
        for index, piece in zip(step.node.holes, args.pieces, strict=False):
            raw = steps[index].result
            if type(raw) is not bytes:
                break
            out += (piece, raw)
        else:
            out.append(args.pieces[-1])
            return b"".join(out)
    if isinstance(step, Undo):
        return render_undo(state, step)
    return args.fill(lambda hole: fill_hole(state, step, hole))


# --- what undoes a step


def render_undo(state: RunState, undo: Undo) -> bytes:
    """The arguments of a call that undoes a step: what the step saw is seen again, and its result."""
    step, resolve = undo.target, undo_resolver(state, undo)

    def fill(hole: Hole) -> bytes:
        if step.node.join != "all":
            return _with_nulls(hole, resolve)
        return encode(resolve(hole) if isinstance(hole, str) else hole.render(resolve))

    return undo.node.args.fill(fill)


def undo_resolver(state: RunState, undo: Undo) -> Callable[[str], Any]:
    """How names resolve in `compensate`. What is taken back is still known there."""
    step = undo.target
    plain = resolver(state, step, result=_gave(state, undo))

    def resolve(name: str) -> Any:
        if name in step.node.places:
            dep = step.needed(name)
            if has_result(dep) and (step.missed is None or name not in step.missed):
                return decode(result_bytes(state, dep))
        elif name == "results":
            names = [one for one in step.node.places if has_result(step.needed(one))]
            found = {one: resolve(one) for one in names}
            return found[names[0]] if len(names) == len(step.node.places) == 1 else found
        elif name == "loop" and undo.round >= 0:
            before = _round(state, step, undo.round - 1) if undo.round else b"null"
            return {"index": undo.round, "previous": decode(before)}
        return plain(name)

    return resolve


def _gave(state: RunState, undo: Undo) -> bytes:
    """What the call gave that is to be undone."""
    step = undo.target
    return _round(state, step, undo.round) if undo.round >= 0 else _last(state, step)


def _round(state: RunState, step: StepState, number: int) -> bytes:
    rounds = step.rounds or []
    if number < len(rounds):
        return bytes_of(state, rounds[number])
    loop = step.node.step.loop
    raw = _last(state, step)
    return encode(decode(raw)[-1]) if loop and loop.collect == "all" and step.result is not None else raw


def _last(state: RunState, step: StepState) -> bytes:
    stored = step.result if step.result is not None else state.unfit.get(step.path)
    return bytes_of(state, stored) if stored is not None else b"null"
