"""Waking another process of this machine: a datagram on the loopback that says "look", and no more.

What is in it is not read: the truth is in the store, so anybody may ring, and nobody can do more by it than
make us look. One that is lost is made up for by the slow look that `Post` takes anyway.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable

HERE = "127.0.0.1"

_log = logging.getLogger("kedge.bell")


class Bell(asyncio.DatagramProtocol):
    """Where this process can be woken."""

    def __init__(self, rung: Callable[[], None]) -> None:
        self._rung = rung
        self._transport: asyncio.DatagramTransport | None = None
        self._gone: asyncio.Future[None] | None = None
        self.port = 0
        """Where it hangs; 0: nowhere, and the slow look must do."""

    async def hang(self) -> None:
        """Begin to listen."""
        if self._transport is not None:
            return
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(HERE, 0))
        except OSError as error:
            _log.warning(
                "nobody can wake this process, commands from others take up to a second: %s", error,
                extra={"action": "no_bell"},
            )  # fmt: skip
            return
        self._gone = loop.create_future()
        self._transport = transport
        self.port = transport.get_extra_info("sockname")[1]

    def ring(self, ports: Iterable[int]) -> None:
        """Wake the processes that listen there."""
        if self._transport is not None:
            for port in ports:
                self._transport.sendto(b"!", (HERE, port))  # an empty one would not be sent

    async def take_down(self) -> None:
        """Listen no more."""
        self.port = 0
        if self._transport is not None and self._gone is not None:
            self._transport.close()
            await self._gone
            self._transport = None

    def datagram_received(self, data: bytes, addr: object) -> None:  # noqa: ARG002 - it says "look"
        self._rung()

    def error_received(self, exc: Exception) -> None:
        """Whoever was rung is not there any more: that needs nobody's attention."""

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - it is gone anyway
        if self._gone is not None and not self._gone.done():
            self._gone.set_result(None)
