"""The commands that ask something of a run, whoever drives it."""

from __future__ import annotations

from typing import Any

import click

from kedge import BadInput, commands
from kedge.surface.cli.asking import ask, asking
from kedge.surface.cli.inputs import patch_of, step_of
from kedge.surface.cli.options import json_value

run_argument = click.argument("run_id", metavar="RUN")
why_option = click.option("--why", default="", metavar="TEXT", help="The reason; it stays in the version.")


@click.command()
@run_argument
@asking
def pause(run_id: str, **given: Any) -> int:
    """Let a run start nothing new; what runs goes on."""
    return ask(run_id, commands.Pause(), given)


@click.command()
@run_argument
@asking
def unpause(run_id: str, **given: Any) -> int:
    """Lift the pause of a run."""
    return ask(run_id, commands.Unpause(), given)


@click.command()
@run_argument
@click.argument("name")
@click.argument("data", required=False)
@asking
def signal(run_id: str, name: str, data: str | None, **given: Any) -> int:
    """Tell a run that something has happened outside.

    A step with `wait: {signal: NAME}` takes it; DATA (JSON) is its result. One that comes early is kept.
    """
    value = json_value(data, "DATA") if data is not None else None
    return ask(run_id, commands.Signal(name=name, data=value), given)


@click.command()
@run_argument
@click.argument("step")
@asking
def retry(run_id: str, step: str, **given: Any) -> int:
    """Try a failed step again, and what was skipped because of it.

    A run that has ended is taken up again with `kedge resume --retry-failed`.
    """
    return ask(run_id, commands.Retry(step=step), given)


@click.command()
@run_argument
@click.argument("step")
@click.option("--reason", default="", metavar="TEXT", help="Why, for whoever reads the log.")
@asking
def skip(run_id: str, step: str, reason: str, **given: Any) -> int:
    """Go on without a step that has not begun, or that failed and is asked about."""
    return ask(run_id, commands.Skip(step=step, reason=reason), given)


@click.command()
@run_argument
@click.argument("step_file", type=click.Path())
@click.option("--into", default="", metavar="PATH", help="The composite it becomes part of.")
@why_option
@asking
def inject(run_id: str, step_file: str, into: str, why: str, **given: Any) -> int:
    """Add a step to the plan of a run.

    STEP_FILE holds the step as it would stand in a plan, as YAML or JSON.
    """
    step = step_of(step_file)
    return ask(run_id, commands.Inject(step=step, into=into, why=why), given)


@click.command()
@run_argument
@click.argument("step")
@why_option
@asking
def remove(run_id: str, step: str, why: str, **given: Any) -> int:
    """Take a step that has not run out of the plan of a run."""
    return ask(run_id, commands.Remove(step=step, why=why), given)


@click.command()
@run_argument
@click.argument("patch_file", type=click.Path())
@asking
def edit(run_id: str, patch_file: str, **given: Any) -> int:
    """Change the plan of a run, in one piece or not at all.

    PATCH_FILE is YAML or JSON with any of base, why, add, remove, change, rewire, cancel, waive and plan.
    """
    return ask(run_id, commands.Edit(patch=patch_of(patch_file)), given)


@click.command()
@run_argument
@click.argument("version", type=click.IntRange(min=1))
@click.option("--undo", is_flag=True, help="Undo finished steps that the version does not have.")
@why_option
@asking
def rollback(run_id: str, version: int, undo: bool, why: str, **given: Any) -> int:  # noqa: FBT001
    """Let a run follow an earlier version of its plan again. What is finished stays finished."""
    return ask(run_id, commands.Rollback(version=version, why=why, compensate=undo), given)


@click.command()
@run_argument
@click.option("--need", default="", metavar="TEXT", help="What is wanted of it, as in 'parse XML'.")
@click.option("--step", default="", metavar="STEP", help="The step that it is about.")
@asking
def repair(run_id: str, need: str, step: str, **given: Any) -> int:
    """Let the planner change the plan of a run.

    That is the planner of whoever drives the run: the setting `planner`. What came of it is told by
    `kedge report RUN` and `kedge show RUN --versions`.
    """
    if not (need or step):
        raise click.UsageError("say what is wanted with --need, or which step it is about with --step")
    return ask(run_id, commands.Repair(need=need, step=step), given)


# A number below 0 must not be taken for an option.
@click.command(context_settings={"ignore_unknown_options": True})
@run_argument
@click.argument("step")
@click.argument("priority", type=int, metavar="N")
@asking
def prioritise(run_id: str, step: str, priority: int, **given: Any) -> int:
    """Let a step go before others that are ready.

    The higher N, the sooner. Steps have priority 0 unless the plan says otherwise.
    """
    return ask(run_id, commands.Prioritise(step=step, priority=priority), given)


@click.command()
@run_argument
@click.argument("step")
@click.argument("reads", nargs=-1, required=True, metavar="NOW=INSTEAD...")
@why_option
@asking
def rewire(run_id: str, step: str, reads: tuple[str, ...], why: str, **given: Any) -> int:
    """Let a step read and wait for other steps than it does now."""
    pairs = [text.partition("=") for text in reads]
    if not all(now and instead for now, _, instead in pairs):
        raise BadInput(
            f"{' '.join(reads)[:80]!r} does not say which step is read instead of which",
            code="option_input", where="NOW=INSTEAD", remedy="write rates=archive to read archive instead",
        )  # fmt: skip
    reading = {now: instead for now, _, instead in pairs}
    return ask(run_id, commands.Rewire(step=step, reads=reading, why=why), given)


@click.command()
@run_argument
@click.argument("goal")
@why_option
@asking
def set_goal(run_id: str, goal: str, why: str, **given: Any) -> int:
    """Say otherwise what a run is for. The old words stay in the plan's earlier version."""
    if not goal.strip():
        raise BadInput(
            "the goal says nothing", code="blank_goal", where="GOAL", remedy="say what the run is for"
        )
    return ask(run_id, commands.SetGoal(goal=goal, why=why), given)


@click.command()
@run_argument
@click.argument("values", metavar="JSON")
@why_option
@asking
def set_context(run_id: str, values: str, why: str, **given: Any) -> int:
    """Give steps that have not run other values to read.

    JSON is a map that is merged into the plan's context; null takes a value out.
    """
    merged = json_value(values, "JSON")
    if not isinstance(merged, dict):
        raise BadInput(
            "a map of values is needed", code="option_json", where="JSON", remedy='write {"name": 1}'
        )
    return ask(run_id, commands.SetContext(values=merged, why=why), given)  # pyright: ignore[reportUnknownArgumentType]
