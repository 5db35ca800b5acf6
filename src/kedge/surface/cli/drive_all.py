"""`drive`: every run of the store that can move."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import click

from kedge import Engine
from kedge.assemble import build_engine
from kedge.control.driving import AT_ONCE, Driven
from kedge.surface.cli import exits
from kedge.surface.cli.drive import GRACE_S, Stop, end_soon
from kedge.surface.cli.options import (
    json_option,
    parallel_option,
    require_store,
    settings_of,
    store_option,
    tools_option,
)
from kedge.surface.cli.screen import LINE_MAX, Screen
from kedge.views.text import clean

_COLOURS = {"done": "green", "failed": "red", "empty": "red", "not driven": "red", "cancelled": "yellow"}


@click.command()
@click.option("--forever", is_flag=True, help="Stay, and go on with whatever comes for any run.")
@click.option(
    "--at-once", type=click.IntRange(min=1), default=AT_ONCE, show_default=True, metavar="N",
    help="Runs at the same time, at most.",
)  # fmt: skip
@tools_option
@store_option
@parallel_option
@json_option
def drive(forever: bool, at_once: int, **given: Any) -> int:  # noqa: FBT001
    """Drive every run of the store that can move.

    That is where commands, answers or signals have come, a time has come, or a driver was lost. It goes on
    until no run moves by itself any more, or for ever with --forever.

    Exits with 0, or with 1 if a run failed or could not be driven, or with 3 if one waits.
    """
    settings = settings_of(given["store"], given["tools"], given["parallel"])
    require_store(settings)
    screen = Screen(as_json=given["as_json"])
    engine = build_engine(settings)  # imports tools: before signals are ours
    code, alarm = asyncio.run(_drive(engine, screen, at_once, forever=forever))
    alarm.cancel()
    return code


async def _drive(
    engine: Engine, screen: Screen, at_once: int, *, forever: bool
) -> tuple[int, threading.Timer]:
    stop, came_to = Stop(), dict[str, Driven]()

    def told(driven: Driven) -> None:
        came_to[driven.run_id] = driven
        _tell(screen, driven)

    with stop.listening():
        async with engine:
            driving = asyncio.ensure_future(engine.drive_all(at_once=at_once, forever=forever, told=told))
            asked = asyncio.ensure_future(stop.asked.wait())
            await asyncio.wait([driving, asked], return_when=asyncio.FIRST_COMPLETED)
            asked.cancel()
            if not driving.done():
                screen.remark("stopping: what runs may end; once more to end at once")
                await engine.drain(GRACE_S)
                driving.cancel()
                await asyncio.wait([driving])
            else:
                driving.result()
        if screen.as_json:
            screen.data(list(came_to.values()))
        elif not came_to:
            screen.remark("no run can move: kedge inbox tells what people are asked")
        code = 128 + stop.signal if stop.signal else _code(came_to)
        return code, end_soon(code)


def _tell(screen: Screen, driven: Driven) -> None:
    why = f": {clean(driven.why, LINE_MAX)}" if driven.why else ""
    code = f" [{driven.code}]" if driven.code else ""
    screen.say(f"run {driven.run_id} {driven.status}{why}{code}", _COLOURS.get(driven.status, ""))
    for key, refusal in driven.refused.items():
        screen.say(f"  not taken: {clean(refusal, LINE_MAX)} (key {clean(key)})", "yellow")


def _code(came_to: dict[str, Driven]) -> int:
    statuses = {driven.status for driven in came_to.values()}
    if statuses & {"failed", "empty", "not driven"}:
        return exits.FAILED
    return exits.WAITS if statuses & {"waiting", "paused"} else exits.DONE
