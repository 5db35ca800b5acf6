"""Commands on their way to a run, and what their senders are told."""

from __future__ import annotations

import asyncio

import msgspec

from kedge.flow.commands import Command


class Receipt(msgspec.Struct):
    """A command on its way: `decided` is done when it is applied and on disk, or refused."""

    command: Command
    decided: asyncio.Future[None]


def refuse(receipts: list[Receipt], error: Exception) -> None:
    """Tell the senders that nothing came of it."""
    for receipt in receipts:
        if not receipt.decided.done():
            receipt.decided.set_exception(error)
