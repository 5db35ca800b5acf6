"""Bugs put in on purpose: each is planted in a copy of the project, and the test suite must find it.

Who wrote the bugs (`planted/*.toml`) had read what kedge promises and its source, and none of its tests:
a suite that finds them would find others like them. One that it does not find is a hole, and what was
done about it stands in `planted/ESCAPED.md`.

A bug counts as found only if a test fails that passes without it. A suite that cannot be collected,
and a test that fails by chance or by the state of the machine, find nothing. A run in which no test
ends for a long time hangs; that finds the bug if the test it hangs in ends well in time without it.

Mutating every line by machine (`mutants`) shows that small changes are noticed. It does not make the
mistakes that people make: a guard that somebody held for needless, a wait left out to be faster.
"""

from __future__ import annotations

import ast
import json
import os
import random
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from facts import Fact

ROOT = Path(__file__).resolve().parent.parent
BUGS = Path(__file__).resolve().parent / "planted"
SEED = 20
DRAWN = 6
AT_ONCE = 2
SILENT_S = 80.0
"""A run in which no test has ended for so long hangs."""
ALONE_S = 40.0
"""The most that one test by itself may take; without the bug it has to end in half of that."""
TIMES = 2
"""How often a test that failed is run again with the bug, and without: some fail by chance."""
CHANCES = 3
"""Tests of one run that may fail by chance before the run is taken for broken."""
NEAREST = ("bad_input", "control", "flow", "tools", "checks", "plan", "views", "engine", "surface", "journal")
"""Tests in the order in which they are tried after the bug's own room: quick and broad ones first."""
NOT_RUN = ("tidy", "proof", "bench")
"""Tests of how the source looks, of the proof itself, and of speed."""
_NOT_COPIED = shutil.ignore_patterns(
    ".git", ".venv", "__pycache__", ".pytest_cache", ".hypothesis", ".ruff_cache", ".coverage*"
)
_ENDED = re.compile(r" [A-Z]+ +\[ *[0-9]+%\]$")
_PASSED, _FAILED = (0, 5), 1
"""pytest's exit codes: all passed (or there were none), and a test failed. All others are something else."""


class Bug(NamedTuple):
    """One bug: a piece of a file, and what a careful person could have written there instead."""

    name: str
    what: str
    breaks: str
    file: str
    old: str
    new: str

    @property
    def room(self) -> str:
        return self.file.split("/")[2]

    def planted_in(self, text: str) -> str:
        """`text` with the bug in it; ValueError if the source has moved on."""
        count = text.count(self.old)
        if count != 1:
            raise ValueError(
                f"bug {self.name}: its old text is {count} times in {self.file}, not once: "
                f"the source has moved on, mend {BUGS.name}/*{self.name}.toml"
            )
        return text.replace(self.old, self.new)

    def check(self) -> None:
        """ValueError or SyntaxError unless the bug fits the source, changes it, and leaves it readable."""
        before = (ROOT / self.file).read_text(encoding="utf-8")
        after = self.planted_in(before)
        if after == before:
            raise ValueError(f"bug {self.name} changes nothing")
        if self.file.endswith(".py"):
            if ast.dump(ast.parse(after)) == ast.dump(ast.parse(before)):
                raise ValueError(f"bug {self.name} changes only how the source looks")
        elif not sqlite3.complete_statement(after):
            raise ValueError(f"bug {self.name} leaves no whole statement at the end of {self.file}")


class Verdict(NamedTuple):
    """What the suite had to say to a bug."""

    bug: Bug
    test: str
    """The test that found it; empty if none did."""
    hung: bool
    seconds: float
    broken: str = ""
    """Why nothing can be said: the suite itself did not run."""


def all_bugs() -> list[Bug]:
    """Every planted bug, by the number of its file."""
    return [
        Bug(path.stem.partition("_")[2], **tomllib.loads(path.read_text(encoding="utf-8")))
        for path in sorted(BUGS.glob("*.toml"), key=lambda path: int(path.stem.partition("_")[0]))
    ]


