"""Commands of the store on their way into a run that is driven here, in the order of their arrival.

They come in batches: the next one is fetched when all of the last one are decided on and that is on disk,
so a hundred thousand of them take no more memory than some hundred. What became of a command is written with
the events that it led to, in one append: it is decided once, wherever its driver is killed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from kedge.base.errors import KedgeError, StoreError
from kedge.base.failpoints import armed, reach
from kedge.engine.deliveries import Delivery, encode_decision
from kedge.engine.driver import Driver
from kedge.engine.ports import Journal
from kedge.engine.receipts import refused
from kedge.flow.inputs import Ticked
from kedge.journal.entry import Append

BATCH = 256

_log = logging.getLogger("kedge.mailbox")


class Mailbox:
    """What has come for one run by the store."""

    def __init__(self, driver: Driver, journal: Journal, tell: Callable[[set[int]], None]) -> None:
        self._driver = driver
        self._journal = journal
        self._run_id = driver.state.run_id
        self._tell = tell
        self._position = 0
        """Of the newest command that was fetched."""
        self._open: dict[int, int] = {}
        """Where to tell of commands that are in the intake, by position."""
        self._more = False
        """There may be some that were not fetched."""
        driver.log.on_decided = self._told

    @property
    def busy(self) -> bool:
        """Something has come that is not decided on."""
        return bool(self._open) or self._more

    def take_up(self) -> None:
        """What came while nobody drove the run: nothing starts before it is decided on."""
        self._driver.catching_up = asyncio.get_running_loop().create_future()
        self._more = True
        self._fetch()

    def look(self) -> None:
        """Something may have come."""
        self._more = True
        self._go_on()

    def _go_on(self) -> None:
        try:
            self._fetch()
        except StoreError as error:  # the next look will see it
            _log.warning(
                "run %s: its commands cannot be read: %s", self._run_id, error,
                extra={"action": "commands_unreadable", "run": self._run_id},
            )  # fmt: skip

    def _fetch(self) -> None:
        """Put the next ones into the intake, unless the last ones are still there."""
        if self._open or not self._more or self._driver.stopped:
            return
        batch = self._journal.posted(self._run_id, self._position, BATCH)
        self._more = len(batch) == BATCH
        if armed:
            reach("mailbox.fetched")
        for posted in batch:
            self._position = posted.position
            self._open[posted.position] = posted.port
            self._driver.put(Delivery(posted))
        if not self._more and self._driver.catching_up is not None:
            self._driver.caught_up()
            self._driver.put(Ticked())  # what was held back begins

    def _told(self, decisions: Sequence[tuple[int, bytes]]) -> None:
        """What became of these is on disk."""
        if armed:
            reach("mailbox.durable")
        self._tell({self._open.pop(position, 0) for position, _ in decisions})
        if armed:
            reach("mailbox.told")
        self._go_on()


def refuse_rest(journal: Journal, run_id: str, epoch: int, refusal: KedgeError) -> set[int]:
    """Refuse all that has come for a run that takes no more; where to tell of it."""
    ports: set[int] = set()
    raw = encode_decision(refused(refusal, 0))
    while batch := journal.posted(run_id, 0, BATCH):
        head = journal.head(run_id)
        made = tuple((posted.position, raw) for posted in batch)
        journal.commit([Append(run_id, epoch, head.seq if head is not None else 0, [], {}, None, made)])
        ports |= {posted.port for posted in batch}
    return ports
