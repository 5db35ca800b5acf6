"""Documents that should be plans: read as YAML and as JSON, checked as data, and each judged twice."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Literal

import msgspec
import yaml

from hostile.corpus import texts_of
from hostile.guard import Broken, is_plain, same, watched
from hostile.luck import Luck, changed
from hostile.plans import CATALOG, bent, pool
from kedge.base.errors import BadInput, InvalidPlan
from kedge.checks import STRICTNESS, check
from kedge.flow.program import compile_plan
from kedge.plan.findings import Finding, Findings, apply_fix
from kedge.plan.model import ID_PATTERN, Plan, Step
from kedge.plan.places import parts
from kedge.plan.yaml_text import load_yaml, plain_value
from kedge.plan.yaml_write import dump_yaml

READ_S = 0.100
READ_LENGTH = 200_000
"""Characters that are read in that time; a longer text may take longer, in proportion and no more."""
CHECK_S = 0.250
_LENGTH_MAX = 20_000
_TOKEN = re.compile(r"\s+|\w+|[^\w\s]")
_ID = re.compile(ID_PATTERN, re.ASCII)
_CODE = re.compile(r"[a-z][a-z0-9_]*", re.ASCII)

_EITHER = (
    "null", "true", "~", "on", "12:30", "1e999", "NaN", "Infinity", ".inf", ".nan", "-", "0x1f", "0o17",
    "1_000",
    "9" * 400, "\u202e", "\x00", "\ufeff", "\ud800", "\u2028", "\x85", "'", '"', "\\", "{", "}", "[", "]",
    ",", ":",
    "```", "```yaml\n", "\n```", "# x", "// x", "${s1}", "True", "None", "goal", "steps", "id", "tool",
    "\n", " ",
    '"\\ud800"', '"\\u0000"', "é", "😀",
)  # fmt: skip
YAML_WORDS = (
    *_EITHER, "&a ", "*a", "*a ", "!!python/object/apply:os.system ", "!!python/name:os.system ",
    "!!binary ", "!x ",
    "<<: *a", "<<: {a: 1}", "---\n", "\n---\n", "...\n", "%YAML 1.1\n", "%TAG ! tag:x,2000:\n", "? ", "| ",
    "|-\n  ",
    ">+9\n", "\t", "  ", "- ", ": ", " #", "!<tag:yaml.org,2002:str> ", "@", "`", "&a [*a]", "=", "!!set ",
    "!!omap ",
)  # fmt: skip
JSON_WORDS = (
    *_EITHER,
    "/* x */",
    ",}",
    ",]",
    "}{",
    "{}",
    "[[",
    "-0",
    "01",
    "1.",
    ".5",
    "+1",
    '{"a":1,"a":2}',
    "1E5",
)


@cache
def _written(form: str) -> tuple[tuple[str, ...], ...]:
    """The pool as tokens of text."""
    write = dump_yaml if form == "yaml" else _as_json
    return tuple(tuple(_TOKEN.findall(write(plan))) for plan in pool())


def _as_json(data: Any) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False)


def _document(luck: Luck, form: str, words: tuple[str, ...]) -> str:
    kind = luck.below(100)
    if kind < 15:
        return "".join(changed(luck, list(luck.pick(texts_of(form))[:_LENGTH_MAX]), words, luck.below(4)))
    if kind < 25:
        text = _bent_text(luck, form)
        if text:
            return text
    tokens = list(luck.pick(_written(form)))
    if kind < 95:
        changed(luck, tokens, words, 1 + luck.below(3))
    return "".join(tokens)[:_LENGTH_MAX]


def _bent_text(luck: Luck, form: str) -> str:
    """A bent plan as text, if it can be written."""
    try:
        return dump_yaml(bent(luck)) if form == "yaml" else _as_json(bent(luck))
    except (ValueError, TypeError, AttributeError, RecursionError, BadInput):
        return ""


def yaml_document(luck: Luck) -> str:
    """A YAML text, right, nearly right, or an attack."""
    return _document(luck, "yaml", YAML_WORDS)


def json_document(luck: Luck) -> str:
    """A JSON text, right, nearly right, or an attack."""
    return _document(luck, "json", JSON_WORDS)


# --- reading


def _read_s(text: str) -> float:
    return READ_S * max(1.0, len(text) / READ_LENGTH)


def judge_text(text: str) -> str:
    """Read it as a plan; what is one is the same plan in every form."""
    read_s = _read_s(text)
    plan, error = watched(lambda: Plan.parse(text), (BadInput,), read_s)
    if plan is None:
        return _refused(error)
    forms: tuple[Literal["json", "yaml"], ...] = ("json", "yaml")
    for form in forms:
        written, _ = watched(lambda form=form: plan.dump(form), (BadInput,), read_s)  # too deep for YAML
        if written is None:
            continue
        again, lost = watched(lambda text=written: Plan.parse(text), (BadInput,), read_s)
        if again != plan:
            raise Broken(f"written as {form} and read again it is another plan: {lost or again!r:.500}")
    return "value"


def judge_yaml(text: str) -> str:
    """A plan or not; and as data it is what YAML's own reader makes of it, our words for its texts."""
    came = judge_text(text)
    if text.lstrip("\ufeff").lstrip().startswith(("{", "[", "```")):
        return came
    data, error = watched(lambda: load_yaml(text), (InvalidPlan,), _read_s(text))
    if error is None:
        if not is_plain(data):
            raise Broken(f"read as what is not plain data: {data!r:.300}")
        theirs: Any = yaml.load(text, Loader=yaml.CBaseLoader)  # noqa: S506 - it makes texts only
        _same_yaml(data, theirs)
    return came


