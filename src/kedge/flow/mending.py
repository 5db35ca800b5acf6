"""Repairs: when the planner is asked, what its patch means, and what becomes of the failures held for it.

A planner can be slow, wrong, or go in circles, and none of that may cost the run more than time: its
patch is judged like anybody's change, what is wrong with it goes back to it, at most three times, and a
plan under which the same trouble came before is not taken again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from kedge.base.codec import digest
from kedge.base.errors import InvalidPlan, KedgeError, Refused
from kedge.flow import events as ev
from kedge.flow import inputs as inp
from kedge.flow.authority import widening
from kedge.flow.changes import adoption
from kedge.flow.failing import settle_held
from kedge.flow.limiting import ask_limit
from kedge.flow.state import RunState
from kedge.flow.trouble import Fault, Repair, Trouble
from kedge.flow.turn import Turn
from kedge.plan.findings import Finding, invalid
from kedge.plan.model import Plan, Step
from kedge.plan.patch import Patch

ROUNDS = 3
"""How often a planner is asked for one repair."""
SHOWN = 20
"""Troubles that the log repeats for one repair; all are in the state."""
FAULTS = 100
"""Findings of one refused patch that are kept."""

_encode = msgspec.json.Encoder(order="deterministic").encode


# --- asking


def mend(turn: Turn) -> bool:
    """Ask the planner, if it is to be asked now. True: nothing came of it at once, and others may go on."""
    state = turn.state
    repair = state.repair
    if state.blocked_by or state.is_undoing or (repair is not None and repair.asked):
        return False  # no patch is taken while something is undone
    if repair is None and not state.unmended:
        return False
    if repair is not None:
        print_ = fingerprint(state.plan, state, repair.troubles)
        _ask(turn, repair.number, repair.round + 1, repair.troubles, print_)
        return False
    used = len(state.repairs)
    if used >= state.limit("repairs"):
        ask_limit(turn, "repairs", used)
        return False
    print_ = fingerprint(state.plan, state, state.unmended)
    again = print_ in state.fingerprints
    _ask(turn, used + 1, 1, state.unmended, print_)
    repair = state.repair
    if not again or repair is None:
        return False
    text = "the same trouble came under the same plan before, and the repair then did not help"
    _refuse(turn, repair, Refused(text, code="repair_repeats"), final=True)
    return True


def _ask(turn: Turn, number: int, round_: int, troubles: Sequence[Trouble], print_: str) -> None:
    turn.emit(
        ev.RepairAsked(
            repair=number, round=round_, version=turn.state.version, fingerprint=print_,
            troubles=tuple(troubles[:SHOWN]), more=max(0, len(troubles) - SHOWN),
        )
    )  # fmt: skip


def fingerprint(plan: Plan, state: RunState, troubles: Iterable[Trouble], without: Iterable[str] = ()) -> str:
    """What is left to do of `plan` and what stands in its way, as a hash. `without`: what comes off it."""
    steps = state.steps
    rest: list[Step] = []
    for step in plan.steps:
        known = steps.get(step.id)
        if known is None or known.outcome is None:
            rest.append(step)
    rest.sort(key=lambda step: step.id)
    keys = sorted((one.kind, one.path, one.code, one.need) for one in troubles)
    return digest(_encode([rest, keys, sorted(without)]))


# --- what comes back


def take_patch(turn: Turn, given: inp.Repaired) -> None:
    """The planner answered."""
    state = turn.state
    repair = _awaited(state, given.repair, given.round)
    if repair is None:
        return
    try:
        if not any(_is_open(state, one) for one in repair.troubles):
            raise Refused("what it was for is over", code="not_needed")
        if given.patch is None:
            raise Refused("the planner knows no repair", code="no_patch")
        event = _judged(state, repair, given.patch, given.by)
    except KedgeError as refusal:
        final = refusal.code in ("no_patch", "not_needed")
        _refuse(turn, repair, refusal, final=final, by=given.by)
        return
    turn.emit(event)
    settle_held(turn, (one.path for one in repair.troubles if one.is_failure))


def take_failure(turn: Turn, given: inp.RepairFailed) -> None:
    """The planner did not answer, or not with a patch."""
    repair = _awaited(turn.state, given.repair, given.round)
    if repair is not None:
        _refuse(turn, repair, Refused(given.why, code=given.code), final=given.final, by=given.by)


def _awaited(state: RunState, number: int, round_: int) -> Repair | None:
    """The open repair, if this is the answer that it waits for."""
    repair = state.repair
    if repair is None or state.end is not None or not repair.asked:
        return None
    return repair if (repair.number, repair.round) == (number, round_) else None


def _judged(state: RunState, repair: Repair, patch: Patch, by: str) -> ev.PlanAdopted:
    """The event that adopts the patched plan; KedgeError says why it may not be adopted."""
    if not patch.base:
        patch = msgspec.structs.replace(patch, base=repair.version)
    closed = list(widening(state, patch))
    if closed:
        raise invalid(closed)
    event, plan = adoption(state, patch, "repair", by)
    if fingerprint(plan, state, repair.troubles, (*patch.waive, *patch.cancel)) in state.fingerprints:
        raise Refused(
            "it leads to a plan under which the same trouble came before",
            code="repair_repeats", remedy="change what is still to be done, or go on without it",
        )  # fmt: skip
    return event


def _is_open(state: RunState, trouble: Trouble) -> bool:
    if not trouble.is_failure:
        return True
    step = state.steps.get(trouble.path)
    return step is not None and step.held


def _refuse(turn: Turn, repair: Repair, refusal: KedgeError, *, final: bool = False, by: str = "") -> None:
    final = final or repair.round >= ROUNDS
    turn.emit(
        ev.RepairRefused(
            repair=repair.number, round=repair.round, code=refusal.code, message=refusal.message,
            findings=_faults(refusal), final=final, by=by,
        )
    )  # fmt: skip
    if final:
        settle_held(turn, (one.path for one in repair.troubles if one.is_failure))


def _faults(refusal: KedgeError) -> tuple[Fault, ...]:
    if not isinstance(refusal, InvalidPlan) or refusal.findings is None:
        return (Fault(code=refusal.code, message=refusal.message, remedy=refusal.remedy),)
    findings: list[Finding] = list(refusal.findings)
    kept = [Fault(code=f.code, message=f.message, path=f.path, remedy=f.remedy) for f in findings[:FAULTS]]
    if len(findings) > FAULTS:
        kept.append(Fault(code="more", message=f"{len(findings) - FAULTS:,} more"))
    return tuple(kept)
