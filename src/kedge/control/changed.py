"""Which tools are not what they were when the run began, and could harm by it."""

from __future__ import annotations

from collections.abc import Mapping

from kedge.flow.events import ToolMark
from kedge.flow.program import Node
from kedge.flow.state import RunState
from kedge.flow.words import Outcome

_HARMLESS = {"pure", "read"}


def changed_tools(
    state: RunState, now: Mapping[str, ToolMark], *, retry_failed: bool, undo: bool = False
) -> dict[str, str]:
    """Name and present hash of changed tools that have effects, then or now, and may still be called.

    One that a person took as it is counts as changed again only if it is yet another.
    """
    to_come = _tools_to_come(state, retry_failed=retry_failed)
    if undo or state.compensating:
        nodes = state.program.nodes
        to_come = {node.undo.step.tool for node in nodes if node.undo is not None and node.undo.step.tool}
    changed: dict[str, str] = {}
    for name, then in sorted(state.tools.items()):
        mark = now.get(name)
        if mark is None or name not in to_come or {then.effect, mark.effect} <= _HARMLESS:
            continue
        if mark.hash not in (then.hash, state.accepted_tools.get(name)):
            changed[name] = mark.hash
    return changed


def _tools_to_come(state: RunState, *, retry_failed: bool) -> set[str]:
    """By the plan, not by the steps in being: children are that only once their composite has started."""
    names: set[str] = set()
    todo: list[Node] = [
        step.node
        for step in state.root.steps
        if step.outcome is None or (retry_failed and step.outcome is not Outcome.DONE)
    ]
    while todo:
        node = todo.pop()
        if node.scope is not None:
            todo += node.scope.nodes
        elif node.step.tool:
            names.add(node.step.tool)
    return names
