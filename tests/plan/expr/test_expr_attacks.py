"""Texts that broke other expression languages. Here each is refused, or worth nothing.

That none of them executes, opens or imports anything is shown in tests/proof.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from kedge.base.errors import ExpressionError
from kedge.plan.expr import parse

sys.path.insert(0, str(Path(__file__).parents[3] / "proof"))

from hostile.corpus import attacks

MEANT = {
    "the way from a value to the interpreter",
    "templates of other engines",
    "bombs",
    "regular expressions",
    "look-alikes and invisible characters",
    "other runs, secrets, paths",
}
"""What is an attack in itself; the others are only wrong, some of them not before they are evaluated."""
ATTACKS = [text for what, text in attacks("expression") if what in MEANT]


def test_the_corpus_is_large() -> None:
    assert len(ATTACKS) == len(set(ATTACKS)) >= 200


HARMLESS = {
    "secret",
    "secret.TOKEN",
    "a.constructor",
    "a['constructor']",
    "a.items",
    "a.keys",
    "a.pop",
    "a.update",
    "a.get",
    "a.self",
    "a.mro",
    "1 .real",
    "this.constructor",
    "env.PATH",
    "os.environ",
    "process.env",
    "sys.modules",
    "runs['other'].result",
    "async",
    "'a'.join",
    "a.format",
    "a['__cl' + 'ass__']",
    "'%s' % a",
    "'%(a)s' % {'a': 1}",
    "'%99999999d' % 1",
    "'a' * 1000000000",
    "[0] * 1000000000",
    "1000000000 * 'a'",
    "sum([9] * 99)",
    "'{:>99999999}'",
    "a[a]",
    "a[[]]",
    "a[{}]",
    "a[none]",
}
"""What the grammar takes: names without a value, keys nobody has, operators on the wrong kinds."""


@pytest.mark.parametrize("text", ATTACKS)
def test_an_attack_is_refused_before_anything_runs(text: str) -> None:
    data = {"a": {"x": 1}, "b": [1], "none": None}
    if text not in HARMLESS:
        with pytest.raises(ExpressionError) as caught:
            parse(text)
    elif text == "'{:>99999999}'":
        assert parse(text).evaluate(data.__getitem__) == "{:>99999999}"
        return
    else:
        expression = parse(text)
        with pytest.raises(ExpressionError) as caught:
            expression.evaluate(data.__getitem__)
    assert caught.value.remedy
