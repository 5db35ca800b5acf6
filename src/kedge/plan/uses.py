"""Where a step reads values: every expression and template in it, and the paths they name."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec

from kedge.base.errors import ExpressionError
from kedge.plan.expr import RESERVED_WORDS, Expression, Path, parse, parse_template
from kedge.plan.expr.parser import parse_node
from kedge.plan.expr.syntax import reads
from kedge.plan.parts import RESERVED_IDS, Step
from kedge.plan.places import at
from kedge.plan.plain import kind_of

Field = Literal[
    "args", "when", "foreach", "until", "expect", "quality", "goal", "signal", "ask", "compensate",
    "outputs", "answer",
]  # fmt: skip
_BARE = re.compile(r"\$\{([a-z][a-z0-9_]*)\}", re.ASCII)
_VALUES_MAX = 1_000_000
"""Values looked at in one step's arguments: lists that share parts can stand for any number."""


class Use(msgspec.Struct, frozen=True, gc=False):
    """One text in which values are read."""

    field: Field
    place: str
    """Where it stands in its step, as in `args.path`."""
    text: str
    paths: tuple[Path, ...]
    path: Path | None = None
    """The path, if the text is one reference and nothing else."""
    whole: Expression | None = None
    """The expression, if the text is exactly one: what it stands for keeps its type. None for a bare
    `${name}`, which its path says all about."""
    is_template: bool = True
    asked: frozenset[Path] = frozenset()
    """Paths that are only asked about, with `present(…)`: they need lead nowhere."""
    error: ExpressionError | None = None


def uses(step: Step) -> list[Use]:
    """Every text of the step that reads something, or should and cannot be understood."""
    found: list[Use] = []
    if step.args:
        _in_values("args", step.args, "args", found)
    if step.when is not None:
        found.append(expression_use("when", "when", step.when))
    if step.foreach is not None:
        _in_values("foreach", {"foreach": step.foreach}, "", found)
    if step.loop is not None and step.loop.until is not None:
        found.append(expression_use("until", "loop.until", step.loop.until))
    if step.expect is not None:
        found.append(expression_use("expect", "expect", step.expect))
    if step.quality is not None:
        found.append(expression_use("quality", "quality", step.quality))
    if step.compensate is not None:
        _in_values("compensate", step.compensate.args, "compensate.args", found)
    if step.goal is not None:
        _in_values("goal", {"goal": step.goal}, "", found)
    if step.wait is not None:
        _in_values("signal", {"signal": step.wait.signal}, "wait", found)
    if step.approval is not None:
        _in_values("ask", {"ask": step.approval.ask}, "approval", found)
    return found


def references(step: Step) -> tuple[str, ...]:
    """Names of the steps that `step` reads, wherever it reads them; itself left out."""
    names: dict[str, None] = {}
    for use in uses(step):
        for path in use.paths:
            names[path.root] = None
    return tuple(name for name in names if name not in RESERVED_IDS and name != step.id)


def texts(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Place and content of each text in a value that could be a template, in document order."""
    todo: list[tuple[Any, str]] = [(value, place)]
    looked = 0
    while todo:
        item, here = todo.pop()
        looked += 1
        if looked > _VALUES_MAX:
            return
        if isinstance(item, str):
            if "${" in item:
                yield here, item
        elif isinstance(item, dict):
            pairs = cast(dict[Any, Any], item).items()
            todo.extend(
                (inner, at(here, str(key))) for key, inner in reversed(pairs) if type(inner) in _HOLDERS
            )
        elif isinstance(item, list | tuple):
            inners = cast(list[Any], item)
            todo.extend(
                (inners[i], f"{here}[{i}]")
                for i in range(len(inners) - 1, -1, -1)
                if type(inners[i]) in _HOLDERS
            )


_HOLDERS = frozenset({str, dict, list, tuple})


def template_use(field: Field, place: str, text: str) -> Use:
    """The use that a template is."""
    bare = _BARE.fullmatch(text)
    if bare is not None and bare[1] not in RESERVED_WORDS:
        path = Path(bare[1])
        return Use(field, place, text, (path,), path)
    try:
        template = parse_template(text)
    except ExpressionError as error:
        return Use(field, place, text, (), error=_told(error))
    parts = [part for part in template.parts if isinstance(part, Expression)]
    asked = frozenset[Path]().union(*map(_asked, parts))
    whole = template.whole
    path = whole.simple if whole is not None else None
    return Use(field, place, text, template.paths, path, whole, asked=asked)


def expression_use(field: Field, place: str, text: str) -> Use:
    """The use that a bare expression is."""
    try:
        found = parse(text)
    except ExpressionError as error:
        return Use(field, place, text, (), is_template=False, error=_told(error))
    return Use(field, place, text, found.paths, found.simple, found, False, _asked(found))


def _told(error: ExpressionError) -> ExpressionError:
    """What it says, without where it was raised."""
    # The collector does not look into uses, and frames hold everything that was at hand, this use too:
    # each wrong expression would stay in memory for ever.
    error.__traceback__ = error.__context__ = error.__cause__ = None
    return error


def _asked(expression: Expression) -> frozenset[Path]:
    if "present" not in expression.text:
        return frozenset()
    seen = tuple(reads(parse_node(expression.text)))
    read = {path for path, is_asked in seen if not is_asked}
    return frozenset(path for path, _ in seen if path not in read)


def _in_values(field: Field, values: dict[str, Any], place: str, found: list[Use]) -> None:
    for key, value in values.items():
        kind = kind_of(value)
        if kind is str:
            if "${" in value:
                found.append(template_use(field, at(place, key), value))
        elif kind in _HOLDERS:
            found.extend(template_use(field, where, text) for where, text in texts(value, at(place, key)))
