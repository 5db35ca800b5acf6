"""Every small change to the core is a bug: the core's own tests must find it.

Each mutant is a process forked from one that has the test tools loaded and nothing of kedge: it
loads the changed module in place of the real one, runs `tests/flow` up to the first failure, and
says by its exit code whether there was one. A mutant that hangs is found too: it would be noticed.

One by hand: `PYTHONPATH=src .venv/bin/python proof/mutants.py due.py:117` runs those of that line.
"""

from __future__ import annotations

import ast
import importlib.abc
import importlib.util
import os
import random
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path

from facts import Fact
from mutate import Mutant, mutants

ROOT = Path(__file__).parents[1]
ROOM = ROOT / "src" / "kedge" / "flow"
TESTS = ("tests/flow",)
USUAL = 80
"""Mutants where no number is asked for: about a minute's worth."""
TIMES_LONGER = 10
"""A mutant under which the tests take so many times as long hangs."""
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")  # its tools are loaded already, on purpose
WORKERS = os.cpu_count() or 1


def prove(count: int | None) -> Iterator[Fact]:
    """How many of the changes the tests find: of all of them, or of a fair draw."""
    every = [mutant for path in sorted(ROOM.glob("*.py")) for mutant in mutants(path)]
    drawn = random.Random(0).sample(every, min(count or USUAL, len(every)))
    _load_tools()
    patience_s = _patience_s()
    ends = list(_try_all(drawn, patience_s))
    survived = [mutant for mutant, end in ends if end == "survived"]
    for mutant in survived:
        print(f"  survived: {_where(mutant)}: {mutant.what}", file=sys.stderr)
    hung = sum(end == "hung" for _, end in ends)
    share = 1 - len(survived) / len(drawn)
    yield Fact(
        "changes to flow that its tests find",
        f"{share:.1%} of {len(drawn):,}",
        ">= 90 %",
        share >= 0.9,
        f"{hung} by never ending; {len(every):,} changes are known",
    )


def _load_tools() -> None:
    """What tests need and kedge is not part of, loaded once for all mutants."""
    for name in ("pytest", "hypothesis", "hypothesis.strategies", "msgspec", "yaml", "asyncio"):
        importlib.import_module(name)
    loaded = [name for name in sys.modules if name.partition(".")[0] == "kedge"]
    if loaded:
        raise SystemExit(f"mutants need a process without kedge, and {loaded[0]} is loaded")


def _patience_s() -> float:
    began_s = time.monotonic()
    if _finish(_begin(None)):
        raise SystemExit("the tests fail without any change: mend that first")
    return max(20.0, (time.monotonic() - began_s) * TIMES_LONGER)


def _try_all(drawn: Sequence[Mutant], patience_s: float) -> Iterator[tuple[Mutant, str]]:
    todo = list(drawn)
    running: dict[int, tuple[Mutant, float]] = {}
    while todo or running:
        while todo and len(running) < WORKERS:
            mutant = todo.pop()
            running[_begin(mutant)] = mutant, time.monotonic() + patience_s
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid in running:
            mutant = running.pop(pid)[0]
            hung = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
            yield mutant, "hung" if hung else "found" if status else "survived"
            continue
        for late, (_, until_s) in running.items():
            if time.monotonic() > until_s:
                os.kill(late, signal.SIGKILL)
        time.sleep(0.005)


def _begin(mutant: Mutant | None) -> int:
    """The process that tries one mutant; without one, the tests as they are."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        code = _run_tests(mutant)
    finally:
        os._exit(code)


def _finish(pid: int) -> int:
    return os.waitpid(pid, 0)[1]


def _run_tests(mutant: Mutant | None) -> int:
    import pytest

    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    os.chdir(ROOT)
    if mutant is not None:
        sys.meta_path.insert(0, _Changed(mutant))
    return int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *_QUIET, *TESTS]))


class _Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Gives the changed module when it is asked for, and nothing else."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self._name = f"kedge.flow.{mutant.path.stem}"

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(self._mutant.path))

    def get_source(self, fullname: str) -> str:  # noqa: ARG002 - the one module it was asked for
        return ast.unparse(self._mutant.source())


def _where(mutant: Mutant) -> str:
    return f"{mutant.path.name}:{mutant.line}"


def _main() -> None:
    name, _, line = sys.argv[1].partition(":")
    chosen = [m for m in mutants(ROOM / name) if not line or m.line == int(line)]
    _load_tools()
    for mutant, end in _try_all(chosen, _patience_s()):
        print(f"{_where(mutant)}: {mutant.what}: {end}", flush=True)


if __name__ == "__main__":
    _main()
