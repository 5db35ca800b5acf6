"""In a fork: calls that need not be made, because their results are known from the other run.

The same call is the same tool, defined the same way, with the same arguments. That holds for every
effect class: a result that is taken over repeats nothing. Each result stands for one call, that of its
own step before all others, so a step that looks twice sees what it saw then, in the order in which it did.
Nobody is asked about a call that is not made; but one that a person has allowed here is made.
"""

from __future__ import annotations

from kedge.base.codec import digest
from kedge.flow import events as ev
from kedge.flow.conclude import conclude
from kedge.flow.judging import judged
from kedge.flow.names import bytes_of
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn


def reuse(turn: Turn, step: StepState, raw: bytes) -> bool:
    """Let the step come to what this call came to before; False if that is not known."""
    state = turn.state
    kept = _same_call(state, step, raw) if not step.approved else None
    if kept is None:
        return False
    result = bytes_of(state, kept.blob) if kept.blob is not None else bytes(kept.result)
    if step.node.tested and judged(state, step, result)[0] is not None:
        return False
    turn.emit(ev.ResultReused(path=step.path, source=kept.source))
    conclude(turn, step, result)
    return True


def _same_call(state: RunState, step: StepState, raw: bytes) -> ev.ResultKept | None:
    spec = step.node.spec
    if spec is None:
        return None
    sources = state.kept_for.get((spec.name, spec.definition_hash, digest(raw)))
    if not sources:
        return None
    found = [state.kept[source] for source in sources]
    return next((one for one in found if (one.path, one.generation, one.iteration) == step.call), found[0])
