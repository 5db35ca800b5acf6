"""Whether a live plan may be changed so, and the events that change it.

Finished steps are immutable, running ones are kept or cancelled by name, everything else is open. A
changed plan is checked like any plan, as far as the change reaches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kedge.base.codec import digest
from kedge.base.errors import NotFound, Refused
from kedge.flow import events as ev
from kedge.flow.program import Node, Scope
from kedge.flow.state import RunState, StepState
from kedge.flow.turn import Turn
from kedge.flow.words import StepStatus
from kedge.plan.findings import Finding, invalid
from kedge.plan.model import Plan, Step
from kedge.plan.patch import Patch, apply, between
from kedge.plan.places import at

Act = Callable[[Turn], None]

_NOT_BEGUN = frozenset({StepStatus.PENDING, StepStatus.READY, StepStatus.WAITING})
_HARMLESS_FIELDS = frozenset({"do", "priority", "milestone", "estimate", "complexity", "metadata"})
"""Fields that mean nothing to a call under way or made."""

_encode = msgspec.json.Encoder(order="deterministic").encode


def changed(state: RunState, patch: Patch, cause: str, by: str) -> Act:
    """What follows from changing the plan so. Refused or InvalidPlan if it may not be."""
    event, _ = adoption(state, patch, cause, by)
    return lambda turn: turn.emit(event)


def adoption(state: RunState, patch: Patch, cause: str, by: str) -> tuple[ev.PlanAdopted, Plan]:
    """The event that changes the plan so, and the plan it makes. Refused or InvalidPlan if it may not be."""
    if state.undoing is not None and not state.undoing.told:
        raise Refused(
            "a compensation is under way: the plan cannot be changed meanwhile",
            code="cannot_change", remedy="wait until it is over",
        )  # fmt: skip
    if state.ending:
        raise Refused(f"the run is {state.status}: its plan cannot be changed any more", code="cannot_change")
    if patch.base not in (0, state.version):
        raise Refused(
            f"it was made for version {patch.base} of the plan, version {state.version} is followed now",
            code="stale_patch",
            remedy="look at the plan as it is, and make the change for that",
        )
    if patch.is_empty:
        raise Refused("it changes nothing", code="empty_patch")
    plan = apply(state.plan, patch)
    faults = list(_unlawful(state, plan, patch))
    if faults:
        raise invalid(faults)
    _refuse_faults(state, plan, patch)
    document = _encode(plan)
    event = ev.PlanAdopted(
        version=state.version + 1, plan=digest(document), cause=cause, by=by, why=patch.why,
        patch=ev.Raw(_encode(patch)), tools=_new_tools(state, plan, patch),
    )  # fmt: skip
    return event, plan


def rolled_back(state: RunState, number: int, why: str, by: str) -> Act:
    """What follows from going back to an earlier version, as far as what has run since allows."""
    return changed(state, way_back(state, number, why)[0], "rollback", by)


def way_back(state: RunState, number: int, why: str) -> tuple[Patch, list[str]]:
    """The patch that leads back to an earlier version, and the steps that cannot be removed by it."""
    known = [str(one.number) for one in state.versions if one.number != state.version]
    found = next((one for one in state.versions if one.number == number), None)
    if found is None or str(number) not in known:
        raise NotFound(f"there is no earlier version {number}", code="unknown_version", allowed=known)
    wanted = between(state.plan, found.plan, state.version)
    removable = [path for path in wanted.remove if not list(_fixed(state, path, "removed"))]
    running = [path for path in wanted.remove if _is_running(state, path)]
    change = {
        path: fields
        for path, fields in wanted.change.items()
        if fields.keys() <= _HARMLESS_FIELDS or not list(_fixed(state, path, "changed"))
    }
    staying = [path for path in wanted.remove if path not in {*removable, *running}]
    patch = msgspec.structs.replace(
        wanted, why=why or f"back to version {number}", remove=tuple(removable), change=change,
        cancel=tuple(running),
    )  # fmt: skip
    return patch, staying


def _is_running(state: RunState, path: str) -> bool:
    return any(step.status is StepStatus.RUNNING and step.is_call for step in instances(state, path))


def instances(state: RunState, path: str) -> list[StepState]:
    """The steps that a path of the plan stands for: one for each item or round there has been."""
    scope: Scope | None = state.program.root
    *outer, last = path.split("/")
    for id_ in outer:
        index = scope.by_id.get(id_) if scope is not None else None
        scope = scope.nodes[index].scope if scope is not None and index is not None else None
    if scope is None or last not in scope.by_id:
        return []
    node: Node = scope.nodes[scope.by_id[last]]
    if scope is state.program.root:
        return [state.root.steps[node.index]]
    return [step for step in state.steps.values() if step.node is node and step.owner is None]


def _unlawful(state: RunState, plan: Plan, patch: Patch) -> Iterator[Finding]:
    again = frozenset(patch.retry)
    for number, path in enumerate(patch.remove):
        yield from _fixed(state, path, "removed", f"remove[{number}]")
    for path, fields in patch.change.items():
        if not fields.keys() <= _HARMLESS_FIELDS:
            yield from _fixed(state, path, "changed", at("change", path), again)
            yield from _items_fixed(state, path, fields)
    for path in patch.rewire:
        yield from _fixed(state, path, "rewired", at("rewire", path), again)
    for number, path in enumerate(patch.cancel):
        step = state.steps.get(path)
        if step is None or step.status is not StepStatus.RUNNING or not step.is_call:
            what = f"is {step.status}" if step is not None else "is no step of the run"
            yield _fault(
                "not_running", f"cancel[{number}]", path,
                f"{path} {what}: only a running call can be cancelled",
                _running(state),
            )  # fmt: skip
    yield from _not_held(state, patch.waive, "waive", "waived")
    yield from _not_held(
        state, [path for path in patch.retry if path not in patch.waive], "retry", "tried again"
    )
    for path in again.intersection(patch.waive):
        yield _fault("not_held", "retry", path, f"{path} cannot be both waived and tried again", ())
    for number, addition in enumerate(patch.add):
        yield from _misplaced(state, addition.into, f"add[{number}]")
    yield from _needless(state, plan, patch)


def _not_held(state: RunState, paths: Sequence[str], field: str, what: str) -> Iterator[Finding]:
    for number, path in enumerate(paths):
        step = state.steps.get(path)
        if step is None or not step.held:
            held = [one.path for one in state.steps.values() if one.held]
            how = f"is {step.status}" if step is not None else "is no step of the run"
            text = f"{path} {how}: only a failure that is being decided on can be {what}"
            yield _fault("not_held", f"{field}[{number}]", path, text, held)


def _items_fixed(state: RunState, path: str, fields: Mapping[str, Any]) -> Iterator[Finding]:
    """A foreach step that is tried again goes on with the items that it has."""
    for step in instances(state, path):
        if "foreach" in fields and step.held and step.items is not None:
            text = f"{step.path} has its items: which they are cannot be changed"
            yield _fault(
                "fixed_step", at("change", path), step.path, text, (), "waive it, and add another step"
            )
            return


def _fixed(
    state: RunState, path: str, what: str, place: str = "", again: frozenset[str] = frozenset()
) -> Iterator[Finding]:
    for step in instances(state, path):
        if step.held and step.path in again:
            continue
        begun = step.inner is not None or step.items is not None
        waits = step.status is StepStatus.WAITING and step.awaits == "signal"
        if step.status in _NOT_BEGUN and not begun and not (waits and what != "removed"):
            continue
        how = "has begun" if begun and step.outcome is None else f"is {step.status}"
        remedy = "add another step"
        if step.status is StepStatus.RUNNING and not begun:
            remedy = "name it in `cancel`"
        elif step.held:
            remedy = "name it in `retry`, or add another step"
        yield _fault("fixed_step", place, step.path, f"{step.path} {how}: it cannot be {what}", (), remedy)
        return


def _misplaced(state: RunState, into: str, place: str) -> Iterator[Finding]:
    around = instances(state, into) if into else []
    if around and all(step.outcome is not None for step in around):
        yield _fault("fixed_step", f"{place}.into", into, f"{into} has ended: nothing can be added to it", ())


def _needless(state: RunState, plan: Plan, patch: Patch) -> Iterator[Finding]:
    """Steps that would come to stand in for one that has settled."""
    added = (f"{one.into}/{one.step.id}" if one.into else one.step.id for one in patch.add)
    for path in (*patch.change, *patch.rewire, *added):
        step, before = step_at(plan, path), step_at(state.plan, path)
        if step is None or step.fallback_for in (None, before.fallback_for if before is not None else None):
            continue
        around = path.rpartition("/")[0]
        for target in instances(state, f"{around}/{step.fallback_for}" if around else str(step.fallback_for)):
            if target.outcome is not None:
                text = f"{target.path} is {target.status}: it needs no fallback any more"
                yield _fault("fixed_step", at("fallback_for", path), target.path, text, ())
                break


def step_at(plan: Plan, path: str) -> Step | None:
    """The plan's step at a path."""
    steps: Sequence[Step] | None = plan.steps
    step: Step | None = None
    for id_ in path.split("/"):
        step = next((one for one in steps or () if one.id == id_), None)
        if step is None:
            return None
        steps = step.steps
    return step


