"""The loopback of a world: datagrams between its processes, which may come late or never."""

from __future__ import annotations

import asyncio
from random import Random
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedge.testing.world.loop import SimulatedLoop

LOST_OF_100 = 10


class Network:
    """Who listens where."""

    def __init__(self, luck: Random) -> None:
        self._luck = luck
        self._ports: dict[int, Line] = {}
        self._last = 40_000

    def hang(self, loop: SimulatedLoop, protocol: asyncio.DatagramProtocol) -> Line:
        """A port of its own, as the system gives them out."""
        self._last += 1
        line = self._ports[self._last] = Line(self, loop, protocol, self._last)
        return line

    def take_down(self, port: int) -> None:
        """Nobody listens there any more."""
        self._ports.pop(port, None)

    def send(self, data: bytes, port: int, sender: int) -> None:
        """To whoever listens there, if anybody does."""
        line = self._ports.get(port)
        if line is None or line.loop.is_closed() or self._luck.randrange(100) < LOST_OF_100:
            return
        wait_s = self._luck.choice([0.0, 0.0001, 0.002])
        line.loop.call_later(wait_s, line.protocol.datagram_received, data, ("127.0.0.1", sender))


class Line(asyncio.DatagramTransport):
    """One end of it."""

    def __init__(
        self, network: Network, loop: SimulatedLoop, protocol: asyncio.DatagramProtocol, port: int
    ) -> None:
        super().__init__()
        self._network = network
        self.loop = loop
        self.protocol = protocol
        self._port = port

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", self._port) if name == "sockname" else default

    def sendto(self, data: Any, addr: Any = None) -> None:
        self._network.send(data, addr[1], self._port)

    def close(self) -> None:
        self._network.take_down(self._port)
        self.loop.call_soon(self.protocol.connection_lost, None)
