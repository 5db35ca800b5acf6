"""A change of a plan, as data: what a person, an agent or a planner wants otherwise.

Steps are named by their ids and those of the composites around them, as in `outer/inner`: never by
position, never one item of a foreach. A patch names the version it was made for, so that one made for
a plan that has changed since is noticed. Whether its changes may be made is not said here: what has
run cannot be changed, and only the run knows that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import msgspec

from kedge.base.errors import ExpressionError
from kedge.plan.expr.rename import renamed_expression, renamed_template
from kedge.plan.findings import Finding, invalid
from kedge.plan.model import Plan
from kedge.plan.nearest import nearest
from kedge.plan.parts import Part, Step
from kedge.plan.places import at

PLAN_FIELDS = ("goal", "context", "outputs", "answer")
"""What a patch may change of the plan itself. Inputs were given, limits are raised by answers."""
_FIXED = ("id", "steps")


class Addition(Part, frozen=True, kw_only=True):
    """A step more."""

    step: Step
    """The step, as a plan has it."""
    into: str = ""
    """The composite it becomes part of; empty for the plan itself."""


class Patch(Part, frozen=True, kw_only=True):
    """What is to be otherwise in a plan."""

    base: int = 0
    """The version of the plan it was made for; 0 for whichever is in force."""
    why: str = ""
    """What it is for, in a sentence."""
    add: tuple[Addition, ...] = ()
    """Steps to add."""
    remove: tuple[str, ...] = ()
    """Steps to take out that have not run."""
    change: dict[str, dict[str, Any]] = {}
    """Fields of steps and what they are to be; null takes a field out."""
    rewire: dict[str, dict[str, str]] = {}
    """For a step, which step it reads and waits for instead of which."""
    cancel: tuple[str, ...] = ()
    """Running steps that are to be stopped. Those not named go on."""
    waive: tuple[str, ...] = ()
    """Failed steps that the run shall not fail for."""
    retry: tuple[str, ...] = ()
    """Failed steps that are to be tried again; `change` and `rewire` may name them too."""
    plan: dict[str, Any] = {}
    """Fields of the plan itself, of goal, context, outputs and answer."""

    @property
    def is_empty(self) -> bool:
        """It changes nothing."""
        return not (
            self.add or self.remove or self.change or self.rewire or self.cancel or self.waive
            or self.retry or self.plan
        )  # fmt: skip


class _Tree:
    """Steps by path, and the new ones in their places."""

    def __init__(self, plan: Plan) -> None:
        self.findings: list[Finding] = []
        self.scopes: dict[str, dict[str, Step]] = {}
        todo: list[tuple[str, Sequence[Step]]] = [("", plan.steps)]
        while todo:
            prefix, steps = todo.pop()
            self.scopes[prefix] = {step.id: step for step in steps}
            todo.extend((f"{prefix}{step.id}/", step.steps) for step in steps if step.steps is not None)
        self.touched: set[str] = set()

    def find(self, path: str, place: str) -> tuple[dict[str, Step], Step] | None:
        """The scope that the path leads to, and its step; None, with a finding, if it leads nowhere."""
        head, _, id_ = path.rpartition("/")
        prefix = f"{head}/" if head else ""
        scope = self.scopes.get(prefix)
        step = scope.get(id_) if scope is not None else None
        if scope is None or step is None:
            known = [f"{prefix}{name}" for prefix, steps in self.scopes.items() for name in steps]
            near = nearest(path, known)
            item = " (one item of a foreach cannot be changed)" if "[" in path else ""
            self.fault(
                "unknown_step", place, f"the plan has no step {path[:80]!r}{item}",
                allowed=tuple(known[:10]),
                remedy=f"did you mean {near!r}?" if near else "name a step of the plan",
            )  # fmt: skip
            return None
        self.touch(prefix)
        return scope, step

    def touch(self, prefix: str) -> None:
        """This scope is to be put together anew, and so are those around it."""
        while prefix not in self.touched:
            self.touched.add(prefix)
            if not prefix:
                return
            prefix = prefix[: prefix.rstrip("/").rfind("/") + 1]

    def fault(self, code: str, place: str, message: str, **more: Any) -> None:
        self.findings.append(Finding(code=code, path=place, message=message, **more))

    def steps(self, prefix: str = "") -> Sequence[Step]:
        """The steps of a scope as they are now. What nobody touched stays the very same object."""
        found: list[Step] = []
        for id_, step in self.scopes[prefix].items():
            inner = f"{prefix}{id_}/"
            if step.steps is not None and inner in self.touched and inner in self.scopes:
                found.append(msgspec.structs.replace(step, steps=self.steps(inner)))
            else:
                found.append(step)
        return tuple(found)


def apply(plan: Plan, patch: Patch) -> Plan:
    """The plan after the patch. InvalidPlan lists all that is wrong with the patch itself."""
    tree = _Tree(plan)
    _remove(tree, patch.remove)
    _add(tree, patch.add)
    for path, fields in patch.change.items():
        _change(tree, path, fields)
    for path, names in patch.rewire.items():
        _rewire(tree, path, names)
    fields = _plan_fields(tree, patch.plan)
    if tree.findings:
        raise invalid(tree.findings)
    steps = tree.steps() if tree.touched else plan.steps
    return msgspec.structs.replace(plan, steps=steps, **fields)


def _remove(tree: _Tree, paths: Iterable[str]) -> None:
    for number, path in enumerate(paths):
        found = tree.find(path, f"remove[{number}]")
        if found is not None:
            scope, step = found
            del scope[step.id]


def _add(tree: _Tree, additions: Iterable[Addition]) -> None:
    for number, addition in enumerate(additions):
        prefix, id_ = f"{addition.into}/" if addition.into else "", addition.step.id
        scope = tree.scopes.get(prefix)
        if scope is None:
            tree.fault(
                "unknown_step", f"add[{number}].into", f"the plan has no composite {addition.into[:80]!r}",
                allowed=tuple(name.rstrip("/") for name in tree.scopes if name)[:10],
                remedy="name a step that has steps, or leave it out for the plan itself",
            )  # fmt: skip
            continue
        if id_ in scope:
            tree.fault(
                "duplicate_id", f"add[{number}].step.id", f"there is a step {prefix}{id_} already",
                names=(id_,), remedy="choose another id, or change that step",
            )  # fmt: skip
            continue
        scope[id_] = addition.step
        tree.touch(prefix)


def _change(tree: _Tree, path: str, fields: Mapping[str, Any]) -> None:
    place = at("change", path)
    found = tree.find(path, place)
    if found is None:
        return
    scope, step = found
    for name in _FIXED:
        if name in fields:
            remedy = "remove the step and add another" if name == "id" else "use add and remove with its path"
            tree.fault("fixed_field", at(place, name), f"{name!r} cannot be changed", remedy=remedy)
            return
    inner = step.steps
    data = cast("dict[str, Any]", msgspec.to_builtins(msgspec.structs.replace(step, steps=None)))
    data |= fields
    data = {name: value for name, value in data.items() if value is not None}
    try:
        changed = msgspec.convert(data, Step)
    except msgspec.ValidationError as error:
        tree.fault("wrong_type", place, str(error), remedy="give the field as a plan has it")
        return
    scope[step.id] = msgspec.structs.replace(changed, steps=inner)


def _rewire(tree: _Tree, path: str, names: Mapping[str, str]) -> None:
    place = at("rewire", path)
    found = tree.find(path, place)
    if found is None:
        return
    scope, step = found
    try:
        scope[step.id] = rewired(step, names)
    except ExpressionError as error:
        tree.fault(error.code, place, error.message, remedy=error.remedy)


def rewired(step: Step, names: Mapping[str, str]) -> Step:
    """The step with other names for the steps that it reads and waits for."""

    def expression(text: str | None) -> str | None:
        return renamed_expression(text, names) if text is not None else None

    def template(text: str) -> str:
        return renamed_template(text, names)

    loop = step.loop
    if loop is not None and loop.until is not None:
        loop = msgspec.structs.replace(loop, until=expression(loop.until))
    undo = step.compensate
    if undo is not None:
        undo = msgspec.structs.replace(undo, args=_walked(undo.args, template))
    target = step.fallback_for
    return msgspec.structs.replace(
        step,
        args=_walked(step.args, template),
        after=tuple(dict.fromkeys(names.get(name, name) for name in step.after)),
        when=expression(step.when),
        foreach=_walked(step.foreach, template),
        loop=loop,
        expect=expression(step.expect),
        quality=expression(step.quality),
        compensate=undo,
        fallback_for=names.get(target, target) if target is not None else None,
    )


def _walked(value: Any, change: Callable[[str], str]) -> Any:
    """The value with each text in it changed."""
    if isinstance(value, str):
        return change(value) if "${" in value else value
    if isinstance(value, dict):
        return {key: _walked(inner, change) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_walked(inner, change) for inner in cast("list[Any]", value)]
    return value


def _plan_fields(tree: _Tree, fields: Mapping[str, Any]) -> dict[str, Any]:
    types = {field.name: field.type for field in msgspec.structs.fields(Plan)}
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if name not in PLAN_FIELDS:
            tree.fault(
                "fixed_field", at("plan", name), f"{name!r} of the plan cannot be changed in a run",
                allowed=PLAN_FIELDS, remedy="change one of these, or start another run",
            )  # fmt: skip
            continue
        try:
            found[name] = msgspec.convert(value, types[name])
        except msgspec.ValidationError as error:
            tree.fault("wrong_type", at("plan", name), str(error), remedy="give the field as a plan has it")
    return found


def between(old: Plan, new: Plan, base: int = 0, why: str = "") -> Patch:
    """The patch that leads from one plan to the other. Steps are matched by path."""
    add: list[Addition] = []
    remove: list[str] = []
    change: dict[str, dict[str, Any]] = {}
    todo: list[tuple[str, Sequence[Step], Sequence[Step]]] = [("", old.steps, new.steps)]
    while todo:
        prefix, before, after = todo.pop()
        were = {step.id: step for step in before}
        are = {step.id: step for step in after}
        remove += [prefix + id_ for id_ in were if id_ not in are]
        for id_, step in are.items():
            was, path = were.get(id_), prefix + id_
            if was is None:
                add.append(Addition(step=step, into=prefix.rstrip("/")))
            elif (was.steps is None) != (step.steps is None):
                remove.append(path)
                add.append(Addition(step=step, into=prefix.rstrip("/")))
            elif was != step:
                if fields := _changed(was, step):
                    change[path] = fields
                if was.steps is not None and step.steps is not None:
                    todo.append((f"{path}/", was.steps, step.steps))
    fields = {name: getattr(new, name) for name in PLAN_FIELDS if getattr(old, name) != getattr(new, name)}
    return Patch(
        base=base,
        why=why,
        add=tuple(add),
        remove=tuple(remove),
        change=change,
        plan=msgspec.to_builtins(fields),
    )


def _changed(was: Step, step: Step) -> dict[str, Any]:
    """Fields that differ, as a document has them; null for one that is gone."""
    before = msgspec.to_builtins(msgspec.structs.replace(was, steps=None))
    after = msgspec.to_builtins(msgspec.structs.replace(step, steps=None))
    names = [name for name in (*before, *after) if before.get(name) != after.get(name)]
    return {name: after.get(name) for name in dict.fromkeys(names)}
