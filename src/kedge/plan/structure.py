"""Does data have the shape of a plan? All that is wrong with it, in one walk.

Reading is msgspec's: fast, and it stops at the first fault. Only when it has failed does this walk
go over the same types, which it asks msgspec for, so that a field is written down once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import inspect

from kedge.base.limits import Limits
from kedge.plan.findings import Finding, Fix
from kedge.plan.names import ID_RULE, id_fault, is_id, suggested_id
from kedge.plan.nearest import nearest
from kedge.plan.parts import DOERS, Step
from kedge.plan.places import at

OTHER_WORDS: Mapping[str, tuple[str, ...]] = {
    "id": ("name", "key", "step", "step_id", "task_id"),
    "do": ("description", "title", "label", "task", "text"),
    "tool": ("action", "function", "uses", "call", "run", "tool_name"),
    "args": ("arguments", "parameters", "params", "input", "inputs", "with", "kwargs", "tool_args"),
    "after": ("depends_on", "dependencies", "needs", "requires", "deps", "dependson", "depends"),
    "when": ("if", "condition", "only_if"),
    "foreach": ("for_each", "map", "each", "items", "with_items"),
    "steps": ("tasks", "nodes", "children", "substeps", "sub_steps", "plan"),
    "timeout_s": ("timeout", "timeout_seconds", "time_limit"),
    "retry": ("retries", "max_retries", "retry_policy"),
    "fallback_for": ("fallback", "fallback_of"),
    "expect": ("assert", "check", "success_criteria", "validate"),
    "output": ("output_schema", "returns"),
    "goal": ("objective", "request", "intent", "name", "title", "description"),
    "outputs": ("output", "results", "returns"),
    "default": ("value",),
    "attempts": ("max_attempts", "max", "count", "times"),
    "times": ("max_iterations", "iterations", "max", "count"),
    "until": ("condition", "stop_when", "break_when"),
}
"""What other systems call our fields."""

_NESTED_MAX = 64
_DEEPEST = 256
"""Steps in steps that are read at all. How deep the library gets differs from one Python to another."""
_FINDINGS_MAX = 1000


def is_sound(plan: Any) -> bool:
    """True if ids and doers are right in a plan whose types are. Quick: every plan that is read comes by."""
    todo: list[tuple[Sequence[Step], int]] = [(plan.steps, 1)]
    while todo:
        steps, depth = todo.pop()
        if depth > _DEEPEST:
            return False
        ids: set[str] = set()
        for step in steps:
            ids.add(step.id)
            if not is_id(step.id):
                return False
            doers = (
                (step.tool is not None) + (step.role is not None) + (step.goal is not None)
                + (step.wait is not None) + (step.use is not None) + (step.steps is not None)
            )  # fmt: skip
            if doers != 1:
                return False
            if step.steps:
                todo.append((step.steps, depth + 1))
        if len(ids) != len(steps):
            return False
    return True


def explain(data: Any, kind: type[msgspec.Struct], limits: Limits) -> list[Finding]:
    """Every reason why `data` is not a `kind`."""
    walk = _Walk(limits)
    if not isinstance(data, dict):
        return [
            Finding(
                code="not_a_plan",
                message=f"a plan is a map with `goal` and `steps`, not {_word(data)}",
                remedy="write `goal:` and `steps:`",
            )
        ]
    walk.value(_type_of(kind), data, "")
    return walk.findings


@lru_cache(maxsize=64)
def _type_of(kind: type) -> inspect.Type:
    return inspect.type_info(kind)


class _Walk:
    """Collects findings; `step` is the id path of the step it is in."""

    def __init__(self, limits: Limits) -> None:
        self.findings: list[Finding] = []
        self.limits = limits
        self.step = ""
        self.nested = 0
        self.steps = 0

    def fault(self, code: str, place: str, message: str, **more: Any) -> None:
        if len(self.findings) < _FINDINGS_MAX:
            self.findings.append(Finding(code=code, path=place, step=self.step, message=message, **more))
        elif len(self.findings) == _FINDINGS_MAX:
            remedy = "mend these first"
            self.findings.append(
                Finding(code="more_faults", message="there are more faults than these", remedy=remedy)
            )

    def value(self, kind: inspect.Type, value: Any, place: str) -> None:
        """Hold `value` against its type."""
        if isinstance(kind, inspect.AnyType):
            return
        if isinstance(kind, inspect.UnionType):
            self._union(kind, value, place)
        elif isinstance(kind, inspect.StructType) and isinstance(value, dict):
            self._struct(kind, cast(dict[str, Any], value), place)
        elif isinstance(kind, inspect.VarTupleType | inspect.ListType) and isinstance(value, list | tuple):
            self._items(kind.item_type, cast(list[Any], value), place)
        elif isinstance(kind, inspect.DictType) and isinstance(value, dict):
            for key, item in cast(dict[str, Any], value).items():
                self.value(kind.value_type, item, at(place, key))
        elif isinstance(kind, inspect.LiteralType) and isinstance(value, str):
            self._choice(kind, value, place)
        elif not _is_scalar_of(kind, value):
            self._wrong_type(kind, value, place)
        elif isinstance(kind, inspect.IntType | inspect.FloatType):
            self._range(kind, value, place)

    def _union(self, kind: inspect.UnionType, value: Any, place: str) -> None:
        if value is None and any(isinstance(one, inspect.NoneType) for one in kind.types):
            return
        choices = [one for one in kind.types if not isinstance(one, inspect.NoneType)]
        fitting = [one for one in choices if _same_family(one, value)]
        self.value(fitting[0] if fitting else choices[0], value, place)

    def _items(self, kind: inspect.Type, values: Iterable[Any], place: str) -> None:
        if isinstance(kind, inspect.StructType) and kind.cls is Step:
            self._scope(kind, list(values), place)
            return
        for number, item in enumerate(values):
            self.value(kind, item, at(place, number))

    def _scope(self, kind: inspect.StructType, values: list[Any], place: str) -> None:
        """Steps that share a scope: their ids differ."""
        self.nested += 1
        self.steps += len(values)
        if self.nested > _NESTED_MAX:
            self.fault(
                "too_deep", place, f"steps are nested deeper than {_NESTED_MAX}", remedy="flatten the plan"
            )
        elif self.steps > self.limits.steps:
            self.fault(
                "too_many_steps",
                place,
                f"more than {self.limits.steps} steps",
                remedy="split the plan, use foreach, or raise the limit `steps`",
            )
        else:
            names = [
                cast(dict[str, Any], item).get("id") if isinstance(item, dict) else None for item in values
            ]
            taken = {name for name in names if isinstance(name, str)}
            seen: dict[str, str] = {}
            outer = self.step
            for number, item in enumerate(values):
                here = at(place, number)
                name = names[number]
                own = name if isinstance(name, str) and len(name) <= 80 else str(number)
                self.step = f"{outer}/{own}" if outer else own
                self.value(kind, item, here)
                if isinstance(name, str):
                    self._id(name, here, seen, taken)
            self.step = outer
        self.nested -= 1

    def _id(self, name: str, place: str, seen: dict[str, str], taken: set[str]) -> None:
        if len(self.findings) > _FINDINGS_MAX:
            return
        fault = id_fault(name)
        suggestion = suggested_id(name, taken) if fault or name in seen else ""
        if fault:
            code, message = fault
            self.fault(
                code,
                at(place, "id"),
                message,
                remedy=f"use {ID_RULE}: {suggestion!r}",
                fix=Fix(path=at(place, "id"), value=suggestion),
                names=(name[:80],),
            )
        elif name in seen:
            self.fault(
                "duplicate_id",
                at(place, "id"),
                f"{name!r} is the id of {seen[name]} too",
                names=(name,),
                remedy=f"give it another: {suggestion!r}",
                fix=Fix(path=at(place, "id"), value=suggestion),
            )
        seen.setdefault(name, place)
        if suggestion:
            taken.add(suggestion)

    def _struct(self, kind: inspect.StructType, value: dict[str, Any], place: str) -> None:
        fields = {field.encode_name: field for field in kind.fields}
        for key, item in value.items():
            field = fields.get(key)
            if field is None:
                self._unknown_field(kind, key, value, place)
            elif item is None and not field.required and not _takes_none(field.type):
                self.fault(
                    "wrong_type",
                    at(place, key),
                    f"{key} is {_kind(field.type)}, not null",
                    remedy="leave it out",
                    fix=Fix(path=at(place, key), action="remove"),
                )
            else:
                self.value(field.type, item, at(place, key))
        for name, field in fields.items():
            if field.required and name not in value:
                self._missing(kind, name, place, value)
        if kind.cls is Step:
            self._doer(value, place)

    def _unknown_field(self, kind: inspect.StructType, key: str, value: dict[str, Any], place: str) -> None:
        free = [field.encode_name for field in kind.fields if field.encode_name not in value]
        meant = next((name for name in free if key.lower() in OTHER_WORDS.get(name, ())), None) or nearest(
            key, free
        )
        what = kind.cls.__name__.lower()
        fix = Fix(path=at(place, key), action="rename", value=meant) if meant else None
        self.fault(
            "unknown_field",
            at(place, key),
            f"a {what} has no field {key[:80]!r}",
            fix=fix,
            names=(key[:80],),
            allowed=tuple(field.encode_name for field in kind.fields),
            remedy=f"did you mean {meant!r}?" if meant else "remove it, or put it under `metadata`",
        )

    def _missing(self, kind: inspect.StructType, name: str, place: str, value: dict[str, Any]) -> None:
        what = kind.cls.__name__.lower()
        fix, remedy = None, f"add `{name}`"
        if kind.cls is Step and name == "id":
            text = next((value[key] for key in ("name", "do", "tool") if isinstance(value.get(key), str)), "")
            number = place.rpartition("[")[2].rstrip("]")
            suggestion = suggested_id(f"{text[:40]} {number}" if text else f"step {number}")
            fix, remedy = Fix(path=at(place, "id"), value=suggestion), f"add `id`: {suggestion!r}"
        self.fault(
            "missing_field",
            at(place, name),
            f"a {what} needs `{name}`",
            remedy=remedy,
            fix=fix,
            names=(name,),
        )

    def _doer(self, value: dict[str, Any], place: str) -> None:
        doers = [name for name in DOERS if value.get(name) is not None]
        if not doers:
            self.fault(
                "no_doer",
                place,
                "nothing says who does this step",
                allowed=DOERS,
                remedy="add `tool` with the name of a tool, or `role`, or `steps`",
            )
        elif len(doers) > 1:
            extra = "role" if doers == ["tool", "role"] else None
            fix = Fix(path=at(place, extra), action="remove") if extra else None
            self.fault(
                "two_doers",
                place,
                f"{' and '.join(doers)} both say who does this step",
                names=tuple(doers),
                remedy="keep one of them; put further work into steps of its own",
                fix=fix,
            )

    def _choice(self, kind: inspect.LiteralType, value: str, place: str) -> None:
        allowed = tuple(map(str, kind.values))
        if value not in allowed:
            meant = nearest(value, allowed)
            self.fault(
                "bad_value",
                place,
                f"{value[:80]!r} is not one of the values this field has",
                allowed=allowed,
                remedy=f"did you mean {meant!r}?" if meant else "use one of the allowed values",
                fix=Fix(path=place, value=meant) if meant else None,
            )

    def _range(self, kind: inspect.IntType | inspect.FloatType, value: float, place: str) -> None:
        low, high = kind.ge, kind.le
        if not math.isfinite(value):
            self.fault(
                "out_of_range",
                place,
                f"{value!r} is not a number that can be written down",
                remedy="use a finite number",
            )
        elif low is not None and value < low:
            self.fault(
                "out_of_range",
                place,
                f"{value!r} is too small: at least {low:,.10g}",
                remedy=f"use {low:,.10g} or more",
                fix=Fix(path=place, value=low),
            )
        elif kind.gt is not None and value <= kind.gt:
            self.fault(
                "out_of_range",
                place,
                f"{value!r} is too small: above {kind.gt:,.10g}",
                remedy=f"use more than {kind.gt:,.10g}",
            )
        elif high is not None and value > high:
            self.fault(
                "out_of_range",
                place,
                f"{value!r} is too large: at most {high:,.10g}",
                remedy=f"use {high:,.10g} or less",
                fix=Fix(path=place, value=high),
            )

    def _wrong_type(self, kind: inspect.Type, value: Any, place: str) -> None:
        wanted = _kind(kind)
        mended = _mended(kind, value)
        fix = Fix(path=place, value=mended[0]) if mended else None
        remedy = f"write {_short(mended[0])}" if mended else f"use {wanted}"
        field = place.rpartition(".")[2] or place or "this"
        self.fault("wrong_type", place, f"{field} is {wanted}, not {_word(value)}", remedy=remedy, fix=fix)


def _is_scalar_of(kind: inspect.Type, value: Any) -> bool:
    if isinstance(kind, inspect.StrType):
        return isinstance(value, str)
    if isinstance(kind, inspect.BoolType):
        return isinstance(value, bool)
    if isinstance(kind, inspect.IntType):
        return isinstance(value, int) and not isinstance(value, bool)
    if isinstance(kind, inspect.FloatType):
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(kind, inspect.NoneType) and value is None


def _same_family(kind: inspect.Type, value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(kind, inspect.StructType | inspect.DictType | inspect.AnyType)
    if isinstance(value, list | tuple):
        return isinstance(kind, inspect.VarTupleType | inspect.ListType | inspect.AnyType)
    return _is_scalar_of(kind, value) or isinstance(kind, inspect.AnyType)


def _takes_none(kind: inspect.Type) -> bool:
    return isinstance(kind, inspect.AnyType) or (
        isinstance(kind, inspect.UnionType) and any(isinstance(one, inspect.NoneType) for one in kind.types)
    )


def _fits(kind: inspect.Type, value: Any) -> bool:
    walk = _Walk(Limits())
    walk.value(kind, value, "")
    return not walk.findings


def _mended(kind: inspect.Type, value: Any) -> tuple[Any] | None:
    """What was probably meant by a value of the wrong type."""
    found: Any = None
    if isinstance(kind, inspect.StrType) and isinstance(value, int | float):
        found = json.dumps(value)
    elif isinstance(kind, inspect.IntType | inspect.FloatType) and isinstance(value, str | float):
        found = _number(kind, value)
    elif isinstance(kind, inspect.BoolType) and isinstance(value, str):
        found = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}.get(
            value.lower()
        )
    elif isinstance(kind, inspect.VarTupleType | inspect.ListType):
        found = _as_list(kind.item_type, value)
    elif isinstance(kind, inspect.StructType) and kind.cls is not Step and not isinstance(value, dict | list):
        found = {kind.fields[0].encode_name: value}
    if found is None:
        return None
    is_steps = isinstance(kind, inspect.VarTupleType) and kind.item_type.__class__ is inspect.StructType
    return (
        (found,) if is_steps or _fits(kind, found) else None
    )  # what is wrong inside steps is told when they are


def _number(kind: inspect.Type, value: str | float) -> float | int | None:
    try:
        number = float(value)
    except ValueError:
        return None
    if not math.isfinite(number):
        return None
    if isinstance(kind, inspect.IntType):
        return int(number) if number == int(number) else None
    return number


def _as_list(kind: inspect.Type, value: Any) -> list[Any] | None:
    if isinstance(kind, inspect.StructType) and kind.cls is Step:
        if isinstance(value, dict) and "id" in value:
            return [value]
        if (
            isinstance(value, dict)
            and value
            and all(isinstance(item, dict) for item in cast(dict[str, Any], value).values())
        ):
            return [{"id": key, **item} for key, item in cast(dict[str, Any], value).items()]
        return None
    if isinstance(value, str) and "," in value:
        return [part.strip() for part in value.split(",")]
    return [value]


_WORDS: tuple[tuple[type, str], ...] = (
    (inspect.StrType, "text"),
    (inspect.IntType, "a whole number"),
    (inspect.FloatType, "a number"),
    (inspect.BoolType, "true or false"),
    (inspect.VarTupleType, "a list"),
    (inspect.ListType, "a list"),
    (inspect.DictType, "a map"),
)


def _kind(kind: inspect.Type) -> str:
    """What a type wants, in words."""
    if isinstance(kind, inspect.UnionType):
        return " or ".join(_kind(one) for one in kind.types if not isinstance(one, inspect.NoneType))
    if isinstance(kind, inspect.StructType):
        return f"a map with {', '.join(field.encode_name for field in kind.fields[:4])}"
    if isinstance(kind, inspect.LiteralType):
        return f"one of {', '.join(map(str, kind.values))}"
    return next((word for one, word in _WORDS if isinstance(kind, one)), "a value")


def _word(value: Any) -> str:
    """What a value is, in words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"the number {value!r}"
    if isinstance(value, str):
        return f"the text {_short(value)}"
    return "a list" if isinstance(value, list | tuple) else "a map"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"
