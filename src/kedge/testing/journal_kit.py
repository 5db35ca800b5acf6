"""The conformance kit for journals: the same cases for every store.

    report = check(lambda name: MyJournal(folder / name))
    assert report.ok, str(report)

`make_journal(name)` opens the store of that name, new and empty at first. A store that outlives its
object gives the same runs when it is opened again, also beside the first; cases that need this are
skipped, by name, where it does not. With pytest, parametrize over CASES and call `case.run` with a
function that opens one fresh store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kedge.testing import command_cases
from kedge.testing.journal_cases import CASES, Case, Driver, Journal, Open

_ALSO = command_cases
"""It adds its cases to the others."""

__all__ = ["CASES", "Case", "Driver", "Journal", "Open", "Report", "can_share", "check"]


class Report(NamedTuple):
    """What a store can do."""

    passed: tuple[str, ...]
    skipped: tuple[str, ...]
    failed: Mapping[str, str]

    @property
    def ok(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        lines = [f"{len(self.passed)} passed, {len(self.skipped)} skipped, {len(self.failed)} failed"]
        lines += [f"skipped {name}: a second object does not see the same runs" for name in self.skipped]
        lines += [f"FAILED {name}: {why}" for name, why in self.failed.items()]
        return "\n".join(lines)


def check(make_journal: Callable[[str], Journal]) -> Report:
    """Run every case, each in a store of its own."""
    passed: list[str] = []
    skipped: list[str] = []
    failed: dict[str, str] = {}
    sharing = can_share(lambda: make_journal("can_share"))
    for case in CASES:
        if case.needs_sharing and not sharing:
            skipped.append(case.name)
            continue
        opened: list[Journal] = []
        try:
            case.run(lambda name=case.name, opened=opened: _opened(make_journal(name), opened))
        except Exception as error:  # a store may fail in any way: that is what is being found out
            failed[case.name] = f"{type(error).__name__}: {error}"
        else:
            passed.append(case.name)
        for journal in opened:
            journal.close()
    return Report(tuple(passed), tuple(skipped), failed)


def can_share(open_journal: Open) -> bool:
    """Whether a second object of the store sees what the first one wrote."""
    first = open_journal()
    Driver(first, "shared").write(1)
    second = open_journal()
    found = second.head("shared") is not None
    second.close()
    first.close()
    return found


def _opened(journal: Journal, opened: list[Journal]) -> Journal:
    opened.append(journal)
    return journal
