"""A plan or run as a picture: its steps as a graph from left to right, and what ran when under it.

Self-contained: no scripts, no fonts or images from elsewhere, colours for light and dark in one style
sheet. All text is cleaned and escaped on its way in, by `_Canvas.text` alone.
"""

from __future__ import annotations

from itertools import pairwise
from xml.sax.saxutils import escape

from kedge.flow.critical import critical_path
from kedge.flow.state import RunState
from kedge.flow.words import StepStatus
from kedge.plan.scopes import Node
from kedge.views.bars import Lane, lanes
from kedge.views.layout import Box, lay_out
from kedge.views.outline import Outline
from kedge.views.text import clean, columns, cut, duration
from kedge.views.words import LOOKS, icon, word

_S = StepStatus
_BOX_WIDTH, _BOX_HEIGHT = 190.0, 46.0
_PAD, _TITLE = 14.0, 26.0
_MARGIN = 24.0
_LANES_MAX = 120
_LANE_HEIGHT = 18.0
_STRIP_LABELS, _STRIP_TIMES = 190.0, 90.0
_CHAR = 7.2
"""Width of one column of text, in pixels; text is cut to fit, so a wider font only crowds."""
_ARROW = (
    '<defs><marker id="kedge-arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
    'markerUnits="userSpaceOnUse" orient="auto"><path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
)


class _Canvas:
    """SVG elements as text."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def rect(self, box: Box, css: str, radius: float = 6.0) -> None:
        width, height = max(0.0, box.width), max(0.0, box.height)
        place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {place} rx="{radius:g}" class="{css}"/>')

    def text(self, x: float, y: float, text: str, width: float, css: str = "") -> None:
        """At most `width` pixels of it."""
        shown = escape(clean(text, max(1, int(width / _CHAR))))
        style = f' class="{css}"' if css else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}>{shown}</text>')

    def line(self, start: tuple[float, float], end: tuple[float, float], css: str) -> None:
        (x1, y1), (x2, y2) = start, end
        bend = max(16.0, abs(x2 - x1) / 2)
        way = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        self.parts.append(f'<path d="{way}" class="{css}" marker-end="url(#kedge-arrow)"/>')


def draw_svg(outline: Outline, now_ms: int) -> str:
    """The picture."""
    canvas = _Canvas()
    state = outline.state
    graph = _Graph(outline, canvas)
    width = max(graph.width, 640.0) + 2 * _MARGIN
    canvas.text(_MARGIN, 30, outline.plan.goal, (width - 2 * _MARGIN) * 0.7, "goal")  # larger letters
    told = f"{len(outline.nodes):,} steps"
    if state is not None:
        told = f"run {state.run_id}, {word(state.status)}, {told}"
    canvas.text(_MARGIN, 50, told, width - 2 * _MARGIN, "small")
    graph.draw(_MARGIN, 70)
    bottom = 70 + graph.height + _MARGIN
    if state is not None:
        bottom = _strip(canvas, state, now_ms, Box(_MARGIN, bottom, width - 2 * _MARGIN, 0))
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

    def __init__(self, outline: Outline, canvas: _Canvas) -> None:
        self.outline = outline
        self.canvas = canvas
        ids = critical_path(outline.state)[1] if outline.state is not None else []
        self.critical = frozenset(ids)
        self.chain = set(pairwise(ids))
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
            on_path = source.parent is None and (source.step.id, target.step.id) in self.chain
            self._edge(places[source.number], places[target.number], "edge critical" if on_path else "edge")
        for node in siblings:
            if node.fallback_for is not None:
                self._edge(places[node.fallback_for.number], places[node.number], "edge fallback")

    def _edge(self, source: Box, target: Box, css: str) -> None:
        start = (source.x + source.width, source.y + source.height / 2)
        self.canvas.line(start, (target.x - 1, target.y + target.height / 2), css)

    def _step(self, node: Node, box: Box) -> None:
        status = self.outline.status(node)
        css = f"step {status.value}" if status is not None else "step"
        if node.parent is None and node.step.id in self.critical:
            css += " critical"
        if node.children:
            css += " group"
        self.canvas.rect(box, css)
        mark = f"{icon(status)} " if status is not None else ""
        room = box.width - 16
        self.canvas.text(box.x + 8, box.y + 18, f"{mark}{node.step.id}  {node.step.do}", room, "name")
        if not node.children:
            self.canvas.text(box.x + 8, box.y + 36, self._facts(node), room, "small")

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
            facts.insert(0, duration((states[0].ended_at - states[0].started_at) / 1000))
        return ", ".join(facts)


def _strip(canvas: _Canvas, state: RunState, now_ms: int, place: Box) -> float:
    """What ran when, under the graph. Returns where it ends."""
    rows = lanes(state, now_ms, _LANES_MAX)
    if not rows:
        return place.y
    start = min(bar.start for row in rows for bar in row.bars)
    end = max(start + 1, *(bar.end for row in rows for bar in row.bars))
    left, width = place.x + _STRIP_LABELS, place.width - _STRIP_LABELS - _STRIP_TIMES
    bottom = place.y + 20 + len(rows) * _LANE_HEIGHT
    for quarter in range(5):
        x = left + width * quarter / 4
        canvas.parts.append(f'<path d="M{x:.1f} {place.y + 14:.1f}V{bottom:.1f}" class="grid"/>')
        label = duration((end - start) * quarter / 4000) if quarter else "0"
        canvas.text(x + 3, place.y + 10, label, 80, "small")
    for number, row in enumerate(rows):
        y = place.y + 20 + number * _LANE_HEIGHT
        _lane(canvas, row, y, left, (start, width / (end - start)))
        mark = "* " if row.critical else ""
        indent = 12.0 * min(row.depth, 4)
        label = cut(row.label, int((_STRIP_LABELS - indent) / _CHAR) - columns(mark) - 3)
        canvas.text(
            place.x + indent, y + 12, f"{mark}{icon(row.status)} {label}", _STRIP_LABELS - indent, "small"
        )
        took = duration(row.seconds) + (f" x{row.attempts}" if row.attempts > 1 else "")
        canvas.text(left + width + 8, y + 12, took, _STRIP_TIMES, "small")
    return bottom + _MARGIN


def _lane(canvas: _Canvas, row: Lane, y: float, left: float, scale: tuple[int, float]) -> None:
    start, per_ms = scale
    for bar in row.bars:
        x = left + (bar.start - start) * per_ms
        width = max(1.5, (bar.end - bar.start) * per_ms)
        thin = bar.what == "group"
        box = Box(x, y + 7 if thin else y + 3, width, 3 if thin else 11)
        status = row.status if not bar.failed else _S.FAILED
        css = f"bar {status.value}" if bar.what in ("run", "group") else f"bar {bar.what}"
        if row.many:
            css += " many"
        if row.is_open and bar is row.bars[-1]:
            css += " open"
        canvas.rect(box, css, 2)


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
