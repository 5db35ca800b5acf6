"""`run`, `resume`, `answer`, `cancel`, `compensate`: the commands that drive a run."""

from __future__ import annotations

import asyncio
from typing import Any

import click

import kedge
from kedge import BadInput, Engine, NotFound, Refused, Run, commands
from kedge.assemble import Settings, build_engine
from kedge.control.driving import require_tools
from kedge.surface.cli import exits
from kedge.surface.cli.account import as_data, tell
from kedge.surface.cli.asking import ask, by_option, key_option, signed, user, wait_option
from kedge.surface.cli.drive import Manner, drive
from kedge.surface.cli.inputs import inputs_of
from kedge.surface.cli.lists import in_engine
from kedge.surface.cli.options import (
    ask_option,
    json_option,
    json_value,
    live_option,
    parallel_option,
    repeated,
    require_store,
    settings_of,
    store_option,
    tools_option,
)
from kedge.surface.cli.screen import Screen


@click.command()
@click.argument("plan", type=click.Path())
@click.option("--run", "run_id", metavar="ID", help="The run's id; of a run there is, that one is driven on.")
@click.option("--input", "inputs", multiple=True, metavar="NAME=VALUE", help="An input of the plan.")
@click.option("--inputs-file", type=click.Path(), help="A YAML or JSON file with inputs.")
@ask_option
@tools_option
@store_option
@parallel_option
@live_option
@json_option
def run(plan: str, run_id: str | None, **given: Any) -> int:
    """Run a plan, and show what happens.

    With the id of a run of the same plan and inputs, that run is driven on: what is done stays done.
    """
    manner = manner_of(given)
    loaded = kedge.load(plan, manner.settings.bounds)
    inputs = inputs_of(loaded, given["inputs"], given["inputs_file"])

    async def begin(engine: Engine) -> Run:
        return await engine.start(loaded, inputs, run_id, ask=manner.settings.ask)

    return drive(manner, begin)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option(
    "--retry-failed", is_flag=True, help="Take failed steps, and what was skipped for them, up again."
)
@tools_option
@store_option
@parallel_option
@live_option
@json_option
def resume(run_id: str, retry_failed: bool, **given: Any) -> int:  # noqa: FBT001
    """Drive a run on that was interrupted, or take up a failed one again.

    What is done stays done; what was in flight starts again, except for tools with effects: those ask.
    """
    manner = manner_of(given)
    require_store(manner.settings)

    async def begin(engine: Engine) -> Run:
        require_tools(engine.look(run_id).state, engine.registry)
        return await engine.resume(run_id, retry_failed)

    return drive(manner, begin)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("question")
@click.argument("answer_text", metavar="ANSWER")
@click.option(
    "--value",
    metavar="JSON",
    help="What goes with it: a result (done), a number (raise), other arguments (approve).",
)
@click.option("--reason", default="", metavar="TEXT", help="Why; of a refusal, the step's failure says it.")
@by_option
@key_option
@wait_option
@tools_option
@store_option
@parallel_option
@live_option
@json_option
def answer(run_id: str, question: str, answer_text: str, **given: Any) -> int:
    """Answer a question of a run, and drive the run on unless another process does.

    `kedge inbox` tells which questions are open, and which answers each takes. With --no-wait the answer is
    left for whoever drives the run next.
    """
    manner = manner_of(given)
    require_store(manner.settings)
    value = json_value(given["value"], "--value") if given["value"] is not None else None
    command = commands.Answer(question=question, answer=answer_text, value=value, reason=given["reason"])
    if given["no_wait"] or _is_driven(manner.settings, run_id):
        return ask(run_id, command, given)

    async def begin(engine: Engine) -> Run:
        require_tools(engine.look(run_id).state, engine.registry)
        _require_question(engine, run_id, question, answer_text)
        found = await engine.resume(run_id)
        decision = await found.send(signed(command, given))
        if not decision.taken:
            raise Refused(decision.why, code=decision.code)
        return found

    return drive(manner, begin)


