"""Options that several commands share."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec

from kedge import BadInput, NotFound
from kedge.assemble import ASK_WORDS, Settings, read_settings
from kedge.base.codec import UNREADABLE

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document and nothing else."
)
store_option = click.option("--store", metavar="FILE", help="The store's file.  [default: .kedge/kedge.db]")
tools_option = click.option(
    "--tools",
    multiple=True,
    metavar="WHERE",
    help="A file or module with tools (tools.py, pkg.tools, pkg.tools:NAME). Can be given several times.",
)
parallel_option = click.option(
    "--parallel", type=click.IntRange(min=1), metavar="N", help="Steps at the same time, at most."
)
ask_option = click.option(
    "--ask", type=click.Choice(ASK_WORDS), help="What a person is asked before, besides what the plan says."
)
live_option = click.option(
    "--no-live", is_flag=True, help="Print a line for each event instead of repainting the screen."
)


def settings_of(
    store: str | None = None,
    tools: tuple[str, ...] = (),
    parallel: int | None = None,
    ask: str | None = None,
) -> Settings:
    """The settings in force, with what was typed on top."""
    return read_settings({"store": store, "tools": list(tools) or None, "parallel": parallel, "ask": ask})


def looking(settings: Settings) -> Settings:
    """The settings for whoever only looks at a store, or sends to it: that must not run anybody's code."""
    return msgspec.structs.replace(settings, tools=(), planner="")


def repeated(store: str | None, tools: tuple[str, ...]) -> str:
    """The options to type again so that a later command finds the same store and tools."""
    words = ["--store", store] if store else []
    for where in tools:
        words += ["--tools", where]
    return "".join(f" {shlex.quote(word)}" for word in words)


def require_store(settings: Settings) -> None:
    """NotFound if there is no store yet: looking at runs must not make one."""
    if settings.store == ":memory:" or not Path(settings.store).expanduser().exists():
        raise NotFound(
            "there is no store, so there are no runs",
            code="no_store",
            where=settings.store,
            remedy="run a plan first, or name another store with --store",
        )


def json_value(text: str, option: str) -> Any:
    """A value typed as JSON."""
    try:
        return msgspec.json.decode(text)
    except UNREADABLE as error:
        raise BadInput(
            f"{text[:80]!r} is not JSON: {error}",
            code="option_json",
            where=option,
            remedy="put text into quotes of its own, as in '\"text\"'",
        ) from None