def _same_yaml(ours: Any, theirs: Any) -> None:
    todo = [(ours, theirs)]
    while todo:
        one, other = todo.pop()
        if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
            todo.extend((one[key], other[key]) for key in one)
        elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
            todo.extend(zip(one, other, strict=True))
        elif not isinstance(other, str) or not (same(one, other) or same(one, plain_value(other))):
            raise Broken(f"read as {one!r:.200}, which YAML's own reader takes for {other!r:.200}")


def judge_json(text: str) -> str:
    """A plan or not; and data is what two other readers make of it."""
    came = judge_text(text)
    start = text.removeprefix("\ufeff").lstrip()
    if came == "value" and start.startswith("{"):
        theirs = json.loads(text.removeprefix("\ufeff"))
        if not is_plain(theirs) or Plan.parse(theirs) != Plan.parse(text):
            raise Broken("is a plan, and another than the one that its data is")
        if not same(msgspec.json.decode(start.encode()), theirs):
            raise Broken("is a plan, and two JSON readers do not agree about it")
    return came


# --- checking


def judge_plan(document: Any) -> str:
    """Check it; a plan without faults is one by a second opinion too, and can be made ready to run."""
    findings, _ = watched(lambda: check(document, CATALOG), (), CHECK_S)
    if findings is None:
        raise Broken("no findings at all")
    _are_legal(findings, document)
    if not findings.ok:
        return findings.errors[0].code
    plan = document if isinstance(document, Plan) else Plan.parse(document)
    for fault in second_opinion(plan):
        raise Broken(f"was found good, and {fault}")
    watched(lambda: compile_plan(plan, CATALOG), (), CHECK_S)
    for strictness in STRICTNESS:
        if len(check(plan, CATALOG, strictness)) != len(findings):
            raise Broken(f"strictness {strictness} changes what is found, not only how grave it is")
    return "value"


def _refused(error: Exception | None) -> str:
    if not isinstance(error, BadInput):
        raise Broken("neither a plan nor an error")
    if isinstance(error, InvalidPlan) and isinstance(error.findings, Findings):
        _are_legal(error.findings, None)
        if error.findings.ok:
            raise Broken("refused without a fault")
    return error.code


