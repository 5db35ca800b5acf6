"""Parts of a report: how a run was changed, mended and taken back, and what it waits for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kedge.flow.decision import AgentDecision
from kedge.flow.result import RunResult
from kedge.flow.trouble import Repair, Trouble
from kedge.views.markdown import bullets, code, prose

EXCERPT_MAX = 300
_TOLD_MAX = 20


def section(title: str, lines: Iterable[str]) -> str:
    """A part with a title and points; nothing where there is nothing to tell."""
    told = list(lines)
    if not told:
        return ""
    left = len(told) - _TOLD_MAX
    return f"## {title}\n\n{bullets(told[:_TOLD_MAX])}" + (f"\n\nand {left:,} more" if left > 0 else "")


def changes(result: RunResult) -> list[str]:
    """The parts, in the order of a report."""
    return [
        section("Repairs", (_repair(one) for one in result.repairs)),
        section("What the agent decided", (_decision(one) for one in result.decisions)),
        section("What was undone", _undone(result)),
        section("What it waits for", _waits(result)),
    ]


def changes_data(result: RunResult) -> dict[str, Any]:
    """The same as plain data."""
    return {
        "forked_from": result.forked_from,
        "repairs": result.repairs,
        "decisions": result.decisions,
        "undone": list(result.undone),
        "not_undone": result.not_undone,
        "waits_for_signals": sorted(_signals(result)),
    }


def fork_fact(result: RunResult) -> list[str]:
    """Where the run comes from, if it branched off another one."""
    if result.forked_from is None:
        return []
    run, seq = result.forked_from
    return [f"branched off run {code(run)} after event {seq:,}"]


def _repair(repair: Repair) -> str:
    what = "; ".join(_trouble(one) for one in repair.troubles[:5])
    left = len(repair.troubles) - 5
    more = f"; and {left:,} more" if left > 0 else ""
    by = f" by {code(repair.by, 60)}" if repair.by else ""
    return f"{what}{more} → {_outcome(repair)}{by}{_refusals(repair)}"


def _trouble(trouble: Trouble) -> str:
    where = f"{code(trouble.path)}: " if trouble.path else ""
    need = f" (needs: {prose(trouble.need, 100)})" if trouble.need and trouble.need != trouble.what else ""
    return f"{trouble.kind}: {where}{prose(trouble.what, EXCERPT_MAX)}{need}"


def _outcome(repair: Repair) -> str:
    if repair.outcome == "adopted":
        return f"**version {repair.became} of the plan**"
    words = {"given_up": "nothing came of it", "ended": "the run ended before", "": "still open"}
    return f"**{words[repair.outcome]}**"


def _refusals(repair: Repair) -> str:
    """Why rounds came to nothing: what was proposed and refused is worth knowing, too."""
    return "".join(
        f"; round {one.round} was refused: {prose(one.message, EXCERPT_MAX)}" for one in repair.refusals
    )


def _decision(decision: AgentDecision) -> str:
    shown = decision.points[:5]
    points = ", ".join(f"{one.at} {code(one.path)}" if one.path else one.at for one in shown)
    by = f" by {code(decision.by, 60)}" if decision.by else ""
    if decision.outcome == "decided":
        came_to = ", ".join(decision.commands) or "go on"
    elif decision.outcome == "missed":
        came_to = f"no answer: {prose(decision.why, EXCERPT_MAX)}"
    else:
        came_to = {"ended": "the run ended before", "": "not decided yet"}[decision.outcome]
    return f"{points or 'asked'} → **{came_to}**{by}"


def _undone(result: RunResult) -> Iterator[str]:
    undoing = result.state.undoing
    if undoing is not None and (undoing.started.by or undoing.started.reason):
        by = f" by {code(undoing.started.by, 60)}" if undoing.started.by else ""
        why = f": {prose(undoing.started.reason, EXCERPT_MAX)}" if undoing.started.reason else ""
        yield f"wanted{by}{why}"
    for path in result.undone:
        yield f"{code(path)} is undone"
    for path, why in result.not_undone.items():
        yield f"{code(path)} is **not** undone: {prose(why, EXCERPT_MAX)}"


def _waits(result: RunResult) -> Iterator[str]:
    if result.state.ended:
        return
    if result.state.paused:
        yield "it is paused"
    for name in sorted(_signals(result)):
        yield f"the signal {code(name)}"
    for id_ in result.questions:
        yield f"an answer to {code(id_)}"


def _signals(result: RunResult) -> set[str]:
    state = result.state
    return set(state.listeners) if state.listening and not state.ended else set()
