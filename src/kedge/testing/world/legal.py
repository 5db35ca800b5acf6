"""Is a plan legal? A second opinion, on plain data and by other means than `checks`.

Not as thorough and with no word on why, but what this calls illegal must never have been accepted: ids that
are not unique, names that mean nothing, steps that wait for each other, tools that do not exist.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

_ID = re.compile(r"[a-z][a-z0-9_]{0,63}")
_HOLE = re.compile(r"\$\{([^}]*)\}")
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")
_WORD = re.compile(r"(?<![\w.])[a-z_][a-z0-9_]*(?!\w*\()")
_KNOWN = frozenset(
    "goal context inputs results result item index loop secret true false null and or not in if else".split()
)

Steps = list[dict[str, Any]]


def illegal(plan: dict[str, Any], tools: Iterable[str]) -> str:
    """What is wrong with a plan; empty if nothing is known to be."""
    known = {*tools, "sleep"}
    waits: dict[str, set[str]] = {}
    instead: dict[str, str] = {}
    for scope, steps, outer in _scopes("", plan["steps"], {}):
        ids = [step["id"] for step in steps]
        if len(set(ids)) < len(ids) or not all(_ID.fullmatch(id_) and id_ not in _KNOWN for id_ in ids):
            return f"ids in {scope or 'the plan'}: {ids}"
        seen = {**outer, **{id_: f"{scope}{id_}" for id_ in ids}}
        for step in steps:
            path = f"{scope}{step['id']}"
            if "tool" in step and step["tool"] not in known:
                return f"{path} calls {step['tool']}"
            needs = {*step.get("after", ()), *_names(step)} - {step["id"]}
            unknown = [name for name in needs if name not in seen]
            if unknown:
                return f"{path} names {unknown[0]}"
            target = step.get("fallback_for")
            if target is not None and target not in ids:
                return f"{path} stands in for {target}"
            waits[path] = {seen[name] for name in needs - {target}}
            if target is not None:
                instead[seen[target]] = path
    for needs in waits.values():  # whoever waits for a step waits for what may stand in for it
        for need in list(needs):
            other = need
            while (other := instead.get(other, "")) and other not in needs:
                needs.add(other)
    for target, path in instead.items():
        waits[path].add(target)
    for path in waits:  # what is inside ends before the whole, and begins when the whole may begin
        outside = path.rpartition("/")[0]
        if outside:
            waits[outside].add(path)
    return _cycle(waits)


def _scopes(scope: str, steps: Steps, outer: dict[str, str]) -> Iterator[tuple[str, Steps, dict[str, str]]]:
    yield scope, steps, outer
    here = {**outer, **{step["id"]: f"{scope}{step['id']}" for step in steps}}
    for step in steps:
        if "steps" in step:
            yield from _scopes(f"{scope}{step['id']}/", step["steps"], here)


def _names(step: dict[str, Any]) -> Iterator[str]:
    """Steps that a step's own texts refer to."""
    loop = step.get("loop", {})
    texts = [step.get("when"), step.get("expect"), step.get("quality"), loop.get("until")]
    holes = [
        hole for text in _texts([step.get("args", {}), step.get("foreach")]) for hole in _HOLE.findall(text)
    ]
    for text in (*texts, *holes):
        if text is not None:
            yield from (word for word in _WORD.findall(_TEXT.sub("", text)) if word not in _KNOWN)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for part in value.values():  # type: ignore[reportUnknownVariableType]
            yield from _texts(part)
    elif isinstance(value, list):
        for part in value:  # type: ignore[reportUnknownVariableType]
            yield from _texts(part)


def _cycle(waits: dict[str, set[str]]) -> str:
    left = {path: set(needs) for path, needs in waits.items()}
    while left:
        free = [path for path, needs in left.items() if not needs & left.keys()]
        if not free:
            return f"these wait for each other: {sorted(left)}"
        for path in free:
            del left[path]
    return ""
