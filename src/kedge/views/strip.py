"""What ran when, as the strip under the SVG graph: one row per step, waits shown, a legend below."""

from __future__ import annotations

from kedge.flow.state import RunState
from kedge.views.axis import ticks
from kedge.views.bars import Lane, lanes
from kedge.views.canvas import CHAR, Canvas
from kedge.views.layout import Box
from kedge.views.text import columns, cut, duration
from kedge.views.words import icon

_LANES_MAX = 120
_LANE_HEIGHT = 18.0
_HEAD, _FOOT = 20.0, 40.0
_LABELS, _TIMES = 190.0, 90.0
_LEGEND = (
    ("bar running", "running"),
    ("bar done", "done"),
    ("bar failed", "failed"),
    ("bar wait", "waits for a time"),
    ("bar queue", "waits for a place"),
)


def draw_strip(canvas: Canvas, state: RunState, now_ms: int, place: Box) -> float:
    """Draw it at `place`, as wide as that. Returns where it ends."""
    rows = lanes(state, now_ms, _LANES_MAX)
    if not rows:
        return place.y
    start = min(bar.start for row in rows for bar in row.bars)
    end = max(start + 1, *(bar.end for row in rows for bar in row.bars))
    left, width = place.x + _LABELS, place.width - _LABELS - _TIMES
    per_ms = width / (end - start)
    bottom = place.y + _HEAD + len(rows) * _LANE_HEIGHT
    for at, label in ticks(end - start):
        x = left + at * per_ms
        canvas.path(f"M{x:.1f} {place.y + 14:.1f}V{bottom:.1f}", "grid")
        canvas.text(x + 3, place.y + 10, label, 80, "small")
    for number, row in enumerate(rows):
        y = place.y + _HEAD + number * _LANE_HEIGHT
        _bars(canvas, row, y, left, (start, per_ms))
        mark = "* " if row.critical else ""
        indent = 12.0 * min(row.depth, 4)
        label = cut(row.label, int((_LABELS - indent) / CHAR) - columns(mark) - 3)
        canvas.text(place.x + indent, y + 12, f"{mark}{icon(row.status)} {label}", _LABELS - indent, "small")
        took = duration(row.seconds) + (f" x{row.attempts}" if row.attempts > 1 else "")
        canvas.text(left + width + 8, y + 12, took, _TIMES, "small")
    _legend(canvas, place.x, bottom + 16)
    return bottom + _FOOT


def _bars(canvas: Canvas, row: Lane, y: float, left: float, scale: tuple[int, float]) -> None:
    start, per_ms = scale
    for bar in row.bars:
        x = left + (bar.start - start) * per_ms
        width = max(1.5, (bar.end - bar.start) * per_ms)
        thin = bar.what == "group"
        box = Box(x, y + 7 if thin else y + 3, width, 3 if thin else 11)
        css = f"bar {bar.status.value}" if bar.what in ("run", "group") else f"bar {bar.what}"
        if row.many:
            css += " many"
        if row.is_open and bar is row.bars[-1]:
            css += " open"
        canvas.rect(box, css, 2)


def _legend(canvas: Canvas, x: float, y: float) -> None:
    for css, words in _LEGEND:
        canvas.rect(Box(x, y - 9, 14, 11), css.replace("bar", "bar key"), 2)
        canvas.text(x + 20, y, words, 200, "small")
        x += 36 + columns(words) * CHAR
    canvas.text(x, y, "* critical path", 200, "small")
