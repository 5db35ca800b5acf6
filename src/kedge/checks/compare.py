"""compare: what differs between two plans, step by step, and which of them is better.

The rule that says which is better is short enough to be argued with. In this order, the first that
differs decides: fewer errors, less estimated time (the critical path), lower estimated cost, less
complexity, fewer steps.
"""

from __future__ import annotations

from typing import Any, Literal, cast

import msgspec

from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.checks.check import check
from kedge.checks.score import Score, score
from kedge.plan.model import Plan
from kedge.plan.parts import Step
from kedge.plan.scopes import Node, Scopes
from kedge.plan.tools import Catalog

_TIME_MARGIN = 0.01
"""Estimated times closer than this part of each other are the same: estimates are not that good."""
_APART = frozenset({"id", "steps", "after"})
_encode = msgspec.json.Encoder(enc_hook=repr, order="deterministic").encode
_PLAN_FIELDS = ("goal", "inputs", "context", "outputs", "answer", "limits", "metadata")


class FieldChange(msgspec.Struct, frozen=True):
    """One field, before and after. None stands for a field that is not there."""

    field: str
    before: Any
    after: Any


class StepChange(msgspec.Struct, frozen=True):
    """A step that both plans have, with other fields."""

    step: str
    fields: tuple[FieldChange, ...]


class Rewiring(msgspec.Struct, frozen=True):
    """A step that both plans have, waiting for other steps."""

    step: str
    gained: tuple[str, ...]
    lost: tuple[str, ...]


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What turns plan `a` into plan `b`. Steps are matched by id, never by position."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: tuple[StepChange, ...]
    rewired: tuple[Rewiring, ...]
    plan: tuple[FieldChange, ...]
    """Changes of the plan's own fields."""
    a: Score
    b: Score
    better: Literal["a", "b", "neither"]
    because: str

    @property
    def same(self) -> bool:
        """True if both plans mean the same."""
        return not (self.added or self.removed or self.changed or self.rewired or self.plan)

    def to_dict(self) -> dict[str, Any]:
        """The comparison as plain data."""
        return cast(dict[str, Any], msgspec.to_builtins(self))

    def __str__(self) -> str:
        lines = [f"plan {_line(change)}" for change in self.plan]
        lines += [f"+ {path}" for path in self.added]
        lines += [f"- {path}" for path in self.removed]
        lines += [f"~ {one.step} {_line(change)}" for one in self.changed for change in one.fields]
        for one in self.rewired:
            words = [
                *(f"now after {path}" for path in one.gained),
                *(f"no longer after {path}" for path in one.lost),
            ]
            lines.append(f"> {one.step} {', '.join(words)}")
        lines = lines or ["the plans are the same"]
        names = list(self.a.__struct_fields__)
        width = max(map(len, names))
        lines += ["", f"{'':{width}} {'a':>12} {'b':>12}"]
        lines += [
            f"{name:{width}} {getattr(self.a, name):>12g} {getattr(self.b, name):>12g}" for name in names
        ]
        verdict = "neither is better" if self.better == "neither" else f"{self.better} is better"
        return "\n".join([*lines, "", f"{verdict}: {self.because}"])


def _line(change: FieldChange) -> str:
    return f"{change.field}: {_short(change.before)} -> {_short(change.after)}"


def _short(value: Any) -> str:
    text = msgspec.json.encode(value).decode()
    return text if len(text) <= 60 else text[:59] + "…"


def compare(a: Plan, b: Plan, catalog: Catalog | None = None, limits: Limits = DEFAULT_LIMITS) -> Comparison:
    """What differs between two plans, and which is better. With a catalog, faults with tools count too."""
    one, other = Scopes(a.steps), Scopes(b.steps)
    before = {node.path: node for node in one.nodes}
    after = {node.path: node for node in other.nodes}
    both = [(node, after[path]) for path, node in before.items() if path in after]
    scores = (
        score(one, len(check(a, catalog, limits=limits).errors)),
        score(other, len(check(b, catalog, limits=limits).errors)),
    )
    better, because = _verdict(*scores)
    return Comparison(
        added=tuple(path for path in after if path not in before),
        removed=tuple(path for path in before if path not in after),
        changed=tuple(change for pair in both if (change := _step_change(*pair)).fields),
        rewired=tuple(change for pair in both if (change := _rewiring(*pair)).gained or change.lost),
        plan=tuple(_changes(a, b, _PLAN_FIELDS)),
        a=scores[0],
        b=scores[1],
        better=better,
        because=because,
    )


def _changes(one: msgspec.Struct, other: msgspec.Struct, names: tuple[str, ...]) -> list[FieldChange]:
    found: list[FieldChange] = []
    for name in names:
        before, after = getattr(one, name), getattr(other, name)
        # A list that Python code gave and the tuple that is read back are the same.
        if before != after and _encode(before) != _encode(after):
            found.append(FieldChange(name, _plain(before), _plain(after)))
    return found


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value, enc_hook=repr)


_STEP_FIELDS = tuple(name for name in Step.__struct_fields__ if name not in _APART)


def _step_change(one: Node, other: Node) -> StepChange:
    return StepChange(one.path, tuple(_changes(one.step, other.step, _STEP_FIELDS)))


def _rewiring(one: Node, other: Node) -> Rewiring:
    before = {node.path for node in one.needs}
    after = {node.path for node in other.needs}
    return Rewiring(one.path, tuple(sorted(after - before)), tuple(sorted(before - after)))


def _verdict(a: Score, b: Score) -> tuple[Literal["a", "b", "neither"], str]:
    if a.errors != b.errors:
        return _less(
            a.errors,
            b.errors,
            f"it has fewer errors, {min(a.errors, b.errors)} against {max(a.errors, b.errors)}",
        )
    longer, shorter = max(a.critical_path_s, b.critical_path_s), min(a.critical_path_s, b.critical_path_s)
    if longer - shorter > _TIME_MARGIN * longer:
        return _less(
            a.critical_path_s, b.critical_path_s, f"it takes about {shorter:g} s instead of {longer:g} s"
        )
    for name, words in (
        ("cost", "it costs less"),
        ("complexity", "it is less complex"),
        ("steps", "it has fewer steps"),
    ):
        first, second = getattr(a, name), getattr(b, name)
        if first != second:
            return _less(first, second, f"{words}, {min(first, second):g} against {max(first, second):g}")
    return "neither", "errors, time, cost, complexity and number of steps are the same"


def _less(first: float, second: float, because: str) -> tuple[Literal["a", "b"], str]:
    return ("a" if first < second else "b"), because
