"""Rules about conditions: can this ever be computed, is it true or false, does it say anything."""

from __future__ import annotations

from collections.abc import Iterator

from kedge.base.errors import ExpressionError
from kedge.checks.infer import Inference
from kedge.checks.infer import Types as TypeNames
from kedge.checks.schemas import ANY_TYPE, types_of, words_of
from kedge.checks.survey import Survey, finding, put
from kedge.plan.expr import Expression, Path, parse
from kedge.plan.findings import Finding
from kedge.plan.scopes import Node
from kedge.plan.uses import Use, template_use

_CONDITIONS = ("when", "until", "expect")


_NOTHING: dict[str, object] = {}


def value_of(expression: Expression) -> object:
    """The value of an expression that reads nothing, or ExpressionError."""
    return expression.evaluate(_NOTHING.__getitem__)


def conditions(survey: Survey) -> Iterator[Finding]:
    """A condition that cannot be evaluated, is never true or false, or is always the same."""
    for node in survey.nodes:
        for use in node.uses:
            if use.field in _CONDITIONS and use.whole is not None:
                yield from _constant(node, use, use.whole) if not use.paths else _typed(survey, node, use)


def _constant(node: Node, use: Use, condition: Expression) -> Iterator[Finding]:
    try:
        value = value_of(condition)
    except ExpressionError as error:
        yield finding(node, "condition_fails", use.place, f"this can never be evaluated: {error.message}",
                      remedy=error.remedy)  # fmt: skip
        return
    if not isinstance(value, bool):
        yield finding(node, "not_a_condition", use.place, "this is neither true nor false",
                      remedy="compare something, as in `count > 0`")  # fmt: skip
    elif use.field != "when" or value:  # a `when` that is false makes the step unreachable, which says more
        word = "true" if value else "false"
        yield finding(
            node,
            "constant_condition",
            use.place,
            f"this is always {word}",
            remedy="remove it, or name a value in it",
        )


def _typed(survey: Survey, node: Node, use: Use) -> Iterator[Finding]:
    if use.path is not None and not use.path.keys and survey.catalog is None:
        return  # a bare name of which nothing is known

    def types_at(path: Path) -> TypeNames:
        found: TypeNames = frozenset()
        for schema in survey.types.at_step(path, node).schemas:
            found |= types_of(schema)
        return found or ANY_TYPE

    inferred = Inference(use.text, types_at)
    inferred.want_condition()
    for clash in inferred.clashes:
        yield finding(node, "condition_types", use.place, f"{clash.message} (at character {clash.start + 1})",
                      remedy="compare like with like; the result must be true or false")  # fmt: skip


def items(survey: Survey) -> Iterator[Finding]:
    """`foreach` needs a list."""
    for node in survey.nodes:
        source = node.step.foreach
        if not isinstance(source, str):
            continue
        use = template_use("foreach", "foreach", source)
        if use.error is not None:
            continue
        if use.whole is None and use.path is None:
            yield _no_list(node, source, use)
            continue
        wrong = [types for types in _types_of_items(survey, node, use) if "array" not in types]
        if wrong:
            message = f"{source[:80]} is {words_of(wrong[0])}, not a list"
            yield finding(
                node, "foreach_not_a_list", "foreach", message, remedy="name a list, or write it out"
            )


def _types_of_items(survey: Survey, node: Node, use: Use) -> list[TypeNames]:
    if use.path is not None:
        return [types_of(schema) for schema in survey.types.at_step(use.path, node).schemas]
    return []


def _no_list(node: Node, source: str, use: Use) -> Finding:
    """Text where items should be: most often an expression without its `${}`."""
    fix, remedy = None, "write ${…} around a value that is a list, or a list"
    if not use.paths:
        try:
            reads = parse(source).paths
        except ExpressionError:
            reads = ()
        if reads:
            fix, remedy = put(node, "foreach", f"${{{source.strip()}}}"), f"write ${{{source.strip()}}}"
    return finding(
        node, "foreach_not_a_list", "foreach", f"{source[:80]!r} is text, not a list", remedy=remedy, fix=fix
    )