def prove(count: int | None) -> Iterator[Fact]:
    """Plant `count` bugs (None: a fair draw of a few), and tell which of them the suite does not find."""
    verdicts = list(_tried(drawn(all_bugs(), DRAWN if count is None else count)))
    found = [verdict for verdict in verdicts if verdict.test]
    missed = [verdict for verdict in verdicts if not verdict.test]
    yield Fact(
        "bugs planted on purpose that the tests find",
        f"{len(found)} of {len(verdicts)}",
        "all",
        good=not missed,
        note="; ".join(f"{verdict.broken or 'not found'}: {_again(verdict.bug)}" for verdict in missed),
    )
    yield Fact(
        "bugs planted on purpose there are", f"{len(all_bugs())}", "at least 36", good=len(all_bugs()) >= 36
    )


def drawn(bugs: Iterable[Bug], count: int) -> list[Bug]:
    """So many of the bugs: the same each time, and no room has its second turn before all had their first."""
    left: dict[str, list[Bug]] = {}
    for bug in bugs:
        left.setdefault(bug.room, []).append(bug)
    luck = random.Random(SEED)
    found: list[Bug] = []
    while left and len(found) < count:
        for room in luck.sample(sorted(left), len(left)):
            found.append(left[room].pop(luck.randrange(len(left[room]))))
            if not left[room]:
                del left[room]
    return found[:count]


def _again(bug: Bug) -> str:
    return f"PYTHONPATH=src .venv/bin/python proof/planted.py {bug.name}"


def _tried(bugs: Sequence[Bug]) -> Iterator[Verdict]:
    with tempfile.TemporaryDirectory(prefix="kedge-planted-") as scratch:
        clean = Tree(Path(scratch) / "clean")
        with ThreadPoolExecutor(AT_ONCE) as pool:
            for verdict in pool.map(lambda bug: _try(bug, clean, Path(scratch)), bugs):
                told = f"found by {verdict.test}" if verdict.test else verdict.broken or "NOT FOUND"
                how = " (it hangs)" if verdict.hung else ""
                print(
                    f"  {verdict.bug.name}: {told}{how}, {verdict.seconds:.0f} s", file=sys.stderr, flush=True
                )
                yield verdict


def _try(bug: Bug, clean: Tree, scratch: Path) -> Verdict:
    began_s = time.monotonic()
    tree = Tree(scratch / bug.name)
    try:
        tree.plant(bug)
        test, hung = _search(tree, clean, bug)
    except (ValueError, _BrokenRun) as error:
        return Verdict(bug, "", hung=False, seconds=time.monotonic() - began_s, broken=str(error))
    finally:
        tree.remove()
    return Verdict(bug, test, hung, time.monotonic() - began_s)


def _search(tree: Tree, clean: Tree, bug: Bug) -> tuple[str, bool]:
    """The first test that the bug is found by, and whether it hangs; an empty text if there is none."""
    for chosen in tree.stages(bug):
        chance: list[str] = []
        while True:
            run = tree.run([*chosen, *(f"--deselect={test}" for test in chance)], SILENT_S)
            if not run.stopped_at:
                break
            if _guilty(run.stopped_at, tree, clean):
                return run.stopped_at, run.hung
            chance.append(run.stopped_at)
            if len(chance) > CHANCES:
                raise _BrokenRun(f"too many tests fail with and without the bug: {', '.join(chance)}")
    return "", False


def _guilty(test: str, tree: Tree, clean: Tree) -> bool:
    """The test fails, or hangs, with the bug each time; and without it passes in good time each time."""
    if not all(tree.run([test], ALONE_S).stopped_at for _ in range(TIMES)):
        return False
    without = [clean.run([test], ALONE_S) for _ in range(TIMES)]
    return all(not run.stopped_at and run.seconds < ALONE_S / 2 for run in without)


class _BrokenRun(Exception):
    """pytest could not even begin: nothing is known of the bug."""


class Run(NamedTuple):
    """How one run of pytest came out."""

    stopped_at: str
    """The test that failed, or that it hung in; empty if all passed."""
    hung: bool
    seconds: float


