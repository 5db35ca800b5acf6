"""`runs`, `delete`, `prune`: the store as a list of runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

import click
import msgspec

from kedge import BadInput, Engine, NotFound
from kedge.assemble import Settings, build_engine
from kedge.control.listing import RunInfo
from kedge.control.retention import STATUSES, Retention, age_s
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.options import json_option, looking, require_store, settings_of, store_option
from kedge.surface.cli.screen import Screen, ago
from kedge.views.text import clean

_T = TypeVar("_T")


@click.command()
@store_option
@json_option
def runs(store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """List the runs of the store, newest first.

    A run that has not ended and that no process drives can be driven on with `kedge resume`.
    """
    settings, screen = settings_of(store), Screen(as_json=as_json)
    try:
        require_store(settings)
        found = in_engine(settings, lambda engine: engine.runs())
    except NotFound:
        found = []
    if as_json:
        screen.data([run_data(run) for run in found])
    elif found:
        _table(screen, found)
    else:
        screen.remark(f"no runs in {clean(settings.store, 300)}: kedge run PLAN makes one")
    return DONE


@click.command()
@click.argument("run_id", metavar="RUN")
@store_option
@json_option
def delete(run_id: str, store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Forget a run and everything that it wrote to the store."""
    settings, screen = settings_of(store), Screen(as_json=as_json)
    require_store(settings)
    in_engine(settings, lambda engine: engine.delete(run_id))
    if as_json:
        screen.data({"deleted": [run_id]})
    screen.say(f"run {run_id} is deleted")
    return DONE


@click.command()
@click.option("--older-than", metavar="AGE", help="Only runs that ended so long ago: 30d, 12h, 90m.")
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="All but the newest N.")
@click.option(
    "--status", "statuses", multiple=True, metavar="STATUS",
    help=f"Only runs like this; by default those that have ended. One of {', '.join(STATUSES)}.",
)  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Tell what would be forgotten, and forget nothing.")
@store_option
@json_option
def prune(older_than: str | None, keep: int | None, **given: Any) -> int:
    """Forget old runs, by age, number or status.

    A run that a process drives is never touched, and one that has not ended only if its status is named.
    """
    try:
        policy = Retention(
            older_than_s=age_s(older_than) if older_than is not None else None,
            keep=keep,
            statuses=given["statuses"],
        )
    except BadInput as error:
        if error.code == "retention":
            error.remedy = "give --older-than, --keep or --status"
        raise
    settings, screen, dry_run = (
        settings_of(given["store"]),
        Screen(as_json=given["as_json"]),
        given["dry_run"],
    )
    require_store(settings)
    pruned = in_engine(settings, lambda engine: engine.prune(policy, dry_run=dry_run))
    if screen.as_json:
        screen.data(
            {
                "dry_run": dry_run,
                "deleted": [run_data(run) for run in pruned.runs],
                "kept": [run_data(run) for run in pruned.kept],
                "freed_bytes": pruned.freed_bytes,
            }
        )
        return DONE
    if pruned.runs:
        _table(screen, list(pruned.runs))
    count = len(pruned.runs)
    verb = "would be" if dry_run else "is" if count == 1 else "are"
    screen.say(f"{count} run{'' if count == 1 else 's'} {verb} deleted, {size(pruned.freed_bytes)} freed")
    for run in pruned.kept:
        screen.say(f"run {run.id} is kept: a process drives it")
    return DONE


def in_engine(settings: Settings, ask: Callable[[Engine], _T]) -> _T:
    """What an engine without tools of its own says: looking at a store must not run anybody's code."""

    async def main() -> _T:
        async with build_engine(looking(settings)) as engine:
            return ask(engine)

    return asyncio.run(main())


def run_data(run: RunInfo) -> dict[str, Any]:
    """One run of a list as data."""
    return msgspec.structs.asdict(run) | {"ended": run.ended}


def _table(screen: Screen, found: list[RunInfo]) -> None:
    screen.table(
        ("run", "status", "steps", "started", "size", "goal"),
        [
            (
                run.id,
                _status(run),
                f"{run.done}/{run.total}",
                ago(run.started_at),
                size(run.size_bytes),
                run.goal,
            )
            for run in found
        ],
    )


def _status(run: RunInfo) -> str:
    if run.damaged:
        return f"damaged: {run.damaged}"
    if not run.ended and not run.driven and run.status in ("running", "cancelling"):
        return f"{run.status}, not driven"
    return run.status


def size(count: int) -> str:
    """Bytes as people read them."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"
