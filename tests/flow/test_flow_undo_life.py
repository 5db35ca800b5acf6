"""Whole lives of runs that undo what they did: random plans, failures, crashes and answers, and a ledger.

The ledger is what happened outside. Whatever happens: each effect is undone at most once, only after
everything that used it, and what the run says about that is true.
"""

from __future__ import annotations

import random
import re
from contextlib import suppress
from typing import Any

import pytest

from kedge.base.errors import Refused
from kedge.flow.events import CompensationStarted, StepStarted
from kedge.flow.settings import RunSettings
from kedge.plan.tools import Effect
from kedge.testing.ring import Ring

LIVES = 400
EFFECTS: dict[str, Effect] = {"put": "idempotent", "pay": "effect", "unput": "idempotent", "refund": "effect"}
_ROUND = re.compile(r"^(\w+)(?:#(\d+))?")
_PLACE = re.compile(r"\[\d+\]|#\d+|\.undo$")


def plan_of(rng: random.Random) -> dict[str, Any]:
    """Steps that change something, steps that do not, and groups of them."""
    steps: list[dict[str, Any]] = []
    for number in range(rng.randint(2, 7)):
        after = [one["id"] for one in steps if "fallback_for" not in one and rng.random() < 0.4]
        step: dict[str, Any] = _step(rng, f"s{number}", after)
        if rng.random() < 0.15:
            inner: list[dict[str, Any]] = []
            for child in range(rng.randint(1, 3)):
                inner.append(_step(rng, f"c{child}", [one["id"] for one in inner if rng.random() < 0.5]))
            step = {"id": f"s{number}", "after": after, "steps": inner}
            if rng.random() < 0.3:
                step["loop"] = {"times": 2}
        elif rng.random() < 0.2:
            step["foreach"] = [1, 2]
        elif rng.random() < 0.15:
            step["loop"] = {"times": 2, "collect": rng.choice(["all", "last"])}
        steps.append(step)
        if rng.random() < 0.1:
            steps.append({**_step(rng, f"f{number}", []), "fallback_for": f"s{number}"})
    return {"goal": "g", "steps": steps, "limits": {"parallel": rng.choice([1, 2, 8])}}


def _step(rng: random.Random, id_: str, after: list[str]) -> dict[str, Any]:
    tool = rng.choice(["put", "pay", "think"])
    step: dict[str, Any] = {"id": id_, "tool": tool, "after": after}
    undo = {"put": "unput", "pay": "refund"}.get(tool)
    if undo and rng.random() < 0.9:
        step["compensate"] = {"tool": undo, "args": {"was": "${result}"}}
    if rng.random() < 0.2:
        step["on_error"] = "continue"
    if rng.random() < 0.2:
        step["join"] = rng.choice(["any", "settled"])
    return step


def users_of(plan: dict[str, Any]) -> dict[str, set[str]]:
    """For each step of the plan, those that must be undone before it: worked out from the text alone."""
    later: dict[str, set[str]] = {}
    for scope, prefix in [
        (plan["steps"], ""),
        *((s["steps"], f"{s['id']}/") for s in plan["steps"] if "steps" in s),
    ]:
        direct: dict[str, set[str]] = {one["id"]: set() for one in scope}
        for one in scope:
            for name in one["after"]:
                direct[name].add(one["id"])
                for other in (other["id"] for other in scope if other.get("fallback_for") == name):
                    direct[other].add(one["id"])
            if "fallback_for" in one:
                direct[one["fallback_for"]].add(one["id"])
        for id_, users in direct.items():
            found: set[str] = set()
            todo = list(users)
            while todo:
                name = todo.pop()
                if name not in found:
                    found.add(name)
                    todo += direct[name]
            later[prefix + id_] = {prefix + name for name in found}
    whole: dict[str, set[str]] = {}
    for path, users in later.items():
        outer = later.get(path.partition("/")[0], set()) if "/" in path else set()
        around = users | outer
        whole[path] = around | {p for p in later for user in around if p.startswith(f"{user}/")}
    return whole


def _goes_first(key: str, unit: str, users: set[str]) -> bool:
    """Must `key` be undone before `unit`?"""
    one, other = (_ROUND.findall(path)[0] for path in (key, unit))
    if one[0] == other[0] and one[1] != other[1]:
        return int(one[1] or 0) > int(other[1] or 0)  # rounds of one loop
    return _PLACE.sub("", key) in users


