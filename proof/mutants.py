"""Every small change to the core is a bug: the core's own tests must find it.

Most changes are to a function: `trial.py` tries these in one process that has loaded everything. A change
to what runs at import takes a process of its own, forked from one that has nothing of kedge: it loads the
changed module in place of the real one, and runs `tests/flow` up to the first failure. A mutant that hangs
is found too: it would be noticed.

By hand: `PYTHONPATH=src .venv/bin/python proof/mutants.py due.py:117 words.py`: of a line, of a module.
"""

from __future__ import annotations

import importlib
import os
import random
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from facts import Fact
from mutate import Mutant, mutants

ROOT = Path(__file__).parents[1]
ROOM = ROOT / "src" / "kedge" / "flow"
TESTS = ("tests/flow",)
USUAL = 400
"""Mutants where no number is asked for: about a minute's worth."""
_PATIENCE_S = 30
"""Processor time for one that is tried in a process of its own."""
_PYTEST = ("-x", "-q", "-s", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning")


def prove(count: int | None) -> Iterator[Fact]:
    """How many of the changes the tests find: of all of them, or of a fair draw."""
    every = [mutant for path in sorted(ROOM.glob("*.py")) for mutant in mutants(path)]
    drawn = random.Random(0).sample(every, min(count or USUAL, len(every)))
    ends = list(_try_all(drawn))
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


def _try_all(drawn: Sequence[Mutant]) -> Iterator[tuple[Mutant, str]]:
    """Each mutant and what became of it: `found`, `hung` or `survived`."""
    _load_tools()
    at_import: list[Mutant] = []
    for number, end in _told_by_trial(drawn):
        if end == "broken":
            raise SystemExit(f"the trial itself went wrong at {_where(drawn[number])}")
        if end == "at import":
            at_import.append(drawn[number])
        else:
            yield drawn[number], end
    running: dict[int, Mutant] = {}
    while at_import or running:
        while at_import and len(running) < (os.cpu_count() or 1):
            mutant = at_import.pop()
            running[_begin(mutant)] = mutant
        pid, status = os.wait()
        yield running.pop(pid), "hung" if os.WIFSIGNALED(status) else "found" if status else "survived"


def _load_tools() -> None:
    """What tests need and kedge is not part of, loaded once for all mutants."""
    for name in ("pytest", "hypothesis", "hypothesis.strategies", "msgspec", "yaml", "asyncio"):
        importlib.import_module(name)
    loaded = [name for name in sys.modules if name.partition(".")[0] == "kedge"]
    if loaded:
        raise SystemExit(f"mutants need a process without kedge, and {loaded[0]} is loaded")


def _told_by_trial(drawn: Sequence[Mutant]) -> Iterator[tuple[int, str]]:
    """What the process with everything loaded tells, line by line."""
    from trial import Trial

    hear, say = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(hear)
        _in_silence([Trial(drawn, lambda number, end: _write(say, f"{number} {end}\n"))])
    os.close(say)
    heard = 0
    with os.fdopen(hear) as lines:
        for line in lines:
            number, _, end = line.strip().partition(" ")
            heard += 1
            yield int(number), end
    os.waitpid(pid, 0)
    if heard < len(drawn):
        raise SystemExit("the tests fail without any change: mend that first")


def _write(file: int, text: str) -> None:
    os.write(file, text.encode())


def _begin(mutant: Mutant) -> int:
    """The process that tries one mutant from its import on."""
    from trial import Changed, limit_memory

    pid = os.fork()
    if not pid:
        limit_memory()
        signal.setitimer(signal.ITIMER_PROF, _PATIENCE_S)
        sys.meta_path.insert(0, Changed(mutant))
        _in_silence([])
    return pid


def _in_silence(plugins: list[object]) -> None:
    """Run the tests, and end this process with what they came to."""
    import pytest

    code = 1
    try:
        sink = os.open(os.devnull, os.O_WRONLY)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        os.chdir(ROOT)
        code = int(pytest.main([*_PYTEST, *TESTS], plugins))
    finally:
        os._exit(code)


def _where(mutant: Mutant) -> str:
    return f"{mutant.path.name}:{mutant.line}"


def _main() -> None:
    chosen: list[Mutant] = []
    for wanted in sys.argv[1:]:
        name, _, line = wanted.partition(":")
        chosen += [m for m in mutants(ROOM / name) if not line or m.line == int(line)]
    for mutant, end in _try_all(chosen):
        print(f"{_where(mutant)}: {mutant.what}: {end}", flush=True)


if __name__ == "__main__":
    _main()
