"""Commands between processes: out to the store, in to the runs that are driven here, and the answers back.

One for each engine. It looks into the store when its bell rings, at most once in some milliseconds
however often it does, and else when another process has written something, which is looked at once a
second. What is sent at the same time shares a transaction, made in a thread: other processes may be writing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from kedge.base.errors import KedgeError, StoreError
from kedge.base.failpoints import armed, reach
from kedge.engine.bell import Bell
from kedge.engine.mailbox import Mailbox
from kedge.engine.ports import Journal
from kedge.journal.entry import Posted, Sent

LOOK_EVERY_S = 0.003
"""However often the bell rings."""
NET_S = 1.0
"""Between two looks at whether anything was written, in case that a datagram is lost."""
BATCH = 1_000
"""Commands sent in one transaction."""
_NEWEST = 2**62

_log = logging.getLogger("kedge.post")


class _Awaited(NamedTuple):
    run_id: str
    futures: set[asyncio.Future[bytes]]


class Post:
    """What comes and goes by the store. `listens`: other processes may send, and time is the real one."""

    def __init__(self, journal: Journal, *, listens: bool, net_s: float | None = None) -> None:
        self._journal = journal
        self._listens = listens
        self._net_s = NET_S if net_s is None else net_s
        self._loop = asyncio.get_running_loop()
        self.bell = Bell(self._on_bell)
        self._opening: asyncio.Task[None] | None = None
        self.opened = False
        self._seen = 0
        """Position of the newest command that was looked at."""
        self._version: int | None = None
        self._boxes: dict[str, Mailbox] = {}
        self._awaited: dict[int, _Awaited] = {}
        """Who is to be told what becomes of a command, by its position."""
        self.on_left: Callable[[str], object] = _nothing
        """Called now and then with a run of which somebody awaits a decision."""
        self.on_arrival: Callable[[], object] = _nothing
        """Called when something has come for a run that is not driven here, or the store has changed."""
        self._look_at: asyncio.TimerHandle | None = None
        self._looked_s = 0.0
        self._net: asyncio.TimerHandle | None = None
        self._outgoing: list[tuple[Sent, asyncio.Future[Posted]]] = []
        self._thread: ThreadPoolExecutor | None = None
        self._sending: asyncio.Future[list[Posted | Exception]] | None = None
        self._closed = False

    async def open(self) -> None:
        """Listen from now on: before a run is claimed, or something sent, so that nothing is missed."""
        if self.opened or self._closed:
            return
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._open())
        await asyncio.shield(self._opening)  # whoever waits goes on at the same moment

    async def _open(self) -> None:
        try:
            if self._listens:
                await self.bell.hang()
                self._seen = self._journal.arrived(_NEWEST)[0]
                self._version = self._journal.data_version()
                self._net = self._loop.call_later(self._net_s, self._on_net)
            self.opened = True
        finally:
            self._opening = None

    async def close(self) -> None:
        """Send what is on its way out; whoever still waits is told that nobody listens any more."""
        if self._opening is not None:
            await asyncio.wait([self._opening])
        self._closed = True
        for alarm in (self._look_at, self._net):
            if alarm is not None:
                alarm.cancel()
        while self._sending is not None:
            await asyncio.wait([self._sending])
            await asyncio.sleep(0)
        if self._thread is not None:
            self._thread.shutdown()
        stopped = KedgeError("the engine was closed", code="stopped", remedy="ask for the decision again")
        for awaited in self._awaited.values():
            for future in awaited.futures:
                if not future.done():
                    future.set_exception(stopped)
        self._awaited.clear()
        await self.bell.take_down()

    # --- in

    def add(self, run_id: str, box: Mailbox) -> None:
        """A run is driven here."""
        self._boxes[run_id] = box

    def take_up(self, run_id: str) -> None:
        """What came for it while nobody drove it comes first."""
        self._boxes[run_id].take_up()

    def remove(self, run_id: str) -> None:
        """It is not driven here any more."""
        self._boxes.pop(run_id, None)

    def tell(self, ports: set[int]) -> None:
        """What became of commands is on disk: wake those who sent them."""
        if self._awaited:
            self._on_bell()
        self.bell.ring(ports - {0, self.bell.port})

    def behind(self, run_id: str) -> bool:
        """Something has come for the run that it has not decided on."""
        box = self._boxes.get(run_id)
        return box is not None and box.busy

    def _on_bell(self) -> None:
        if self._look_at is None and not self._closed:
            wait_s = max(0.0, self._looked_s + LOOK_EVERY_S - self._loop.time())
            self._look_at = self._loop.call_later(wait_s, self._look)

    def _look(self) -> None:
        self._look_at = None
        if self._closed:
            return
        self._looked_s = self._loop.time()
        if armed:
            reach("post.look")
        try:
            self._take_in()
            self._take_decisions()
        except StoreError as error:  # the net looks again
            _log.warning("commands cannot be read: %s", error, extra={"action": "commands_unreadable"})

    def _take_in(self) -> None:
        last, run_ids = self._journal.arrived(self._seen)
        self._seen = last
        for run_id in run_ids:
            box = self._boxes.get(run_id)
            if box is not None:
                box.look()
            else:
                self.on_arrival()

    def _take_decisions(self) -> None:
        if not self._awaited:
            return
        for position, raw in self._journal.decisions(list(self._awaited)).items():
            for future in self._awaited.pop(position).futures:
                if not future.done():
                    future.set_result(raw)

    def _on_net(self) -> None:
        self._net = self._loop.call_later(self._net_s, self._on_net)
        try:
            version = self._journal.data_version()
        except StoreError:
            version = None  # whoever writes will say so
        if version != self._version:
            self._version = version
            self._on_bell()
            self.on_arrival()
        for run_id in {awaited.run_id for awaited in self._awaited.values()}:
            self.on_left(run_id)

    # --- out

    async def send(self, sent: Sent) -> Posted:
        """Keep a command for a run, and wake whoever drives it; it is on disk when this returns."""
        future: asyncio.Future[Posted] = self._loop.create_future()
        self._outgoing.append((sent, future))
        self._send_next()
        posted = await future
        if armed:
            reach("post.sent")
        port = self._journal.port(sent.run_id)
        if port:
            self.bell.ring([port])
        else:
            self._on_bell()  # it may be driven here, by an engine that does not listen
        return posted

    def _send_next(self) -> None:
        if self._sending is not None or not self._outgoing:
            return
        batch, self._outgoing = self._outgoing[:BATCH], self._outgoing[BATCH:]
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "kedge-post")
        sending = self._loop.run_in_executor(self._thread, self._store, [sent for sent, _ in batch])
        self._sending = sending
        sending.add_done_callback(lambda done: self._sent(batch, done))

    def _store(self, batch: Sequence[Sent]) -> list[Posted | Exception]:
        try:
            return [*self._journal.post(batch)]
        except KedgeError as error:
            if len(batch) == 1:
                return [error]
        return [found for one in batch for found in self._store([one])]  # one must not suffer for another

    def _sent(
        self,
        batch: list[tuple[Sent, asyncio.Future[Posted]]],
        done: asyncio.Future[list[Posted | Exception]],
    ) -> None:
        self._sending = None
        failed = None if done.cancelled() else done.exception()
        found = [failed] * len(batch) if failed is not None else done.result()
        for (_, future), result in zip(batch, found, strict=True):
            if future.done():
                continue
            if isinstance(result, Posted):
                future.set_result(result)
            else:
                future.set_exception(result)
        self._send_next()

    async def decision(self, posted: Posted) -> bytes:
        """What becomes of a command, once that is on disk."""
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._awaited.setdefault(posted.position, _Awaited(posted.run_id, set())).futures.add(future)
        try:
            self._take_decisions()
            return await future
        finally:
            awaited = self._awaited.get(posted.position)
            if awaited is not None:
                awaited.futures.discard(future)
                if not awaited.futures:
                    del self._awaited[posted.position]


def _nothing(*_: object) -> None:
    return None
