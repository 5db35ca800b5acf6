"""The one expression language: references, conditions and templates share a grammar and an evaluator.

Owns everything between an expression's text and its value: lexer, parser, budgets, operators,
functions, errors. It looks like Python and is not: a short list of operators and functions over
JSON data, without attributes, methods, loops or anything that reaches the interpreter.

Contracts:
- `parse` gives an `Expression` or an `ExpressionError` with code, position, remedy and, where a
  machine can tell, the mended text as `suggestion`; within 10 ms for any text.
- One evaluation is bounded in time and size, asks `resolve(name)` for values and touches nothing
  else. Values are plain JSON values and come out as such; errors are always ExpressionErrors.
- Nothing is true or false but `true` and `false`. `true` is no number. Null has no keys.
- `present(path)` is true when the path leads to a value that is not null. A name without a value,
  a missing key, a place past the end or a null on the way make it false; a key of a text or number
  is a mistake and an error.
- A text that comes out of a template is never a template again.
"""

from __future__ import annotations

from kedge.plan.expr.expression import Expression, evaluate_condition, parse
from kedge.plan.expr.faults import Absent
from kedge.plan.expr.operators import Resolve
from kedge.plan.expr.refusals import RESERVED_WORDS
from kedge.plan.expr.syntax import Path
from kedge.plan.expr.template import Template, parse_template

__all__ = [
    "RESERVED_WORDS",
    "Absent",
    "Expression",
    "Path",
    "Resolve",
    "Template",
    "evaluate_condition",
    "parse",
    "parse_template",
]
