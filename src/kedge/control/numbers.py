"""How well the runs of a store went, by tool, plan, day or week.

By plan, day and week, the lines of the list of runs tell it all: no log is read, so a hundred thousand
runs take a second. By tool the logs have to be read, so only those of the newest runs are, and it is
said of how many. Nothing is kept for the next time: what is derived cannot be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, get_args

import msgspec

from kedge.base.codec import UNREADABLE
from kedge.base.errors import BadInput, StoreError
from kedge.control.listing import RunInfo
from kedge.control.tally import Tally, percentile
from kedge.engine.ports import Journal
from kedge.plan.model import Plan

By = Literal["tool", "plan", "day", "week"]
BYS: tuple[By, ...] = get_args(By)
LAST = 1_000
"""Runs whose logs are read, if nobody says how many."""

_decode_plan = msgspec.json.Decoder(Plan).decode


class NumberRow(msgspec.Struct, frozen=True, kw_only=True):
    """One tool, plan, day or week."""

    name: str
    """The tool; the plan's hash; the day or week, in UTC."""
    goal: str = ""
    """Of a plan."""
    runs: int
    """Runs that it was in."""
    done: int
    """Calls of the tool, or runs, that succeeded."""
    failed: int
    """Those that did not. What was cancelled, or may have happened, is in neither."""
    success: float | None
    """`done` of both together; None of none."""
    p50_s: float | None
    """Half of the calls that succeeded, or of the runs that ended, took no longer."""
    p95_s: float | None
    """Nor did 95 of 100."""
    retries: int
    """Attempts that were followed by another one."""
    cost: float
    """As far as tools told."""
    tokens: int
    """As far as tools told."""


class Numbers(msgspec.Struct, frozen=True, kw_only=True):
    """How well runs went."""

    by: By
    """What a row is about."""
    runs: int
    """Runs that were looked at."""
    of: int
    """Runs that there are in that time; the newest of them were looked at."""
    unreadable: tuple[str, ...]
    """Runs that are damaged, and so are not in it."""
    rows: tuple[NumberRow, ...]
    """Those with the most runs first; days and weeks, the newest first."""


def numbers(
    journal: Journal,
    runs: Sequence[RunInfo],
    by: By,
    now_ms: int,
    *,
    since_s: float | None = None,
    last: int | None = None,
) -> Numbers:
    """Of the newest `last` of `runs` that began in the last `since_s` seconds."""
    if by not in BYS:
        raise BadInput(f"{by!r} is nothing to count by", code="count_by", where="by", allowed=BYS)
    if last is not None and last < 1:
        raise BadInput(f"{last} runs are none to count", code="setting_value", where="last")
    found = [run for run in runs if since_s is None or _is_since(run, now_ms / 1000 - since_s)]
    most = last if last is not None else LAST if by == "tool" else len(found)
    chosen = found[:most]
    unreadable = [run.id for run in chosen if run.damaged]
    whole = [run for run in chosen if not run.damaged]
    rows = _by_tool(journal, whole, unreadable) if by == "tool" else _by_run(whole, by)
    return Numbers(by=by, runs=len(chosen), of=len(found), unreadable=tuple(unreadable), rows=tuple(rows))


def _is_since(run: RunInfo, since_s: float) -> bool:
    return run.started_at is not None and run.started_at.timestamp() >= since_s


def _by_tool(journal: Journal, runs: Iterable[RunInfo], unreadable: list[str]) -> list[NumberRow]:
    tally = Tally()
    plans: dict[str, Plan] = {}
    for run in runs:
        try:
            plan = plans.get(run.plan)
            if plan is None:
                plan = plans[run.plan] = _decode_plan(journal.blob(run.plan))
            tally.add(run.id, run.plan, plan, journal.read(run.id))
        except (*UNREADABLE, BadInput, StoreError):  # one that cannot be read must not hide all others
            unreadable.append(run.id)
    rows = [
        NumberRow(
            name=name,
            runs=len(tool.runs),
            done=tool.done,
            failed=tool.failed,
            success=_share(tool.done, tool.failed),
            retries=tool.retries,
            cost=tool.cost,
            tokens=tool.tokens,
            p50_s=percentile(tool.took_ms, 0.5),
            p95_s=percentile(tool.took_ms, 0.95),
        )
        for name, tool in tally.tools.items()
    ]
    return sorted(rows, key=lambda row: (-row.runs, -row.done, row.name))


def _by_run(runs: Iterable[RunInfo], by: By) -> list[NumberRow]:
    key = _KEYS[by]
    groups: dict[str, list[RunInfo]] = {}
    for run in runs:
        groups.setdefault(key(run), []).append(run)
    rows = [_row(name, group, by) for name, group in groups.items()]
    if by == "plan":
        return sorted(rows, key=lambda row: (-row.runs, row.name))
    return sorted(rows, key=lambda row: row.name, reverse=True)


def _row(name: str, runs: list[RunInfo], by: By) -> NumberRow:
    done = sum(run.status == "done" for run in runs)
    failed = sum(run.status in ("failed", "empty") for run in runs)
    took_ms = [
        int((run.ended_at - run.started_at).total_seconds() * 1000)
        for run in runs
        if run.ended_at is not None and run.started_at is not None
    ]
    return NumberRow(
        name=name,
        goal=runs[0].goal if by == "plan" else "",
        runs=len(runs),
        done=done,
        failed=failed,
        success=_share(done, failed),
        retries=sum(run.retries for run in runs),
        cost=sum(run.cost for run in runs),
        tokens=sum(run.tokens for run in runs),
        p50_s=percentile(took_ms, 0.5),
        p95_s=percentile(took_ms, 0.95),
    )


def _day(run: RunInfo) -> str:
    return run.started_at.strftime("%Y-%m-%d") if run.started_at is not None else ""


def _week(run: RunInfo) -> str:
    return run.started_at.strftime("%G-W%V") if run.started_at is not None else ""


_KEYS: dict[By, Callable[[RunInfo], str]] = {"plan": lambda run: run.plan, "day": _day, "week": _week}


def _share(done: int, failed: int) -> float | None:
    return done / (done + failed) if done + failed else None
