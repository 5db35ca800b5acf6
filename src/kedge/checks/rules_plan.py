"""Rules about the plan as a whole and about the plain values in it: sizes, limits, inputs, waits."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

import msgspec

from kedge.base.errors import NotSerializable
from kedge.base.limits import Limits
from kedge.checks.schemas import WORDS, type_of
from kedge.checks.survey import Survey, finding, put
from kedge.plan.findings import Finding, Fix
from kedge.plan.parts import Input
from kedge.plan.places import at
from kedge.plan.plain import canonical, is_plain, kind_of
from kedge.plan.scopes import Node

METADATA_BYTES = 64 * 1024
"""What one `metadata` may weigh: it travels with every copy of the plan."""
_RESOURCE = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,63}", re.ASCII)
_HOLDERS = frozenset({dict, list, tuple})
_SCALARS = frozenset({str, int, bool, type(None)})


def emptiness(survey: Survey) -> Iterator[Finding]:
    """A plan without steps does nothing; nor does a composite without any."""
    if not survey.plan.goal.strip():
        yield Finding(
            code="blank_goal", path="goal", message="the goal says nothing", remedy="say what the plan is for"
        )
    if not survey.plan.steps:
        yield Finding(
            code="empty_plan",
            path="steps",
            message="the plan has no steps: it would do nothing",
            remedy="add a step",
        )
    for node in survey.nodes:
        if node.step.steps is not None and not node.step.steps:
            yield finding(
                node,
                "empty_composite",
                "steps",
                "there are no steps in it",
                remedy="add steps, or remove this one",
            )


def sizes(survey: Survey) -> Iterator[Finding]:
    """Over a limit: steps, nesting, items of a foreach, rounds of a loop."""
    limits = survey.limits
    count = len(survey.nodes)
    if count > limits.steps:
        yield Finding(
            code="too_many_steps",
            path="steps",
            message=f"{count} steps, {limits.steps} are allowed",
            remedy="split the plan, use foreach, or raise the limit `steps`",
        )
    for node in survey.nodes:
        step = node.step
        if step.steps is not None and (depth := sum(1 for _ in node.around())) == limits.nesting + 1:
            yield finding(
                node,
                "nesting_too_deep",
                "steps",
                f"composites are {depth} deep here, {limits.nesting} are allowed",
                remedy="flatten them, or raise the limit `nesting`",
            )
        if isinstance(step.foreach, list) and len(step.foreach) > limits.expansions:
            yield finding(
                node,
                "too_many_items",
                "foreach",
                f"{len(step.foreach)} items, {limits.expansions} are allowed",
                remedy="split the list, or raise the limit `expansions`",
            )
        if step.loop is not None and step.loop.times > limits.iterations:
            yield finding(
                node,
                "too_many_rounds",
                "loop.times",
                f"{step.loop.times} rounds, {limits.iterations} are allowed",
                remedy="loop less often, or raise the limit `iterations`",
                fix=put(node, "loop.times", limits.iterations),
            )


def plan_limits(survey: Survey) -> Iterator[Finding]:
    """A plan may tighten the engine's limits, not loosen them, and only limits that exist."""
    known = Limits.__struct_fields__
    for name, value in survey.plan.limits.items():
        place = at("limits", name)
        if name not in known:
            near = survey.nearest(name, known)
            yield Finding(
                code="unknown_limit",
                path=place,
                message=f"there is no limit {name[:80]!r}",
                names=(name[:80],),
                allowed=known,
                remedy=f"did you mean {near!r}?" if near else "remove it",
                fix=Fix(path=place, action="rename", value=near)
                if near and near not in survey.plan.limits
                else Fix(path=place, action="remove"),
            )
            continue
        allowed = getattr(survey.allowed, name)
        whole = isinstance(getattr(Limits(), name), int)
        if not 0 < value < math.inf or (whole and value != int(value)):
            yield Finding(
                code="limit_value",
                path=place,
                message=f"{value!r} is no {'whole ' if whole else ''}number above 0",
                names=(name,),
                remedy="use one, or remove it",
                fix=Fix(path=place, action="remove"),
            )
        elif value > allowed:
            yield Finding(
                code="limit_loosened",
                path=place,
                message=f"{value:,.10g} is more than the engine allows, {allowed:,.10g}",
                names=(name,),
                remedy="a plan can only tighten limits: lower it, or raise the engine's",
                fix=Fix(path=place, value=allowed),
            )


_PYTHON: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
    "array": (list, tuple), "object": (dict,),
}  # fmt: skip


def fits_input(declared: Input, value: Any) -> bool:
    """True if the value may be given for the input."""
    if declared.type == "any" or (value is None and not declared.required):
        return True
    return isinstance(value, _PYTHON[declared.type]) and (
        not isinstance(value, bool) or declared.type == "boolean"
    )


