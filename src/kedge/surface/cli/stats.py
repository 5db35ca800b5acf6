"""`stats`: how well runs went, in numbers."""

from __future__ import annotations

import click

from kedge.control.numbers import BYS, By, NumberRow, Numbers
from kedge.control.retention import age_s
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, require_store, settings_of, store_option
from kedge.surface.cli.screen import Screen
from kedge.views.text import clean, duration, pack

_TITLES: dict[By, str] = {"tool": "tool", "plan": "plan", "day": "day (UTC)", "week": "week (UTC)"}

_NAMES = ("ok", "p50", "p95", "retries")
_COSTS = ("cost", "tokens")
_WIDE = 90
"""Columns that a table needs to be one."""


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
    """Tell how well runs went, by tool, plan, day or week.

    Success, times, retries and, where tools tell it, cost. By tool, success and times are those of
    single calls. What was cancelled counts neither as success nor as failure.
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
    width = screen.size[0] if screen.is_terminal else _WIDE
    has_cost = any(row.cost or row.tokens for row in found.rows)
    if width < _WIDE:
        for row in found.rows:
            _narrow(screen, row, found.by, width, has_cost=has_cost)
        return
    titles = [_TITLES[found.by], "runs", *_NAMES, *(_COSTS if has_cost else ())]
    titles += ["goal"] if found.by == "plan" else []
    screen.table(titles, [_cells(row, found.by, has_cost=has_cost) for row in found.rows])


def _narrow(screen: Screen, row: NumberRow, by: By, width: int, *, has_cost: bool) -> None:
    """A line or two for each: columns of such a width would say nothing."""
    names = (*_NAMES, *(_COSTS if has_cost else ()))
    amounts = zip(names, _amounts(row, has_cost=has_cost), strict=True)
    told = [f"{name} {amount}" for name, amount in amounts if amount]
    screen.say(clean(f"{_name(row, by)} {row.goal}", width))
    for line in pack([f"{row.runs:,} runs", *told], "  ", "  ", width):
        screen.say(line)


def _cells(row: NumberRow, by: By, *, has_cost: bool) -> list[str]:
    cells = [_name(row, by), f"{row.runs:,}", *_amounts(row, has_cost=has_cost)]
    return [*cells, row.goal] if by == "plan" else cells


def _name(row: NumberRow, by: By) -> str:
    return row.name[:12] if by == "plan" else row.name


def _amounts(row: NumberRow, *, has_cost: bool) -> list[str]:
    amounts = [
        "" if row.success is None else f"{row.success:.1%}",
        "" if row.p50_s is None else duration(row.p50_s),
        "" if row.p95_s is None else duration(row.p95_s),
        f"{row.retries:,}",
    ]
    return [*amounts, f"{row.cost:,.4g}", f"{row.tokens:,}"] if has_cost else amounts


def _remarks(screen: Screen, found: Numbers) -> None:
    if found.runs < found.of:
        screen.remark(f"of the newest {found.runs:,} of {found.of:,} runs: --last {found.of} counts all")
    if found.unreadable:
        names = ", ".join(found.unreadable[:5]) + (" …" if len(found.unreadable) > 5 else "")
        screen.remark(f"{len(found.unreadable):,} damaged runs are left out: {clean(names, 300)}")
