"""What comes from outside upon a life: a kill, a halt while a rival wants its run, Ctrl-C, a race for it."""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import time
from pathlib import Path
from typing import Any

import crash_life
from crash_disk import read_disk
from crash_life import INTERRUPTED, REFUSED, Kill

PATIENCE_S = 30.0
"""A life that neither ends nor reaches its place in this time hangs."""
ENDS_S = 5.0
"""So long a client may take to end after Ctrl-C."""
RIVALS = 3
RACE = "race"
UNOWNED = frozenset(
    """control.start.checked journal.claim.before journal.release.after locks.drop.unlinked control.retired
    driver.ended.told control.close.released control.close.written writer.close file.close""".split()
)
"""Places where a driver has not got its run yet, or has given it back."""


class Client:
    """The lives of one case: each is a process forked from this one, in the case's folder."""

    def __init__(self, folder: Path, workflow: str) -> None:
        self.folder = folder
        self._workflow = workflow

    def live(self, number: int, kill: Kill | None) -> dict[str, Any] | str:
        """One life: what came from outside and where, or how it ended by itself, empty if well."""
        if kill is not None and kill.how == RACE:
            return self._race(number)
        said, pipe = os.pipe()
        pid = self._fork(number, kill, pipe)
        os.close(pipe)
        try:
            told = select.select([said], [], [], PATIENCE_S)[0]
            line = os.read(said, 4096) if told else b""
        finally:
            os.close(said)
        if not line:
            code = _wait(pid, PATIENCE_S if told else 0.0)
            if code is None:
                return f"neither ended nor was at its place after {PATIENCE_S:g} s"
            return f"ended with exit code {code}" if code else ""
        found = json.loads(line)
        match found["how"]:
            case "freeze" | "freeze_kill":
                found["wrong"] = self._freeze(number, pid, found["at"], kill=found["how"] == "freeze_kill")
            case "int" | "int2":
                found["wrong"] = _interrupt(pid, again=found["how"] == "int2")
            case _:
                _wait(pid, 0.0)
        return found

    def _fork(self, number: int, kill: Kill | None, pipe: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            gc.disable()  # or each life copies all it was born with, at its first collection
            os.chdir(self.folder)
            sink = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(sink, 1)
            os.dup2(sink, 2)
            code = crash_life.live(self._workflow, number, kill, pipe)
        finally:
            os._exit(code)

    def _freeze(self, number: int, pid: int, place: str, *, kill: bool) -> list[str]:
        """While it stands still, a rival wants the run; then it may go on, or dies."""
        os.waitpid(pid, os.WUNTRACED)
        stored = read_disk(self.folder, set()).events.get("r", [])
        ended = bool(stored) and stored[-1].kind == "RunEnded"  # then it needs no driver
        rival = _wait(self._fork(number, None, -1), PATIENCE_S)
        if not kill:
            os.kill(pid, signal.SIGCONT)
        own = _wait(pid, 0.0 if kill else PATIENCE_S)
        owned = place not in UNOWNED and not ended
        wrong: list[str] = []
        if rival not in ((REFUSED,) if owned else (0, REFUSED)):
            wrong.append(f"I5: the rival of a driver that stood still at {place} ended with {rival}")
        if own not in ((None,) if kill else (0,) if owned else (0, REFUSED)):
            wrong.append(f"what stood still at {place} ended with {own}")
        return wrong

    def _race(self, number: int) -> dict[str, Any]:
        """Several want the run at the same moment: one drives it, to its end."""
        rivals = [self._fork(number, None, -1) for _ in range(RIVALS)]
        codes = [_wait(pid, PATIENCE_S) for pid in rivals]
        good = set(codes) <= {0, REFUSED} and 0 in codes
        wrong = [] if good else [f"I5: of {RIVALS} that wanted the run at once, they ended with {codes}"]
        return {"at": RACE, "hit": 1, "before": "", "after": "", "how": RACE, "wrong": wrong}


def _wait(pid: int, patience_s: float) -> int | None:
    """Its exit code; without patience, or when that ends, it is killed: then None."""
    deadline_s = time.monotonic() + patience_s
    while patience_s:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > deadline_s:
            break
        time.sleep(0.001)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def _interrupt(pid: int, *, again: bool) -> list[str]:
    """Ctrl-C: it drains and ends; at the second it ends as soon as it can."""
    if again:
        time.sleep(0.001)
        os.kill(pid, signal.SIGINT)
    code = _wait(pid, ENDS_S)
    if code is None:
        return [f"it did not end within {ENDS_S:g} s after Ctrl-C"]
    return [] if code in (0, INTERRUPTED, -signal.SIGINT) else [f"it ended with {code} after Ctrl-C"]
