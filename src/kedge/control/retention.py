"""Which runs of a store to forget: by age, by number, by status.

Contracts: without a word on status only runs that have ended are chosen; one that is driven never is.
"""

from __future__ import annotations

import re
from collections.abc import Container, Sequence

import msgspec

from kedge.base.errors import BadInput, NotOwner
from kedge.base.failpoints import armed, reach
from kedge.control.listing import RunInfo
from kedge.engine.ports import Journal
from kedge.flow.words import ENDED, RunStatus

STATUSES = (*(str(status) for status in RunStatus), "damaged", "unknown")
"""What a run in a list may be."""
_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 7 * 86_400}
_AGE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])", re.ASCII)


class Retention(msgspec.Struct, frozen=True, kw_only=True):
    """What to forget. Each rule that is given narrows the choice; one at least is needed."""

    older_than_s: float | None = None
    """Only runs that ended (or, if they have not, moved) so long ago."""
    keep: int | None = None
    """All but the newest so many."""
    statuses: tuple[str, ...] = ()
    """Only these; none named: those that have ended."""

    def __post_init__(self) -> None:
        if self.older_than_s is None and self.keep is None and not self.statuses:
            raise BadInput(
                "nothing says which runs to forget",
                code="retention",
                remedy="give an age, a number to keep, or a status",
            )
        for name, value in (("keep", self.keep), ("older_than_s", self.older_than_s)):
            kind = int if name == "keep" else int | float
            if value is not None and (isinstance(value, bool) or not isinstance(value, kind)):
                raise BadInput(f"{name} is a number, not {value!r}", code="retention", where=name)
        if (self.keep or 0) < 0 or (self.older_than_s or 0.0) < 0:
            raise BadInput("an age or a number to keep cannot be below 0", code="retention")
        if isinstance(self.statuses, str):
            raise BadInput(
                f"statuses are a list of words, not the text {self.statuses!r}",
                code="status",
                remedy=f"give ({self.statuses!r},)",
            )
        for status in self.statuses:
            if status not in STATUSES:
                raise BadInput(f"{status!r} is not a status", code="status", allowed=STATUSES)


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What was forgotten, or would be."""

    runs: tuple[RunInfo, ...]
    """What is gone, or would be."""
    kept: tuple[RunInfo, ...] = ()
    """Chosen, and kept because somebody drives them."""
    freed_bytes: int = 0
    """Given back to the file system."""


def prune(
    journal: Journal, listed: Sequence[RunInfo], live: Container[str], policy: Retention, now_ms: int,
    *, dry_run: bool,
) -> Pruned:  # fmt: skip
    """Forget the runs that the policy gives up. One that is driven stays, whatever the policy says."""
    gone: list[RunInfo] = []
    kept: list[RunInfo] = []
    for run in chosen(listed, policy, now_ms):
        if run.driven or run.id in live:
            kept.append(run)
            continue
        if armed:
            reach("control.prune.chosen")
        try:
            if not dry_run:
                journal.delete([run.id])
        except NotOwner:  # somebody took it up after the list was made
            kept.append(run)
        else:
            gone.append(run)
    # Giving space back rewrites the file, and a run that is driven would have to wait for that.
    idle = not (dry_run or any(run.driven or run.id in live for run in listed))
    if armed:
        reach("control.prune.deleted")
    freed = journal.vacuum() if gone and idle else 0
    return Pruned(runs=tuple(gone), kept=tuple(kept), freed_bytes=freed)


def chosen(runs: Sequence[RunInfo], policy: Retention, now_ms: int) -> list[RunInfo]:
    """Of `runs`, newest first, those that the policy gives up."""
    wanted = policy.statuses or tuple(map(str, ENDED))
    fitting = [run for run in runs if run.status in wanted]
    if policy.keep is not None:
        fitting = fitting[policy.keep :]
    if policy.older_than_s is not None:
        before_s = now_ms / 1000 - policy.older_than_s
        fitting = [run for run in fitting if _moved_s(run) <= before_s]
    return fitting


def _moved_s(run: RunInfo) -> float:
    moved = run.ended_at or run.updated_at or run.started_at
    return moved.timestamp() if moved is not None else 0.0


def age_s(text: str) -> float:
    """Seconds of an age as people write it: `30d`, `12h`, `90m`."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is None:
        raise BadInput(
            f"{text[:40]!r} is not an age",
            code="age",
            remedy="write a number and one of s, m (minutes), h, d, w: 30d",
        )
    return float(match[1]) * _UNITS_S[match[2]]