class Tree:
    """A copy of the project, with a bug in it or without. The virtual environment is shared."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(ROOT, folder, ignore=_NOT_COPIED, symlinks=True)
        if (ROOT / ".venv").exists():
            (folder / ".venv").symlink_to(ROOT / ".venv")

    def plant(self, bug: Bug) -> None:
        """Write the bug into the copy."""
        path = self.folder / bug.file
        path.write_text(bug.planted_in(path.read_text(encoding="utf-8")), encoding="utf-8")

    def remove(self) -> None:
        """Leave nothing of the copy."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def stages(self, bug: Bug) -> Iterator[list[str]]:
        """What to run one after the other: the file's own tests, those of its room, all others."""
        tests = self.folder / "tests"
        room, stem = tests / bug.room, Path(bug.file).stem
        near = [str(path.relative_to(self.folder)) for path in sorted(room.rglob(f"test_*{stem}*.py"))]
        if near:
            yield near
        if room.is_dir():
            yield [f"tests/{bug.room}", *(f"--ignore={path}" for path in near)]
        others = {path.name for path in tests.iterdir() if path.is_dir()} - {
            bug.room,
            "__pycache__",
            *NOT_RUN,
        }
        near_first = sorted(others, key=lambda name: (NEAREST.index(name) if name in NEAREST else 99, name))
        if near_first:
            yield [f"tests/{name}" for name in near_first]

    def run(self, chosen: Sequence[str], silent_s: float) -> Run:
        """Run tests until the first that fails, or until none has ended for `silent_s`."""
        began_s = time.monotonic()
        with tempfile.TemporaryDirectory(dir=self.folder.parent, ignore_cleanup_errors=True) as scratch:
            told, cache = Path(scratch) / "told", Path(scratch) / "cache"
            command = [sys.executable, "-m", "pytest", "-x", "-v", "--no-header", "--tb=no"]
            command += ["-o", f"cache_dir={cache}", "-o", "faulthandler_timeout=0", *chosen]
            environment = os.environ | {
                "PYTHONPATH": str(self.folder / "src"),  # for programs that tests start, too
                "PYTHONDONTWRITEBYTECODE": "1",
                "CI": "1",  # laws try the same examples every time
            }
            with told.open("wb") as output:
                process = subprocess.Popen(  # noqa: S603 - our own tests
                    command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=output,
                    stderr=subprocess.STDOUT, start_new_session=True,
                )  # fmt: skip
                try:
                    hung = _hangs(process, told, silent_s)
                finally:
                    _end(process)
            seconds = time.monotonic() - began_s
            words = told.read_text(encoding="utf-8", errors="replace")
            if hung:
                return Run(_last_begun(words), hung=True, seconds=seconds)
            if process.returncode in _PASSED:
                return Run("", hung=False, seconds=seconds)
            failed = _last_failed(cache)
            if process.returncode != _FAILED or not failed:
                raise _BrokenRun(f"pytest ended with exit code {process.returncode}: {words[-300:].strip()}")
            return Run(failed, hung=False, seconds=seconds)


def _hangs(process: subprocess.Popen[bytes], told: Path, silent_s: float) -> bool:
    """Wait for the end. True if nothing more was told for so long."""
    size, since_s = 0, time.monotonic()
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(0.5)
            return False
        now_s, now = time.monotonic(), told.stat().st_size
        if now != size:
            size, since_s = now, now_s
        elif now_s - since_s > silent_s:
            return True


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever the run has left: tests of a broken engine may leave processes behind."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _last_begun(words: str) -> str:
    tests = [line for line in words.splitlines() if line.startswith("tests/") and "::" in line]
    return _ENDED.sub("", tests[-1]).rstrip() if tests else ""


def _last_failed(cache: Path) -> str:
    try:
        failed: dict[str, bool] = json.loads((cache / "v/cache/lastfailed").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    return next(iter(failed), "")


def main(names: Iterable[str]) -> int:
    """Plant the bugs of these names, and show what finds them."""
    bugs = {bug.name: bug for bug in all_bugs()}
    wanted = list(names)
    if not wanted or any(name not in bugs for name in wanted):
        print(f"name one or more of: {', '.join(bugs)}", file=sys.stderr)
        return 2
    missed = 0
    for name in wanted:
        bug = bugs[name]
        print(
            f"{name}: {bug.what}\n{bug.breaks}\n{bug.file}\n- {bug.old.strip()}\n+ {bug.new.strip()}",
            flush=True,
        )
    for verdict in _tried([bugs[name] for name in wanted]):
        missed += not verdict.test
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
