"""The laboratory of the crash matrix: starts a client, kills it where the case says, starts it again.

    PYTHONPATH=src .venv/bin/python proof/crash_lab.py pays journal.commit.before:2 any:17

shows one case: the workflow, the first kill, and those of the lives after it. Without kills it shows how
often each place is passed; with a folder at the end it leaves there what the last kill left. Without anything
it takes cases from its input, one a line, and answers each with a line of JSON. It has imported everything
and opened nothing, so that a life costs a fork.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import crash_life
from crash_checks import Witness, check_end
from crash_forks import Client
from crash_life import OUT, Kill, parse_kills

from kedge.engine import processes as _processes  # imported before the first fork, as all that follows
from kedge.journal import sqlite as _sqlite

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
        client, witness = Client(folder, workflow), Witness(folder)
        try:
            for number, kill in enumerate(lives, start=1):
                self._one_life(client, number, kill, outcome)
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

    def _one_life(self, client: Client, number: int, kill: Kill | None, outcome: Outcome) -> None:
        end = client.live(number, kill)
        if isinstance(end, dict):
            outcome.wrong += end.pop("wrong", [])
            outcome.kills.append({**end, "depth": number})
        elif end:
            outcome.wrong.append(f"life {number} {end}: {(client.folder / 'said.txt').read_text()[-2000:]}")

    def _compare(self, folder: Path, witness: Witness, outcome: Outcome, *, last: bool) -> None:
        """I4: the log adds up, in another process, to what the driver had in memory."""
        stored = witness.disk.events.get("r", [])
        killed = bool(outcome.kills) and outcome.kills[-1]["how"] == "kill"
        if killed and not last and stored:
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
