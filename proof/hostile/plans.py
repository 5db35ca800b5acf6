"""Plans: written at random as right ones, then bent. As data here; `documents.py` has them as text."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hostile.corpus import texts_of
from hostile.luck import Luck, Seeded
from kedge.plan.tools import Catalog, Effect, ToolSpec


def _takes(*required: str, **properties: str) -> dict[str, Any]:
    told = {name: {"type": kind} for name, kind in properties.items()}
    return {"type": "object", "properties": told, "required": list(required), "additionalProperties": False}


def _tool(name: str, effect: Effect, **more: Any) -> ToolSpec:
    settings: dict[str, Any] = {"parameters": {"type": "object"}, **more}
    return ToolSpec(name=name, effect=effect, **settings)


_TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#"}}}}
CATALOG = Catalog(
    [
        _tool("get", "pure", returns={"type": "object", "properties": {"x": {"type": "integer"}}}),
        _tool("read", "read", parameters=_takes("path", path="string", pattern="string")),
        _tool("put", "idempotent", returns={"type": "string"}),
        _tool("send", "effect", parameters=_takes("to", to="string", text="string")),
        _tool("gone", "read", available=False, unavailable_because="no line", substitutes=("read",)),
        _tool("tree", "pure", parameters=_TREE, returns=_TREE),
        _tool("slow", "pure", parameters={"properties": {"p": {"type": "string", "pattern": "^(a+)+$"}}}),
    ]
)
_ARGS: dict[str, dict[str, Any]] = {
    "get": {},
    "read": {"path": "a.md"},
    "put": {"deep": {"list": [1, {"x": "y"}, None]}},
    "send": {"to": "anna", "text": "hello"},
    "sleep": {"seconds": 1},
}
POOL = 60
"""Right plans that others are bent from."""


class Author:
    """Writes one plan. Steps name only earlier ones, so it can be run."""

    def __init__(self, luck: Luck) -> None:
        self.luck = luck
        self.count = 0

    def plan(self) -> dict[str, Any]:
        luck = self.luck
        plan: dict[str, Any] = {"goal": luck.pick(("compare", "a: b # c", "é\u202e<b>", "x" * 200))}
        if luck.percent(60):
            plan["inputs"] = {"many": {"type": "array", "default": [1, 2]}, "word": {"default": "w"}}
        if luck.percent(30):
            plan["context"] = {"a key": [1.5, True, None, "on", "12:30"], "x": {"y": {"z": []}}}
        plan["steps"] = self.scope(0, ["inputs.many", "inputs.word"] if "inputs" in plan else [])
        first = plan["steps"][0]["id"]
        if luck.percent(40):
            plan["outputs"] = {"first": f"{first} if present({first}) else null"}
        if luck.percent(30):
            plan["answer"] = f"It is ${{{first}}}, $${{not}} ${{1 + 1}}."
        if luck.percent(20):
            plan |= {"limits": {"parallel": 2, "run_s": 60.5}, "metadata": {"by": "anna", "n": 1e300}}
        return plan

    def scope(self, depth: int, seen: list[str]) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        for _ in range(1 + self.luck.below(4)):
            self.count += 1
            step = self.step(depth, seen)
            steps.append(step)
            if "fallback_for" not in step:
                seen = [*seen, step["id"]]
            if len(steps) > 1 and not step.get("fallback_for") and self.luck.percent(10):
                self.count += 1
                steps.append({"id": f"s{self.count}", "tool": "get", "fallback_for": step["id"]})
        return steps

    def step(self, depth: int, seen: list[str]) -> dict[str, Any]:
        luck = self.luck
        step: dict[str, Any] = {"id": f"s{self.count}", "do": luck.pick(("", "Read it", "- x: y"))}
        if depth < 2 and luck.percent(20):
            step["steps"] = self.scope(depth + 1, seen)
        else:
            step["tool"] = luck.pick(tuple(_ARGS))
            step["args"] = copy.deepcopy(_ARGS[step["tool"]])
        read = luck.pick(seen) if seen and luck.percent(60) else ""
        if read and step.get("tool") == "put":
            step["args"][luck.pick(("value", "odd key", "ö"))] = luck.pick(
                (f"${{{read}}}", f"a ${{{read}}} b")
            )
        elif read.startswith("s"):
            step["after"] = [read]
        if luck.percent(25):
            step["when"] = f"present({read})" if read else "1 < 2"
        if luck.percent(15):
            step["foreach"] = luck.pick(([1, 2, 3], "${[1, 2]}", []))
        if luck.percent(15):
            step["loop"] = {"times": 2, "until": "loop.index >= 1", "delay_s": 0.5, "collect": "all"}
        if luck.percent(20) and "steps" not in step:
            step |= {"retry": {"attempts": 2, "backoff_s": 0.1, "on": ["transient"]}, "timeout_s": 5}
        if luck.percent(20):
            step |= {"on_error": "continue", "priority": 3, "milestone": True, "metadata": {"k": [0.1, "v"]}}
        return step


@cache
def pool() -> tuple[dict[str, Any], ...]:
    """Right plans, always the same."""
    return tuple(Author(Seeded(number)).plan() for number in range(POOL))


def _deep(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"k": value}
    return value


def _ring() -> Any:
    value: dict[str, Any] = {"goal": "g"}
    value["steps"] = [value]
    return value


JUNK: tuple[Callable[[], Any], ...] = tuple(
    (lambda value=value: copy.deepcopy(value))
    for value in (
        None, True, False, 0, -1, 1, 2**63, 2**64, -(2**70), 10**400, 1.5, -0.0, 1e308, 5e-324, float("nan"),
        float("inf"), "", "x", "s1", "s2", "${s1}", "${", "${s1.x.y}", "${s99}", "s1 and s2", "True", "1 <",
        "${().__class__}", "__class__", "__proto__", "constructor", "a" * 65, "A", "s1 ", "s\u200b1",
        "\uff531",
        "\ud800", "\x00", "\x1b[31m", "../x", "*", "on", "null", [], {}, [[]], [None], [1, "a", {}], ["s1",
        "s1"],
        {"id": "s1"}, {"id": "z", "tool": "get"}, {"steps": []}, {"": 1}, {"a.b": {"c d": 1}}, {"$ref": "#"},
        [{"id": "s1", "tool": "get"}, {"id": "s1", "tool": "get"}], "9**9**9", "(" * 100, "x" * 5_000,
    )
)  # fmt: skip
OBJECTS: tuple[Callable[[], Any], ...] = (
    _ring, object, lambda: {1: 2}, lambda: {1, 2}, lambda: b"x", lambda: (1, 2), lambda: len, lambda: type,
    lambda: _deep(70), lambda: _deep(5_000), lambda: {(1,): 2}, lambda: [1] * 2_000, lambda: complex(1, 2),
    lambda: iter([1]), lambda: {"1": 1, 1: 2}, lambda: Author(Seeded(1)), lambda: range(10**9), lambda: ...,
)  # fmt: skip
"""What only Python can hand over."""
KEYS = (
    "id", "do", "tool", "role", "goal", "wait", "use", "steps", "args", "after", "when", "foreach", "loop",
    "fallback_for", "join", "expect", "output", "quality", "quality_min", "retry", "timeout_s", "on_error",
    "idle_timeout_s", "approval", "compensate", "priority", "complexity", "milestone", "estimate",
    "resources",
    "speculate", "metadata", "inputs", "context", "outputs", "answer", "limits", "times", "until", "attempts",
    "type", "default", "seconds", "path", "stepz", "__class__", "", "odd key", "a.b", "é", "\u202e", "\ud800",
)  # fmt: skip


def bent(luck: Luck) -> Any:
    """A plan that was right, and had something done to it."""
    if luck.percent(10):
        return _known(luck)
    document: Any = copy.deepcopy(luck.pick(pool())) if luck.percent(60) else Author(luck).plan()
    for _ in range(luck.below(4)):
        bend(luck, document)
    return document


def _known(luck: Luck) -> Any:
    import json

    document = json.loads(luck.pick(texts_of("plan")))
    if luck.percent(50):
        bend(luck, document)
    return document


def bend(luck: Luck, document: Any) -> None:
    """One change, somewhere in it."""
    places = _places(document)
    if not places:
        return
    holder, key = luck.pick(places)
    match luck.below(10):
        case 0:
            holder.pop(key)
        case 1 | 2 | 3:
            holder[key] = luck.pick(JUNK)()
        case 4:
            holder[key] = luck.pick(OBJECTS)() if luck.percent(40) else luck.pick(JUNK)()
        case 5 if isinstance(holder, dict):
            holder[luck.pick(KEYS)] = luck.pick(JUNK)()
        case 6 if isinstance(holder, dict):
            holder[luck.pick(KEYS)] = holder.pop(key)
        case 7:
            other, there = luck.pick(places)
            holder[key] = copy.copy(other[there]) if there in _keys(other) else None
        case 8 if isinstance(holder, list):
            holder.extend(holder[key : key + 1] * luck.pick((1, 2, 50)))
        case _:
            _name(luck, document, holder, key)


def _name(luck: Luck, document: Any, holder: Any, key: Any) -> None:
    """Let a step name another, which may be itself, a later one, its own child or nobody."""
    steps = [place[place_key] for place, place_key in _places(document) if _is_step(place[place_key])]
    if not steps:
        holder[key] = "s1"
        return
    step, other = luck.pick(steps), luck.pick(steps)
    named = other["id"] if isinstance(other["id"], str) else "s1"
    field, value = luck.pick(
        (
            ("after", [named]),
            ("fallback_for", named),
            ("when", f"present({named})"),
            ("args", {"v": f"${{{named}.a.b[0]}}"}),
            ("id", named),
            ("foreach", f"${{{named}}}"),
            ("expect", f"{named} == result"),
            ("compensate", {"tool": "put", "args": {"r": f"${{{named}}}"}}),
        )
    )
    step[field] = value


def _is_step(value: Any) -> bool:
    return isinstance(value, dict) and "id" in value


def _keys(holder: Any) -> Sequence[Any]:
    return list(holder) if isinstance(holder, dict) else range(len(holder))


def _places(document: Any) -> list[tuple[Any, Any]]:
    """Every (holder, key) of the data, whatever was put into it before, up to some hundreds."""
    found: list[tuple[Any, Any]] = []
    todo: list[Any] = [document]
    for holder in todo:  # grows while it is walked
        if type(holder) in (dict, list):
            for key in _keys(holder):
                found.append((holder, key))
                todo.append(holder[key])
        if len(found) > 400:
            break
    return found