@click.command()
@click.argument("run_id", metavar="RUN")
@click.option("--reason", default="", help="Why, for whoever reads the log.")
@click.option("--undo", is_flag=True, help="Undo what it did, as far as the plan says how.")
@by_option
@key_option
@wait_option
@tools_option
@store_option
@json_option
def cancel(run_id: str, reason: str, undo: bool, **given: Any) -> int:  # noqa: FBT001
    """Cancel a run, whoever drives it.

    What is done stays done. A run that nobody drives is taken up to end it, and starts nothing.
    """
    settings = settings_of(given["store"], given["tools"])
    require_store(settings)
    command = commands.Cancel(reason=reason, compensate=undo)
    if given["no_wait"] or _is_driven(settings, run_id):
        return ask(run_id, command, given)
    screen = Screen(as_json=given["as_json"])

    async def main() -> kedge.RunResult:
        async with build_engine(settings) as engine:
            found = await engine.resume(run_id)
            decision = await found.send(signed(command, given))  # before its first turn: nothing is started
            if not decision.taken:
                raise Refused(decision.why, code=decision.code)
            return await found.result()

    result = asyncio.run(main())
    again = repeated(given["store"], given["tools"])
    if screen.as_json:
        screen.data(as_data(result, again))
    else:
        tell(screen, result, again)
    return exits.DONE if result.state.ended else exits.WAITS


def _is_driven(settings: Settings, run_id: str) -> bool:
    return in_engine(settings, lambda engine: engine.driven(run_id))


@click.command()
@click.argument("run_id", metavar="RUN")
@click.argument("step", default="")
@click.option("--reason", default="", help="Why, for whoever reads the log.")
@by_option
@tools_option
@store_option
@parallel_option
@live_option
@json_option
def compensate(run_id: str, step: str, reason: str, **given: Any) -> int:
    """Undo what a run did that has ended, or one step of it.

    With a step, all that used it is undone first. Where another process drives the run, that one is asked
    to do it. Else the exit code tells how the run stands then: one that was done is cancelled by it (4).
    """
    manner = manner_of(given)
    require_store(manner.settings)
    if _is_driven(manner.settings, run_id):
        command = commands.Compensate(step=step, reason=reason)
        return ask(run_id, command, given | {"key": "", "no_wait": False})

    async def begin(engine: Engine) -> Run:
        _require_undo_tools(engine, run_id)
        return await engine.compensate(run_id, step, reason, given["by"] or user())

    return drive(manner, begin)


def manner_of(given: dict[str, Any]) -> Manner:
    """How the options say that a run is to be driven."""
    return Manner(
        settings=settings_of(given["store"], given["tools"], given["parallel"], given.get("ask")),
        screen=Screen(as_json=given["as_json"]),
        no_live=given["no_live"],
        again=repeated(given["store"], given["tools"]),
    )


# These look at the run before it is taken up: what cannot work must leave it as it was.


def _require_undo_tools(engine: Engine, run_id: str) -> None:
    """BadInput if there is no tool here for something that undoes a step of the run: it would stay."""
    undos = [node.undo.step for node in engine.look(run_id).state.program.nodes if node.undo is not None]
    missing = sorted({undo.worker for undo in undos if undo.worker not in engine.registry})
    if missing:
        raise _tools_missing(run_id, missing)


def _tools_missing(run_id: str, missing: list[str]) -> BadInput:
    return BadInput(
        f"the run still needs tools that are not here: {', '.join(missing)}",
        code="tools_missing",
        where=f"run {run_id}",
        remedy="name the files that it was started with: --tools FILE",
    )


def _require_question(engine: Engine, run_id: str, question: str, answer: str) -> None:
    """An error if there is no such question to answer, or it does not take that answer."""
    state, where = engine.look(run_id).state, f"run {run_id}"
    if state.ended:
        raise Refused(f"the run has ended ({state.status})", code="run_ended", where=where)
    asked = state.questions.get(question)
    still_open = [id_ for id_, one in state.questions.items() if one.open]
    if asked is None:
        raise NotFound(
            f"it has no question {question[:40]!r}",
            code="unknown_question",
            where=where,
            allowed=still_open,
        )
    if not asked.open:
        raise Refused(
            f"question {question} was answered: {asked.answer}",
            code="already_answered",
            where=where,
            allowed=still_open,
        )
    if answer not in asked.asked.options:
        raise BadInput(
            f"{answer[:40]!r} does not answer question {question}",
            code="unknown_answer",
            where=where,
            allowed=asked.asked.options,
        )