class Life:
    """One run, the world around it, and whoever answers."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.plan = plan_of(self.rng)
        self.users = users_of(self.plan)
        self.undo = self.rng.choice(["never", "failure"])
        self.run = Ring(self.plan, EFFECTS, settings=RunSettings(undo=self.undo)).start()  # type: ignore[arg-type]
        self.did: dict[str, int] = {}
        """How often each effect happened, by path and round."""
        self.gave_up: set[str] = set()
        self.happened: dict[str, bool] = {}
        """For calls whose word was lost: whether they had their effect."""
        self.before: set[str] = set()
        """What had happened when the compensation began."""
        self.seen = 0

    def live(self) -> None:
        for _ in range(400):
            if self.run.state.end is not None and not self._taken_back():
                return
            self._something()
            self._look()
        raise AssertionError(f"it does not end: {self.run.status()} {self.run.statuses()}")

    def _taken_back(self) -> bool:
        """A run that has ended may be undone later; once is enough."""
        if self.run.of(StepStarted) and self.rng.random() < 0.5 and "late" not in self.happened:
            self.happened["late"] = True
            with suppress(Refused):  # nothing of it can be undone
                self.run.send("compensate")
                return True
        return False

    def _something(self) -> None:
        run, rng = self.run, self.rng
        roll = rng.random()
        if roll < 0.06:
            self._crash()
        elif roll < 0.09 and run.state.end is None and not run.state.ending:
            calls = run.calls
            run.send("cancel", compensate=rng.random() < 0.8)
            for path in calls:
                self._fail(path, "cancelled", certain=rng.random() < 0.5)
        elif roll < 0.13 and run.state.end is None and not run.state.ending:
            done = [p for p, s in run.statuses().items() if s == "done"]
            with suppress(Refused):
                run.send("compensate", step=rng.choice([*done, *run.statuses()]))
        elif run.questions and rng.random() < 0.5:
            self._answer(rng.choice(run.questions))
        elif run.calls:
            path = rng.choice(run.calls)
            if rng.random() < 0.8:
                self._effect(path)
                run.finish(path, {"of": self._key(path)})
            else:
                self._fail(path, "permanent", certain=rng.random() < 0.6)
        else:
            run.tick(1_000)

    def _key(self, path: str) -> str:
        step = self.run.step(path)
        looped = step.node.step.loop is not None and not path.endswith(".undo")
        return f"{path}#{step.iteration}" if looped else path

    def _effect(self, path: str) -> None:
        if self.run.step(path).node.effect == "pure":
            return
        key = self._key(path)
        if self.run.step(path).node.effect == "idempotent":
            self.did[key] = 1
        else:
            self.did[key] = self.did.get(key, 0) + 1
        if path.endswith(".undo"):
            assert self.did.get(key.removesuffix(".undo")) == 1, f"{key}: that was not done"
            assert self.run.args(path) == {"was": {"of": key.removesuffix(".undo")}}

    def _fail(self, path: str, category: Any, *, certain: bool) -> None:
        effect = self.run.step(path).node.effect == "effect"
        if effect and not certain:
            self._lost(path)
        elif path.endswith(".undo") and category == "permanent":
            self.gave_up.add(path.removesuffix(".undo"))
        self.run.fail(path, category, classified=certain or not effect)

    def _lost(self, path: str) -> None:
        """Nobody knows here whether it happened; the ledger does."""
        self.happened[path] = self.rng.random() < 0.5
        if self.happened[path]:
            self._effect(path)

    def _crash(self) -> None:
        for path in self.run.calls:
            if self.run.step(path).node.effect == "effect":
                self._lost(path)
        self.run.crash().resume()

    def _answer(self, question: str) -> None:
        path = self.run.state.questions[question].asked.path
        if self.happened[path]:
            self.run.answer("done", {"of": self._key(path)}, question=question)
        else:
            if path.endswith(".undo"):
                self.gave_up.add(path.removesuffix(".undo"))
            self.run.answer("failed", question=question)

    def _look(self) -> None:
        """Each call that has begun to undo something: nothing that used it has something to undo left."""
        events = self.run.events
        for event in events[self.seen :]:
            if isinstance(event, CompensationStarted):
                self.before = {key for key in self.did if not key.endswith(".undo")}
            elif isinstance(event, StepStarted) and event.path.endswith(".undo"):
                self._check_order(event.path.removesuffix(".undo"))
        self.seen = len(events)

    def _check_order(self, unit: str) -> None:
        users = self.users[_PLACE.sub("", unit)]
        left = [key for key in self.before if self._is_left(key) and _goes_first(key, unit, users)]
        assert left == [], f"{unit} is undone before these are, which used it"

    def _is_left(self, key: str) -> bool:
        step = self.run.step(re.sub(r"#\d+$", "", key))
        undo = f"{key}.undo"
        if step.node.undo is None or key in self.gave_up or undo in self.did:
            return False
        return step.status in ("done", "compensated")

    def check_end(self) -> None:
        run = self.run
        for key, times in self.did.items():
            assert times == 1, f"{key} happened {times} times"
        undone = {unit.removesuffix(".undo") for unit in self.did if unit.endswith(".undo")}
        told = set(run.result.undone)
        for path in told:
            units = [
                key for key in self.did if re.sub(r"#\d+$", "", key) == path and not key.endswith(".undo")
            ]
            assert set(units) <= undone, f"{path} is told as undone"
        if run.state.undoing is None or run.state.undoing.wanted is not None:
            return
        kept = run.result.not_undone
        for key in self.did:
            if not key.endswith(".undo") and key not in undone:
                path = re.sub(r"#\d+$", "", key)
                assert path in kept or run.status(path) in ("failed", "cancelled", "running"), (
                    f"{key} is forgotten"
                )


@pytest.mark.parametrize("block", range(8))
def test_lives_of_runs_that_undo_what_they_did(block: int):
    for seed in range(block, LIVES, 8):
        try:
            life = Life(seed)
            life.live()
            life.check_end()
        except Exception as error:
            raise AssertionError(f"life {seed}: {error}") from error
