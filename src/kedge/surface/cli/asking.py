"""Asking something of a run, whoever drives it: send the command, wait for what becomes of it, tell it."""

from __future__ import annotations

import asyncio
import getpass
from collections.abc import Callable
from typing import Any

import click
import msgspec

from kedge import Decision, Engine, Receipt, Refused, commands
from kedge.assemble import build_engine
from kedge.surface.cli import exits
from kedge.surface.cli.options import json_option, looking, repeated, require_store, settings_of, store_option
from kedge.surface.cli.screen import LINE_MAX, Screen
from kedge.views.text import clean

LOOK_S = 1.0
"""Between two looks at whether anybody still drives the run."""
WAIT_S = 30.0
"""A driver that takes longer is told of, and not waited for."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

by_option = click.option("--by", metavar="NAME", help="Who asks for it.  [default: your user name]")
key_option = click.option(
    "--key",
    default="",
    metavar="TEXT",
    help="The same key again is the same command again: it is taken once.",
)
wait_option = click.option("--no-wait", is_flag=True, help="Do not wait for what becomes of it.")


def asking(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options of every command that asks something of a run."""
    options: tuple[Decorator, ...] = (by_option, key_option, wait_option, store_option, json_option)
    for option in reversed(options):
        command = option(command)
    return command


def signed(command: Any, given: dict[str, Any]) -> Any:
    """The command with who asks for it, and its key."""
    return msgspec.structs.replace(command, by=given["by"] or user(), key=given["key"])


def ask(run_id: str, command: Any, given: dict[str, Any]) -> int:
    """Send `command` to a run; the exit code. Refused says why it was not taken."""
    settings = settings_of(given["store"])
    require_store(settings)

    async def main() -> tuple[Receipt, Decision | None]:
        async with build_engine(looking(settings)) as engine:
            receipt = await engine.send(run_id, signed(command, given))
            return receipt, None if given["no_wait"] else await _decided(engine, receipt)

    receipt, decision = asyncio.run(main())
    return told(Screen(as_json=given["as_json"]), receipt, command, decision, repeated(given["store"], ()))


async def _decided(engine: Engine, receipt: Receipt) -> Decision | None:
    """What became of it; None while nobody drives the run, or takes it."""
    for _ in range(int(WAIT_S / LOOK_S)):
        if not engine.driven(receipt.run_id):
            break
        try:
            return await receipt.decided(LOOK_S)
        except TimeoutError:
            continue
    try:
        return await receipt.decided(0.01)  # it may have been taken before the run was given up
    except TimeoutError:
        return None


def told(screen: Screen, receipt: Receipt, command: Any, decision: Decision | None, again: str) -> int:
    """Tell what became of a command."""
    word = next(word for word, kind in commands.KINDS.items() if type(command) is kind)
    if decision is not None and not decision.taken:
        raise Refused(decision.why, code=decision.code)
    if screen.as_json:
        screen.data(
            {
                "run_id": receipt.run_id,
                "command": word,
                "key": receipt.key,
                "driven": receipt.driven,
                "decision": decision,
            }
        )
    elif decision is not None:
        screen.say(f"run {receipt.run_id}: {word} is taken, the plan is at version {decision.version}")
    else:
        screen.say(f"run {receipt.run_id}: {word} is queued (key {clean(receipt.key, LINE_MAX)})")
        if not receipt.driven:
            screen.say(f"  nobody drives the run: kedge drive{again}")
    return exits.DONE


def user() -> str:
    """Who sits here."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no user database, as in some containers
        return ""
