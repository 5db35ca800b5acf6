"""A plan or run as a picture: its steps as a graph from left to right, and what ran when under it.

Self-contained: no scripts, no fonts or images from elsewhere, colours for light and dark in one style
sheet.
"""

from __future__ import annotations

from xml.sax.saxutils import escape

from kedge.flow.stretches import spent_ms
from kedge.flow.words import StepStatus
from kedge.plan.scopes import Node
from kedge.views.canvas import Canvas
from kedge.views.layout import Box, lay_out
from kedge.views.outline import Outline
from kedge.views.strip import draw_strip
from kedge.views.text import clean, duration
from kedge.views.words import LOOKS, asked, icon, word

_S = StepStatus
_BOX_WIDTH, _BOX_HEIGHT = 190.0, 46.0
_PAD, _TITLE = 14.0, 26.0
_MARGIN = 24.0
_ARROW = (
    '<defs><marker id="kedge-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
)


def draw_svg(outline: Outline, now_ms: int) -> str:
    """The picture."""
    canvas = Canvas()
    state = outline.state
    graph = _Graph(outline, canvas)
    width = max(graph.width, 640.0) + 2 * _MARGIN
    canvas.text(_MARGIN, 30, outline.plan.goal, (width - 2 * _MARGIN) * 0.7, "goal")  # larger letters
    told = f"{len(outline.nodes):,} steps"
    if state is not None:
        told = f"run {state.run_id}, {word(state.status)}, {told}"
        if state.started_at:
            told += f", {duration((now_ms - state.started_at) / 1000)}"
    canvas.text(_MARGIN, 50, told, width - 2 * _MARGIN, "small")
    graph.draw(_MARGIN, 70)
    bottom = 70 + graph.height + _MARGIN
    if state is not None:
        bottom = draw_strip(canvas, state, now_ms, Box(_MARGIN, bottom, width - 2 * _MARGIN, 0))
    size = f'width="{width:.0f}" height="{bottom:.0f}" viewBox="0 0 {width:.0f} {bottom:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">',
        f"<title>{escape(clean(outline.plan.goal, 200))}</title>",
        f"<style>{_STYLE}</style>",
        _ARROW,
        '<rect class="page" width="100%" height="100%"/>',
        *canvas.parts,
        "</svg>",
    ]
    return "\n".join(lines)


_Sized = tuple[list[tuple[float, float]], list[tuple[int, int]]]
"""Sizes of boxes, and the edges between them."""


