"""Questions of a run, as part of its state. Part of `evolve`: called from nowhere else."""

from __future__ import annotations

from kedge.flow.decisions import question_void
from kedge.flow.events import QuestionAsked
from kedge.flow.question import Question
from kedge.flow.state import RunState

ABOUT_A_STEP = frozenset({"in_doubt", "approval", "failed", "decision"})
"""Reasons for which one step waits. For most others nothing in the run starts."""
HOLDS_UP_NOTHING = frozenset({"input"})
"""Only those that read it wait."""
VOID = "void"
"""What stands for the answer to a question that means nothing any more."""


def opened(state: RunState, asked: QuestionAsked) -> None:
    """Somebody is asked. A question about the same step that is still open means nothing any more."""
    if asked.reason in ABOUT_A_STEP:
        void(state, asked.path)
        state.asked_about[asked.path] = asked.question
    elif asked.reason not in HOLDS_UP_NOTHING:
        state.blocked_by += 1
    state.questions[asked.question] = Question(asked, state.at)
    state.open_questions += 1


def closed(state: RunState, id_: str, answer: str, by: str) -> QuestionAsked:
    """It is answered; what was asked."""
    question = state.questions[id_]
    question.answer = answer
    question.answered_at = state.at
    question.by = by
    state.open_questions -= 1
    if question.asked.reason in ABOUT_A_STEP:
        state.asked_about.pop(question.asked.path, None)
    elif question.asked.reason not in HOLDS_UP_NOTHING:
        state.blocked_by -= 1
    return question.asked


def void(state: RunState, path: str) -> None:
    """What is asked about a step means nothing any more."""
    id_ = state.asked_about.get(path)
    if id_ is not None and closed(state, id_, VOID, "").reason == "decision":
        question_void(state, id_)


def void_all(state: RunState) -> None:
    """The run has ended: only whether an effect happened is still worth knowing."""
    for path, id_ in list(state.asked_about.items()):
        if state.questions[id_].asked.reason != "in_doubt":
            void(state, path)
