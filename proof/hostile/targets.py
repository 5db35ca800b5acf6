"""Everything that reads what others wrote, in one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

from hostile import documents, expressions, journals, labels, names, plans, values
from hostile.corpus import attacks
from hostile.guard import Broken, keep_watch
from hostile.luck import Given, Luck, Seeded


@dataclass(frozen=True)
class Target:
    """One thing that reads: how input for it is made, and how it is judged."""

    name: str
    what: str
    make: Callable[[Luck], Any]
    judge: Callable[[Any], str]
    """What it came to, in a word: `value`, or the kind of its refusal. Broken for what must never happen."""
    of_text: Callable[[str], Any]
    """The input that a line of the corpus is."""
    is_text: bool = True
    """Bytes are the input itself; else they are the choices that make it."""

    def of_bytes(self, data: bytes) -> Any:
        """The input that a coverage-guided fuzzer's bytes are."""
        return self.of_text(_text(data)) if self.is_text else self.make(Given(data))

    def of_seed(self, seed: int) -> Any:
        return self.make(Seeded(seed))


def _text(data: bytes) -> str:
    """Text that any bytes are: what is no UTF-8 becomes halves of surrogate pairs, as in a file name."""
    try:
        return data.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return data.decode("utf-8", "surrogateescape")


def _bytes(text: str) -> tuple[bytes]:
    return (text.encode("utf-8", "surrogateescape"),)


TARGETS = {
    target.name: target
    for target in (
        Target(
            "expression",
            "expressions, parsed and evaluated",
            expressions.expression,
            expressions.judge_expression,
            str,
        ),
        Target("template", "texts with ${…}", expressions.template, expressions.judge_template, str),
        Target("yaml", "plan documents as YAML", documents.yaml_document, documents.judge_yaml, str),
        Target("json", "plan documents as JSON", documents.json_document, documents.judge_json, str),
        Target("plan", "plans as data, checked", plans.bent, documents.judge_plan, json.loads, is_text=False),
        Target("codec", "values and stored bytes", values.codec_input, values.judge, _bytes, is_text=False),
        Target(
            "events",
            "logs, with checksums that are right",
            journals.log,
            journals.judge,
            journals.of_text,
            is_text=False,
        ),
        Target("names", "ids and paths below a root", names.name, names.judge, str),
        Target("text", "text on screens and in pictures", labels.text, labels.judge, str),
    )
}


@cache
def ready() -> None:
    """Everything is loaded and used once, so that from here on nothing has a reason to import or compile."""
    for _ in range(2):
        for target in TARGETS.values():
            for number in range(30):
                _try(target, target.of_seed(number))
            for _, text in attacks(target.name):
                _try(target, target.of_text(text))
        keep_watch()


def _try(target: Target, given: Any) -> None:
    """Whatever it comes to: the first time does not count, for types are compiled when first used."""
    try:
        target.judge(given)
    except Broken:
        return
