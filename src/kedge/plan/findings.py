"""A fault found in a plan, the report that holds them all, and the mending a machine can do."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast

import msgspec

from kedge.base.errors import BadInput, InvalidPlan
from kedge.plan.places import parts
from kedge.plan.plain import kind_of

Severity = Literal["error", "warning", "note"]


class Fix(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A machine's suggestion for one place of the document."""

    path: str
    action: Literal["set", "remove", "rename"] = "set"
    value: Any = None
    """What to put there; for `rename` the key's new name."""


class Finding(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fault: where it is, what is allowed there, how to mend it."""

    code: str
    """What kind of fault; [all codes](errors.md#codes)."""
    severity: Severity = "error"
    """`error` stands in the way of running the plan, the others do not."""
    message: str
    """What is wrong."""
    step: str = ""
    """Id path of the step, as in `outer/inner`."""
    path: str = ""
    """Place in the document, as in `steps[3].args.path`; in a text that cannot be read, line and column."""
    allowed: tuple[str, ...] = ()
    """What may stand there."""
    remedy: str = ""
    """How to mend it, for people."""
    fix: Fix | None = None
    """How to mend it, for `kedge.apply_fix`; None where only a person can know."""
    names: tuple[str, ...] = ()
    """The names the fault is about: the missing tool, the parameter, the steps of a cycle."""

    def __str__(self) -> str:
        text = f"{self.severity} {self.code}"
        if self.path:
            text += f" at {self.path}"
        if self.step:
            text += f" (step {self.step})"
        text += f": {self.message}"
        if self.allowed:
            text += f" (allowed: {', '.join(self.allowed)})"
        return f"{text}; {self.remedy}" if self.remedy else text


class Findings:
    """All faults of one plan, in document order."""

    def __init__(self, findings: Iterable[Finding] = ()) -> None:
        self.all: tuple[Finding, ...] = tuple(findings)
        """Every finding, notes too."""

    @property
    def ok(self) -> bool:
        """True when nothing stands in the way of running the plan."""
        return not self.errors

    @property
    def errors(self) -> tuple[Finding, ...]:
        """What stands in the way of running the plan."""
        return tuple(f for f in self.all if f.severity == "error")

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """What is probably not meant."""
        return tuple(f for f in self.all if f.severity == "warning")

    @property
    def missing_tools(self) -> tuple[str, ...]:
        """Names of tools that nobody registered."""
        return self._names("unknown_tool")

    @property
    def missing_parameters(self) -> tuple[str, ...]:
        """Arguments that tools need and steps do not give."""
        return self._names("missing_argument")

    @property
    def cycles(self) -> tuple[tuple[str, ...], ...]:
        """Steps that wait for each other, a tuple for each ring."""
        return tuple(f.names for f in self.all if f.code == "cycle")

    def _names(self, code: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for f in self.all if f.code == code for name in f.names))

    def __iter__(self) -> Iterator[Finding]:
        return iter(self.all)

    def __len__(self) -> int:
        return len(self.all)

    def __str__(self) -> str:
        return "\n".join(map(str, self.all)) or "no findings"

    def __repr__(self) -> str:
        return f"Findings({len(self.errors)} errors, {len(self.warnings)} warnings, {len(self.all)} in all)"


_SHOWN_MAX = 10


def invalid(findings: Iterable[Finding]) -> InvalidPlan:
    """The error that carries these findings. With a single one, its code and place are the error's."""
    report = findings if isinstance(findings, Findings) else Findings(findings)
    faults = report.errors
    if len(faults) == 1:
        only = faults[0]
        place = f"{only.path} (step {only.step})" if only.step and only.path else only.path
        return InvalidPlan(
            only.message, report, code=only.code, where=place, allowed=only.allowed, remedy=only.remedy
        )
    lines = [f"the plan has {len(faults)} faults", *(f"  {fault}" for fault in faults[:_SHOWN_MAX])]
    if len(faults) > _SHOWN_MAX:
        lines.append(f"  and {len(faults) - _SHOWN_MAX} more")
    return InvalidPlan("\n".join(lines), report)


def apply_fix(document: dict[str, Any], fix: Fix) -> dict[str, Any]:
    """The document with one fix applied. The one given is not changed; what is left alone is shared."""
    way = parts(fix.path)
    if not way:
        raise BadInput("a fix of the whole document is a new document", code="fix", where=fix.path)
    fresh = dict(document)
    holder: Any = fresh
    try:
        for part in way[:-1]:
            inner = holder[part]
            inner = dict(cast(dict[str, Any], inner)) if isinstance(inner, dict) else list(inner)
            holder[part] = inner
            holder = inner
        _change(holder, way[-1], fix)
    except (KeyError, IndexError, TypeError):
        raise BadInput(
            "the document has no such place",
            code="fix",
            where=fix.path,
            remedy="use the document that was checked",
        ) from None
    return fresh


def _change(holder: Any, last: Any, fix: Fix) -> None:
    """Do it. KeyError, IndexError or TypeError if the holder has no such place."""
    match fix.action:
        case "set" if kind_of(holder) is list and last == len(holder):
            holder.append(fix.value)
        case "set":
            holder[last] = fix.value
        case "remove":
            del holder[last]
        case "rename":
            renamed = {(fix.value if key == last else key): holder[key] for key in holder}
            if len(renamed) != len(holder) or last not in holder:
                raise KeyError(last)
            holder.clear()
            holder.update(renamed)  # in place, so that the keys keep their order
