"""The laboratory of the crash matrix: starts a client, kills it where the case says, starts it again.

    PYTHONPATH=src .venv/bin/python proof/crash_lab.py pays journal.commit.before:2 any:17

shows one case: the workflow, the first kill, and those of the lives after it. Without kills it shows how
often each place is passed; with a folder at the end it leaves there what the last kill left. Without anything
it takes cases from its input, one a line, and answers each with a line of JSON. It has imported everything
and opened nothing, so that a life costs a fork.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import crash_life
from crash_checks import Witness, check_end
from crash_disk import read_disk
from crash_life import INTERRUPTED, OUT, REFUSED, Kill, parse_kills

from kedge.engine import processes as _processes  # imported before the first fork, as all that follows
from kedge.journal import sqlite as _sqlite

PATIENCE_S = 30.0
"""A life that neither ends nor reaches its place in this time hangs."""
ENDS_S = 5.0
"""So long a client may take to end after Ctrl-C."""
UNOWNED = frozenset(
    {
        "control.start.checked",
        "journal.claim.before",
        "control.retired",
        "journal.release.after",
        "locks.drop.unlinked",
        "driver.ended.told",
        "control.close.released",
        "control.close.written",
        "writer.close",
        "file.close",
    }
)
"""Places where a driver has not got its run yet, or has given it back."""
FOLDERS = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - each case makes its own in it
"""In memory where that is possible: a kill leaves the same behind, and a busy disk makes every case wait."""
LOADED = (_processes, _sqlite)


@dataclass
class Outcome:
    """What became of a case."""

    case: str
    kills: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    """Where it was killed: place, hit, and the kinds of event before and after."""
    wrong: list[str] = field(default_factory=list[str])
    hits: dict[str, int] = field(default_factory=dict[str, int])
    """How often the last life passed each place."""
    passes: int = 0
    kinds: list[str] = field(default_factory=list[str])
    """The events of the run at the end."""
    took_s: float = 0.0


class Laboratory:
    """Runs cases, one after another."""

    def __init__(self) -> None:
        self._folds = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, str(Path(__file__).with_name("crash_fold.py"))],
            env={**os.environ, "PYTHONHASHSEED": str(random.randrange(1, 2**32))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        asyncio.run(crash_life.warm_up())

    def close(self) -> None:
        """Leave nothing running."""
        self._folds.kill()
        self._folds.communicate()

    def run(self, case: str, *, keep: bool = False) -> Outcome:
        """One case from the first life to the last."""
        began_s = time.monotonic()
        workflow, *words = case.split()
        left = Path(words.pop()) if words and words[-1].startswith("/") else None
        lives = [*parse_kills(words), *([] if left else [None])]
        outcome = Outcome(case)
        folder = left or Path(tempfile.mkdtemp(prefix="kedge-crash-", dir=FOLDERS)).resolve()
        witness = Witness(folder)
        try:
            for number, kill in enumerate(lives, start=1):
                self._one_life(folder, workflow, number, kill, outcome)
                outcome.wrong += [f"life {number}: {fault}" for fault in witness.look()]
                self._compare(folder, witness, outcome, last=kill is None)
                if outcome.wrong:
                    break
            else:
                outcome.wrong += [] if left else check_end(folder, witness.disk)
            outcome.kinds = [stored.kind for stored in witness.disk.events.get("r", [])]
        finally:
            outcome.took_s = time.monotonic() - began_s
            if left:
                pass
            elif keep and outcome.wrong:
                print(f"kept: {folder}", file=sys.stderr)
            else:
                shutil.rmtree(folder, ignore_errors=True)
        return outcome

    def _one_life(
        self, folder: Path, workflow: str, number: int, kill: Kill | None, outcome: Outcome
    ) -> None:
        end = _live(folder, workflow, number, kill)
        if isinstance(end, dict):
            outcome.wrong += end.pop("wrong", [])
            outcome.kills.append({**end, "depth": number})
        elif end:
            outcome.wrong.append(f"life {number} {end}: {(folder / 'said.txt').read_text()[-2000:]}")

    def _compare(self, folder: Path, witness: Witness, outcome: Outcome, *, last: bool) -> None:
        """I4: the log adds up, in another process, to what the driver had in memory."""
        stored = witness.disk.events.get("r", [])
        if outcome.kills and outcome.kills[-1]["how"] == "kill" and not last and stored:
            outcome.kills[-1]["before"] = outcome.kills[-1]["before"] or stored[-1].kind
        if not stored or outcome.wrong:
            return
        told, answers = self._folds.stdin, self._folds.stdout
        if told is None or answers is None:
            raise AssertionError
        told.write(f"{folder / 'copy'}\n")
        told.flush()
        found = json.loads(answers.readline())
        if "broke" in found:
            outcome.wrong.append(f"I4: {found['broke']}")
        elif last:
            seen = json.loads((folder / OUT).read_text())
            outcome.hits, outcome.passes = seen["hits"], seen["passes"]
            if seen["picture"] != found["picture"]:
                outcome.wrong.append(f"I4: driven {seen['picture']}\nfolded {found['picture']}")


def _live(folder: Path, workflow: str, number: int, kill: Kill | None) -> dict[str, Any] | str:
    """One life: what came from outside and where, or how it ended by itself, empty if well."""
    said, pipe = os.pipe()
    pid = _fork(folder, workflow, number, kill, pipe)
    os.close(pipe)
    try:
        told = select.select([said], [], [], PATIENCE_S)[0]
        line = os.read(said, 4096) if told else b""
    finally:
        os.close(said)
    if not line:
        code = _wait(pid, 0.0 if not told else PATIENCE_S)
        if not told or code is None:
            return f"neither ended nor was at its place after {PATIENCE_S:g} s"
        return f"ended with exit code {code}" if code else ""
    found = json.loads(line)
    match found["how"]:
        case "freeze":
            found["wrong"] = _freeze(folder, workflow, number, pid, found["at"])
        case "int" | "int2":
            found["wrong"] = _interrupt(pid, again=found["how"] == "int2")
        case _:
            _wait(pid, 0.0)
    return found


def _fork(folder: Path, workflow: str, number: int, kill: Kill | None, pipe: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        gc.disable()  # or each life copies all it was born with, at its first collection
        os.chdir(folder)
        sink = os.open("said.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        code = crash_life.live(workflow, number, kill, pipe)
    finally:
        os._exit(code)


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


def _freeze(folder: Path, workflow: str, number: int, pid: int, place: str) -> list[str]:
    """While it stands still, a rival wants the run; then it may go on."""
    os.waitpid(pid, os.WUNTRACED)
    stored = read_disk(folder, set()).events.get("r", [])
    ended = bool(stored) and stored[-1].kind == "RunEnded"  # then it needs no driver
    rival = _wait(_fork(folder, workflow, number, None, -1), PATIENCE_S)
    os.kill(pid, signal.SIGCONT)
    own = _wait(pid, PATIENCE_S)
    owned = place not in UNOWNED and not ended
    wrong = (
        [f"I5: the rival of a driver that stood still at {place} ended with {rival}"]
        if (rival != REFUSED if owned else rival not in (0, REFUSED))
        else []
    )
    if own not in ((0,) if owned else (0, REFUSED)):
        wrong.append(f"what stood still at {place} ended with {own}")
    return wrong


def _interrupt(pid: int, *, again: bool) -> list[str]:
    """Ctrl-C: it drains and ends; at the second it ends as soon as it can."""
    began_s = time.monotonic()
    if again:
        time.sleep(0.001)
        os.kill(pid, signal.SIGINT)
    code = _wait(pid, ENDS_S)
    if code is None:
        return [f"did not end within {time.monotonic() - began_s:.1f} s after Ctrl-C"]
    expected = (0, INTERRUPTED, -signal.SIGINT)
    return [] if code in expected else [f"ended with {code} after Ctrl-C"]


def main() -> int:
    """One case from the command line, or many from the input."""
    laboratory = Laboratory()
    try:
        if len(sys.argv) > 1:
            outcome = laboratory.run(" ".join(sys.argv[1:]), keep=True)
            print(json.dumps(asdict(outcome), indent=1))
            return 1 if outcome.wrong else 0
        for line in sys.stdin:
            print(json.dumps(asdict(laboratory.run(line.strip()))), flush=True)
        return 0
    finally:
        laboratory.close()


if __name__ == "__main__":
    sys.exit(main())
