"""One simulated process: the real engine on a loop, a clock, a store and threads that are not real."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from kedge.control.engine import Engine
from kedge.control.run import Run
from kedge.control.sending import Sender
from kedge.engine.post import Post
from kedge.engine.stall import StallWatch
from kedge.engine.threads import Threads
from kedge.testing.world.disk import SimulatedJournal
from kedge.testing.world.loop import SimulatedLoop
from kedge.testing.world.trouble import StoreTrouble

if TYPE_CHECKING:
    from kedge.testing.world.world import World

NET_S = 6 * 3600.0
"""Between two looks into the store, should a datagram be lost: rarely, as plans sleep for months."""


class WallClock:
    """The time of day in a world: it can be set, which its own time does not follow."""

    EPOCH_MS = 1_700_000_000_000

    def __init__(self, world: World) -> None:
        self._world = world
        self.monotonic_s = lambda: world.clock.now_s

    def now_ms(self) -> int:
        return self.EPOCH_MS + int((self._world.clock.now_s + self._world.clock_off_s) * 1000)


class _LoopThreads(Threads):
    """Plain functions are called by the loop, as late as a thread might have begun."""

    def __init__(self, loop: SimulatedLoop) -> None:
        super().__init__()
        self._loop = loop

    def submit(self, job: Callable[[], None]) -> None:
        self._loop.run_in_executor(None, job)

    def give_up(self) -> None: ...
    def came_back(self) -> None: ...
    def close(self) -> None: ...


class _NoWatch(StallWatch):
    """Nothing can hold up a loop that takes no time."""

    @property
    def watching(self) -> bool:
        return True


class SimulatedEngine(Engine):
    """The engine as it is, but for what it has of the machine: its threads, and how often it looks around."""

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        loop = asyncio.get_running_loop()
        if isinstance(loop, SimulatedLoop):
            self._workshop.threads = _LoopThreads(loop)
            self._workshop.stall = _NoWatch(list)
            journal = self._opened()
            self._post = Post(journal, listens=True, net_s=NET_S)
            self._sender = Sender(journal, self._post, self._clock, self.limits)
        return self

    @property
    def live(self) -> list[Run]:
        """The runs that this process drives."""
        return [run for id_, run in self._runs.items() if self._drivers[id_].lost is None]


class Process:
    """Lives until it is killed, or its program has ended."""

    def __init__(
        self, world: World, number: int, program: Callable[[Process], Any], *, drives: bool = True
    ) -> None:
        self.world = world
        self.number = number
        self.drives = drives
        """It wants runs to end; else it only sends them something."""
        self.loop = SimulatedLoop(world.clock, world.thread_delay_s, world.network)
        self.loop.process = self
        self.journal = SimulatedJournal(world.disk, StoreTrouble(self))
        self.engine: SimulatedEngine | None = None
        self.dead = False
        self.over = False
        """Its program has ended."""
        self.frozen_until_s = 0.0
        self.seen: dict[str, int] = {}
        """How far each of its runs was when it was looked at last."""
        self.commands: list[Callable[[str], Any]] = []
        """Whoever in it can be told to do something."""
        self.main = self.loop.create_task(program(self))
        self.main.add_done_callback(lambda _: world.ended(self))

    @property
    def can_move(self) -> bool:
        """It has something to do, and is not frozen."""
        return (
            not (self.dead or self.over) and self.frozen_until_s <= self.world.clock.now_s and self.loop.ready
        )

    def stop(self) -> None:
        """Ask it to end in good order."""
        self.loop.call_soon(self.main.cancel)