def _are_legal(findings: Findings, document: Any) -> None:
    for one in findings:
        if not _CODE.fullmatch(one.code) or not one.message:
            raise Broken(f"a finding without words: {one!r:.300}")
        if len(str(one)) > 4_000:
            raise Broken(f"a finding of {len(str(one)):,} characters: {str(one)[:200]}")
        if type(document) is dict:
            _is_placed(one, document)


def _is_placed(finding: Finding, document: dict[str, Any]) -> None:
    """Its place can be taken apart, and its fix, if it has one, can be applied."""
    if finding.path:
        try:
            parts(finding.path)
        except ValueError:
            raise Broken(f"a finding at what is no place: {finding.path!r:.200}") from None
    if finding.fix is not None:
        fix = finding.fix
        watched(lambda: apply_fix(document, fix), (), READ_S)


# --- a second opinion


def second_opinion(plan: Plan) -> Iterator[str]:
    """What is wrong with a plan, by a reader that shares no code with the first: ids, names, rings."""
    waits: dict[str, set[str]] = {}
    todo: list[tuple[Sequence[Step], str, dict[str, str]]] = [(plan.steps, "", {})]
    while todo:
        steps, prefix, outer = todo.pop()
        seen = {step.id: prefix + step.id for step in steps}
        if len(seen) != len(steps):
            yield f"two steps below {prefix!r} have one id"
        visible = outer | seen
        for step in steps:
            path = prefix + step.id
            if not _ID.fullmatch(step.id):
                yield f"{step.id!r} is no id"
            # A step's start waits for its parent's start; a composite's end for its children's.
            waits[f"{path}<"] = {f"{prefix[:-1]}<"} if prefix else set()
            waits[f"{path}>"] = {f"{path}<"}
            for name in _named(step):
                if name not in visible:
                    yield f"{path} names {name!r}, which is nowhere"
                elif name != step.fallback_for:
                    waits[f"{path}<"].add(f"{visible[name]}>")
            if step.fallback_for is not None:
                waits[f"{path}<"].add(f"{seen.get(step.fallback_for, '?')}>")
            if step.steps:
                waits[f"{path}>"] |= {f"{path}/{child.id}>" for child in step.steps}
                todo.append((step.steps, f"{path}/", visible))
    if _has_ring(waits):
        yield "its steps wait for each other in a ring"


_NOT_STEPS = {"goal", "context", "inputs", "results", "result", "item", "index", "loop", "secret"}
_WORDS = {"and", "or", "not", "in", "if", "else", "true", "false", "null", "present"} | set(
    "len min max sum any all abs round str int float bool lower upper startswith endswith".split()
)
_STRING = re.compile(r"\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'")
_NAME = re.compile(r"(?<![\w.])[a-z][a-z0-9_]*")
_NUMBER = re.compile(r"\b[0-9][0-9a-zA-Z.]*")


def _named(step: Step) -> set[str]:
    """Steps that it names, read with a few patterns instead of a parser."""
    found = set(step.after)
    for text in (step.when, step.loop.until if step.loop else None):
        found |= _names(text) if text is not None else set()
    todo: list[Any] = [step.args, step.foreach]
    while todo:
        value = todo.pop()
        if isinstance(value, str):
            for inner in re.findall(r"(?<!\$)\$\{([^{}]*)\}", value):
                found |= _names(inner)
        elif isinstance(value, dict | list | tuple):
            todo.extend(value.values() if isinstance(value, dict) else value)
    return found


def _names(expression: str) -> set[str]:
    bare = re.sub(r"\s*\.\s*", ".", _NUMBER.sub(" ", _STRING.sub(" ", expression)))
    return set(_NAME.findall(bare)) - _WORDS - _NOT_STEPS


def _has_ring(waits: dict[str, set[str]]) -> bool:
    left = {moment: {one for one in needs if one in waits} for moment, needs in waits.items()}
    while True:
        free = {moment for moment, needs in left.items() if not needs}
        if not free:
            return bool(left)
        left = {moment: needs - free for moment, needs in left.items() if moment not in free}
