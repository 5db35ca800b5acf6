"""How a run begins: with a question for each input that nobody has given. And what an answer means."""

from __future__ import annotations

from kedge.base.codec import encode
from kedge.base.errors import BadInput
from kedge.flow import commands as cmd
from kedge.flow import events as ev
from kedge.flow.changes import Act
from kedge.flow.failing import question_id
from kedge.flow.question import Question
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.plan.inputs import misfit, read_by


def begin(turn: Turn, started: ev.RunStarted) -> None:
    """The first events of a run."""
    turn.emit(started)
    turn.emit(ev.PlanAdopted(version=1, plan=started.plan, cause="start"))
    ask_for_inputs(turn)


def ask_for_inputs(turn: Turn) -> None:
    """Ask for each that was not given, unless somebody is being asked for it."""
    asked = {question.asked.input for question in turn.state.questions.values()}
    for name in [one for one in turn.state.missing if one not in asked]:
        declared = turn.state.plan.inputs[name]
        kind = f" ({declared.type})" if declared.type != "any" else ""
        said = f": {declared.description}" if declared.description else ""
        turn.emit(
            ev.QuestionAsked(
                question=question_id(turn.state), reason="input", input=name,
                text=f"What is the input {name}{kind}{said}?", options=("give", "stop"),
            )
        )  # fmt: skip


def awaits_input(turn: Turn, step: StepState) -> bool:
    """Let the step wait if it reads what is missing."""
    state = turn.state
    if read_by(step.node.step, state.plan).isdisjoint(state.missing):
        return False
    turn.emit(ev.StepWaiting(path=step.path, until=0, reason="input"))
    return True


def settle_input(state: RunState, given: cmd.Answer, question: Question) -> Act:
    """The value, or the end of the run. BadInput if it is no such value."""
    raw = _value(state, question.asked.input, given) if given.answer == "give" else None

    def act(turn: Turn) -> None:
        turn.emit(
            ev.QuestionAnswered(
                question=given.question, answer=given.answer, by=given.by, reason=given.reason,
                result=ev.Raw(raw) if raw is not None else ev.NONE,  # in the log as all inputs are
            )
        )  # fmt: skip
        if raw is None:
            turn.emit(ev.RunCancelling(by=given.by, reason=f"the input {question.asked.input} is not given"))

    return act


def _value(state: RunState, name: str, given: cmd.Answer) -> bytes:
    declared = state.plan.inputs[name]
    fault = misfit(declared, given.value)
    if fault:
        raise BadInput(
            f"input {name}: {fault}",
            code="inputs", where=f"question {given.question}", allowed=[f"{name} ({declared.type})"],
            remedy="answer with a value of that type",
        )  # fmt: skip
    return encode(given.value, root=name)
