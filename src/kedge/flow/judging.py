"""Whether a result will do: the form it must have, the step's own test, and how good it is; in this order."""

from __future__ import annotations

from typing import Any

from kedge.base.codec import decode
from kedge.base.errors import BadInput
from kedge.flow import events as ev
from kedge.flow.names import resolver
from kedge.flow.program import Node
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.flow.words import Failure
from kedge.plan.expr import Expression, evaluate_condition


def found_wanting(turn: Turn, step: StepState, raw: bytes) -> Failure | None:
    """Why what came back will not do; None if it will."""
    node = step.node
    failure = None
    if node.step.output is not None:
        failure = _misfit(node.step.output, raw)
    if failure is None and node.expect is not None:
        failure = _unmet(turn.state, step, node.expect, raw)
    if failure is None and (node.quality is not None or node.step.quality_min is not None):
        failure = _too_poor(turn, step, raw)
    return failure


def form_quality(node: Node, value: Any) -> float:
    """How good a result is of which nothing is known but its form: 1, or 0 if its tool promised another."""
    promised = node.spec.returns if node.spec is not None else None
    return 1.0 if promised is None or not misfit(promised, value) else 0.0


def misfit(schema: Any, value: Any) -> str:
    """Where the value is not of the schema's form, and why; empty if it is."""
    from kedge.checks.judge import Judge  # not needed to resume a run
    from kedge.checks.schemas import Whole

    faults = Judge(None).faults(value, Whole(schema, schema), "result")
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{faults[0].place}: {faults[0].message}{more}" if faults else ""


def _misfit(schema: Any, raw: bytes) -> Failure | None:
    why = misfit(schema, decode(raw))
    text = f"the result is not of the form `output`: {why}"
    return _permanent(text, code="output_mismatch") if why else None


def _unmet(state: RunState, step: StepState, expect: Expression, raw: bytes) -> Failure | None:
    try:
        met = evaluate_condition(expect, resolver(state, step, result=raw))
    except BadInput as error:
        return Failure(category="invalid_input", code=error.code, message=f"expect: {error}", classified=True)
    text = f"the result does not meet `expect`: {expect.text}"
    return None if met else _permanent(text, code="expect_not_met")


def _too_poor(turn: Turn, step: StepState, raw: bytes) -> Failure | None:
    """The quality as the step says how to find it, else by its form; told where the log would not know it."""
    node = step.node
    if node.quality is None:
        quality = form_quality(node, decode(raw))
    else:
        try:
            quality = _measured(node.quality, step, turn.state, raw)
        except BadInput as error:
            return Failure(
                category="invalid_input", code=error.code, message=f"quality: {error}", classified=True
            )
        turn.emit(ev.FeedbackGiven(path=step.path, quality=quality))
    least = node.step.quality_min
    if least is None or quality >= least:
        return None
    text = f"the result has quality {quality:.3g}, {least:.3g} is the least"
    return _permanent(text, code="quality_low")


def _measured(quality: Expression, step: StepState, state: RunState, raw: bytes) -> float:
    value = quality.evaluate(resolver(state, step, result=raw))
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise BadInput(
            f"it must be a number from 0 to 1, and is {repr(value)[:80]}",
            code="quality_value",
            remedy="write an expression that gives one, as in `0.9 if result.ok else 0.2`",
        )
    return float(value)


def _permanent(message: str, *, code: str) -> Failure:
    return Failure(category="permanent", code=code, message=message, classified=True)