def _fault(
    code: str, place: str, step: str, message: str, allowed: Iterable[str], remedy: str = ""
) -> Finding:
    return Finding(
        code=code, path=place, step=step, message=message, allowed=tuple(allowed)[:10],
        remedy=remedy or "look at how the run stands",
    )  # fmt: skip


def _running(state: RunState) -> list[str]:
    return [s.path for s in state.steps.values() if s.status is StepStatus.RUNNING and s.is_call]


def _refuse_faults(state: RunState, plan: Plan, patch: Patch) -> None:
    from kedge.checks import check_change, insist, unsupported  # not needed to resume a run
    from kedge.flow.reach import Reach

    reach = Reach(state.program)
    findings = check_change(plan, reach.touched(patch), reach.known, state.program.catalog, state.limits)
    if findings.ok and unsupported(msgspec.structs.replace(plan, steps=_named(plan, patch))).ok:
        return  # the plan was one that can be run, and so is what is new in it
    insist(findings if not findings.ok else unsupported(plan), "the plan would have")


def _named(plan: Plan, patch: Patch) -> tuple[Step, ...]:
    """The steps of a patched plan that the patch says something of."""
    changed = (step_at(plan, path) for path in {**patch.change, **patch.rewire})
    return (*(one.step for one in patch.add), *(step for step in changed if step is not None))


def _new_tools(state: RunState, plan: Plan, patch: Patch) -> dict[str, ev.ToolMark]:
    found: dict[str, ev.ToolMark] = {}
    catalog = state.program.catalog
    for name in tools_of(_named(plan, patch)):
        spec = catalog.get(name) if name not in state.tools else None
        if spec is not None:
            found[name] = ev.ToolMark(spec.definition_hash, spec.effect)
    return found


def tools_of(steps: Iterable[Step]) -> set[str]:
    """Names of the tools that the steps call, and those inside them."""
    found: set[str] = set()
    todo: list[Any] = list(steps)
    while todo:
        step = todo.pop()
        if step.tool is not None:
            found.add(step.tool)
        if step.compensate is not None:
            found.add(step.compensate.tool)
        todo.extend(step.steps or ())
    return found
