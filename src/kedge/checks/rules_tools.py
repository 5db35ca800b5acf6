"""Rules about tools: is it there, are its arguments right, what may be done to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from kedge.checks.judge import Fault, Judge, is_quick
from kedge.checks.quick import form_of
from kedge.checks.reach import TEXT
from kedge.checks.schemas import Schema, Whole, properties, required
from kedge.checks.survey import Survey, finding, put
from kedge.plan.findings import Finding, Fix
from kedge.plan.parts import SLEEP, Retry
from kedge.plan.scopes import Node
from kedge.plan.tools import EFFECTS, ToolSpec
from kedge.plan.uses import template_use

_RETRIED = frozenset(
    {"transient", "timeout", "rate_limited", "invalid_input", "permission", "not_serializable", "permanent"}
)


def unknown_tools(survey: Survey) -> Iterator[Finding]:
    """A tool that nobody has registered, or that cannot be used now."""
    if survey.catalog is None:
        return
    for node in survey.nodes:
        step = node.step
        if step.tool is not None and ((spec := survey.tool(node)) is None or not spec.available):
            yield from _tool(survey, node, "tool", step.tool)
        if step.compensate is not None:
            yield from _tool(survey, node, "compensate.tool", step.compensate.tool)


def _tool(survey: Survey, node: Node, field: str, name: str) -> Iterator[Finding]:
    spec = survey.spec(name)
    if spec is None and survey.catalog is not None:
        near = survey.nearest(name, survey.catalog.names)
        yield finding(
            node,
            "unknown_tool",
            field,
            f"there is no tool {name[:80]!r}",
            names=(name[:80],),
            allowed=survey.catalog.names[:20],
            fix=put(node, field, near) if near else None,
            remedy=f"did you mean {near!r}?" if near else "register it, or use one that is there",
        )
    elif spec is not None and not spec.available:
        because = f": {spec.unavailable_because}" if spec.unavailable_because else ""
        usable = [n for n in spec.substitutes if (s := survey.spec(n)) is not None and s.available]
        yield finding(
            node,
            "unavailable_tool",
            field,
            f"{name} cannot be used now{because}",
            names=(name,),
            allowed=tuple(usable),
            remedy=f"use {usable[0]!r}" if usable else "make it available, or use another",
            fix=put(node, field, usable[0]) if usable else None,
        )


class _Shape:
    """What a tool's parameters say, made ready for the quick look that nearly every step passes."""

    __slots__ = ("forms", "required", "whole")

    def __init__(self, spec: ToolSpec) -> None:
        self.whole = Whole(spec.parameters, spec.parameters)
        self.required = frozenset(required(spec.parameters))
        self.forms = {name: form_of(schema) for name, schema in properties(spec.parameters).items()}

    def passes(self, survey: Survey, node: Node) -> bool:
        """True if the step's arguments are right at the first look. If not, they may still be."""
        args = node.step.args
        if not self.required <= args.keys():
            return False
        paths = {use.text: use.path for use in node.uses if use.field == "args"}

        def given(text: str) -> frozenset[str]:
            path = paths.get(text)
            return survey.types.named(path, node) if path is not None else frozenset()

        for name, value in args.items():
            form = self.forms.get(name)
            if form is None or not form.holds(value, given):
                return False
        return True


def arguments(survey: Survey) -> Iterator[Finding]:
    """Arguments that are missing, unknown or of the wrong type for the tool."""
    shapes: dict[str, _Shape] = {}
    for node in survey.nodes:
        step = node.step
        spec = survey.tool(node)
        if spec is not None:
            shape = shapes.get(spec.name)
            if shape is None:
                shape = shapes[spec.name] = _Shape(spec)
            if not shape.passes(survey, node):
                yield from _arguments(survey, node, shape, step.args, "args")
        elif step.args and (step.steps is not None or step.wait is not None):
            what = "its own steps have arguments" if step.steps is not None else "waiting needs none"
            yield finding(
                node,
                "unused_arguments",
                "args",
                f"nothing reads these arguments: {what}",
                remedy="remove them",
                fix=Fix(path=f"{node.place}.args", action="remove"),
            )
        if step.compensate is not None and (undo := survey.spec(step.compensate.tool)) is not None:
            shape = shapes.get(undo.name) or shapes.setdefault(undo.name, _Shape(undo))
            yield from _arguments(survey, node, shape, step.compensate.args, "compensate.args")


def _arguments(
    survey: Survey, node: Node, shape: _Shape, args: dict[str, Any], place: str
) -> Iterator[Finding]:
    def hole(text: str) -> list[Whole]:
        use = template_use("args", "", text)
        if use.error is not None:
            return []
        if use.path is not None:
            return list(survey.types.at_step(use.path, node).schemas)
        return [TEXT] if use.whole is None else []

    for fault in Judge(hole).faults(args, shape.whole, place):
        yield _as_finding(node, fault)


def _as_finding(node: Node, fault: Fault) -> Finding:
    fix = None
    if fault.mended:
        fix = put(node, fault.place, fault.mended[0])
    elif fault.renamed:
        fix = Fix(path=f"{node.place}.{fault.place}", action="rename", value=fault.renamed)
    return finding(
        node,
        fault.code,
        fault.place,
        fault.message,
        allowed=fault.allowed,
        remedy=fault.remedy,
        fix=fix,
        names=(fault.name,) if fault.name else (),
    )


