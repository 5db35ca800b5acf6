"""Inputs that nobody has given yet. Part of `evolve`: called from nowhere else.

A step that reads one waits for it, and all others run.
"""

from __future__ import annotations

from kedge.base.codec import decode, encode
from kedge.flow.settle import unblock
from kedge.flow.state import RunState
from kedge.plan.inputs import is_needed, named_in


def note_missing(state: RunState) -> None:
    """The run has begun without them."""
    given = state.inputs_value()
    state.missing = {
        name: None for name, one in state.plan.inputs.items() if is_needed(one) and name not in given
    }
    state.look_at_calls()
    _look_at_end(state)


def input_given(state: RunState, name: str, value: bytes) -> None:
    """One of them is there: what waited for it is looked at again."""
    inputs = state.inputs_value() | {name: decode(value)}
    state.inputs = encode(inputs)
    del state.missing[name]
    state.look_at_calls()
    for step in list(state.steps.values()):
        if step.awaits == "input":
            step.awaits = ""
            step.attempt = 0
            unblock(state, step)
    waited = state.end_waits
    _look_at_end(state)
    if waited and not state.end_waits:
        state.closing.append(None)


def _look_at_end(state: RunState) -> None:
    program = state.program
    paths = [path for expression in program.outputs.values() for path in expression.paths]
    paths += program.answer.paths if program.answer is not None else ()
    state.end_waits = not named_in(paths, state.plan).isdisjoint(state.missing)
