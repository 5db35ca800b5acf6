"""What the answer to a question means."""

from __future__ import annotations

from typing import Any

from kedge.base.codec import encode
from kedge.base.errors import BadInput, NotFound, Refused
from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow.changes import Act
from kedge.flow.conclude import conclude
from kedge.flow.state import Question, RunState
from kedge.flow.turn import Turn
from kedge.flow.words import Failure


def answer(state: RunState, given: cmd.Answer) -> Act:
    """What follows from the answer; BadInput or Refused if it is none."""
    question = _open_question(state, given)
    if question.asked.reason == "in_doubt":
        return _settle_doubt(state, given, question)
    limit = _raised_limit(state, question, given) if given.answer == "raise" else None
    return lambda turn: turn.emit(
        ev.QuestionAnswered(question=given.question, answer=given.answer, by=given.by, limit=limit)
    )


def _open_question(state: RunState, given: cmd.Answer) -> Question:
    question = state.questions.get(given.question)
    if question is None:
        raise NotFound(
            f"run {state.run_id} has no question {given.question!r}",
            code="unknown_question",
            allowed=[id_ for id_, q in state.questions.items() if q.open],
        )
    if not question.open:
        raise Refused(
            f"question {given.question} was answered {question.answer!r}"
            + (f" by {question.by}" if question.by else ""),
            code="already_answered",
        )
    if given.answer not in question.asked.options:
        raise BadInput(
            f"{given.answer!r} does not answer question {given.question}",
            code="unknown_answer",
            allowed=question.asked.options,
        )
    return question


def _raised_limit(state: RunState, question: Question, given: cmd.Answer) -> float:
    current = state.limit(question.asked.limit)
    value: Any = given.value
    if value is None:
        return max(current, question.asked.used) * 2
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= current:
        raise BadInput(
            f"{value!r} does not raise the limit {question.asked.limit}, which is {current:g}",
            code="limit_value",
            remedy="give a larger number, or none to double it",
        )
    return float(value)


def _settle_doubt(state: RunState, given: cmd.Answer, question: Question) -> Act:
    step = state.steps[question.asked.path]
    raw = encode(given.value)

    def act(turn: Turn) -> None:
        result = ev.Raw(raw) if given.answer == "done" else ev.NONE
        turn.emit(
            ev.QuestionAnswered(question=given.question, answer=given.answer, by=given.by, result=result)
        )
        if given.answer == "done":
            conclude(turn, step, raw)
        elif given.answer == "retry":
            error = step.error or Failure(category="in_doubt", code="in_doubt", message="in doubt")
            turn.emit(ev.RetryScheduled(path=step.path, attempt=step.attempt + 1, error=error, at=turn.now))
        else:
            said = f"{given.by or 'a person'} says that it did not happen"
            failure = Failure(category="in_doubt", code="answered_failed", message=said, classified=True)
            turn.emit(ev.StepFailed(path=step.path, error=failure))

    return act
