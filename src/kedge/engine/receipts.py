"""Commands on their way to a run, and what their senders are told."""

from __future__ import annotations

import asyncio

import msgspec

from kedge.flow.commands import Command


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


def refuse(receipts: list[Receipt], error: Exception) -> None:
    """Tell the senders that nothing came of it."""
    for receipt in receipts:
        if not receipt.decided.done():
            receipt.decided.set_exception(error)
