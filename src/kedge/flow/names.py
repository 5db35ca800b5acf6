"""What a name means at a step: the one place where expressions meet the state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kedge.base.codec import decode, digest, encode
from kedge.flow.program import Node
from kedge.flow.render import Hole
from kedge.flow.state import RunState, ScopeState, StepState, Stored
from kedge.flow.words import INLINE_BYTES, Blob, Outcome
from kedge.plan.expr import Absent, Template

_split_list = msgspec.json.Decoder(list[msgspec.Raw]).decode


def bytes_of(state: RunState, stored: Stored) -> bytes:
    """The canonical bytes of a value."""
    if isinstance(stored, bytes):
        return stored
    return state.fetch(stored.sha)


def result_bytes(state: RunState, step: StepState) -> bytes:
    """A settled step's result as bytes; `null` where there is none."""
    while step.stand_in is not None:
        step = step.stand_in
    if step.result is not None:
        return bytes_of(state, step.result)
    if step.items is not None:
        return b"[" + b",".join(result_bytes(state, item) for item in step.items) + b"]"
    if step.inner is not None and step.outcome is not Outcome.ABSENT:
        return scope_bytes(state, step.inner)
    return b"null"


def scope_bytes(state: RunState, scope: ScopeState) -> bytes:
    """The results of a scope's steps as one map."""
    pairs = sorted(
        (step.node.id, result_bytes(state, step)) for step in scope.steps if step.node.fallback_for < 0
    )
    return b"{" + b",".join(b'"' + id_.encode() + b'":' + raw for id_, raw in pairs) + b"}"


def find(step: StepState, node: Node, name: str) -> StepState:
    """The step that `name` means, looking outward from `step`."""
    level, index = node.places[name]
    scope = step.scope
    for _ in range(level):
        owner = scope.owner
        if owner is None:
            raise KeyError(name)
        scope = owner.scope
    return scope.steps[index]


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
            case "result" if result is not None:
                return decode(result)
            case "item" | "index":
                return _item(state, step, name)
            case "loop":
                return _loop(state, step, previous)
            case _:
                raise Absent(name, "it means nothing here")

    return resolve


def _dependency(state: RunState, step: StepState, name: str) -> Any:
    dep = find(step, step.node, name)
    if dep.outcome is not Outcome.DONE:
        raise Absent(name, _why_absent(dep))
    return decode(result_bytes(state, dep))


def _why_absent(dep: StepState) -> str:
    if dep.outcome is None:
        return f"step {dep.path} is not finished"
    return f"step {dep.path} was {dep.status}" + (f" ({dep.reason})" if dep.reason else "")


def _results(state: RunState, step: StepState) -> Any:
    """The dependency's result where there is one; a map by id where there are several."""
    deps = [find(step, step.node, name) for name in step.node.places]
    if len(deps) == 1:
        return _dependency(state, step, next(iter(step.node.places)))
    return {dep.id: decode(result_bytes(state, dep)) for dep in deps if dep.outcome is Outcome.DONE}


def _item(state: RunState, step: StepState, name: str) -> Any:
    found: StepState | None = step
    while found is not None:
        if found.owner is not None:
            return found.index if name == "index" else decode(item_bytes(state, found))
        found = found.scope.owner
    raise Absent(name, "there is no foreach around this step")


def item_bytes(state: RunState, step: StepState) -> bytes:
    """The item that this instance of a foreach was made for."""
    owner = step.owner
    if owner is None or owner.items_value is None:
        raise Absent("item", "there is no foreach around this step")
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
    node = step.node
    if isinstance(hole, str):
        if hole in node.places:
            dep = find(step, node, hole)
            if dep.outcome is Outcome.DONE:
                return result_bytes(state, dep)
            if node.join != "all":
                return b"null"
            raise Absent(hole, _why_absent(dep))
        if hole == "item":
            return _nearest_item(state, step)
        return encode(resolver(state, step)(hole))
    try:
        return encode(hole.render(resolver(state, step)))
    except Absent:
        if node.join != "all" and _is_reference(hole):
            return b"null"
        raise


def _is_reference(hole: Template) -> bool:
    return hole.whole is not None and hole.whole.simple is not None


def _nearest_item(state: RunState, step: StepState) -> bytes:
    found: StepState | None = step
    while found is not None:
        if found.owner is not None:
            return item_bytes(state, found)
        found = found.scope.owner
    raise Absent("item", "there is no foreach around this step")


def render_args(state: RunState, step: StepState) -> bytes:
    """The step's arguments as canonical bytes."""
    args = step.node.args
    if args.constant is not None:
        return args.constant
    if step.node.holes is not None:
        # The hot path: every hole is the result of a step of this scope, done and inline. A step has
        # such a result only once it is done.
        steps = step.scope.steps
        out = [args.pieces[0]]
        for index, piece in zip(step.node.holes, args.pieces[1:], strict=False):
            raw = steps[index].result
            if type(raw) is not bytes:
                break
            out.append(raw)
            out.append(piece)
        else:
            return b"".join(out)
    return args.fill(lambda hole: fill_hole(state, step, hole))


def stored(raw: bytes) -> Stored:
    """`raw` itself where it is small, else the blob it makes."""
    return raw if len(raw) <= INLINE_BYTES else Blob(digest(raw), len(raw))

