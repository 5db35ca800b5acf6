"""What a run came to, as text and as data."""

from __future__ import annotations

import shlex
from typing import Any

import msgspec

from kedge import RunResult, StepStatus
from kedge.surface.cli.screen import LINE_MAX, Screen, lines_of
from kedge.views.text import clean, cut
from kedge.views.words import LOOKS

_VALUE_MAX = 300
_STEPS_MAX = 20
_OUTPUTS_MAX = 20
_COLOURS = {"done": "green", "failed": "red", "empty": "red", "cancelled": "yellow", "waiting": "yellow"}


def as_data(result: RunResult, again: str = "") -> dict[str, Any]:
    """Everything but the steps' results: outputs are what a plan gives back."""
    return {
        "run_id": result.run_id,
        "plan_id": result.plan_id,
        "version": result.version,
        "status": result.status,
        "ok": result.ok,
        "started_at": result.started_at,
        "ended_at": result.ended_at,
        "seconds": result.seconds,
        "critical_path_s": result.critical_path_s,
        "parallel_efficiency": result.parallel_efficiency,
        "counts": result.counts,
        "usage": result.usage,
        "suggestions": result.suggestions,
        "outputs": result.outputs,
        "answer": result.answer,
        "error": result.error,
        "undone": list(result.undone),
        "not_undone": result.not_undone,
        "questions": [
            {
                "id": id_,
                "text": asked.text,
                "reason": asked.reason,
                "path": asked.path,
                "options": list(asked.options),
                "answer_with": answers(result.run_id, id_, asked.options, again),
            }
            for id_, asked in _open(result).items()
        ],
        "steps": {
            path: {
                "status": step.status,
                "attempt": step.attempt,
                "seconds": step.seconds,
                "error": step.error,
                "skipped_because": step.skipped_because,
                "replaced_by": step.replaced_by,
            }
            for path, step in result.steps.items()
        },
    }


def tell(screen: Screen, result: RunResult, again: str = "") -> None:
    """The summary, then what matters most: what failed, what is asked, what came out."""
    head, _, rest = result.summary().partition("\n")
    screen.say()
    screen.say(f"run {result.run_id} {clean(head, LINE_MAX)}", _COLOURS.get(str(result.status), ""))
    if rest:
        screen.say(lines_of(rest, "  "))
    _tell_failures(screen, result)
    for path, why in list(result.not_undone.items())[:_STEPS_MAX]:
        screen.say(f"not undone: {clean(path)}: {clean(why, LINE_MAX)}", "yellow")
    _tell_questions(screen, result, again)
    if str(result.status) == "paused":
        screen.say("  it is paused: who paused it can lift that with run.unpause()")
    outputs = result.outputs
    if outputs:
        screen.say("outputs:")
        for name, value in list(outputs.items())[:_OUTPUTS_MAX]:
            text = msgspec.json.encode(value).decode()
            screen.say(cut(f"  {clean(name)}: {clean(text, _VALUE_MAX)}", LINE_MAX))
        if len(outputs) > _OUTPUTS_MAX:
            screen.say(f"  and {len(outputs) - _OUTPUTS_MAX} more: kedge show {result.run_id} --json")
    if result.answer is not None:
        screen.say(lines_of(result.answer))


def _tell_failures(screen: Screen, result: RunResult) -> None:
    failed = [
        step
        for step in result.steps.values()
        if step.status in (StepStatus.FAILED, StepStatus.IN_DOUBT) and step.error is not None
    ]
    for step in failed[:_STEPS_MAX]:
        look, error = LOOKS[step.status], step.error
        if error is None:
            continue
        icon = screen.coloured(look.icon if screen.unicode else look.letter, look.colour)
        stood_in = f" ({clean(step.replaced_by)} stood in for it)" if step.replaced_by else ""
        screen.say(f"{icon} {clean(step.path)}{stood_in}: {clean(error.message, LINE_MAX)}")
        screen.say(f"  {error.category}, code {clean(error.code)}, attempt {step.attempt}")
        if error.remedy:
            screen.say(f"  do: {clean(error.remedy, LINE_MAX)}")
        if error.trace:
            screen.say(f"  where: {clean(error.trace, LINE_MAX)}")
    if len(failed) > _STEPS_MAX:
        screen.say(f"  and {len(failed) - _STEPS_MAX} more: kedge show {result.run_id}")


def _tell_questions(screen: Screen, result: RunResult, again: str) -> None:
    for id_, asked in _open(result).items():
        where = f" (step {clean(asked.path)})" if asked.path else ""
        screen.say(f"question {clean(id_)}{where}: {clean(asked.text, LINE_MAX)}", "yellow")
        if asked.reason == "approval":
            given = bytes(asked.args).decode() if asked.blob is None else f"{asked.blob.size:,} bytes"
            screen.say(f"it would be given: {clean(given, LINE_MAX)}")
        screen.say("answer with one of:")
        for command in answers(result.run_id, id_, asked.options, again):
            screen.say(f"  {clean(command, LINE_MAX)}")
        if asked.reason == "in_doubt":
            screen.say("  (done takes the step's result: --value JSON)")
        elif asked.reason == "salvaged":
            screen.say("  (ask: about each call before it is made; go on: as if none of them was made)")
        elif asked.reason == "limit":
            screen.say("  (raise takes the new limit: --value NUMBER; without, it is doubled)")
        elif asked.reason == "approval":
            screen.say("  (approve takes other arguments instead: --value JSON, all of them)")
    listeners = {} if result.state.ended else result.state.listeners
    for name in listeners if result.state.listening else ():
        screen.say(f"waits for the signal {clean(name, LINE_MAX)!r}")


def answers(run_id: str, question: str, options: tuple[str, ...], again: str) -> list[str]:
    """A command for each answer there is."""
    return [
        f"kedge answer {run_id} {shlex.quote(question)} {shlex.quote(option)}{again}" for option in options
    ]


def _open(result: RunResult) -> dict[str, Any]:
    """Questions that still take an answer: those of a run that has ended do not."""
    return {} if result.state.ended else result.questions