def inputs(survey: Survey) -> Iterator[Finding]:
    """Defaults of another type than their input has, and inputs that nothing reads."""
    declared = survey.plan.inputs
    for name, one in declared.items():
        if one.default is not msgspec.UNSET and not fits_input(one, one.default):
            has = WORDS[type_of(one.default)]
            place = at(at("inputs", name), "default")
            yield Finding(
                code="input_default",
                path=place,
                message=f"the default is {has}, the input is {WORDS[one.type]}",
                names=(name,),
                remedy=f"give {WORDS[one.type]}, or change the type",
                fix=Fix(path=place, action="remove"),
            )
    if not declared:
        return
    read: set[str] = set()
    for use in [*survey.plan_uses, *(use for node in survey.nodes for use in node.uses)]:
        if use.error is not None:
            return  # what it would read, nobody knows
        for path in use.paths:
            if path.root == "inputs":
                if not path.keys:
                    return
                read.add(str(path.keys[0]))
    for name in declared:
        if name not in read:
            place = at("inputs", name)
            yield Finding(
                code="unused_input",
                path=place,
                message=f"nothing reads the input {name!r}",
                names=(name,),
                remedy=f"read it as ${{inputs.{name}}}, or remove it",
                fix=Fix(path=place, action="remove"),
            )


def values(survey: Survey) -> Iterator[Finding]:
    """Values that cannot be stored, or weigh too much. Only plans made in Python can have them."""
    limits = survey.limits
    for node in survey.nodes:
        for name, value in node.step.args.items():
            if type(value) not in _SCALARS:
                yield from _value(node, at("args", name), value, limits)
        for field in ("output", "metadata"):
            value: Any = getattr(node.step, field)
            if value:
                yield from _value(node, field, value, limits)
        if node.step.metadata and (found := _heavy(node.step.metadata, f"{node.place}.metadata", node.path)):
            yield found
    for field in ("context", "metadata"):
        yield from _value(None, field, getattr(survey.plan, field), limits)
    if survey.plan.metadata and (found := _heavy(survey.plan.metadata, "metadata", "")):
        yield found


def _value(node: Node | None, field: str, value: Any, limits: Limits) -> Iterator[Finding]:
    place = f"{node.place}.{field}" if node is not None else field
    step = node.path if node is not None else ""
    deep = is_deeper(value, limits.depth)
    if deep:
        yield Finding(
            code="too_deep",
            step=step,
            path=place,
            message=f"lists and maps are nested deeper than {limits.depth}, or contain themselves",
            remedy="flatten it, or raise the limit `depth`",
        )
        return
    try:
        raw = canonical(value, root=place)
    except NotSerializable as error:
        yield Finding(
            code="not_serializable", step=step, path=error.path, message=error.message, remedy=error.remedy
        )
        return
    if field.startswith("args") and len(raw) > limits.args_bytes:
        yield Finding(
            code="args_too_big",
            step=step,
            path=place,
            message=f"{len(raw)} bytes, {limits.args_bytes} are allowed",
            remedy="write it into a file and pass the path, or raise the limit `args_bytes`",
        )


def is_deeper(value: Any, depth: int) -> bool:
    """True if lists and maps are nested deeper than `depth`. Level by level, so that nothing recurses."""
    level: list[Any] = [value] if kind_of(value) in _HOLDERS else []
    for _ in range(depth):
        if not level:
            return False
        seen: set[int] = set()
        below: list[Any] = []
        for holder in level:
            items: Iterable[Any] = (
                cast(dict[Any, Any], holder).values() if isinstance(holder, dict) else holder
            )
            for item in items:
                if kind_of(item) in _HOLDERS and id(item) not in seen:  # shared parts count once
                    seen.add(id(item))
                    below.append(item)
        level = below
    return bool(level)


def _heavy(value: Any, place: str, step: str) -> Finding | None:
    if not is_plain(value):
        return None
    size = len(canonical(value))
    if size <= METADATA_BYTES:
        return None
    return Finding(
        code="metadata_too_big",
        step=step,
        path=place,
        message=f"{size} bytes, {METADATA_BYTES} are allowed",
        remedy="keep it elsewhere and put a reference here",
        fix=Fix(path=place, action="remove"),
    )


_SCHEMA_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")


def outputs(survey: Survey) -> Iterator[Finding]:
    """An `output` that is no JSON Schema: its type is none there is."""
    for node in survey.nodes:
        kind: Any = node.step.output.get("type", "object") if node.step.output is not None else "object"
        kinds = cast(list[Any], kind) if isinstance(kind, list) else [kind]
        if all(one in _SCHEMA_TYPES for one in kinds):
            continue
        near = survey.nearest(kind, _SCHEMA_TYPES) if isinstance(kind, str) else None
        yield finding(
            node,
            "output_schema",
            "output.type",
            f"{str(cast(object, kind))[:80]!r} is not a type of JSON Schema",
            allowed=_SCHEMA_TYPES,
            remedy=f"did you mean {near!r}?" if near else "use one of these",
            fix=put(node, "output.type", near) if near else None,
        )


def waits(survey: Survey) -> Iterator[Finding]:
    """Timeouts that contradict each other, and resources that cannot be names."""
    for node in survey.nodes:
        step = node.step
        if (
            step.idle_timeout_s is not None
            and step.timeout_s is not None
            and step.idle_timeout_s >= step.timeout_s
        ):
            yield finding(
                node,
                "idle_timeout_unused",
                "idle_timeout_s",
                f"the attempt ends after {step.timeout_s:g} s anyway",
                remedy="make it shorter than timeout_s, or remove it",
                fix=Fix(path=f"{node.place}.idle_timeout_s", action="remove"),
            )
        for index, name in enumerate(step.resources):
            if not _RESOURCE.fullmatch(name):
                yield finding(
                    node,
                    "resource_name",
                    f"resources[{index}]",
                    f"{name[:80]!r} cannot be the name of a resource",
                    remedy="use 1 to 64 of letters, digits and '_.-', starting with a letter",
                )
