"""Asking something of a run, whoever drives it: by the store where that is not us, and what became of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from kedge.base.clock import Clock
from kedge.base.codec import encode
from kedge.base.errors import BadInput, KedgeError, StoreDamaged
from kedge.base.failpoints import armed, reach
from kedge.base.ids import new_key
from kedge.base.limits import Limits
from kedge.control.listing import info
from kedge.engine.deliveries import decode_decision
from kedge.engine.mailbox import refuse_rest
from kedge.engine.ports import Journal
from kedge.engine.post import Post
from kedge.engine.receipts import Decision
from kedge.flow.commands import KINDS, Command, Order
from kedge.flow.state import RunState
from kedge.flow.steer import run_ended
from kedge.journal.entry import Head, Posted, Sent


class Receipt:
    """A command that is on disk. It will be decided on, once, also if everything stops now."""

    def __init__(
        self, run_id: str, key: str, *, driven: bool, wait: Callable[[], Awaitable[Decision]]
    ) -> None:
        self.run_id = run_id
        """The run it is for."""
        self.key = key
        """Its key: to send it again with the same one is to send it once."""
        self.driven = driven
        """Somebody drove the run when it was sent. If nobody does, it waits until somebody does."""
        self._wait = wait

    async def decided(self, timeout_s: float | None = None) -> Decision:
        """What became of it, once that is on disk; TimeoutError if that takes longer than `timeout_s`."""
        async with asyncio.timeout(timeout_s):
            return await self._wait()

    def __repr__(self) -> str:
        return f"<command {self.key} for run {self.run_id}>"


def settled(run_id: str, key: str, decision: Decision, *, driven: bool) -> Receipt:
    """The receipt of a command that is decided already."""

    async def known() -> Decision:
        return decision

    return Receipt(run_id, key, driven=driven, wait=known)


def keyed(command: Command) -> Command:
    """The command with a key, or BadInput for what is none."""
    if not isinstance(command, Order):
        raise BadInput(
            f"a command is needed, not {type(command).__name__}",
            code="command",
            allowed=sorted(KINDS),
            remedy="make one of kedge.commands, as in commands.Pause()",
        )
    return command if command.key else msgspec.structs.replace(command, key=new_key())


class Sender:
    """Sends commands by the store."""

    def __init__(self, journal: Journal, post: Post, clock: Clock, limits: Limits) -> None:
        self._journal = journal
        self._post = post
        self._clock = clock
        self._limits = limits
        post.on_left = self._look_after

    async def send(self, head: Head, command: Command, fold: Callable[[], RunState]) -> Receipt:
        """Keep it for the run; `fold` gives the run's state, if that must be looked at."""
        run_id, key = head.run_id, command.key
        if head.damaged:
            raise StoreDamaged(head.damaged, run_id=run_id, remedy="salvage the run, or delete it")
        await self._post.open()
        posted = self._journal.find_posted(run_id, key)
        if posted is None:
            line = info(head, self._journal.driven)
            if line.ended:
                return self._after_the_end(fold(), key)
            posted = await self._post.send(
                Sent(run_id, key, self._post.bell.port, self._clock.now_ms(), self._encoded(command))
            )
        return Receipt(run_id, key, driven=self._journal.driven(run_id), wait=lambda: self._decision(posted))

    def _encoded(self, command: Command) -> bytes:
        raw = encode(command, root="command")
        if len(raw) > self._limits.document_bytes:
            raise BadInput(
                f"the command has {len(raw):,} bytes, more than {self._limits.document_bytes:,}",
                code="command_size",
                where=f"command {command.key}",
                remedy="put what is large into a file, and send its path",
            )
        return raw

    def _after_the_end(self, state: RunState, key: str) -> Receipt:
        """What became of a command that is sent again, or Refused: nothing new is taken after the end."""
        said = state.commands.get(key)
        if said is None:
            raise run_ended(state.run_id, str(state.status))
        refused = Decision(False, said, "already_refused", (), state.version)
        decision = refused if said else Decision(True, version=state.version)
        return settled(state.run_id, key, decision, driven=False)

    async def _decision(self, posted: Posted) -> Decision:
        raw = posted.decision or await self._post.decision(posted)
        if armed:
            reach("control.send.decided")
        return decode_decision(raw)

    def _look_after(self, run_id: str) -> None:
        """Somebody awaits a decision: if the run has ended without taking it, that is what became of it."""
        with suppress(KedgeError):
            self.refuse_left(run_id)

    def refuse_left(self, run_id: str) -> bool:
        """Whether the run has ended and nobody has it; if so, what came too late for it is refused."""
        journal = self._journal
        head = journal.head(run_id)
        if head is None or head.damaged or journal.driven(run_id):
            return False
        line = info(head, journal.driven)
        if line.ended and journal.posted(run_id, 0, 1):
            lease = journal.claim(run_id, self._clock.now_ms())
            try:
                self.refuse_rest(run_id, lease.epoch, line.status)
            finally:
                journal.release(lease)
        return line.ended

    def refuse_rest(self, run_id: str, epoch: int, status: str) -> None:
        """The run has ended, and the lease is ours: what nobody has decided on is refused."""
        with suppress(KedgeError):  # whoever awaits it looks again
            self._post.tell(refuse_rest(self._journal, run_id, epoch, run_ended(run_id, status)))
