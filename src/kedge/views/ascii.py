"""A plan or run as a tree of text lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kedge.flow.critical import critical_path
from kedge.flow.result import RunResult
from kedge.flow.state import RunState, StepState
from kedge.flow.stretches import spent_ms
from kedge.flow.usage import Told
from kedge.flow.words import Failure, StepStatus
from kedge.plan.estimates import call_s
from kedge.plan.scopes import Node
from kedge.views.outline import Outline, Twig, estimated_s, twigs
from kedge.views.progress import bar, percent
from kedge.views.text import ELLIPSIS, clean, cut, duration, moment, pack, to_ascii
from kedge.views.words import asked, icon, tally, why_skipped, word

_S = StepStatus
_DO_MAX = 60
_NAMES_MAX = 6
_CHAIN_MAX = 8
_QUESTIONS_MAX = 5


class Page(NamedTuple):
    """What is drawn on."""

    width: int
    unicode: bool
    now_ms: int


def draw_ascii(outline: Outline, page: Page) -> str:
    """Goal, status, the tree of steps, and what it came to."""
    lines = [*_head(outline, page), "", *_tree(outline, page)]
    if outline.state is not None:
        lines += ["", *_closing(outline.state, page)]
    lines = [cut(line, page.width).rstrip() for line in lines]
    if not page.unicode:
        lines = [to_ascii(line) for line in lines]
    return "\n".join(lines)


def _head(outline: Outline, page: Page) -> list[str]:
    state = outline.state
    facts = [f"{len(outline.nodes):,} step{'' if len(outline.nodes) == 1 else 's'}"]
    seconds, missing = estimated_s(outline)
    if seconds:
        without = f" ({missing:,} of them without an estimate)" if missing else ""
        facts.append(f"estimated {duration(seconds)}{without}")
    lines = [clean(outline.plan.goal, page.width), " · ".join(facts)]
    if state is not None:
        done = percent(state)
        told = [f"run {clean(state.run_id, 64)}", word(state.status), f"{int(done)} %"]
        if state.started_at:
            told += [
                duration((_until(state, page) - state.started_at) / 1000),
                f"started {moment(state.started_at)}",
            ]
        lines += pack(told, "", "  ", page.width)
        lines.append(bar(done, min(page.width, 40)))
    return lines


def _until(state: RunState, page: Page) -> int:
    return state.ended_at or page.now_ms


def _tree(outline: Outline, page: Page) -> list[str]:
    lines: list[str] = []
    root = outline.state.root if outline.state is not None else None
    told = outline.state.told if outline.state is not None else {}
    todo = _with_marks(twigs(outline.top, root), "")
    while todo:
        twig, before, below = todo.pop()
        branches = twig.branches()
        more = "│    " if branches else "     "
        if twig.hidden is not None:
            lines.append(f"{before}{ELLIPSIS} {len(twig.hidden):,} more: {tally(twig.hidden)}")
        else:
            lines += pack(_segments(twig, page, told), before, below + more, page.width)
        todo += _with_marks(branches, below)
    return lines


def _with_marks(siblings: list[Twig], prefix: str) -> list[tuple[Twig, str, str]]:
    """Each with what stands before its first line and before those below it; last first, as on a stack."""
    found: list[tuple[Twig, str, str]] = []
    for place, twig in enumerate(reversed(siblings)):
        before, below = ("└─ ", "   ") if place == 0 else ("├─ ", "│  ")
        found.append((twig, prefix + before, prefix + below))
    return found


def _segments(twig: Twig, page: Page, told: Mapping[str, Told]) -> list[str]:
    node, state = twig.node, twig.state
    mark = f"{icon(state.status, unicode=page.unicode)} " if state is not None else ""
    if twig.is_item and state is not None:
        return [f"{mark}{node.step.id}[{state.index}]", *_account(state, page, told)]
    step = node.step
    arrow = "↳ " if twig.is_fallback else ""
    do = f"  {clean(step.do, _DO_MAX)}" if step.do else ""
    segments = [f"{arrow}{mark}{clean(step.id, 64)} [{step.kind}]{do}"]
    if step.worker != step.kind:
        segments.append(clean(step.worker, 64))
    segments += _account(state, page, told) if state is not None else []
    segments += asked(step)
    if step.when is not None and (state is None or state.status is not _S.SKIPPED):
        segments.append(f"if {clean(step.when, 60)}")
    if state is None:
        segments += _plan_facts(node)
    if step.fallback_for is not None:
        segments.append(f"instead of: {clean(step.fallback_for, 64)}")
    if node.needs:
        segments.append(f"after: {_names(node.needs)}")
    return segments


def _plan_facts(node: Node) -> list[str]:
    step = node.step
    facts: list[str] = []
    if isinstance(step.foreach, str):
        facts.append(f"for each of {clean(step.foreach, 60)}")
    elif step.foreach is not None:
        facts.append(f"for each of {len(step.foreach):,}")
    if step.loop is not None:
        until = f" until {clean(step.loop.until, 60)}" if step.loop.until is not None else ""
        facts.append(f"up to {step.loop.times:,} rounds{until}" if until else f"{step.loop.times:,} rounds")
    seconds = call_s(step)
    if seconds is not None:
        facts.append(f"about {duration(seconds)}")
    return facts


def _names(nodes: Sequence[Node]) -> str:
    names = ", ".join(clean(node.step.id, 64) for node in nodes[:_NAMES_MAX])
    more = len(nodes) - _NAMES_MAX
    return f"{names} and {more} more" if more > 0 else names


def _account(state: StepState, page: Page, told: Mapping[str, Told]) -> list[str]:
    """What became of it: status, times, attempts."""
    parts: list[str] = []
    status = state.status
    if state.items is not None:
        settled = len(state.items) - state.open
        share = f", {settled * 100 // len(state.items)} %" if state.items else ""
        parts.append(f"{settled:,} of {len(state.items):,} items{share}")
    took = ""
    if state.started_at and status is not _S.WAITING:
        took = duration(spent_ms(state, page.now_ms) / 1000)
    if status is _S.DONE:
        parts.append(took)
    elif status is _S.SKIPPED:
        parts.append(f"skipped: {why_skipped(state.reason, state.because)}")
    elif status is _S.WAITING:
        parts.append(_waiting(state, page))
    elif status is not _S.PENDING:
        parts.append(f"{word(status)} {took}".rstrip())
    quality = told[state.path].quality if state.path in told else None
    if quality is not None and status in (_S.DONE, _S.FAILED):
        parts.append(f"quality {quality:.2f}")
    loop = state.node.step.loop
    if loop is not None and state.started_at and state.items is None:
        parts.append(f"round {state.iteration + 1:,} of {loop.times:,}")
    if state.attempt > 1:
        parts.append(f"attempt {state.attempt} of {max(state.attempt, state.node.retry.attempts)}")
    if state.error is not None and status in (_S.FAILED, _S.IN_DOUBT, _S.CANCELLED):
        parts.append(_error(state.error, page))
    elif state.error is not None and state.attempt > 1 and status is not _S.DONE:
        parts.append(f"attempt {state.attempt - 1} failed: {_error(state.error, page)}")
    if state.stand_in is not None:
        parts.append(f"replaced by {state.stand_in.id}")
    return [part for part in parts if part]


def _waiting(state: StepState, page: Page) -> str:
    """What waits for somebody has no time to go: either it expires, or it waits for as long as it takes."""
    if not state.wake_at:
        return word(state.status)
    return f"waiting, {duration(max(0, state.wake_at - page.now_ms) / 1000)} to go"


def _closing(state: RunState, page: Page) -> list[str]:
    result = RunResult(state, "")
    facts = [f"{word(state.status)}: {tally(state.steps.values())}"]
    if state.started_at:
        facts.append(f"in {duration((_until(state, page) - state.started_at) / 1000)}")
    efficiency = result.parallel_efficiency
    facts.append(f"parallel efficiency {efficiency:.0%}".replace("%", " %"))
    lines = pack(facts, "", "  ", page.width)
    path = critical_path(state)
    if path.seconds:
        lines.append(f"critical path {duration(path.seconds)}: {_chain(path.top)}")
    if state.error is not None:
        lines.append(_error(state.error, page))
    asked = [(id_, question.asked) for id_, question in state.questions.items() if question.open]
    for id_, question in asked[:_QUESTIONS_MAX]:
        options = clean(", ".join(question.options), 60)
        lines += pack(
            [f"question {clean(id_, 20)}: {clean(question.text, page.width)}", options], "", "  ", page.width
        )
    return lines


def _error(error: Failure, page: Page) -> str:
    return f"{error.category.replace('_', ' ')}: {clean(error.message, page.width)}"


def _chain(ids: list[str]) -> str:
    """Shortened in the middle."""
    if len(ids) > _CHAIN_MAX:
        half = _CHAIN_MAX // 2
        ids = [*ids[:half], ELLIPSIS, *ids[-half:]]
    return " → ".join(ids)
