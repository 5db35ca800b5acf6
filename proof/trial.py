"""Tries mutants in one process that has collected the tests: each in a fork, against the tests that reach it.

A function's mutant gives the function other code, wherever it has been imported to. What runs when its
module is imported cannot be changed that way afterwards: such mutants are handed back untried.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import inspect
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import pytest
from mutate import Mutant

ENDS = {0: "survived", 1: "found", 2: "at import", 3: "broken"}
"""How a trial ends, by its exit code; a signal is a mutant that hangs."""
SURVIVED, FOUND, AT_IMPORT, BROKEN = ENDS
WORKERS = os.cpu_count() or 1
GRACE_S, TIMES_LONGER = 1.0, 3.0
"""A test that takes so many times as much processor time as it does without the change hangs."""
_ROOM = "kedge.flow."
_GIB = 1 << 30
_Line = tuple[str, int]


class Trial:
    """The pytest plugin: collects as ever, then runs the tests once for each mutant."""

    def __init__(self, mutants: Sequence[Mutant], tell: Callable[[int, str], None]) -> None:
        self._mutants = mutants
        self._tell = tell
        self._room = str(mutants[0].path.parent) if mutants else ""
        self._failed = False
        self._reached: dict[_Line, list[pytest.Item]] = {}
        """Which tests come by a line."""
        self._took_s: dict[pytest.Item, float] = {}

    def pytest_sessionstart(self) -> None:
        from hypothesis import Phase, settings

        # The same lives for each mutant, and no search for a smaller or a second one.
        settings.register_profile(
            "mutants",
            settings.get_profile("kedge"),
            derandomize=True,
            database=None,
            phases=[Phase.generate],
            report_multiple_bugs=False,
        )
        settings.load_profile("mutants")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._failed = self._failed or report.failed

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for item in session.items:
            self._took_s[item] = -time.process_time()
            self._look(item)
            self._took_s[item] += time.process_time()
        if self._failed:
            raise SystemExit("the tests fail without any change: mend that first")
        running: dict[int, int] = {}
        for number in range(len(self._mutants)):
            if len(running) >= WORKERS:
                self._reap(running)
            running[self._fork(number)] = number
        while running:
            self._reap(running)
        return True

    def _look(self, item: pytest.Item) -> None:
        """Run a test and see which lines of the room it comes by."""
        lines: set[_Line] = set()

        def seen(frame: FrameType, event: str, arg: object) -> Any:
            file = frame.f_code.co_filename
            if not file.startswith(self._room):
                return None
            lines.add((file, frame.f_lineno))
            return seen

        sys.settrace(seen)
        try:
            _run(item)
        finally:
            sys.settrace(None)
        for line in lines:
            self._reached.setdefault(line, []).append(item)

    def _reap(self, running: dict[int, int]) -> None:
        pid, status = os.wait()
        number = running.pop(pid)
        if os.WIFSIGNALED(status):
            self._tell(number, "hung")
        else:
            self._tell(number, ENDS[os.WEXITSTATUS(status)])

    def _fork(self, number: int) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = BROKEN
        try:
            limit_memory()
            code = self._try(self._mutants[number])
        finally:
            os._exit(code)

    def _try(self, mutant: Mutant) -> int:
        if not change(mutant):
            return AT_IMPORT
        for item in self._tests(mutant):
            signal.setitimer(signal.ITIMER_PROF, GRACE_S + TIMES_LONGER * self._took_s[item])
            _run(item)
            if self._failed:
                return FOUND
        return SURVIVED

    def _tests(self, mutant: Mutant) -> list[pytest.Item]:
        """Those that come by it: no others can notice. The quickest first."""
        found = {
            item for line in mutant.statement() for item in self._reached.get((str(mutant.path), line), ())
        }
        return sorted(found, key=self._took_s.__getitem__)


def limit_memory() -> None:
    """This process may grow, but not for ever."""
    resource.setrlimit(resource.RLIMIT_AS, (2 * _GIB, 2 * _GIB))


def _run(item: pytest.Item) -> None:
    item.config.hook.pytest_runtest_protocol(item=item, nextitem=None)


class Changed(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Gives the changed module when it is asked for, and nothing else."""

    def __init__(self, mutant: Mutant) -> None:
        self._mutant = mutant
        self.name = _ROOM + mutant.path.stem

    def find_spec(self, fullname: str, *_: object) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_loader(fullname, self, origin=str(self._mutant.path))

    def get_source(self, fullname: str) -> str | None:  # noqa: ARG002 - the one module it was asked for
        return None

    def get_code(self, fullname: str) -> CodeType:  # noqa: ARG002 - as above
        return self.source_to_code(self._mutant.source(), str(self._mutant.path))


def change(mutant: Mutant) -> bool:
    """Give the function that the mutant is about its changed code; False if it is about none."""
    loader = Changed(mutant)
    spec = loader.find_spec(loader.name)
    assert spec is not None
    changed = importlib.util.module_from_spec(spec)
    try:
        loader.exec_module(changed)
    except Exception:
        return False  # it breaks as it is imported
    others = dict(_functions(changed, mutant))
    for name, function in _functions(sys.modules[loader.name], mutant):
        if function.__code__ != others[name].__code__:
            function.__code__ = others[name].__code__
            return True
    return False


def _functions(module: ModuleType, mutant: Mutant) -> Iterator[tuple[str, FunctionType]]:
    holders = [module, *(cls for cls in vars(module).values() if inspect.isclass(cls))]
    for holder in holders:
        if holder is not module and holder.__module__ != module.__name__:
            continue
        for value in list(vars(holder).values()):
            function = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
            if isinstance(function, FunctionType) and function.__code__.co_filename == str(mutant.path):
                yield function.__qualname__, function
