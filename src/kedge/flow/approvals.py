"""Asking a person before a call, and what the answer binds.

An approval is for one call: this step as it is defined, this tool as it is defined, these arguments.
If any of them is another by the time of the answer, it was an answer to something else, and the
question is asked anew. Silence is no consent: what expires is refused.
"""

from __future__ import annotations

import msgspec

from kedge.base.codec import digest
from kedge.flow import events as ev
from kedge.flow.failing import fail, question_id
from kedge.flow.names import resolver
from kedge.flow.program import Node
from kedge.flow.state import RunState, StepState, Undo
from kedge.flow.turn import Turn
from kedge.flow.words import Failure

_encode = msgspec.json.Encoder(order="deterministic").encode
_CHANGES = ("idempotent", "effect")


def must_ask(state: RunState, node: Node) -> bool:
    """Whether a person is asked before the step's calls."""
    if node.ask is not None:
        return True
    if not node.calls:
        return False
    return state.settings.ask == "every_step" or (state.settings.ask == "effects" and node.effect in _CHANGES)


def binding(node: Node, raw: bytes) -> str:
    """What an approval is for, as a hash."""
    tool = node.spec.definition_hash if node.spec is not None else ""
    return digest(_encode(node.step) + b"\n" + tool.encode() + b"\n" + raw)


def ask(turn: Turn, step: StepState, raw: bytes) -> None:
    """Ask whether the call may be made."""
    approval = step.node.step.approval
    until = turn.now + int(approval.expires_s * 1000) if approval is not None and approval.expires_s else 0
    turn.emit(ev.StepWaiting(path=step.path, until=until, reason="approval"))
    ask_person(turn, step, raw)


def ask_person(turn: Turn, step: StepState, raw: bytes) -> None:
    """The question of a step that waits for its approval."""
    node = step.node
    text = (
        node.ask.render(resolver(turn.state, step))
        if node.ask is not None
        else f"May {node.step.tool} be called{_to_undo(step)}?"
    )
    value, blob = turn.store(raw)
    turn.emit(
        ev.QuestionAsked(
            question=question_id(turn.state), reason="approval", path=step.path, text=str(text),
            options=("approve", "refuse"), args=value, blob=blob, binding=binding(node, raw),
            expires_at=step.wake_at,
        )
    )  # fmt: skip


def _to_undo(step: StepState) -> str:
    return f" to undo {step.target.path}" if isinstance(step, Undo) else ""


def expire(turn: Turn, step: StepState) -> None:
    """Nobody answered in time: that is a refusal."""
    id_ = turn.state.asked_about[step.path]
    turn.emit(ev.QuestionAnswered(question=id_, answer="refuse", reason="nobody answered in time"))
    refuse(turn, step, "approval_expired", "nobody approved it in time")


def refuse(turn: Turn, step: StepState, code: str, message: str) -> None:
    """The call is not made."""
    failure = Failure(category="permission", code=code, message=message, classified=True, not_done=True)
    fail(turn, step, failure)
