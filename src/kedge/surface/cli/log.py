"""`log`: the events of a run as JSON lines."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import click

from kedge import Engine
from kedge.control.reading import Reader
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, require_store, settings_of, store_option
from kedge.surface.cli.screen import Screen

POLL_S = 0.1
"""Between two looks at a run that another process drives. A look reads one number of the file."""


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--follow", "-f", is_flag=True, help="Go on until the run has ended, whoever drives it.")
@click.option(
    "--from", "from_seq", type=click.IntRange(min=1), default=1, metavar="SEQ", help="Begin at this event."
)
@store_option
@json_option
def log(run_id: str, follow: bool, from_seq: int, store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Print the events of a run as JSON lines.

    Each line is one event of the run's journal, with its number, percent and a sentence. With --json
    all of them are one document.
    """
    if follow and as_json:
        raise click.UsageError("--follow prints lines as they come: it cannot make one JSON document")
    settings, screen = settings_of(store), Screen(as_json=as_json)
    require_store(settings)

    def ask(engine: Engine) -> None:
        reader = engine.reader(run_id)
        if as_json:
            screen.data({"run_id": run_id, "events": list(_events(reader, from_seq))})
            return
        while True:
            reader.changed()  # what is written after this look is seen by the next
            for event in _events(reader, from_seq):
                screen.line(event)
            if not follow or reader.ended:
                return
            while not reader.changed():
                time.sleep(POLL_S)

    in_engine(settings, ask)
    return DONE


def _events(reader: Reader, from_seq: int) -> Iterator[dict[str, Any]]:
    """Journal events only: starts and ends of groups share the number of the event that made them."""
    for event in reader.news():
        if event.seq >= from_seq and not event.kind.startswith("group_"):
            yield event.plain()
