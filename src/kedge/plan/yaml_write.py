"""Readable YAML that `load_yaml` reads back to equal data.

Our own writer, fifty lines: PyYAML's quotes by the rules of YAML 1.1, not by ours, and takes 200 µs
for a step of a plan.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

from kedge.base.codec import MAX_DEPTH
from kedge.base.errors import BadInput
from kedge.plan.plain import is_deeper, kind_of
from kedge.plan.yaml_text import plain_value

_FLOW_WIDTH_MAX = 80
_FLOW_ITEMS_MAX = 20
_KEY_MAX = 500  # a key longer than 1,024 is read only in the form with a question mark
_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*", re.ASCII)
_UNSAFE = re.compile(r": |:$| #")


def dump_yaml(data: Any) -> str:
    """Data as YAML text, keys in the order they have. BadInput for what our reader would not read."""
    if is_deeper(data, MAX_DEPTH):
        raise BadInput(
            f"lists and maps are nested deeper than {MAX_DEPTH}", code="too_deep", remedy="flatten it"
        )
    if not data or kind_of(data) not in (list, dict):
        return f"{_flow(data)}\n"
    lines: list[str] = []
    _block(data, 0, lines)
    return "\n".join(lines) + "\n"


def _block(value: Any, indent: int, lines: list[str]) -> None:
    """Append the lines of a list or map that does not fit on one."""
    pad = " " * indent
    if isinstance(value, dict):
        for key, item in cast(dict[str, Any], value).items():
            name = _text(key, key=True)
            head = f"{pad}{name}:" if len(name) <= _KEY_MAX else f"{pad}? {name}\n{pad}:"
            _entry(head, item, indent, lines)
        return
    for item in value:
        at = len(lines)
        if isinstance(item, list | dict) and _flow(item) is None:
            _block(item, indent + 2, lines)
            lines[at] = f"{pad}- {lines[at][indent + 2 :]}"
        else:
            _entry(f"{pad}-", item, indent, lines)


def _entry(head: str, value: Any, indent: int, lines: list[str]) -> None:
    if isinstance(value, str) and _is_block_text(value):
        lines.append(f"{head} |" if value.endswith("\n") else f"{head} |-")
        inner = " " * (indent + 2)
        lines.extend(inner + line if line else "" for line in value.removesuffix("\n").split("\n"))
        return
    flow = _flow(value)
    if flow is not None:
        lines.append(f"{head} {flow}")
    else:
        lines.append(head)
        _block(value, indent + 2, lines)


def _flow(value: Any) -> str | None:
    """`value` on one line: scalars always, short lists and maps of scalars; None for the rest."""
    if not isinstance(value, list | dict):
        return _scalar(value, flow=False)
    holder = cast(dict[str, Any], value)
    items = list(holder.values()) if isinstance(value, dict) else cast(list[Any], value)
    if len(items) > _FLOW_ITEMS_MAX or not all(map(_fits_in_line, items)):
        return None
    words = [_scalar(item, flow=True) for item in items]
    if isinstance(value, dict):
        words = [f"{_text(key, key=True)}: {word}" for key, word in zip(holder, words, strict=True)]
        line = "{" + ", ".join(words) + "}"
    else:
        line = "[" + ", ".join(words) + "]"
    return line if len(line) <= _FLOW_WIDTH_MAX or not items else None


def _fits_in_line(item: Any) -> bool:
    return not _is_block_text(item) if isinstance(item, str) else not (item and kind_of(item) in (list, dict))


def _scalar(value: Any, *, flow: bool) -> str:
    if isinstance(value, str):
        return _text(value, flow=flow)
    if isinstance(value, list | dict):
        return "[]" if isinstance(value, list) else "{}"
    return json.dumps(value)


def _text(text: str, *, key: bool = False, flow: bool = False) -> str:
    """`text` bare where our reader takes it for the same text, else in double quotes."""
    if key:
        bare = _KEY.fullmatch(text) is not None
    else:
        bare = (
            text[:1].isalpha()
            and text.isprintable()
            and text == text.strip()
            and _UNSAFE.search(text) is None
            and not (flow and any(c in ",[]{}:" for c in text))
        )
    if bare and len(text) <= _KEY_MAX and plain_value(text) is text:
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return quoted if quoted.isprintable() else "".join(c if c.isprintable() else _escape(c) for c in quoted)


def _escape(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_block_text(text: str) -> bool:
    body = text.removesuffix("\n")
    lines = body.split("\n")
    return (
        "\n" in text
        and body[:1] not in ("", " ", "\n")
        and not body.endswith("\n")
        and all(line.isprintable() and (not line or not line.isspace()) for line in lines)
    )
