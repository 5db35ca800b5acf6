"""`stats`: how well runs went, in numbers."""

from __future__ import annotations

import click

from kedge.control.numbers import BYS, By, NumberRow, Numbers
from kedge.control.retention import age_s
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, require_store, settings_of, store_option
from kedge.surface.cli.screen import Screen
from kedge.views.text import clean, duration

_TITLES: dict[By, str] = {"tool": "tool", "plan": "plan", "day": "day (UTC)", "week": "week (UTC)"}


@click.command()
@click.option("--by", type=click.Choice(BYS), default="tool", help="What a line is about.  [default: tool]")
@click.option("--since", metavar="AGE", help="Only runs that began so long ago: 7d, 12h, 90m.")
@click.option(
    "--last", type=click.IntRange(min=1), metavar="N",
    help="Only the newest N runs.  [default: 1000 by tool, for which logs are read; else all]",
)  # fmt: skip
@store_option
@json_option
def stats(by: By, since: str | None, last: int | None, store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Tell how well runs went: success, times, retries and cost by tool, plan, day or week.

    By tool, success and times are those of single calls. What was cancelled counts neither as
    success nor as failure.
    """
    since_s = age_s(since) if since is not None else None
    settings, screen = settings_of(store), Screen(as_json=as_json)
    require_store(settings)
    found = in_engine(settings, lambda engine: engine.numbers(by, since_s, last))
    if as_json:
        screen.data(found)
    elif found.rows:
        _table(screen, found)
    else:
        screen.remark("no calls to count" if found.of else "no runs to count")
    if not as_json:
        _remarks(screen, found)
    return DONE


def _table(screen: Screen, found: Numbers) -> None:
    has_cost = any(row.cost or row.tokens for row in found.rows)
    titles = [_TITLES[found.by], "runs", "ok", "p50", "p95", "retries"]
    titles += ["cost", "tokens"] if has_cost else []
    titles += ["goal"] if found.by == "plan" else []
    screen.table(titles, [_cells(row, found.by, has_cost=has_cost) for row in found.rows])


def _cells(row: NumberRow, by: By, *, has_cost: bool) -> list[str]:
    cells = [
        row.name[:12] if by == "plan" else row.name,
        f"{row.runs:,}",
        "" if row.success is None else f"{row.success:.1%}",
        "" if row.p50_s is None else duration(row.p50_s),
        "" if row.p95_s is None else duration(row.p95_s),
        f"{row.retries:,}",
    ]
    cells += [f"{row.cost:,.4g}", f"{row.tokens:,}"] if has_cost else []
    return [*cells, row.goal] if by == "plan" else cells


def _remarks(screen: Screen, found: Numbers) -> None:
    if found.runs < found.of:
        screen.remark(f"of the newest {found.runs:,} of {found.of:,} runs: --last {found.of} counts all")
    if found.unreadable:
        names = ", ".join(found.unreadable[:5]) + (" …" if len(found.unreadable) > 5 else "")
        screen.remark(f"{len(found.unreadable):,} damaged runs are left out: {clean(names, 300)}")
