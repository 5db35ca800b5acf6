"""What the answer to a question means."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from kedge.base.codec import encode
from kedge.base.errors import BadInput, NotFound, Refused
from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow.approvals import refuse
from kedge.flow.changes import Act, changed
from kedge.flow.conclude import conclude
from kedge.flow.failing import fail
from kedge.flow.input_question import settle_input
from kedge.flow.plan_question import refused_plan
from kedge.flow.question import Question
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.flow.words import Failure
from kedge.plan.model import Plan
from kedge.plan.patch import Patch


def answer(state: RunState, given: cmd.Answer) -> Act:
    """What follows from the answer; BadInput or Refused if it is none."""
    question = _open_question(state, given)
    rule = _RULES.get(question.asked.reason)
    if rule is not None:
        return rule(state, given, question)
    limit = _raised_limit(state, question, given) if given.answer == "raise" else None
    return lambda turn: turn.emit(
        ev.QuestionAnswered(
            question=given.question, answer=given.answer, by=given.by, limit=limit, reason=given.reason
        )
    )


def refuse_late(state: RunState, given: cmd.Answer, asked_at: int) -> None:
    """Refused if it was sent after the question had expired: what nobody answered in time is refused."""
    question = state.questions.get(given.question)
    until = question.asked.expires_at if question is not None and question.open else 0
    if until and asked_at > until:
        raise Refused(
            f"question {given.question} expired {(asked_at - until) / 1000:,.0f} s before the answer came",
            code="expired", remedy="nothing: what is not answered in time is refused",
        )  # fmt: skip


def _open_question(state: RunState, given: cmd.Answer) -> Question:
    question = state.questions.get(given.question)
    if given.role != "person":
        raise Refused(
            f"question {given.question} asks for a person, and {given.by or 'an agent'} is none",
            code="not_a_person", remedy="let a person answer it",
        )  # fmt: skip
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
        return float(max(current, question.asked.used) * 2)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= current:
        raise BadInput(
            f"{value!r} does not raise the limit {question.asked.limit}, which is {current:,.10g}",
            code="limit_value",
            remedy="give a larger number, or none to double it",
        )
    return float(value)


def _settle_doubt(state: RunState, given: cmd.Answer, question: Question) -> Act:
    step = state.call_at(question.asked.path)
    if given.answer == "retry" and state.undoing is not None and step in state.undoing.doubts:
        raise Refused(
            "what it may have done is to be undone",
            code="cannot_retry", where=f"step {step.path}", allowed=["done", "failed"],
        )  # fmt: skip
    if given.answer == "retry" and state.compensating and step.path in state.steps:
        raise Refused(
            "the run is over, and what it did is being undone",
            code="cannot_retry", where=f"step {step.path}", allowed=["done", "failed"],
        )  # fmt: skip
    raw = encode(given.value)

    def act(turn: Turn) -> None:
        result = ev.Raw(raw) if given.answer == "done" else ev.NONE
        turn.emit(
            ev.QuestionAnswered(
                question=given.question, answer=given.answer, by=given.by, result=result, reason=given.reason
            )
        )
        if given.answer == "done":
            conclude(turn, step, raw)
        elif given.answer == "retry":
            error = step.error or Failure(category="in_doubt", code="in_doubt", message="in doubt")
            turn.emit(ev.RetryScheduled(path=step.path, attempt=step.attempt + 1, error=error, at=turn.now))
        else:
            said = f"{given.by or 'a person'} says that it did not happen"
            failure = Failure(category="in_doubt", code="answered_failed", message=said, classified=True)
            fail(turn, step, failure)

    return act


def _settle_approval(state: RunState, given: cmd.Answer, question: Question) -> Act:
    step = state.call_at(question.asked.path)
    raw = _edited(state, step, given.value) if given.value is not None and given.answer == "approve" else None

    def act(turn: Turn) -> None:
        value, blob = turn.store(raw) if raw is not None else (ev.NONE, None)
        turn.emit(
            ev.QuestionAnswered(
                question=given.question, answer=given.answer, by=given.by, result=value, blob=blob,
                reason=given.reason,
            )
        )  # fmt: skip
        if given.answer == "refuse":
            who = given.by or "a person"
            refuse(turn, step, "refused", f"{who} refused it" + (f": {given.reason}" if given.reason else ""))

    return act


def _edited(state: RunState, step: StepState, value: Any) -> bytes:
    """Other arguments than the plan's, as the call is to get them."""
    if not isinstance(value, dict) or not step.node.calls:
        raise BadInput(
            "other arguments are given as a map of all of them",
            code="edited_args", where=f"step {step.path}",
            remedy="take the arguments of the question, and change what is to be otherwise",
        )  # fmt: skip
    from kedge.checks import check  # not needed to resume a run

    args = cast("dict[str, Any]", value)
    constant = msgspec.structs.replace(step.node.step, args=args, compensate=None)
    findings = check(Plan(goal="-", steps=(constant,)), state.program.catalog, limits=state.limits)
    faults = [finding for finding in findings.errors if "args" in finding.path]
    if faults:
        wrong = "; ".join(f"{fault.message} ({fault.remedy})" for fault in faults[:5])
        raise BadInput(
            f"these arguments do not fit {step.node.step.worker}: {wrong}",
            code="edited_args", where=f"step {step.path}",
            remedy="take the arguments of the question, and change what is to be otherwise",
        )  # fmt: skip
    return encode(args)


def _settle_failure(state: RunState, given: cmd.Answer, question: Question) -> Act:
    step = state.steps[question.asked.path]

    def act(turn: Turn) -> None:
        turn.emit(
            ev.QuestionAnswered(
                question=given.question, answer=given.answer, by=given.by, reason=given.reason
            )
        )
        if given.answer == "retry":
            turn.emit(ev.Reopened(path=step.path, by=given.by))
        else:
            turn.emit(ev.FailureSettled(path=step.path, waived=given.answer == "skip"))

    return act


def _settle_plan(state: RunState, given: cmd.Answer, question: Question) -> Act:
    follow = _edited_plan(state, given) if given.answer == "approve" else refused_plan(state, given)
    answered = ev.QuestionAnswered(
        question=given.question, answer=given.answer, by=given.by, reason=given.reason
    )

    def act(turn: Turn) -> None:
        turn.emit(answered)
        follow(turn)

    return act


def _edited_plan(state: RunState, given: cmd.Answer) -> Act:
    """The plan is approved, as it is or with a patch of the person's own."""
    edit = changed(state, _patch(given.value), "answer", given.by) if given.value is not None else None

    def act(turn: Turn) -> None:
        if edit is not None:
            edit(turn)
        turn.emit(ev.PlanApproved(version=turn.state.version, by=given.by))

    return act


def _patch(value: Any) -> Patch:
    try:
        return msgspec.convert(value, Patch, from_attributes=True)
    except msgspec.ValidationError as error:
        raise BadInput(
            f"a plan is changed by a patch, and this is none: {error}",
            code="edited_plan", allowed=Patch.__struct_fields__,
            remedy="give a patch, or nothing to approve the plan as it is",
        ) from None  # fmt: skip


_RULES: dict[str, Callable[[RunState, cmd.Answer, Question], Act]] = {
    "in_doubt": _settle_doubt,
    "approval": _settle_approval,
    "failed": _settle_failure,
    "plan": _settle_plan,
    "input": settle_input,
}
