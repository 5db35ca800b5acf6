"""`new`: a folder with a plan and tools that run as they are."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from kedge import BadInput
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.options import json_option
from kedge.surface.cli.screen import Screen
from kedge.views.text import clean

_PLAN = """\
goal: Greet everybody, and say how long the names are
inputs:
  names: {type: array, default: [Ada, Grace, Linus], description: Whom to greet}
steps:
  - id: greet
    do: Greet each of them, all at the same time
    tool: greet
    foreach: "${inputs.names}"
    args: {name: "${item}"}
    retry: {attempts: 3, backoff_s: 0.2}

  - id: measure
    do: Count the letters of all names
    tool: count_letters
    args: {names: "${inputs.names}"}

  - id: letter
    do: Put the greetings together
    tool: text.join
    args: {parts: "${greet}", separator: "\\n"}

outputs:
  greetings: greet
  letters: measure
answer: "${letter}"
"""

_TOOLS = '''\
"""Tools of the plan. Plain functions: kedge reads their signatures and docstrings."""

import asyncio

import kedge


@kedge.tool(effect="pure")
async def greet(name: str, ctx: kedge.Context) -> str:
    """Say hello to somebody.

    name: whom to greet
    """
    ctx.progress(0.5, "thinking of something nice")
    await asyncio.sleep(0.2)
    return f"Hello, {name}!"


@kedge.tool(effect="pure")
def count_letters(names: list[str]) -> int:
    """Count the letters of all names."""
    return sum(len(name) for name in names)
'''

_SETTINGS = """\
# Settings of kedge for this folder. The environment (KEDGE_STORE) and options (--store) overrule them.
tools = ["tools.py"]
# store = ".kedge/kedge.db"
# parallel = 16
"""

_FILES = {"plan.yaml": _PLAN, "tools.py": _TOOLS, "kedge.toml": _SETTINGS}


@click.command()
@click.argument("folder", type=click.Path(), default=".")
@json_option
def new(folder: str, as_json: bool) -> int:  # noqa: FBT001
    """Make a folder with a plan and a tools file that run as they are.

    Nothing that is there already is changed.
    """
    screen, place = Screen(as_json=as_json), Path(folder)
    there = [name for name in _FILES if (place / name).exists()]
    if there:
        raise BadInput(
            f"there is already {', '.join(there)}",
            code="file_exists",
            where=folder,
            remedy="name another folder: kedge new FOLDER",
        )
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, text in _FILES.items():
            with (place / name).open("x", encoding="utf-8") as file:
                file.write(text)
    except OSError as error:
        raise BadInput(
            f"cannot be written: {error.strerror}", code="file_unwritable", where=error.filename or folder
        ) from None
    if as_json:
        screen.data({"folder": folder, "files": list(_FILES)})
    go = "" if folder == "." else f"cd {shlex.quote(folder)} && "
    screen.say(f"made {', '.join(_FILES)}; run it: {clean(go, 300)} kedge run plan.yaml".replace("  ", " "))
    return DONE
