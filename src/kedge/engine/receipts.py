"""Commands on their way to a run, and what their senders are told."""

from __future__ import annotations

import asyncio

import msgspec

from kedge.base.errors import InternalError, KedgeError
from kedge.flow.commands import Command
from kedge.flow.decide import decide
from kedge.flow.turn import Turn


class Decision(msgspec.Struct, frozen=True, omit_defaults=True):
    """What became of a command."""

    taken: bool
    """It is done, or under way."""
    why: str = ""
    """Why it was refused."""
    code: str = ""
    """The same, for programs."""
    allowed: tuple[str, ...] = ()
    """What could have been asked."""
    version: int = 0
    """Of the plan that the run follows after it."""


def refused(refusal: KedgeError, version: int) -> Decision:
    """The decision that an error is."""
    return Decision(False, str(refusal), refusal.code, refusal.allowed, version)


class Receipt(msgspec.Struct):
    """A command on its way: `decided` is done when it is applied and on disk, or refused."""

    command: Command
    decided: asyncio.Future[None]
    refusal: Exception | None = None
    """Why it was refused, if the log says so."""

    def once_durable(self) -> asyncio.Future[None]:
        """The future that is to be done when what was decided is on disk."""
        if self.refusal is None:
            return self.decided
        durable: asyncio.Future[None] = self.decided.get_loop().create_future()
        durable.add_done_callback(self._tell_refusal)
        return durable

    def _tell_refusal(self, durable: asyncio.Future[None]) -> None:
        error = None if durable.cancelled() else durable.exception()
        if not self.decided.done():
            self.decided.set_exception(error or self.refusal or RuntimeError("refused"))


def settle(turn: Turn, receipt: Receipt) -> bool:
    """Decide on the command; False if it was refused and nothing has to be on disk first."""
    try:
        decide(turn, receipt.command)
    except InternalError:
        raise
    except KedgeError as refusal:
        if not turn.state.commands.get(receipt.command.key):
            refuse([receipt], refusal)
            return False
        receipt.refusal = refusal  # that it was refused stands in the log, and is told when it is on disk
    return True


def refuse(receipts: list[Receipt], error: Exception) -> None:
    """Tell the senders that nothing came of it."""
    for receipt in receipts:
        if not receipt.decided.done():
            receipt.decided.set_exception(error)
