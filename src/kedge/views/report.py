"""A run told to people, from its goal to what could be better, as Markdown; and the same as data."""

from __future__ import annotations

from typing import Any

import msgspec

from kedge.flow.estimates import StepEstimate
from kedge.flow.names import bytes_of
from kedge.flow.question import Question
from kedge.flow.result import RunResult, StepResult
from kedge.flow.state import RunState, StepState, Version
from kedge.flow.words import Blob, StepStatus
from kedge.views.markdown import code, prose, quoted, table
from kedge.views.report_changes import EXCERPT_MAX, changes, changes_data, fork_fact, section
from kedge.views.text import clean, duration, moment
from kedge.views.words import why_skipped, word

_ROWS_MAX = 200
_WORDS_MAX = 2_000
_S = StepStatus


class ReportStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step. Items of a foreach step are told with it, not one by one."""

    path: str
    do: str
    status: str
    attempts: int
    seconds: float | None
    estimated_s: float | None
    cost: float
    estimated_cost: float | None
    quality: float | None
    result: str
    """The beginning of it, as JSON."""
    why: str
    """Why it failed, is in doubt or was skipped."""
    replaced_by: str


def report_data(result: RunResult) -> dict[str, Any]:
    """All that a report tells, as plain data."""
    state = result.state
    estimates = result.estimates
    return {
        "run_id": result.run_id,
        "plan_id": result.plan_id,
        "goal": state.plan.goal,
        "status": str(result.status),
        "started_at": result.started_at,
        "ended_at": result.ended_at,
        "seconds": result.seconds,
        "counts": result.counts,
        "answer": result.answer,
        "outputs": result.outputs,
        "error": result.error,
        "usage": result.usage,
        "steps": _steps(result),
        "estimates": estimates.versions,
        "versions": [_version(one) for one in state.versions],
        "questions": [_question(id_, one) for id_, one in state.questions.items()],
        "retries": _retries(state),
        "discoveries": [{"path": path, "what": what, "need": need} for path, what, need in state.discoveries],
        "suggestions": result.suggestions,
    } | changes_data(result)


def report(result: RunResult) -> str:
    """The report as Markdown. What plans and tools say is shown as it is, and can do nothing."""
    steps = _steps(result)
    parts = [
        _head(result),
        _answer(result),
        _outputs(result),
        _work(steps),
        _time_and_cost(result),
        _versions(result.state),
        *changes(result),
        _questions(result.state),
        _troubles(result.state, steps),
        _skips(steps),
        _discoveries(result.state),
        _suggestions(result),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


# --- what there is to tell


def _steps(result: RunResult) -> list[ReportStep]:
    known = {one.path: one for one in result.estimates.steps}
    feedback = result.feedback
    return [
        _step(result, step, known.get(path), feedback[path].quality if path in feedback else None)
        for path, step in result.state.steps.items()
        if step.index < 0
    ]


def _step(
    result: RunResult, step: StepState, known: StepEstimate | None, quality: float | None
) -> ReportStep:
    told = result.steps[step.path]
    usage = result.state.told.get(step.path)
    return ReportStep(
        path=step.path,
        do=step.node.step.do,
        status=str(step.status),
        attempts=step.attempt,
        seconds=told.seconds,
        estimated_s=known.estimated_s if known is not None else None,
        cost=usage.usage.cost if usage is not None else 0.0,
        estimated_cost=known.estimated_cost if known is not None else None,
        quality=quality,
        result=_excerpt(result.state, step),
        why=_why(step, told),
        replaced_by=told.replaced_by,
    )


def _excerpt(state: RunState, step: StepState) -> str:
    if step.items is not None:
        done = sum(item.status is _S.DONE for item in step.items)
        return f"{done:,} of {len(step.items):,} items"
    if step.status is not _S.DONE or step.result is None:
        return ""
    if isinstance(step.result, Blob):
        return f"{step.result.size:,} bytes"
    return clean(bytes_of(state, step.result).decode(), EXCERPT_MAX)


def _why(step: StepState, told: StepResult) -> str:
    if told.error is not None:
        return f"{told.error.category.replace('_', ' ')}: {clean(told.error.message, EXCERPT_MAX)}"
    return why_skipped(step.reason, step.because) if step.status is _S.SKIPPED else ""


def _version(version: Version) -> dict[str, Any]:
    return {
        "version": version.number,
        "plan": version.id,
        "at": moment(version.at),
        "cause": version.cause,
        "by": version.by,
        "why": version.why,
    }


def _question(id_: str, question: Question) -> dict[str, Any]:
    asked = question.asked
    return {
        "id": id_,
        "reason": asked.reason,
        "path": asked.path,
        "text": asked.text,
        "asked_at": moment(question.asked_at),
        "answer": question.answer,
        "by": question.by,
        "after_s": (question.answered_at - question.asked_at) / 1000 if question.answered_at else None,
    }


def _retries(state: RunState) -> list[dict[str, Any]]:
    """Attempts that did not work, and were followed by another one."""
    return [
        {"path": step.path, "what": span.outcome, "seconds": (span.end - span.start) / 1000}
        for step in state.steps.values()
        for span in step.spans or ()
        if span.outcome != "done" and not span.final
    ]


# --- how it is told


def _head(result: RunResult) -> str:
    state, counts = result.state, result.counts
    facts = [f"run {code(result.run_id)}", f"**{word(result.status)}**"]
    if state.started_at:
        facts += [f"started {moment(state.started_at)}", f"took {duration(result.seconds)}"]
    facts += fork_fact(result)
    done = f"{counts.done:,} of {counts.total:,} steps done"
    others = [
        f"{getattr(counts, name):,} {name.replace('_', ' ')}"
        for name in ("failed", "skipped", "cancelled", "in_doubt", "compensated")
        if getattr(counts, name)
    ]
    came_to = f"{', '.join(facts)}. {', '.join([done, *others])}."
    lines = [f"# {prose(state.plan.goal, EXCERPT_MAX)}", came_to]
    if result.error is not None:
        lines.append(f"Why it did not end as it should: {code(result.error.message, EXCERPT_MAX)}")
    return "\n\n".join(lines)


def _answer(result: RunResult) -> str:
    if result.answer is None:
        return ""
    return f"## Answer\n\n{quoted(result.answer, _WORDS_MAX)}"


def _outputs(result: RunResult) -> str:
    lines = [
        f"{code(name)}: {code(msgspec.json.encode(value).decode(), EXCERPT_MAX)}"
        for name, value in result.outputs.items()
    ]
    return section("Outputs", lines)


def _work(steps: list[ReportStep]) -> str:
    rows = [
        (
            code(step.path),
            prose(step.do, 80),
            _status(step),
            _time(step.seconds),
            _time(step.estimated_s),
            code(step.result, 60) if step.result else "",
        )
        for step in steps[:_ROWS_MAX]
    ]
    text = table(("step", "what", "status", "took", "expected", "result"), rows)
    left = len(steps) - _ROWS_MAX
    return f"## What was done\n\n{text}" + (f"\n\nand {left:,} more steps" if left > 0 else "")


def _status(step: ReportStep) -> str:
    parts = [step.status.replace("_", " ")]
    if step.attempts > 1:
        parts.append(f"attempt {step.attempts}")
    if step.quality is not None and step.quality < 1 and step.status == "done":
        parts.append(f"quality {step.quality:.2f}")
    return ", ".join(parts)


def _time(seconds: float | None) -> str:
    return "" if seconds is None else duration(seconds)


def _time_and_cost(result: RunResult) -> str:
    versions, usage = result.estimates.versions, result.usage
    rows = [
        (
            str(one.version),
            _expected_time(one.estimated_s, one.without_estimate),
            duration(one.seconds),
            f"{one.estimated_cost:,.4g}",
            f"{one.cost:,.4g}",
            f"{one.tokens:,}",
        )
        for one in versions
    ]
    titles = ("plan version", "expected", "followed for", "expected cost", "cost", "tokens")
    more = [f"{duration(usage.cpu_s)} of processor time"] if usage.cpu_s else []
    more += [f"{usage.memory_mb:,.0f} MB at most in one call"] if usage.memory_mb else []
    return f"## Time and cost\n\n{table(titles, rows)}" + (f"\n\n{', '.join(more)}." if more else "")


def _expected_time(seconds: float, missing: int) -> str:
    if not seconds:
        return "nobody said"
    return duration(seconds) + (f", {missing:,} without estimate" if missing else "")


def _versions(state: RunState) -> str:
    if len(state.versions) < 2:
        return ""
    lines: list[str] = []
    for one in state.versions:
        by = f" by {code(one.by, 60)}" if one.by else ""
        why = f": {prose(one.why, EXCERPT_MAX)}" if one.why else ""
        lines.append(f"version {one.number}, {moment(one.at)}, {prose(one.cause, 60)}{by}{why}")
    return section("Versions of the plan", lines)


def _questions(state: RunState) -> str:
    lines: list[str] = []
    for id_, one in state.questions.items():
        where = f" ({code(one.asked.path)})" if one.asked.path else ""
        text = f"{code(id_)}{where} {prose(one.asked.text, EXCERPT_MAX)}"
        if one.answer:
            by = f" by {code(one.by, 60)}" if one.by else ""
            after = duration((one.answered_at - one.asked_at) / 1000)
            lines.append(f"{text} → **{prose(one.answer, 60)}**{by} after {after}")
        else:
            lines.append(f"{text} → not answered")
    return section("What was asked", lines)


def _troubles(state: RunState, steps: list[ReportStep]) -> str:
    lines = [
        f"{code(one['path'])}: an attempt ended as {prose(one['what'], 60)}, and another was made"
        for one in _retries(state)
    ]
    for step in steps:
        if step.status in ("failed", "in_doubt"):
            instead = f"; {code(step.replaced_by)} did it instead" if step.replaced_by else ""
            what = f"{code(step.path)} {step.status.replace('_', ' ')}"
            lines.append(f"{what}: {code(step.why, EXCERPT_MAX)}{instead}")
    return section("What went wrong", lines)


def _skips(steps: list[ReportStep]) -> str:
    skipped = [step for step in steps if step.status == "skipped"]
    lines = [f"{code(step.path)}: {prose(step.why, EXCERPT_MAX)}" for step in skipped]
    return section("What was skipped", lines)


def _discoveries(state: RunState) -> str:
    lines = [
        f"{code(path)}: {prose(what, EXCERPT_MAX)}" + (f" (needs: {prose(need, 100)})" if need else "")
        for path, what, need in state.discoveries
    ]
    return section("What was found on the way", lines)


def _suggestions(result: RunResult) -> str:
    lines = [f"{code(one.path)}: {prose(one.text, EXCERPT_MAX)}" for one in result.suggestions]
    return section("What could be better", lines)
