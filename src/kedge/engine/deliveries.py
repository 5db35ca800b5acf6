"""A command of the store in a run's intake, and what became of it as the bytes that go back there."""

from __future__ import annotations

import msgspec

from kedge.base.codec import UNREADABLE
from kedge.base.errors import BadInput, InternalError, KedgeError
from kedge.engine.receipts import Decision, refused
from kedge.flow.commands import Command
from kedge.flow.decide import decide
from kedge.flow.events import CommandRefused
from kedge.flow.turn import Turn
from kedge.journal.entry import Posted

_decode = msgspec.json.Decoder(Command).decode
encode_decision = msgspec.json.Encoder().encode
decode_decision = msgspec.json.Decoder(Decision).decode


class Delivery(msgspec.Struct, frozen=True):
    """A command of the store, in the intake."""

    posted: Posted


def deliver(turn: Turn, delivery: Delivery) -> tuple[int, bytes]:
    """Fold a command into the turn: its position, and what became of it. It may be any bytes."""
    posted = delivery.posted
    turn.asked_at = posted.at
    try:
        decide(turn, _opened(turn, posted))
        decision = Decision(True, version=turn.state.version)
    except InternalError:
        raise
    except KedgeError as refusal:
        decision = refused(refusal, turn.state.version)
    finally:
        turn.asked_at = turn.now
    return posted.position, encode_decision(decision)


def _opened(turn: Turn, posted: Posted) -> Command:
    """What was posted, as a command of that id."""
    try:
        if posted.damaged:
            raise ValueError("its bytes are not what was written")
        return msgspec.structs.replace(_decode(posted.data), key=posted.id)
    except (*UNREADABLE, ValueError) as error:
        message = f"the command cannot be read: {str(error)[:500]}"
        if turn.state.end is None and posted.id not in turn.state.commands:
            turn.emit(CommandRefused(key=posted.id, command="", code="unreadable_command", message=message))
        raise BadInput(
            message, code="unreadable_command", where=f"command {posted.id}", remedy="send it again"
        ) from error
