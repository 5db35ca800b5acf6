"""Repairs that need no model: what a tool says itself, and what the plan and the tools' own settings allow.

    make the call with other arguments that the tool offers    ToolError(…, try_args={…})
    give the tool no more at once than it says it takes        ToolError(…, at_most={…})
    call a tool that is known to stand in                      @kedge.tool(substitutes=(…))
    go on without what only optional steps need                on_error: continue

In that order, for each failed step by itself. If the run refuses what came of it, the next rule has its
turn. What no rule fits is left as it failed, or to a person.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from kedge.flow.situation import Situation
from kedge.flow.words import Failure
from kedge.plan.model import Plan, Step
from kedge.plan.patch import Patch
from kedge.plan.scopes import Node, Scopes
from kedge.plan.tools import EFFECTS, ToolSpec
from kedge.plan.uses import expression_use, template_use

CHUNKS = 1_000
"""Parts that a list is split into, at most."""
_SHAPED = ("foreach", "loop")


class RulePlanner:
    """Repairs by rules alone: the same situation always gets the same answer."""

    name = "rules"

    async def repair(self, situation: Situation, /) -> Patch | None:
        """One patch for all failed steps that a rule fits; None if there is none."""
        turn = max(1, situation.round) - 1
        scopes = Scopes(situation.plan.steps)
        chosen: list[Patch] = []
        for path in situation.held:
            offers = list(_offers(_Failed(situation, scopes, path)))
            chosen += offers[turn : turn + 1]
        return _together(chosen) if chosen else None


class _Failed:
    """A failed step, and what is known of it."""

    def __init__(self, situation: Situation, scopes: Scopes, path: str) -> None:
        self.situation = situation
        self.path = path
        self.failure = next((view.error for view in situation.steps if view.path == path), None)
        self.node = next((node for node in scopes.nodes if node.path == path), None)
        self.tools = {spec.name: spec for spec in situation.tools}
        self._scopes = scopes

    @property
    def dependents(self) -> list[Node]:
        """Steps that wait for it."""
        return [node for node in self._scopes.nodes if self.node in node.needs]

    @property
    def is_read(self) -> bool:
        """Somebody uses its result."""
        id_ = self.path.rpartition("/")[2]
        return id_ in _named_by(self.situation.plan) or any(
            path.root in (id_, "results")
            for node in self.dependents
            for use in node.uses
            for path in use.paths
        )


def _offers(failed: _Failed) -> Iterator[Patch]:
    """What each rule makes of it, the best first."""
    node, failure = failed.node, failed.failure
    if node is None or failure is None:  # one of many items: what is changed would be changed for all
        return
    yield from _other_arguments(failed, node.step, failure)
    yield from _less_at_once(failed, node.step, failure)
    yield from _other_tools(failed, node.step)
    yield from _without_it(failed)


def _again(failed: _Failed, why: str, **fields: Any) -> Patch:
    return Patch(retry=(failed.path,), change={failed.path: fields}, why=f"{failed.path}: {why}")


def _other_arguments(failed: _Failed, step: Step, failure: Failure) -> Iterator[Patch]:
    """What a tool says is data: a text in it that would be read as a template is not taken."""
    offered = failure.try_args
    if offered and step.tool is not None and not any("${" in text for text in _texts(offered)):
        names = ", ".join(offered)
        yield _again(failed, f"{step.tool} offers other arguments ({names})", args={**step.args, **offered})


def _less_at_once(failed: _Failed, step: Step, failure: Failure) -> Iterator[Patch]:
    """The step becomes one for each part of its list. Whoever reads its result would find another one."""
    call = failed.situation.calls.get(failed.path)
    spec = failed.tools.get(step.tool or "")
    shaped = any(getattr(step, name) is not None for name in _SHAPED)
    if call is None or spec is None or shaped or failed.is_read:
        return
    if spec.effect == "effect" and not failure.not_done:
        return  # part of it may have happened
    for name, most in failure.at_most.items():
        size = call.sizes.get(name, 0)
        parts = _parts(step.args.get(name), size, most)
        if parts:
            why = f"{step.tool} takes {most:,} of {name} at once, not {size:,}"
            yield _again(failed, why, foreach=parts, args={**step.args, name: "${item}"})


def _parts(value: Any, size: int, most: int) -> list[Any]:
    """The list in parts; none if it is not known how to cut it, or need not be."""
    if not 0 < most < size or size > most * CHUNKS:
        return []
    starts = range(0, size, most)
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return [items[start : start + most] for start in starts]
    if not isinstance(value, str):
        return []
    whole = template_use("args", "", value).path
    if whole is None:
        return []
    return [f"${{{value[2:-1].strip()}[{start}:{start + most}]}}" for start in starts]


def _other_tools(failed: _Failed, step: Step) -> Iterator[Patch]:
    """Tools that are said to stand in, and do not do more outside than the one that failed."""
    known = failed.tools.get(step.tool or "")
    for name in known.substitutes if known is not None else ():
        other = failed.tools.get(name)
        if (
            known is not None
            and other is not None
            and other.available
            and _stands_in(other, known, step.args)
        ):
            yield _again(failed, f"{name} stands in for {step.tool}", tool=name)


def _stands_in(other: ToolSpec, known: ToolSpec, args: Mapping[str, Any]) -> bool:
    if EFFECTS.index(other.effect) > EFFECTS.index(known.effect):
        return False
    if known.returns is not None and other.returns is not None and dict(known.returns) != dict(other.returns):
        return False
    takes: Mapping[str, Any] = other.parameters.get("properties", {})
    needs: Iterable[str] = other.parameters.get("required", ())
    open_ended = bool(other.parameters.get("additionalProperties", False))
    return (open_ended or args.keys() <= takes.keys()) and set(needs) <= args.keys()


def _without_it(failed: _Failed) -> Iterator[Patch]:
    """Only optional steps wait for it, and nobody else asks for what it gives."""
    waiting = failed.dependents
    named = failed.path in _named_by(failed.situation.plan)
    if waiting and not named and all(node.step.on_error == "continue" for node in waiting):
        yield Patch(waive=(failed.path,), why=f"{failed.path}: only optional steps need it")


def _named_by(plan: Plan) -> set[str]:
    """Steps whose results the plan itself gives."""
    uses = [expression_use("outputs", "outputs", text) for text in plan.outputs.values()]
    if plan.answer is not None:
        uses.append(template_use("answer", "answer", plan.answer))
    return {path.root for use in uses for path in use.paths}


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, inner in cast("dict[str, Any]", value).items():
            yield key
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in cast("list[Any]", value):
            yield from _texts(inner)


def _together(patches: list[Patch]) -> Patch:
    """All of them as one. Each is about another step."""
    return Patch(
        change={path: fields for patch in patches for path, fields in patch.change.items()},
        retry=tuple(path for patch in patches for path in patch.retry),
        waive=tuple(path for patch in patches for path in patch.waive),
        why="; ".join(patch.why for patch in patches)[:1_000],
    )
