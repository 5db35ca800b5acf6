"""Random changes of a live plan: sensible ones, stale ones, and some that must be refused.

command = Editor(Random(7)).edit(state)
"""

from __future__ import annotations

from random import Random
from typing import Any

import msgspec

from kedge.flow import commands as cmd
from kedge.flow.state import RunState
from kedge.plan.parts import Step
from kedge.plan.patch import Addition, Patch
from kedge.testing.authors import TOOLS

_WORDS = (
    "inject",
    "inject",
    "remove",
    "rewire",
    "change",
    "several",
    "rollback",
    "cancel",
    "skip",
    "retry",
    "context",
)


class Editor:
    """Asks a run for changes, one after another."""

    def __init__(self, luck: Random) -> None:
        self.luck = luck
        self.count = 0

    def edit(self, state: RunState) -> cmd.Command:
        """A command that changes the plan, or a step of it."""
        paths = _paths(state)
        match self.luck.choice(_WORDS):
            case "inject":
                addition = self.addition(state, paths)
                return cmd.Inject(step=addition.step, into=addition.into)
            case "remove":
                return cmd.Remove(step=self.luck.choice(paths))
            case "rewire":
                path = self.luck.choice(paths)
                return cmd.Rewire(
                    step=path, reads={_id(self.luck.choice(paths)): _id(self.luck.choice(paths))}
                )
            case "change":
                return cmd.Edit(patch=Patch(change={self.luck.choice(paths): self.fields(paths)}))
            case "several":
                return cmd.Edit(patch=self.patch(state, paths))
            case "rollback":
                return cmd.Rollback(version=self.luck.randint(1, max(1, state.version)))
            case "cancel":
                path = self.luck.choice(list(state.steps))
                return cmd.Edit(patch=self.luck.choice([Patch(cancel=(path,)), Patch(waive=(path,))]))
            case "skip":
                return cmd.Skip(step=self.luck.choice(list(state.steps)))
            case "retry":
                return cmd.Retry(step=self.luck.choice(list(state.steps)))
            case _:
                return cmd.SetContext(values={"luck": self.luck.randrange(9)})

    def patch(self, state: RunState, paths: list[str]) -> Patch:
        """Several changes at once, for the version in force or one before."""
        luck = self.luck
        return Patch(
            base=luck.choice([0, state.version, state.version - 1]),
            add=tuple(self.addition(state, paths) for _ in range(luck.randint(0, 3))),
            remove=tuple({luck.choice(paths) for _ in range(luck.randint(0, 2))}),
            change={luck.choice(paths): self.fields(paths) for _ in range(luck.randint(0, 2))},
        )

    def addition(self, state: RunState, paths: list[str]) -> Addition:
        """A step more, in any scope."""
        self.count += 1
        composites = ["", "", *(path for path in paths if _step(state, path).steps is not None)]
        into = self.luck.choice(composites)
        step: dict[str, Any] = {"id": f"n{self.count}", "tool": self.luck.choice(list(TOOLS))}
        step |= self.fields(paths)
        near = [path for path in paths if path.rpartition("/")[0] == into]
        if near and self.luck.randrange(4) == 0:
            step["fallback_for"] = _id(self.luck.choice(near))
        if self.luck.randrange(5) == 0:
            inner = {"id": f"n{self.count}_in", "tool": "pure"}
            step = {"id": step["id"], "steps": [inner], "after": step.get("after") or []}
        return Addition(
            step=msgspec.convert({k: v for k, v in step.items() if v is not None}, Step), into=into
        )

    def fields(self, paths: list[str]) -> dict[str, Any]:
        """What the step waits for, and when it runs."""
        luck = self.luck
        after = [_id(luck.choice(paths)) for _ in range(luck.randint(0, 2))]
        fields: dict[str, Any] = {"after": list(dict.fromkeys(after))}
        if luck.randrange(4) == 0:
            fields["join"] = luck.choice(["all", "any", "settled"])
        if luck.randrange(5) == 0:
            fields["when"] = luck.choice(["true", "false", None])
        if luck.randrange(6) == 0:
            fields["foreach"] = luck.choice([[1, 2], [], None])
        if luck.randrange(4) == 0:
            fields["priority"] = luck.randint(-1, 1)
        return fields


def _paths(state: RunState) -> list[str]:
    found: list[str] = []
    todo = [("", state.plan.steps)]
    while todo:
        prefix, steps = todo.pop()
        for step in steps:
            found.append(prefix + step.id)
            if step.steps:
                todo.append((f"{prefix}{step.id}/", step.steps))
    return found


def _step(state: RunState, path: str) -> Step:
    steps = state.plan.steps
    *around, last = path.split("/")
    for id_ in around:
        steps = next(step.steps or () for step in steps if step.id == id_)
    return next(step for step in steps if step.id == last)


def _id(path: str) -> str:
    return path.rpartition("/")[2]
