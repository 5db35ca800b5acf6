"""From a document to a plan: text to data, data to a `Plan`, or all the faults on the way."""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from kedge.base.collector import collector_paused
from kedge.base.errors import BadInput, InvalidPlan, NotSerializable
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.plan.findings import Finding, invalid
from kedge.plan.json_text import load_json, wrapped
from kedge.plan.plain import detached
from kedge.plan.structure import explain, is_sound

P = TypeVar("P", bound=msgspec.Struct)
Document = str | bytes | dict[str, Any]

_SMALL = 1024 * 1024
"""Texts up to this size cannot hold enough steps to hurt: they are read without counting first."""


class _Outline(msgspec.Struct, gc=False):
    """Only the steps of a document, each without its content: what counting costs a few bytes for."""

    steps: tuple[_Outline, ...] | None = ()


_outline = msgspec.json.Decoder(_Outline)


def to_plan(kind: type[P], document: object, limits: Limits = DEFAULT_LIMITS) -> P:
    """The plan that the document describes. InvalidPlan holds all the faults that keep it from being one."""
    with collector_paused():
        data = to_data(document, limits)
        try:
            plan = msgspec.convert(data, kind)
        except (msgspec.ValidationError, RecursionError):
            plan = None
    if plan is not None and is_sound(plan):
        return plan
    findings = explain(data, kind, limits)
    if not findings:  # the two readers of the same types disagree: ours is the one that is wrong
        msgspec.convert(data, kind)
        raise InvalidPlan("the document is not a plan")
    raise invalid(findings)


def to_data(document: object, limits: Limits = DEFAULT_LIMITS) -> Any:
    """The plain data of a document, shared with nobody."""
    if isinstance(document, bytes | bytearray):
        document = _decoded(bytes(document), limits)
    if isinstance(document, str):
        return _text_to_data(document, limits)
    if not isinstance(document, dict):
        raise BadInput(
            f"a plan is text or a map, not {type(document).__name__}",
            code="not_a_plan",
            remedy="give YAML or JSON text, or a dict with `goal` and `steps`",
        )
    steps = cast(dict[str, Any], document).get("steps")
    if isinstance(steps, list | tuple) and len(cast(list[Any], steps)) > limits.steps:
        raise invalid([too_many_steps(limits)])
    try:
        data, size = detached(cast(Any, document))
    except NotSerializable as error:
        finding = Finding(
            code=error.code,
            message=error.message,
            path=error.path.removeprefix("$").removeprefix("."),
            remedy=error.remedy,
        )
        raise invalid([finding]) from None
    if size > limits.document_bytes:
        raise _too_big(size, limits)
    return data


def _decoded(raw: bytes, limits: Limits) -> str:
    if len(raw) > limits.document_bytes:
        raise _too_big(len(raw), limits)
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        hint = "it looks like UTF-16; " if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else ""
        raise invalid(
            [
                Finding(
                    code="not_utf8",
                    path=f"line {line}",
                    message=f"byte {error.start} is not UTF-8",
                    remedy=f"{hint}save the text as UTF-8",
                )
            ]
        ) from None


def _text_to_data(text: str, limits: Limits) -> Any:
    if len(text) > limits.document_bytes:
        raise _too_big(len(text), limits)
    if not text.isascii():
        _only_characters(text)
    text = text.removeprefix("\ufeff")
    start = text.lstrip()
    if start.startswith("```"):
        raise wrapped(text) or invalid([])
    if start.startswith(("{", "[")):
        _count_steps(text, limits)
        return _whole_characters(load_json(text), text)
    from kedge.plan.yaml_text import load_yaml  # 16 ms, and a run that is resumed reads none

    try:
        data = load_yaml(text, limits)
    except InvalidPlan as error:
        raise (wrapped(text) or error if error.code == "yaml_syntax" else error) from None
    if not isinstance(data, dict):
        inside = wrapped(text)
        if inside is not None:
            raise inside
    return cast(Any, data)


def _count_steps(text: str, limits: Limits) -> None:
    """Refuse too many steps before their data is made: a map for each of a million weighs 300 MB."""
    if len(text) <= _SMALL:
        return
    try:
        todo = [_outline.decode(text)]
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return  # whatever it is, reading it properly says so better
    count = 0
    while todo:
        steps = todo.pop().steps or ()
        count += len(steps)
        if count > limits.steps:
            raise invalid([too_many_steps(limits)])
        todo.extend(step for step in steps if step.steps)


def _only_characters(text: str) -> None:
    """Half of a surrogate pair is no character, and nothing can store it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _half_a_pair(text, error.start) from None


def _whole_characters(data: Any, text: str) -> Any:
    """JSON can spell one."""
    if "\\u" not in text:
        return data
    try:
        msgspec.json.encode(data)
    except UnicodeEncodeError:
        raise _half_a_pair(text, text.lower().find("\\ud")) from None
    return data


def _half_a_pair(text: str, place: int) -> InvalidPlan:
    return invalid(
        [
            Finding(
                code="bad_character",
                path=f"line {text.count(chr(10), 0, place) + 1}",
                message="half of a surrogate pair is no character",
                remedy="write the character itself, or both halves",
            )
        ]
    )


def too_many_steps(limits: Limits) -> Finding:
    """The finding of a plan that is not even looked at."""
    return Finding(
        code="too_many_steps",
        path="steps",
        message=f"more than {limits.steps} steps",
        remedy="split the plan, use foreach, or raise the limit `steps`",
    )


def _too_big(size: int, limits: Limits) -> InvalidPlan:
    return invalid(
        [
            Finding(
                code="document_too_big",
                message=f"the document has {size} bytes, {limits.document_bytes} are allowed",
                remedy="keep large values in files and pass their paths, or raise the limit `document_bytes`",
            )
        ]
    )
