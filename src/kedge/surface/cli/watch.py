"""`watch`: a live view of a run that another process drives."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import click

from kedge import Engine
from kedge.assemble import build_engine
from kedge.control.driving import waits_for
from kedge.control.watching import Watched
from kedge.surface.cli import exits
from kedge.surface.cli.live import Live
from kedge.surface.cli.options import live_option, looking, repeated, require_store, settings_of, store_option
from kedge.surface.cli.screen import LINE_MAX, Screen
from kedge.views.narrate import wanted
from kedge.views.text import clean

POLL_S = 0.1
"""Between two looks. A look reads one number of the file."""


@click.command()
@click.argument("run_id", metavar="RUN")
@store_option
@live_option
def watch(run_id: str, store: str | None, no_live: bool) -> int:  # noqa: FBT001
    """Watch a run that another process drives.

    Until it ends, or is waited for no more: Ctrl-C ends the watching, not the run.
    """
    settings, screen = settings_of(store), Screen()
    require_store(settings)

    async def main() -> int:
        async with build_engine(looking(settings)) as engine:
            watched = engine.watch(run_id)
            if not watched.state.ended and not engine.driven(run_id):
                screen.remark(f"nobody drives the run: kedge drive{repeated(store, ())}")
            if screen.can_repaint and not no_live:
                await _paint(screen, watched)
            else:
                await _print(screen, engine, watched)
            why = clean(waits_for(watched.state), LINE_MAX)
            screen.say(f"run {run_id} {watched.state.status}{': ' if why else ''}{why}")
            return exits.OF_STATUS[watched.state.status]

    return asyncio.run(main())


async def _paint(screen: Screen, watched: Watched) -> None:
    view = Live(screen)
    view.begin(watched)
    try:
        await _until_ended(watched, lambda: None)
    finally:
        await view.end()


async def _print(screen: Screen, engine: Engine, watched: Watched) -> None:
    """A line for each event from now on."""
    reader, since_ms = engine.reader(watched.id), int(time.time() * 1000)

    def lines() -> None:
        for event in reader.news():
            if event.at >= since_ms and wanted(event, "step") and event.level != "group":
                screen.say(clean(str(event), LINE_MAX))

    lines()
    await _until_ended(watched, lines)


async def _until_ended(watched: Watched, each: Any) -> None:
    while not watched.state.ended:
        if watched.changed() and watched.refresh():
            each()
        else:
            await asyncio.sleep(POLL_S)