class _Graph:
    """The steps; composites hold their children, laid out first."""

    def __init__(self, outline: Outline, canvas: Canvas) -> None:
        self.outline = outline
        self.canvas = canvas
        self.critical = outline.critical()
        self._inner: dict[int, list[Box]] = {}
        """Places of a composite's children, from the upper left corner of its inside."""
        self._sizes: dict[int, tuple[float, float]] = {}
        for node in reversed(outline.nodes):  # children before their parents
            self._sizes[node.number] = self._measure(node)
        self._top, self.width, self.height = lay_out(*self._graph_of(outline.top))

    def _measure(self, node: Node) -> tuple[float, float]:
        if not node.children:
            return _BOX_WIDTH, _BOX_HEIGHT
        layout = lay_out(*self._graph_of(node.children))
        self._inner[node.number] = layout.boxes
        return max(_BOX_WIDTH, layout.width + 2 * _PAD), layout.height + _TITLE + 2 * _PAD

    def _graph_of(self, siblings: list[Node]) -> _Sized:
        places = {node.number: place for place, node in enumerate(siblings)}
        edges = [(places[a.number], places[b.number]) for a, b in self.outline.edges(siblings)]
        for place, node in enumerate(siblings):
            if node.fallback_for is not None:
                edges.append((places[node.fallback_for.number], place))
        return [self._sizes[node.number] for node in siblings], edges

    def draw(self, x: float, y: float) -> None:
        todo = [(self.outline.top, self._top, x, y)]
        while todo:
            siblings, boxes, left, upper = todo.pop()
            places = {
                node.number: Box(left + box.x, upper + box.y, box.width, box.height)
                for node, box in zip(siblings, boxes, strict=True)
            }
            self._edges(siblings, places)
            for node in siblings:
                box = places[node.number]
                self._step(node, box)
                if node.children:
                    inside = (box.x + _PAD, box.y + _TITLE + _PAD)
                    todo.append((node.children, self._inner[node.number], *inside))

    def _edges(self, siblings: list[Node], places: dict[int, Box]) -> None:
        for source, target in self.outline.edges(siblings):
            self._edge(source, target, places, "edge")
        for node in siblings:
            if node.fallback_for is not None:
                self._edge(node.fallback_for, node, places, "edge fallback")

    def _edge(self, source: Node, target: Node, places: dict[int, Box], css: str) -> None:
        if (source.path, target.path) in self.critical.edges:
            css += " critical"
        before, after = places[source.number], places[target.number]
        start = (before.x + before.width, before.y + before.height / 2)
        self.canvas.line(start, (after.x - 1, after.y + after.height / 2), css)

    def _step(self, node: Node, box: Box) -> None:
        status = self.outline.status(node)
        css = f"step {status.value}" if status is not None else "step"
        if node.path in self.critical.steps:
            css += " critical"
        if node.children:
            css += " group"
        self.canvas.rect(box, css)
        mark = f"{icon(status)} " if status is not None else ""
        room = box.width - 16
        name = f"{mark}{node.step.id}  {node.step.do}"
        if not node.children:
            self.canvas.text(box.x + 8, box.y + 36, self._facts(node), room, "small")
        elif node.step.is_milestone:
            name = f"{name} · milestone"
        self.canvas.text(box.x + 8, box.y + 18, name, room, "name")

    def _facts(self, node: Node) -> str:
        step = node.step
        facts = [step.worker]
        if step.kind not in ("normal", step.worker):
            facts.insert(0, step.kind)
        items, states = self.outline.items(node), self.outline.states(node)
        if items is not None:
            facts.insert(0, f"{items[0]:,} of {items[1]:,}")
        elif len(states) > 1:
            facts.insert(0, f"{sum(s.status is _S.DONE for s in states):,} of {len(states):,}")
        elif states and states[0].started_at and states[0].ended_at:
            facts.insert(0, duration(spent_ms(states[0], states[0].ended_at) / 1000))
        facts += asked(step)
        return ", ".join(facts)


_CSS = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#1c2330}
.page{fill:#fff}
.goal{font-size:16px;font-weight:600}
.name{font-weight:600}
.small{font-size:11px;opacity:.85}
.step{fill:#f7f8fa;stroke:#8a919c;stroke-width:1.2}
.step.critical{stroke-width:3}
.group{fill-opacity:.35}
.edge{fill:none;stroke:#8a919c;stroke-width:1.2}
.edge.critical{stroke:#d2691e;stroke-width:2.6}
.edge.fallback{stroke-dasharray:5 4}
.tip{fill:#8a919c}
.grid{fill:none;stroke:#8a919c;stroke-opacity:.35}
.bar.wait{fill:#8e5fc4;fill-opacity:.35}
.bar.queue{fill:#8a919c;fill-opacity:.35}
.bar.many{fill-opacity:.4}
.bar.open{stroke:#2f72d6;stroke-dasharray:2 2}
"""
_CSS_DARK = "text{fill:#e6e9ef}.page{fill:#14171d}.step{fill:#232833}"


def _style() -> str:
    """One rule for each status; the dark page keeps the borders and swaps the fills."""
    light, dark = _CSS, _CSS_DARK
    for status, look in LOOKS.items():
        light += f".step.{status.value}{{fill:{look.fill};stroke:{look.line}}}\n"
        light += f".bar.{status.value}{{fill:{look.line}}}\n"
        dark += f".step.{status.value}{{fill:#232833}}"
    return f"{light}@media (prefers-color-scheme:dark){{{dark}}}"


_STYLE = _style()
