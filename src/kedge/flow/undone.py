"""The beginning and the end of a compensation. Part of `evolve`: called from nowhere else."""

from __future__ import annotations

from kedge.flow.compensation import TAKEN_BACK, users_of, with_users
from kedge.flow.consent import need_none
from kedge.flow.events import NONE, CompensationStarted, Raw, RunEnded
from kedge.flow.questions import VOID, closed
from kedge.flow.scopes import let_go, recount, unwatch
from kedge.flow.settle import hold_back, is_movable
from kedge.flow.state import RunState, StepState, Undoing
from kedge.flow.stopping import stop_all
from kedge.flow.unwind import unwind
from kedge.flow.words import Outcome, RunStatus, StepStatus


def begin(state: RunState, event: CompensationStarted) -> None:
    """From here on what the event says is undone."""
    undoing = state.undoing = Undoing(event)
    users = users_of(state)
    wanted = list(state.steps.values())
    if event.steps:
        undoing.wanted = with_users((state.steps[path] for path in event.steps), users)
        wanted = [step for step in wanted if step in undoing.wanted]
    if event.status is not None or state.end is not None:
        _be_alone(state, undoing)
    else:
        _take_back(state, wanted)
    unwind(state, undoing, wanted, users)


def end(state: RunState, undoing: Undoing) -> None:
    """It is over, and that is told: the run may end now."""
    undoing.told = True
    if not undoing.alone and not state.root.open:
        state.closing.append(None)


def give_up(state: RunState) -> None:
    """The run goes on, with what was not undone: that is not to be undone any more."""
    if state.undoing is not None:
        undoing = state.undoing = Undoing(state.undoing.started)
        undoing.over = undoing.told = True
        undoing.wanted = set()


# --- nothing else goes on


def _be_alone(state: RunState, undoing: Undoing) -> None:
    undoing.alone = True
    undoing.ends = _how_it_ends(state, undoing.started)
    if state.end is None:
        stop_all(state)
    else:
        state.idle_ms += state.at - state.ended_at
    for id_, question in state.questions.items():
        if question.open and question.asked.reason in ("limit", "salvaged"):  # nobody wants to go on any more
            closed(state, id_, VOID, "")
    need_none(state)
    state.end = None
    state.ended_at = 0
    state.error = None
    state.outputs = None
    state.answer = None
    state.cancelling = state.paused = state.undo_after = False
    state.stopped_by = ""


def _how_it_ends(state: RunState, event: CompensationStarted) -> RunEnded:
    if event.status is not None:
        return RunEnded(status=event.status, error=event.error)
    outputs = state.outputs
    inline = isinstance(outputs, bytes)
    return RunEnded(
        status=state.end or RunStatus.FAILED,
        outputs=Raw(outputs) if inline else NONE,
        blob=None if inline else outputs,
        answer=state.answer,
        error=state.error,
    )


# --- the run goes on


def _take_back(state: RunState, wanted: list[StepState]) -> None:
    """What has not begun is not to read any of it: for that it counts as absent, like what is skipped."""
    gone = {step for step in wanted if step.outcome is Outcome.DONE}
    for step in gone:
        step.outcome = Outcome.ABSENT
        step.reason = TAKEN_BACK
    readers = [
        step
        for step in state.steps.values()
        if is_movable(step) and any(step.needed(name) in gone for name in step.node.places)
    ]
    hold_back(state, readers)
    for step in readers:
        unwatch(step)
        step.status = StepStatus.PENDING
        recount(step)
    for step in readers:
        let_go(state, step)
