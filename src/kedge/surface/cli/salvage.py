"""`salvage`: what is intact of a damaged run, and a run elsewhere that goes on from it."""

from __future__ import annotations

import click
import msgspec

from kedge.control.salvage import Salvage
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, repeated, require_store, settings_of, store_option
from kedge.surface.cli.screen import LINE_MAX, Screen, ago
from kedge.views.text import clean


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--to", metavar="FILE", help="Write the intact part into this store, as a run to resume.")
@store_option
@json_option
def salvage(run_id: str, to: str | None, store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Tell what is intact of a damaged run, and go on from it in another store.

    The intact part are the events before the first that is not what was written: `kedge log RUN` prints
    them. What followed is lost, and steps with effects may have had them there: the salvaged run asks
    about that before it starts anything.
    """
    settings, screen = settings_of(store), Screen(as_json=as_json)
    require_store(settings)
    found = in_engine(settings, lambda engine: engine.salvage(run_id, to))
    if as_json:
        screen.data(msgspec.structs.asdict(found))
    else:
        _tell(screen, found, store)
    return DONE


def _tell(screen: Screen, found: Salvage, store: str | None) -> None:
    lost = "nobody can tell how many followed" if found.lost is None else f"{found.lost:,} more are lost"
    screen.say(f"run {found.id}: {found.intact:,} events are intact, {lost}")
    screen.say(f"  damage: {clean(found.damage, LINE_MAX)}" if found.damage else "  no damage to be seen")
    screen.say(f"  intact until {ago(found.last_at)}: {clean(found.last, LINE_MAX)}")
    screen.say(f"  then: {found.status}, {found.done} of {found.total} steps done")
    for path, word in found.behind.items():
        screen.say(f"  behind the damage it says: {clean(path)} {word}")
    if found.store:
        again = repeated(found.store, ())
        screen.say(f"written to {clean(found.store, LINE_MAX)}; go on with: kedge resume {found.id}{again}")
    elif found.damage:
        again = repeated(store, ())
        screen.say(f"go on from there in another store: kedge salvage {found.id}{again} --to FILE")
