"""Random plans: whoever proves something about all plans needs many that nobody thought of.

    plan = Author(Random(7)).plan()

Steps name only steps written before them, so nearly every plan is one that can be run; what `check` still
refuses is for the caller to pass over. Every tool takes any arguments. `many` gives a list, the others
whatever the test likes.
"""

from __future__ import annotations

from random import Random
from typing import Any

from kedge.plan.tools import Effect

TOOLS: dict[str, Effect] = {
    "pure": "pure",
    "read": "read",
    "many": "read",
    "put": "idempotent",
    "send": "effect",
}
"""The tools that these plans call."""

DAY_S = 24 * 3600.0
_CALLED = ("pure", "read", "put", "send", "send")


class Author:
    """Writes one plan. `patient`: it may sleep for days."""

    def __init__(self, luck: Random, *, patient: bool = False) -> None:
        self.luck = luck
        self.patient = patient
        self.left = luck.randint(1, 12)
        self.count = 0

    def maybe(self, percent: int) -> bool:
        """True so often."""
        return self.luck.randrange(100) < percent

    def plan(self) -> dict[str, Any]:
        """The plan, as plain data."""
        plan: dict[str, Any] = {"goal": "luck", "inputs": {"many": {"default": [1, 2, 3]}}}
        plan["steps"] = self.scope(0, [])
        if self.maybe(30):
            plan["outputs"] = {"first": f"1 if present({plan['steps'][0]['id']}) else 0"}
        if self.maybe(8):
            plan["limits"] = {"calls": self.luck.randint(1, 8)}
        if self.maybe(10):
            plan.setdefault("limits", {})["parallel"] = self.luck.randint(1, 3)
        return plan

    def scope(self, depth: int, outer: list[str]) -> list[dict[str, Any]]:
        """Steps that see each other, and the outer ones."""
        steps: list[dict[str, Any]] = []
        targets: list[str] = []
        for _ in range(self.luck.randint(1, 5)):
            if self.left <= 0 and steps:
                break
            self.left -= 1
            self.count += 1
            step: dict[str, Any] = {"id": f"s{self.count}"}
            seen = [s["id"] for s in steps if "fallback_for" not in s]
            lists = [s["id"] for s in steps if s.get("tool") == "many" and "fallback_for" not in s]
            self.work(step, depth, [*outer, *seen], lists)
            if targets and self.maybe(25):
                step["fallback_for"] = targets.pop(self.luck.randrange(len(targets)))
                seen = [id_ for id_ in seen if id_ != step["fallback_for"]]
                if step.get("foreach") == "${" + step["fallback_for"] + "}":
                    step["foreach"] = "${inputs.many}"  # what failed gave no list
            self.needs(step, outer, seen)
            self.manners(step)
            targets.append(step["id"])
            steps.append(step)
        return steps

    def work(self, step: dict[str, Any], depth: int, visible: list[str], lists: list[str]) -> None:
        """What the step does, and how often."""
        if self.maybe(20):
            loop: dict[str, Any] = {"times": self.luck.randint(1, 3)}
            step["loop"] = loop
            if self.maybe(40):
                loop["until"] = self.luck.choice(["loop.index >= 1", "false", "true"])
            if self.maybe(30):
                loop |= {"delay_s": 1, "collect": "all"}
        if self.maybe(20):
            items: list[Any] = [[], [1], [1, 2, 3], "${inputs.many}"]
            items += ["${" + name + "}" for name in lists]
            step["foreach"] = self.luck.choice(items)
        if depth < 3 and self.maybe(25):
            step["steps"] = self.scope(depth + 1, visible)
        elif self.maybe(8):
            wait: dict[str, Any] = {"signal": self.luck.choice(["paid", "sent"])}
            if self.maybe(40):
                wait["expires_s"] = self.luck.choice([1, 60])
            step["wait"] = wait
        elif self.maybe(12):
            seconds = self.luck.choice([0, 1, 2, 60])
            if self.patient:
                seconds = self.luck.choice([3600.0, DAY_S, 8 * DAY_S, 30 * DAY_S])
            step |= {"tool": "sleep", "args": {"seconds": seconds}}
        else:
            step["tool"] = "many" if self.maybe(12) else self.luck.choice(_CALLED)

    def needs(self, step: dict[str, Any], outer: list[str], seen: list[str]) -> None:
        """Which steps it comes after."""
        names = [name for name in (*seen, *outer[-3:]) if self.maybe(30)]
        if not names:
            return
        if step.get("tool") in (None, "sleep") or self.maybe(30):
            step["after"] = names
        else:
            step["args"] = {name: "${" + name + "}" for name in names}
        step["join"] = self.luck.choice(["all", "all", "any", "settled"])
        if self.maybe(25):
            step["when"] = f"present({names[0]})"

    def manners(self, step: dict[str, Any]) -> None:
        """When it runs at all, and what becomes of its failures."""
        if "when" not in step and self.maybe(15):
            step["when"] = self.luck.choice(["true", "false", "len(inputs.many) > 2"])
        if self.maybe(25):
            step["on_error"] = self.luck.choice(["continue", "continue", "ask"])
        if "tool" in step and self.maybe(12):
            step["approval"] = {"ask": "May it?"} | ({"expires_s": 60} if self.maybe(50) else {})
        called = step.get("tool") not in (None, "sleep")
        weak = called or ("steps" in step and _is_weak(step["steps"]))
        if weak and self.maybe(30):
            retry: dict[str, Any] = {"attempts": self.luck.randint(2, 3)}
            retry["backoff_s"] = self.luck.choice([0, 0.01, 1, 30])
            step["retry"] = retry
        if self.maybe(15):
            step["expect"] = self.luck.choice(["result != 3", "present(result) or true"])
        if called and self.maybe(25):
            step["timeout_s"] = self.luck.choice([0.5, 5, 60])
        if called and self.maybe(10):
            step["idle_timeout_s"] = self.luck.choice([0.2, 3])
        if self.maybe(10):
            step["priority"] = self.luck.randint(-2, 2)
            if step["priority"] > 0:
                step |= {"quality": "0.25 if result == 3 else 1", "quality_min": 0.5}


def _is_weak(steps: list[dict[str, Any]]) -> bool:
    """Without effects: such a composite may be tried again as a whole."""
    return all(TOOLS.get(tool, "pure") in ("pure", "read") for tool in _tools(steps))


def _tools(steps: list[dict[str, Any]]) -> list[str]:
    return [
        tool
        for step in steps
        for tool in ([step["tool"]] if "tool" in step else _tools(step.get("steps", [])))
    ]
