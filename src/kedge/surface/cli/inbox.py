"""`inbox`: what people are asked, by all runs of the store."""

from __future__ import annotations

import click

from kedge.control.inbox import Waiting
from kedge.surface.cli.account import answers
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, repeated, require_store, settings_of, store_option
from kedge.surface.cli.screen import LINE_MAX, Screen, ago, lines_of
from kedge.views.text import clean, duration


@click.command()
@store_option
@json_option
def inbox(store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Show what people are asked, by all runs of the store.

    What has waited longest comes first, with the commands that answer it.
    """
    settings, screen = settings_of(store), Screen(as_json=as_json)
    require_store(settings)
    found = in_engine(settings, lambda engine: engine.inbox())
    if as_json:
        screen.data(found)
        return DONE
    for one in found:
        _tell(screen, one, repeated(store, ()))
    if not found:
        screen.remark("nobody is asked anything")
    return DONE


def _tell(screen: Screen, one: Waiting, again: str) -> None:
    about = f", step {clean(one.path)}" if one.path else ""
    screen.say(
        f"run {one.run_id}, question {one.question or '?'}{about}: {clean(one.text, LINE_MAX)}", "yellow"
    )
    screen.say(f"  goal: {clean(one.goal, LINE_MAX)}")
    if one.asked_at is None:
        screen.say("  it cannot be read: kedge salvage tells what is intact")
        return
    until = f", counts as refused from {ago(one.expires_at)} on" if one.expires_at else ""
    driven = "" if one.driven else ", nobody drives the run"
    screen.say(f"  asked {duration(one.age_s)} ago of a {one.asked_of} ({one.reason}){until}{driven}")
    if one.args:
        screen.say(lines_of(one.args, "    "))
    if one.args_left_out:
        screen.say(f"    ... and {one.args_left_out:,} characters more: kedge log {one.run_id}")
    if one.diff:
        screen.say("  since it was asked before:")
        screen.say(lines_of(one.diff, "    "))
    for command in answers(one.run_id, one.question, one.options, again):
        screen.say(f"  {clean(command, LINE_MAX)}")
