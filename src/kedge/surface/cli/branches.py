"""`fork`: another run that branches off one of the store."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import click
import msgspec

from kedge import BadInput, Engine, Fork, Refused, Run
from kedge.assemble import build_engine
from kedge.control.driving import require_tools
from kedge.surface.cli.asking import user
from kedge.surface.cli.drive import Manner, drive
from kedge.surface.cli.exits import CANCELLED, DONE
from kedge.surface.cli.inputs import patch_of
from kedge.surface.cli.options import (
    ask_option,
    json_option,
    live_option,
    parallel_option,
    require_store,
    store_option,
    tools_option,
)
from kedge.surface.cli.runs import manner_of
from kedge.surface.cli.screen import Screen, lines_of


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--at", type=int, metavar="SEQ", help="The last event that both have.  [default: its last one]")
@click.option("--before", metavar="STEP", help="Where that step had not begun yet.")
@click.option("--edit", "file", metavar="FILE", help="A patch of the plan, in YAML or JSON.")
@click.option("--anew", is_flag=True, help="Make every call, whatever it came to in the other run.")
@ask_option
@click.option("--run", "new_id", metavar="ID", help="The fork's id.")
@click.option("--by", metavar="NAME", help="Who wants it.  [default: your user name]")
@click.option("--dry-run", is_flag=True, help="Tell what it would do, and do nothing.")
@click.option("--yes", is_flag=True, help="Effects of the other run may happen again.")
@tools_option
@store_option
@parallel_option
@live_option
@json_option
def fork(run_id: str, **given: Any) -> int:
    """Start a run that branches off another one after some event, and drive it.

    What the other run's calls came to after that is used where the same call is due. What may happen a
    second time is told, and asked about, before anything starts. `kedge log RUN` lists the events.
    """
    if given["at"] is not None and given["before"]:
        raise BadInput("--at and --before say the same", code="option_twice", remedy="give one of them")
    manner = manner_of(given)
    require_store(manner.settings)
    how: dict[str, Any] = {
        "patch": patch_of(given["file"]) if given["file"] else None,
        "ask": given["ask"],
        "anew": given["anew"],
        "by": given["by"] or user(),
    }
    told = _preview(manner, run_id, {"at": given["at"], "before": given["before"] or "", **how})
    if given["dry_run"]:
        _tell(manner.screen, told)
        return DONE
    if not manner.screen.as_json:
        _tell(manner.screen, told)
    if not (given["yes"] or _allowed(manner, told)):
        return CANCELLED

    async def begin(engine: Engine) -> Run:
        found = engine.fork(run_id, told.at, **how)
        return await found.start(given["new_id"], repeat=set(found.repeats) <= set(told.repeats))

    return drive(manner, begin)


def _preview(manner: Manner, run_id: str, how: dict[str, Any]) -> Fork:
    async def main() -> Fork:
        async with build_engine(manner.settings) as engine:
            require_tools(engine.look(run_id).state, engine.registry)
            return engine.fork(run_id, **how)

    return asyncio.run(main())


def _tell(screen: Screen, told: Fork) -> None:
    if screen.as_json:
        fields = ("source", "at", "reused", "again", "repeats", "damage")
        screen.data({name: msgspec.to_builtins(getattr(told, name)) for name in fields})
    else:
        screen.say(lines_of(str(told)))


def _allowed(manner: Manner, told: Fork) -> bool:
    """Whoever sits there is asked; where nobody does, silence is no consent."""
    if not told.repeats:
        return True
    if manner.screen.as_json or not _somebody_is_there():
        raise Refused(
            f"effects of run {told.source} may happen again: {', '.join(one.path for one in told.repeats)}",
            code="repeats_effects",
            where=f"run {told.source}",
            remedy="fork it after them, or say that they may: --yes",
        )
    return click.confirm("Effects may happen again. Start it?", default=False)


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()