def patterns(survey: Survey) -> Iterator[Finding]:
    """A pattern of a tool's schema that is not applied, because it could be slow. Told once."""
    slow: dict[str, set[str]] = {}
    for node in survey.nodes:
        spec = survey.tool(node)
        if spec is None:
            continue
        names = slow.get(spec.name)
        if names is None:
            names = slow[spec.name] = _slow_patterns(spec)
        for name in sorted(names & node.step.args.keys()) if names else ():
            names.remove(name)
            yield finding(
                node,
                "pattern_unchecked",
                f"args.{name}",
                f"the pattern of {spec.name}'s {name!r} is not applied: it could be slow",
                names=(spec.name, name),
                remedy="the tool itself decides",
            )


def _slow_patterns(spec: ToolSpec) -> set[str]:
    found: set[str] = set()
    for name, schema in properties(spec.parameters).items():
        pattern: Any = cast(Schema, schema).get("pattern") if isinstance(schema, Mapping) else None
        if isinstance(pattern, str) and not is_quick(pattern):
            found.add(name)
    return found


def effects(survey: Survey) -> dict[int, str]:
    """The effect class of each step by number; of a composite its strongest child's.

    Tools that nobody knows count as pure: what they do is not the fault to report.
    """
    found: dict[int, str] = {}
    for node in reversed(survey.nodes):  # children come after their parents
        spec = survey.tool(node)
        own = spec.effect if spec is not None else "pure"
        strongest = max((own, *(found[child.number] for child in node.children)), key=EFFECTS.index)
        found[node.number] = strongest
    return found


def compensation(survey: Survey) -> Iterator[Finding]:
    """A step that changes something outside for good, or one of which nothing can be undone."""
    for node in survey.nodes:
        spec = survey.tool(node)
        if node.step.compensate is not None:
            yield from _needless_undo(node, spec, node.step.compensate.tool)
        if spec is not None and spec.effect == "effect" and node.step.compensate is None:
            yield finding(
                node,
                "no_compensation",
                "",
                f"{spec.name} has effects and nothing undoes them",
                names=(spec.name,),
                remedy="add `compensate`, or declare the tool pure, read or idempotent if it is",
            )


def _needless_undo(node: Node, spec: ToolSpec | None, tool: str) -> Iterator[Finding]:
    step = node.step
    away = Fix(path=f"{node.place}.compensate", action="remove")
    if step.steps is not None or step.wait is not None or SLEEP in (step.tool, tool):
        inside = step.steps is not None
        yield finding(
            node,
            "misplaced_compensation",
            "compensate",
            "a sleep undoes nothing" if tool == SLEEP else "only the call of a tool can be undone",
            names=(tool,),
            remedy="put `compensate` on the steps inside that call tools"
            if inside
            else "remove `compensate`",
            fix=away,
        )
    elif spec is not None and spec.effect in ("pure", "read"):
        yield finding(
            node,
            "compensation_unused",
            "compensate",
            f"{spec.name} is {spec.effect}: it does nothing that could be undone",
            names=(spec.name,),
            remedy="remove `compensate`, or declare what the tool does outside",
            fix=away,
        )


def retries(survey: Survey) -> Iterator[Finding]:
    """A retry that would repeat effects, or that never happens."""
    strongest: dict[int, str] | None = None
    for node in survey.nodes:
        retry = node.step.retry
        if retry is None:
            continue
        yield from _retry_words(node, retry)
        if retry.attempts < 2:
            continue
        if strongest is None:
            strongest = effects(survey)
        effect = strongest[node.number]
        away = Fix(path=f"{node.place}.retry", action="remove")
        if node.step.steps is not None and effect in ("effect", "idempotent"):
            yield finding(
                node,
                "retry_repeats_effects",
                "retry",
                "trying a composite again would repeat the effects of its steps",
                remedy="put `retry` on the steps inside that can be repeated",
                fix=away,
            )
        elif effect == "effect":
            yield finding(
                node,
                "retry_unused",
                "retry",
                f"{node.step.tool} has effects: a failed call is not repeated unless it says it did nothing",
                names=(node.step.tool or "",),
                remedy="remove `retry`, or declare the tool idempotent if it is",
                fix=away,
            )
        elif node.step.tool == SLEEP:
            yield finding(
                node, "retry_unused", "retry", "a sleep cannot fail", remedy="remove `retry`", fix=away
            )


def _retry_words(node: Node, retry: Retry) -> Iterator[Finding]:
    for index, category in enumerate(retry.on):
        if category not in _RETRIED:
            yield finding(
                node,
                "retry_category",
                f"retry.on[{index}]",
                f"a failure of category {category} is never tried again",
                names=(category,),
                allowed=tuple(sorted(_RETRIED)),
                remedy="remove it",
                fix=Fix(path=f"{node.place}.retry.on[{index}]", action="remove"),
            )
    if retry.backoff_s > retry.max_backoff_s:
        yield finding(
            node,
            "retry_backoff",
            "retry.backoff_s",
            f"the first wait of {retry.backoff_s:g} s is longer than the longest, {retry.max_backoff_s:g} s",
            remedy="lower backoff_s, or raise max_backoff_s",
            fix=put(node, "retry.backoff_s", retry.max_backoff_s),
        )
