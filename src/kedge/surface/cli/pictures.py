"""`show`: a run or a plan as a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

import kedge
from kedge import Engine, RunResult
from kedge.surface.cli.account import as_data, tell
from kedge.surface.cli.exits import DONE
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import json_option, repeated, require_store, settings_of, store_option
from kedge.surface.cli.screen import Screen
from kedge.surface.cli.versions import tell_version, tell_versions

Form = Literal["ascii", "mermaid", "timeline", "svg"]
_WIDTH_MIN = 40


@click.command()
@click.argument("what", metavar="RUN|PLAN")
@click.option("--ascii", "form", flag_value="ascii", default="ascii", help="A tree of text lines (default).")
@click.option("--mermaid", "form", flag_value="mermaid", help="A Mermaid diagram.")
@click.option("--timeline", "form", flag_value="timeline", help="What ran when. For runs.")
@click.option("--svg", "form", flag_value="svg", help="An SVG picture.")
@click.option("--version", type=int, metavar="N", help="The plan of a run as it was in that version.")
@click.option("--versions", is_flag=True, help="List the versions of a run's plan.")
@store_option
@json_option
def show(what: str, form: Form, version: int | None, store: str | None, **given: Any) -> int:
    """Draw a run or a plan.

    What is a file, or looks like the name of one, is a plan; everything else is the id of a run.
    """
    screen, settings = Screen(as_json=given["as_json"]), settings_of(store)
    if Path(what).is_file() or what.endswith((".yaml", ".yml", ".json")) or "/" in what:
        plan = kedge.load(what, settings.bounds)
        if screen.as_json:
            screen.raw(plan.dump("json") + "\n")
        else:
            _picture(screen, kedge.draw(plan, None, form, **_page(screen)))
        return DONE
    require_store(settings)
    again = repeated(store, ())

    def ask(engine: Engine) -> None:
        result = engine.look(what)
        if given["versions"]:
            tell_versions(screen, result)
        elif version is not None:
            plan = tell_version(screen, result, version).plan
            if not screen.as_json:
                _picture(screen, kedge.draw(plan, None, form, **_page(screen)))
        elif screen.as_json:
            screen.data(as_data(result, again))
        else:
            _picture(screen, kedge.draw(result.state.plan, result, form, **_page(screen)))
            _questions(screen, result, form, again)

    in_engine(settings, ask)
    return DONE


def _page(screen: Screen) -> dict[str, Any]:
    width = screen.size[0] if screen.is_terminal else 100
    return {"unicode": screen.unicode, "width": max(_WIDTH_MIN, width)}


def _picture(screen: Screen, text: str) -> None:
    screen.raw(text if text.endswith("\n") else f"{text}\n")


def _questions(screen: Screen, result: RunResult, form: Form, again: str) -> None:
    """Below the tree: how to answer what is open."""
    if form == "ascii" and result.questions:
        tell(screen, result, again)
