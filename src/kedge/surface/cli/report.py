"""`report`: a run told to people."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import kedge
from kedge import BadInput
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, require_store, settings_of, store_option
from kedge.surface.cli.screen import Screen
from kedge.views.report import report_data
from kedge.views.text import clean


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--to", "to_file", type=click.Path(dir_okay=False), metavar="FILE", help="Write it there.")
@store_option
@json_option
def report(run_id: str, to_file: str | None, **given: Any) -> int:
    """Tell a run as Markdown: what was done, and what it took.

    What was asked and answered, what failed, and what could be better the next time are in it, too.
    """
    settings, screen = settings_of(given["store"]), Screen(as_json=given["as_json"])
    require_store(settings)
    result = in_engine(settings, lambda engine: engine.look(run_id))
    if to_file is not None:
        text = screen.json_text(report_data(result)) if screen.as_json else kedge.report(result)
        _write(to_file, text)
        screen.remark(f"written to {clean(to_file, 300)}")
    elif screen.as_json:
        screen.data(report_data(result))
    else:
        screen.raw(screen.fit(kedge.report(result)))
    return DONE


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        why = f"it cannot be written: {error.strerror}"
        raise BadInput(why, code="file_unwritable", where=file, remedy="name another file") from error
