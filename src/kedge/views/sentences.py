"""One sentence for people per kind of event."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kedge.flow import events as ev
from kedge.flow.words import Failure
from kedge.views.text import clean, duration
from kedge.views.words import RUN_SENTENCES, why_skipped


class About(NamedTuple):
    """What a sentence needs besides its event."""

    at: int
    run_id: str
    name: str
    """`Step read`, `Item read[2]`"""
    do: str
    """What the step is for, cleaned."""
    seconds: float | None
    """Since the step or the run started."""
    counted: str
    """` (4 of 9)`"""


def sentence(event: ev.Event, about: About) -> str:
    """What happened."""
    return _SENTENCES[type(event)](event, about)


def _error(error: Failure | None) -> str:
    return clean(error.message, 200) if error is not None else ""


def _in(about: About) -> str:
    return f" in {duration(about.seconds)}" if about.seconds is not None else ""


def _by(event: Any) -> str:
    return f" by {clean(event.by, 60)}" if event.by else ""


def _plan_adopted(event: ev.PlanAdopted, about: About) -> str:
    why = f": {clean(event.why, 200)}" if event.why else f": {clean(event.cause, 120)}" if event.cause else ""
    return f"Plan version {event.version} is followed{_by(event)}{why}"


def _run_resumed(event: ev.RunResumed, about: About) -> str:
    return f"Run {about.run_id} is taken up again" + (", with what failed" if event.retry_failed else "")


def _step_started(event: ev.StepStarted, about: About) -> str:
    if event.attempt > 1:
        return f"{about.name}: attempt {event.attempt} started"
    if event.iteration > 0:
        return f"{about.name}: round {event.iteration + 1} started"
    return f"{about.name} started" + (f": {about.do}" if about.do else "")


def _round_ended(event: ev.RoundEnded, about: About) -> str:
    wait_s = (event.next_at - about.at) / 1000
    return f"{about.name}: round {event.iteration + 1} done" + (
        f", next in {duration(wait_s)}" if wait_s > 0 else ""
    )


def _retry_scheduled(event: ev.RetryScheduled, about: About) -> str:
    wait_s = max(0.0, (event.at - about.at) / 1000)
    said = _error(event.error)
    after = f"attempt {event.attempt} in {duration(wait_s)}"
    return f"{about.name}: attempt {event.attempt - 1} failed: {said}; {after}"


def _step_waiting(event: ev.StepWaiting, about: About) -> str:
    wait = duration((event.until - about.at) / 1000) if event.until else ""
    at_most = f", {wait} at most" if wait else ""
    if event.reason == "signal":
        return f"{about.name} waits for the signal {clean(event.signal, 80)!r}{at_most}"
    if event.reason == "input":
        return f"{about.name} waits for an input that was not given"
    if event.reason == "approval":
        return f"{about.name} waits for an approval{at_most}"
    return f"{about.name} waits for {wait}"


def _command_refused(event: ev.CommandRefused, about: About) -> str:
    return f"Command {clean(event.command, 40)}{_by(event)} is refused: {clean(event.message, 300)}"


def _failure_settled(event: ev.FailureSettled, about: About) -> str:
    what = "the run goes on without it" if event.waived else "that stands"
    return f"{about.name} failed: {what}{about.counted}"


def _feedback_given(event: ev.FeedbackGiven, about: About) -> str:
    amounts = {
        f"{event.tokens:,} tokens": event.tokens,
        f"cost {event.cost:,.4g}": event.cost,
        f"{duration(event.cpu_s)} of processor time": event.cpu_s,
        f"{event.memory_mb:,.0f} MB": event.memory_mb,
    }
    used = ", ".join(text for text, amount in amounts.items() if amount)
    quality = f" has quality {event.quality:.2f}" if event.quality is not None else ""
    return f"{about.name}{quality}{' and' if quality and used else ''}{f' used {used}' if used else ''}"


def _question_asked(event: ev.QuestionAsked, about: About) -> str:
    options = clean(", ".join(event.options), 80)
    return f"Question {clean(event.question, 20)}: {clean(event.text, 300)} ({options})"


def _question_answered(event: ev.QuestionAnswered, about: About) -> str:
    return f"Question {clean(event.question, 20)} is answered{_by(event)}: {clean(event.answer, 80)}"


def _trouble_found(event: ev.TroubleFound, about: About) -> str:
    trouble = event.trouble
    where = f" at step {clean(trouble.path, 80)}" if trouble.path else ""
    need = f" (it takes: {clean(trouble.need, 120)})" if trouble.need and trouble.need != trouble.what else ""
    return f"Trouble{where}{_by(event)}: {clean(trouble.what, 200)}{need}"


def _repair_asked(event: ev.RepairAsked, about: About) -> str:
    first = event.troubles[0] if event.troubles else None
    others = len(event.troubles) - 1 + event.more
    what = f": {clean(first.path, 80)}{', ' if first.path else ''}{clean(first.what, 200)}" if first else ""
    more = f" and {others:,} more" if others > 0 else ""
    turn = f", round {event.round}" if event.round > 1 else ""
    return f"Repair {event.repair} of plan version {event.version} is asked for{turn}{what}{more}"


def _repair_refused(event: ev.RepairRefused, about: About) -> str:
    what = f"Repair {event.repair}, round {event.round}: nothing came of it"
    end = "; the plan stays as it is" if event.final else "; the planner is asked again"
    return f"{what}{_by(event)}: {clean(event.message, 300)}{end}"


def _decision_asked(event: ev.DecisionAsked, about: About) -> str:
    names = ", ".join(clean(point.path, 80) for point in event.points[:3] if point.path)
    others = len(event.points) + event.more - 3
    more = f" and {others:,} more" if others > 0 else ""
    return f"Decision {event.decision}: the agent is asked how to go on" + (
        f" after {names}{more}" if names else ""
    )


def _decision_taken(event: ev.DecisionTaken, about: About) -> str:
    wanted = clean(", ".join(event.commands), 200) or "to go on"
    return f"Decision {event.decision}{_by(event)}: {wanted}"


def _decision_missed(event: ev.DecisionMissed, about: About) -> str:
    then = "a person is asked" if event.ask else "the run goes on without it"
    return f"Decision {event.decision}: {clean(event.message, 200)}; {then}"


def _said(event: ev.Said, about: About) -> str:
    return f"{clean(event.by, 60) or 'Somebody'} says: {clean(event.text, 300)}"


def _run_cancelling(event: ev.RunCancelling, about: About) -> str:
    return f"Run {about.run_id} is being cancelled{_by(event)}" + (
        f": {clean(event.reason, 200)}" if event.reason else ""
    )


def _compensation_started(event: ev.CompensationStarted, about: About) -> str:
    what = clean(", ".join(event.steps), 200)
    said = f"What {what} did is being undone" if what else f"What run {about.run_id} did is being undone"
    return said + _by(event) + (f": {clean(event.reason, 200)}" if event.reason else "")


def _compensation_ended(event: ev.CompensationEnded, about: About) -> str:
    left = f", {event.left:,} could not be" if event.left else ""
    return f"{event.undone:,} step{' is' if event.undone == 1 else 's are'} undone{left}"


def _run_ended(event: ev.RunEnded, about: About) -> str:
    return RUN_SENTENCES[event.status] + _in(about) + (f": {_error(event.error)}" if event.error else "")


_SENTENCES: dict[type[ev.Event], Callable[[Any, About], str]] = {
    ev.RunStarted: lambda e, a: f"Run {a.run_id} started: {clean(e.goal, 200)}",
    ev.PlanAdopted: _plan_adopted,
    ev.PlanApproved: lambda e, _: f"Plan version {e.version} is approved{_by(e)}",
    ev.CommandTaken: lambda e, _: f"Command {clean(e.command, 40)} is taken{_by(e)}",
    ev.CommandRefused: _command_refused,
    ev.SignalReceived: lambda e, _: f"Signal {clean(e.name, 80)!r} came",
    ev.SignalTaken: lambda e, a: f"{a.name} takes the signal {clean(e.name, 80)!r}",
    ev.Reopened: lambda e, a: f"{a.name} is to be tried again{_by(e)}",
    ev.RunResumed: _run_resumed,
    ev.Forked: lambda e, a: (
        f"Run {a.run_id} branches off run {clean(e.run, 80)} after event {e.seq:,}{_by(e)}"
    ),
    ev.ResultKept: lambda e, a: f"{a.name}: its result {clean(e.source, 100)} is kept",
    ev.ResultReused: lambda e, a: f"{a.name}: no call is made, it comes to {clean(e.source, 100)}",
    ev.StepStarted: _step_started,
    ev.StepSucceeded: lambda _, a: f"{a.name} done{_in(a)}{a.counted}",
    ev.RoundEnded: _round_ended,
    ev.StepFailed: lambda e, a: f"{a.name} failed{_in(a)}: {_error(e.error)}{a.counted}",
    ev.FailureSettled: _failure_settled,
    ev.RetryScheduled: _retry_scheduled,
    ev.StepWaiting: _step_waiting,
    ev.StepSkipped: lambda e, a: f"{a.name} skipped: {why_skipped(e.reason, e.because)}{a.counted}",
    ev.StepCancelled: lambda _, a: f"{a.name} cancelled{a.counted}",
    ev.StepInterrupted: lambda _, a: (
        f"{a.name} was interrupted: the process that ran it is gone; it starts again"
    ),
    ev.StepInDoubt: lambda e, a: f"{a.name} may or may not have had its effect: {_error(e.error)}",
    ev.StepExpanded: lambda e, a: f"{a.name} has {e.count:,} item{'' if e.count == 1 else 's'}",
    ev.Discovered: lambda e, a: f"{a.name} found: {clean(e.what, 200)}",
    ev.TroubleFound: _trouble_found,
    ev.RepairAsked: _repair_asked,
    ev.RepairRefused: _repair_refused,
    ev.DecisionAsked: _decision_asked,
    ev.DecisionTaken: _decision_taken,
    ev.DecisionMissed: _decision_missed,
    ev.Said: _said,
    ev.Noted: lambda e, _: f"Something is noted{_by(e)}",
    ev.Marked: lambda e, _: f"This position is named {clean(e.name, 80)!r}{_by(e)}",
    ev.FeedbackGiven: _feedback_given,
    ev.QuestionAsked: _question_asked,
    ev.QuestionAnswered: _question_answered,
    ev.LimitReached: lambda e, _: f"Limit {clean(e.limit, 40)} is reached ({e.value:,.10g})",
    ev.RunPaused: lambda e, a: f"Run {a.run_id} is paused{_by(e)}",
    ev.RunUnpaused: lambda e, a: f"Run {a.run_id} goes on{_by(e)}",
    ev.RunCancelling: _run_cancelling,
    ev.CompensationStarted: _compensation_started,
    ev.CompensationEnded: _compensation_ended,
    ev.RunEnded: _run_ended,
}
