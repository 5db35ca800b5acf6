"""Arming the named places of `kedge.base.failpoints`, and what each of them means.

    with counting() as hits: …                          # how often each place is passed
    raise_at("file.begin.after", apsw.FullError("…"))   # once, at the first pass
    kill_at("journal.commit.before", hit=3)             # this process ends, as by a kill from outside
    disarm()

What is armed belongs to this process alone, and a child forked from it starts with the same.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial

from kedge.base.errors import BadInput
from kedge.base.failpoints import armed

PLACES: dict[str, str] = {
    # a run gets and loses its driver
    "journal.claim.before": "a run is about to be claimed",
    "locks.take.locked": "a lock is held; it is not yet known whether its file still has that name",
    "journal.claim.locked": "the lock is held, nothing of the claim is written",
    "journal.claim.written": "epoch and owner are written and not committed",
    "journal.claim.owned": "the claim is on disk; its driver does not know",
    "journal.release.before": "a run is about to be given up",
    "journal.release.unowned": "the owner's row is gone, the lock is held",
    "locks.drop.unlinked": "the lock's file is gone, the lock is held",
    "journal.release.after": "the run is free",
    # a transaction
    "journal.commit.before": "a batch is about to be written",
    "file.begin.before": "no transaction is open",
    "file.begin.after": "a transaction is open and empty",
    "journal.append.event": "one more event is inserted",
    "journal.append.blob": "one more large value is inserted",
    "journal.append.heads": "all of the batch is inserted, and where its runs stand now",
    "file.commit.before": "everything is written and not committed",
    "file.commit.after": "committed; nobody knows",
    "journal.commit.after": "committed and found well; the journal's memory is as before",
    "file.settle.opened": "COMMIT failed, the file is open again",
    "file.settle.checkpointed": "COMMIT failed, what recovery found is in the main file",
    "file.close": "the connections are about to be closed",
    # a command that comes by the store
    "journal.post.before": "commands are about to be kept",
    "journal.post.inserted": "one more command is inserted",
    "journal.post.after": "commands are on disk, whoever sent them does not know",
    "post.sent": "a command is on disk, whoever drives the run is not woken",
    "post.look": "it is about to be looked what has come",
    "mailbox.fetched": "commands are read, none is in the intake",
    "driver.delivery.decided": "a command of the store is decided, nothing of it is in the log",
    "journal.append.decided": "what became of commands is written with their events, not committed",
    "mailbox.durable": "what became of commands is on disk, nobody is woken for it",
    "mailbox.told": "whoever sent them is woken",
    "control.send.decided": "somebody has read what became of a command, and does not know it yet",
    # the file
    "file.open.made": "the file is there, and empty",
    "file.open.set_up": "journal mode and all that are set; the tables may be missing",
    "schema.migrate.before": "a migration is about to begin",
    "schema.migrate.applied": "a migration is applied and not committed",
    "schema.migrate.after": "a migration is committed",
    "journal.read": "a run is about to be read",
    "journal.mark.before": "a run is found to be damaged, and bears no mark",
    "journal.mark.after": "a damaged run bears its mark",
    "journal.delete.gone": "all of a run is deleted and not committed",
    "journal.delete.after": "runs are deleted",
    "journal.vacuum.swept": "large values of nobody are deleted, the file is as long as before",
    "file.compact.before": "the file is about to be rewritten",
    "file.compact.rewritten": "the file is rewritten, in its log",
    "file.compact.after": "the file is as short as it gets",
    # the writer
    "writer.flush": "a batch is taken from the logs and not on its way",
    "writer.thread.handed": "a batch is about to be given to the thread",
    "writer.thread.back": "the thread is done with a batch",
    "writer.committed": "a batch is on disk, its logs do not know",
    "writer.told": "whoever waited for a batch was told",
    "writer.one_by_one": "a batch was refused, its runs are written one after another",
    "writer.full.held": "the store is full, a batch goes back to its logs",
    "writer.full.retry": "a full store is about to be tried again",
    "writer.close": "what is left is about to be written",
    # a turn
    "driver.input": "a turn is about to be asked for, its input lies in the intake",
    "driver.timer": "a timer went off",
    "driver.exhausted": "a limit is found to be used up",
    "driver.command.decided": "a command is decided, nothing of it is in the log",
    "driver.command.durable": "a command is durable, whoever gave it does not know",
    "driver.appended": "events are in the log's memory, none of their calls is made",
    "driver.held.released": "a start is on disk, its call is about to be made",
    "driver.cancel.calls": "a run is being cancelled, its calls have not been told",
    "driver.promise.due": "what somebody waits for is on disk, they are about to be told",
    "driver.ended.durable": "the end of a run is on disk, nobody knows",
    "driver.ended.told": "the end of a run was told",
    "driver.lost": "a driver finds that it can go on no more",
    "driver.drain": "nothing more is to start",
    "driver.close.calls_ended": "a driver's calls have ended or were left, their results lie in the intake",
    "driver.close.taken_back": "calls that were never made are taken back, in memory",
    # planner and agent
    "advice.ask": "planner or agent is to be asked, and does not know",
    "advice.answered": "planner or agent has answered, or not in time; the intake does not hold it",
    # a call
    "attempts.start": "a call is about to be made",
    "attempts.thread.begun": "a thread works at a call, the tool is about to be called",
    "attempts.thread.returned": "the tool returned in its thread, the loop does not know",
    "attempts.over": "a call is over, its result is not in the intake",
    "attempts.cancel": "a call is about to be told to stop",
    "attempts.abandoned": "a call that does not stop is about to be left to itself",
    "processes.spawned": "a tool's process is started",
    "processes.sent": "a call is in the pipe to a tool's process",
    "processes.started": "a tool's process says that it calls the tool",
    "processes.answered": "a tool's process has answered, nobody took the answer",
    "processes.kept": "a tool's process waits for its next call",
    "processes.told_to_end": "a tool's process was told to end",
    "processes.ended": "a tool's process is gone",
    "files.write.before": "files.write is about to make its draft",
    "files.write.drafted": "the draft is on disk, the file is as before",
    "files.write.renamed": "the draft has the file's name",
    # the door
    "control.start.checked": "a plan is checked, nothing of its run is there",
    "control.start.begun": "a run has its first events, in memory",
    "control.start.durable": "a run has begun, whoever started it does not know",
    "control.resume.claimed": "a run is claimed to be taken up",
    "control.resume.read": "its log is read",
    "control.resume.folded": "its log is added up",
    "control.resume.put": "it is driven; it does not know that it was taken up",
    "control.fork.claimed": "the id of a fork is claimed, nothing of it is there",
    "control.fork.written": "a fork is on disk, nobody drives it",
    "control.retired": "a run that has ended is given back",
    "control.delete.before": "a run is about to be deleted",
    "control.prune.chosen": "one more run is about to be forgotten",
    "control.prune.deleted": "all chosen runs are forgotten, their room is not given back",
    "control.close.released": "all drivers are closed, what they left may not be on disk",
    "control.close.written": "everything is on disk, the workshop and the store are open",
}
"""Every place, by what is so when it is reached."""


def arm(name: str, act: Callable[[], None], hit: int = 1) -> None:
    """Do `act` once, when the place of that name is passed for the `hit`-th time from now on."""
    lock, passes = threading.Lock(), 0

    def pass_by() -> None:
        nonlocal passes
        with lock:
            passes += 1
            due = passes == hit
        if due:
            act()

    armed[_known(name)] = pass_by


def kill_at(name: str, hit: int = 1) -> None:
    """End this process there, without a last word."""
    arm(name, partial(os.kill, os.getpid(), signal.SIGKILL), hit)


def raise_at(name: str, error: BaseException, hit: int = 1) -> None:
    """Raise `error` there, once."""

    def act() -> None:
        raise error

    arm(name, act, hit)


def watch(told: Callable[[str], None]) -> None:
    """Call `told` with the name of every place that is passed, instead of what is armed there."""
    for name in PLACES:
        armed[name] = partial(told, name)


def disarm() -> None:
    """Nothing is armed any more."""
    armed.clear()


@contextmanager
def counting() -> Generator[Counter[str]]:
    """How often each place is passed."""
    hits: Counter[str] = Counter()
    watch(lambda name: hits.update((name,)))
    try:
        yield hits
    finally:
        disarm()


def _known(name: str) -> str:
    if name not in PLACES:
        raise BadInput(f"there is no place {name!r}", code="failpoint", allowed=sorted(PLACES))
    return name
