"""The inbox: what people are asked, by all runs of a store, with what they need to decide."""

from __future__ import annotations

import difflib
from datetime import datetime

import msgspec

from kedge.control.listing import moment
from kedge.flow.question import Question
from kedge.flow.state import RunState

TEXT_MAX = 800
ARGS_MAX = 3_000
"""Characters of the arguments that are shown: with the text, about a thousand tokens."""


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """One open question."""

    run_id: str
    """The run that asks."""
    goal: str
    """What that run is for."""
    question: str
    """The question's id in the run; empty where the run cannot be read."""
    reason: str
    """Why it is asked: `approval`, `failed`, `in_doubt`, `limit` and so on; `damaged`: it cannot be read."""
    text: str
    """What is asked."""
    asked_of: str = "person"
    """Who may answer."""
    path: str = ""
    """The step that it is about; empty where it is about the whole run."""
    args: str = ""
    """The exact arguments of the call that it is about, as JSON."""
    args_left_out: int = 0
    """Characters of them that are not shown: `kedge show RUN` has them all."""
    diff: str = ""
    """How they differ from those that were asked about before, if the step was asked about before."""
    options: tuple[str, ...] = ()
    """The answers it takes."""
    asked_at: datetime | None = None
    """When it was asked."""
    age_s: float = 0.0
    """How long ago that is."""
    expires_at: datetime | None = None
    """When it counts as refused; None for never."""
    driven: bool = False
    """Somebody drives the run now. If nobody does, an answer waits until somebody does."""


def waiting_in(state: RunState, now_ms: int, *, driven: bool) -> list[Waiting]:
    """The open questions of a run, oldest first."""
    if state.ended:
        return []
    return [
        _waiting(state, id_, question, now_ms, driven=driven)
        for id_, question in state.questions.items()
        if question.open
    ]


def unreadable(run_id: str, goal: str, why: str) -> Waiting:
    """A run that may ask something, and cannot be read."""
    return Waiting(run_id=run_id, goal=goal, question="", reason="damaged", text=why)


def _waiting(state: RunState, id_: str, question: Question, now_ms: int, *, driven: bool) -> Waiting:
    asked = question.asked
    args, earlier = _args(state, question), _asked_before(state, id_, asked.path)
    before = _args(state, earlier) if earlier is not None else ""
    return Waiting(
        run_id=state.run_id,
        goal=state.plan.goal[:200],
        question=id_,
        reason=asked.reason,
        text=asked.text[:TEXT_MAX],
        path=asked.path,
        args=args[:ARGS_MAX],
        args_left_out=max(0, len(args) - ARGS_MAX),
        diff=_diff(before, args) if before else "",
        options=asked.options,
        asked_at=moment(question.asked_at),
        age_s=max(0, now_ms - question.asked_at) / 1000,
        expires_at=moment(asked.expires_at),
        driven=driven,
    )


def _args(state: RunState, question: Question) -> str:
    """The arguments of the call, one to a line; nothing where it is about no call."""
    asked = question.asked
    raw = state.fetch(asked.blob.sha) if asked.blob is not None else bytes(asked.args)
    return msgspec.json.format(raw, indent=2).decode() if raw else ""


def _asked_before(state: RunState, id_: str, path: str) -> Question | None:
    """The last question about the call of the same step."""
    earlier: Question | None = None
    for other, question in state.questions.items():
        if other == id_:
            return earlier
        if path and question.asked.path == path and question.asked.reason == "approval":
            earlier = question
    return earlier


def _diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "now", lineterm="", n=1)
    return "\n".join(lines)[:ARGS_MAX]
