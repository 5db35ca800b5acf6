"""A plan or run as a Mermaid flowchart.

Labels stand in quotes, and every character of them that is not plainly harmless is written as a
character code, so no text can end a label, start a directive or become markup. Ids are ours: `s0`,
`s1`, … in document order. (Escaping only what is known to be special was not enough: Mermaid looks
at the source with a dozen expressions before its parser sees it.)
"""

from __future__ import annotations

from kedge.flow.stretches import spent_ms
from kedge.flow.words import StepStatus
from kedge.plan.model import SLEEP
from kedge.plan.scopes import Node
from kedge.views.outline import Outline
from kedge.views.text import clean, duration
from kedge.views.words import LOOKS, asked, word

_S = StepStatus
_LABEL_MAX = 80
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ,._-")

Shape = tuple[str, str]
_RECTANGLE: Shape = ("[", "]")
_SHAPES: dict[str, Shape] = {
    "wait": ("((", "))"),
    "conditional": ("{", "}"),
    "loop": ("{{", "}}"),
    "foreach": ("[[", "]]"),
    "fallback": ("(", ")"),
    "goal": ("[/", "\\]"),
}
_ROLES: dict[str, Shape] = {
    "analyze": ("([", "])"),
    "generate": (">", "]"),
    "transform": ("[/", "/]"),
    "validate": ("[\\", "\\]"),
}
_ANY_ROLE: Shape = ("([", "])")


def draw_mermaid(outline: Outline) -> str:
    """The flowchart's source."""
    lines = ["---", f"title: {_title(outline.plan.goal)}", "---", "flowchart TD"]
    todo: list[tuple[Node | None, int]] = [(node, 1) for node in reversed(outline.top)]
    while todo:
        node, depth = todo.pop()
        indent = "  " * depth
        if node is None:
            lines.append(f"{indent}end")
        elif node.children:
            lines.append(f'{indent}subgraph {_id(node)}["{_label(outline, node)}"]')
            todo.append((None, depth))
            todo += [(child, depth + 1) for child in reversed(node.children)]
        else:
            before, after = _shape(node)
            lines.append(f'{indent}{_id(node)}{before}"{_label(outline, node)}"{after}')
    lines += [f"  {edge}" for edge in _edges(outline)]
    lines += _classes(outline)
    return "\n".join(lines)


def _id(node: Node) -> str:
    return f"s{node.number}"


def _shape(node: Node) -> Shape:
    step = node.step
    if step.tool == SLEEP:
        return _SHAPES["wait"]
    if step.kind in _SHAPES:
        return _SHAPES[step.kind]
    if step.role is not None:
        return _ROLES.get(step.role, _ANY_ROLE)
    return _RECTANGLE


def _label(outline: Outline, node: Node) -> str:
    step = node.step
    lines = [f"{step.id}: {step.do}" if step.do else step.id]
    facts = [step.worker] if step.worker != step.kind else []
    if step.kind not in ("normal", "composite"):
        facts.append(step.kind)
    if step.loop is not None:
        facts.append(f"{step.loop.times} rounds at most")
    lines.append(", ".join(facts))
    if step.when is not None:
        lines.append(f"if {step.when}")
    lines += asked(step)
    lines.append(_became(outline, node))
    return "<br/>".join(escape(clean(line, _LABEL_MAX)) for line in lines if line)


def _became(outline: Outline, node: Node) -> str:
    status = outline.status(node)
    if status is None:
        return ""
    parts = [word(status)]
    items = outline.items(node)
    if items is not None:
        parts.append(f"{items[0]:,} of {items[1]:,} items")
    states = outline.states(node)
    if len(states) > 1:
        parts.append(f"{sum(s.status is _S.DONE for s in states):,} of {len(states):,} done")
    elif states and states[0].started_at and states[0].ended_at:
        parts.append(duration(spent_ms(states[0], states[0].ended_at) / 1000))
    if states and states[0].attempt > 1:
        parts.append(f"attempt {states[0].attempt}")
    return ", ".join(parts)


def _edges(outline: Outline) -> list[str]:
    edges: list[str] = []
    critical: list[str] = []
    on_path = outline.critical().edges
    for node in outline.nodes:
        for need in node.needs:
            if node in need.around() or need in node.around():
                continue  # an edge into itself cannot be drawn
            if (need.path, node.path) in on_path:
                critical.append(str(len(edges)))
            edges.append(f"{_id(need)} --> {_id(node)}")
        target = node.fallback_for
        if target is not None and target is not node:
            if (target.path, node.path) in on_path:
                critical.append(str(len(edges)))
            edges.append(f'{_id(target)} -. "fallback" .-> {_id(node)}')
    if critical:
        edges.append(f"linkStyle {','.join(critical)} stroke-width:4px")
    return edges


def _classes(outline: Outline) -> list[str]:
    if outline.state is None:
        return []
    members: dict[StepStatus, list[str]] = {}
    for node in outline.nodes:
        status = outline.status(node)
        if status is not None:
            members.setdefault(status, []).append(_id(node))
    lines: list[str] = []
    for status in StepStatus:
        if status in members:
            look = LOOKS[status]
            lines.append(f"  classDef {status.value} fill:{look.fill},stroke:{look.line},color:#1c2330")
            lines.append(f"  class {','.join(members[status])} {status.value}")
    return lines


def escape(text: str) -> str:
    """A cleaned text as part of a quoted label."""
    return "".join(char if char in _PLAIN or not char.isascii() else f"#{ord(char)};" for char in text)


def _title(text: str) -> str:
    """A cleaned text as a quoted YAML scalar, with everything that could be more than text as a code."""
    parts = (c if c in _PLAIN or not c.isascii() else f"\\u{ord(c):04x}" for c in clean(text, 120))
    return f'"{"".join(parts)}"'
