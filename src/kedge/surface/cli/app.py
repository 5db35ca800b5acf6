"""The program: finds a command, runs it, and turns whatever happens into an exit code."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import click

from kedge import __version__

_STEER = "kedge.surface.cli.steer"

COMMANDS = {
    "check": ("kedge.surface.cli.plans", "Find everything that is wrong with a plan, and run nothing."),
    "run": ("kedge.surface.cli.runs", "Run a plan, and show what happens."),
    "resume": (
        "kedge.surface.cli.runs",
        "Drive a run on that was interrupted, or take up a failed one again.",
    ),
    "drive": ("kedge.surface.cli.drive_all", "Drive every run of the store that can move."),
    "watch": ("kedge.surface.cli.watch", "Watch a run that another process drives."),
    "inbox": ("kedge.surface.cli.inbox", "Show what people are asked, by all runs of the store."),
    "answer": (
        "kedge.surface.cli.runs",
        "Answer a question of a run, and drive the run on unless another process does.",
    ),
    "signal": (_STEER, "Tell a run that something has happened outside."),
    "pause": (_STEER, "Let a run start nothing new; what runs goes on."),
    "unpause": (_STEER, "Lift the pause of a run."),
    "cancel": ("kedge.surface.cli.runs", "Cancel a run, whoever drives it."),
    "retry": (_STEER, "Try a failed step again, and what was skipped because of it."),
    "skip": (_STEER, "Go on without a step that has not begun, or that failed and is asked about."),
    "inject": (_STEER, "Add a step to the plan of a run."),
    "remove": (_STEER, "Take a step that has not run out of the plan of a run."),
    "edit": (_STEER, "Change the plan of a run, in one piece or not at all."),
    "rollback": (_STEER, "Let a run follow an earlier version of its plan again."),
    "repair": (_STEER, "Let the planner change the plan of a run."),
    "rewire": (_STEER, "Let a step read and wait for other steps than it does now."),
    "prioritise": (_STEER, "Let a step go before others that are ready."),
    "set-goal": (_STEER, "Say otherwise what a run is for."),
    "set-context": (_STEER, "Give steps that have not run other values to read."),
    "compensate": ("kedge.surface.cli.runs", "Undo what a run did that has ended, or one step of it."),
    "runs": ("kedge.surface.cli.lists", "List the runs of the store, newest first."),
    "show": ("kedge.surface.cli.pictures", "Draw a run or a plan."),
    "report": ("kedge.surface.cli.report", "Tell a run as Markdown: what was done, and what it took."),
    "stats": ("kedge.surface.cli.stats", "Tell how well runs went, by tool, plan, day or week."),
    "log": ("kedge.surface.cli.log", "Print the events of a run as JSON lines."),
    "salvage": (
        "kedge.surface.cli.salvage",
        "Tell what is intact of a damaged run, and go on from it in another store.",
    ),
    "diff": (
        "kedge.surface.cli.plans",
        "Tell how two plans differ, or two versions of a run's plan, and which is better.",
    ),
    "fork": (
        "kedge.surface.cli.branches",
        "Start a run that branches off another one after some event, and drive it.",
    ),
    "schema": ("kedge.surface.cli.plans", "Print the JSON Schema of plans."),
    "tools": ("kedge.surface.cli.plans", "List the tools that plans can call."),
    "delete": ("kedge.surface.cli.lists", "Forget a run and everything that it wrote to the store."),
    "prune": ("kedge.surface.cli.lists", "Forget old runs, by age, number or status."),
    "doctor": ("kedge.surface.cli.doctor", "Look whether this machine, store and set-up are sound."),
    "new": ("kedge.surface.cli.new", "Make a folder with a plan and a tools file that run as they are."),
}
"""Where each command is, and its one line in the list: listing them must load none of them."""


class App(click.Group):
    """The commands, loaded when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(COMMANDS[cmd_name][0])
        return getattr(module, cmd_name.replace("-", "_"))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS:
            from kedge.plan.nearest import nearest

            near = nearest(args[0], COMMANDS)
            hint = f"Did you mean {near!r}?" if near else f"Commands: {', '.join(COMMANDS)}."
            ctx.fail(f"No such command {args[0][:80]!r}. {hint}")
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would call it a failure
            return _nobody_reads()

    # CliRunner calls it by keyword, so its further parameters stay what click makes of them.
    def main(  # pyright: ignore[reportIncompatibleMethodOverride]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run one command and exit."""
        given = list(sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        as_json = "--json" in given
        _let_write_anything()
        with contextlib.ExitStack() as stack:
            if as_json:
                # What tools and plans' modules print must not end up in the document.
                stack.enter_context(_stdout_apart())
            code = self._run(given, prog_name or "kedge", as_json, extra)
        sys.exit(code)

    def _run(self, given: list[str], prog_name: str, as_json: bool, extra: dict[str, Any]) -> int:  # noqa: FBT001
        try:
            result = super().main(given, prog_name, **extra)
            sys.stdout.flush()
            return result if isinstance(result, int) else 0
        except BrokenPipeError:
            return _nobody_reads()
        except (KeyboardInterrupt, click.Abort):
            return 130
        except click.exceptions.Exit as done:
            return done.exit_code
        except Exception as error:
            if "--debug" in given:
                sys.excepthook(type(error), error, error.__traceback__)
            return _report(error, as_json)


def _report(error: Exception, as_json: bool) -> int:  # noqa: FBT001
    from kedge import InternalError, KedgeError
    from kedge.surface.cli import faults

    try:
        if isinstance(error, click.ClickException):
            return faults.report_usage(error, as_json=as_json)
        if isinstance(error, KedgeError) and not isinstance(error, InternalError):
            return faults.report_error(error, as_json=as_json)
        return faults.report_bug(error, as_json=as_json)
    except BrokenPipeError:
        return _nobody_reads()


def _nobody_reads() -> int:
    """The reader has what it wanted: `kedge log RUN | head` is no failure."""
    with contextlib.suppress(OSError, ValueError):
        # Python flushes stdout once more on its way out, which would complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _let_write_anything() -> None:
    """A character that the terminal does not have must not end a command."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


@contextlib.contextmanager
def _stdout_apart() -> Any:
    from kedge.surface.cli.screen import Screen

    Screen.answers = sys.stdout
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        Screen.answers = None


@click.group(cls=App, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", prog_name="kedge")
@click.option("--debug", is_flag=True, help="Tell what goes on inside, and show tracebacks.")
def app(debug: bool) -> None:  # noqa: FBT001
    """Turn a goal into a plan, and get it done, on one durable log.

    `kedge new` makes a plan to start from; `kedge run PLAN` runs it. Exit codes: 0 done, 1 failed,
    2 bad input, 3 waits for an answer, 4 cancelled, 5 store or ownership, 130 interrupted.
    """
    if debug:
        logging.basicConfig(level=logging.DEBUG, format="%(relativeCreated)6d ms %(name)s: %(message)s")
    else:
        logging.getLogger("kedge").addHandler(logging.NullHandler())
