"""Trouble and repairs, as part of a run's state. Part of `evolve`: called from nowhere else.

One repair is open at a time. Trouble that comes meanwhile waits for the next one: a planner that is
shown a plan must not find it changed by another planner's patch when it answers.
"""

from __future__ import annotations

from kedge.flow.decision import Point
from kedge.flow.decisions import reached
from kedge.flow.events import Discovered, PlanAdopted, RepairAsked, RepairRefused, StepFailed, TroubleFound
from kedge.flow.questions import void
from kedge.flow.state import RunState, StepState
from kedge.flow.trouble import Refusal, Repair, Trouble, of_drift, of_failure, of_need


def is_grave(state: RunState, severity: float) -> bool:
    """Whether trouble is grave enough for this run to do something about it."""
    return 0 < severity >= state.settings.adaptation_sensitivity


def found(state: RunState, trouble: Trouble) -> None:
    """Keep it, and let it wait for a repair if it is grave enough, and if there is still a plan to mend."""
    state.troubles.append(trouble)
    if state.compensating or not is_grave(state, trouble.severity):
        return
    if trouble.need and trouble.kind != "demand":  # a hundred items may find the same
        if trouble.need in state.needs:
            return
        state.needs[trouble.need] = None
    if state.settings.repair:
        state.unmended.append(trouble)
    elif state.decides:
        reached(state, Point("trouble", trouble.path))


def step_failed(state: RunState, step: StepState, event: StepFailed) -> None:
    """A failure after which nothing else is tried is trouble. One for a repair is held until that is over."""
    if event.severity:
        trouble = of_failure(step.path, event.error, event.severity)
        state.troubles.append(trouble)
        if event.repair:
            state.unmended.append(trouble)
    if event.decide:
        reached(state, Point("trouble", step.path))


def step_took(state: RunState, step: StepState) -> None:
    """A step with an estimate is done."""
    trouble = of_drift(step, step.ended_at - step.attempt_at)
    if trouble is not None:
        found(state, trouble)


def discovered(state: RunState, event: Discovered) -> None:
    """A tool found something."""
    found(state, of_need("discovery", event.path, event.what, event.need))


def trouble_found(state: RunState, event: TroubleFound) -> None:
    """Somebody says that there is trouble."""
    found(state, event.trouble)


def repair_asked(state: RunState, event: RepairAsked) -> None:
    """The planner is asked, for the first time or again."""
    repair = state.repair
    if repair is None:
        repair = Repair(number=event.repair, troubles=tuple(state.unmended), asked_at=state.at)
        state.repair = repair
        state.repairs.append(repair)
        state.unmended = []
    repair.round = event.round
    repair.version = event.version
    repair.asked = True
    state.fingerprints[event.fingerprint] = None


def repair_refused(state: RunState, event: RepairRefused) -> None:
    """Nothing came of this round."""
    repair = state.repair
    if repair is None:
        return
    refusal = Refusal(round=event.round, code=event.code, message=event.message, findings=event.findings)
    repair.refusals = (*repair.refusals, refusal)
    repair.by = event.by or repair.by
    repair.asked = False
    if event.final:
        repair.outcome = "given_up"
        _close(state, repair)


def plan_adopted(state: RunState, event: PlanAdopted) -> None:
    """If the new plan is what the open repair led to, that is over."""
    repair = state.repair
    if repair is None or event.cause != "repair":
        return
    repair.outcome, repair.became, repair.by = "adopted", event.version, event.by
    _close(state, repair)


def run_ended(state: RunState) -> None:
    """Nothing is mended any more."""
    state.unmended = []
    if state.repair is not None:
        state.repair.outcome = "ended"
        _close(state, state.repair)


def _close(state: RunState, repair: Repair) -> None:
    repair.asked = False
    repair.ended_at = state.at
    state.repair = None
    if state.decides and repair.outcome != "ended":  # what it left alone is the agent's
        for trouble in repair.troubles:
            if _is_held(state, trouble) or (not trouble.is_failure and repair.outcome == "given_up"):
                reached(state, Point("trouble", trouble.path))


def _is_held(state: RunState, trouble: Trouble) -> bool:
    step = state.steps.get(trouble.path) if trouble.is_failure else None
    return step is not None and step.held


def release(state: RunState, step: StepState) -> None:
    """What becomes of a held step is decided: nobody need be asked about it, nor mend anything for it."""
    void(state, step.path)
    step.held = False
    if state.unmended:
        state.unmended = [one for one in state.unmended if not (one.is_failure and one.path == step.path)]


def is_mended(state: RunState, step: StepState) -> bool:
    """A repair that is open, or is to be asked for, decides on the step's failure."""
    waiting = state.unmended if state.repair is None else (*state.unmended, *state.repair.troubles)
    return any(one.is_failure and one.path == step.path for one in waiting)
