"""A run as a text timeline: one row per step or item that ran."""

from __future__ import annotations

from kedge.flow.state import RunState
from kedge.flow.stretches import Stretch
from kedge.flow.words import StepStatus
from kedge.views.ascii import Page
from kedge.views.axis import ticks
from kedge.views.bars import Lane, lanes
from kedge.views.text import clean, columns, cut, duration, pack, pad, to_ascii
from kedge.views.words import icon, word

_LANES_MAX = 400
_TOOK_WIDTH = 12
_BAR_MIN = 10
_MARKS = {"run": "█", "wait": "░", "queue": "┄", "group": "─"}
_ENDS = {StepStatus.CANCELLED: "⊘", StepStatus.IN_DOUBT: "?", StepStatus.FAILED: "✗"}
_STRENGTH = {" ": 0, "┄": 1, "░": 2, "─": 2, "█": 3, "⊘": 4, "?": 5, "✗": 6}
"""In a column that stands for much time: what is shown of several."""
_LEGEND = (
    "█ running",
    "░ waits for a time",
    "┄ waits for a place",
    "✗ attempt failed",
    "─ group",
    "* critical path",
)
_LEGEND_SELDOM = {"⊘": "⊘ cut off", "?": "? in doubt", "1": "1 to 9, +: so many at once"}
"""Told only where they occur."""


def draw_timeline(state: RunState, page: Page) -> str:
    """Axis, rows, legend."""
    rows = lanes(state, page.now_ms, _LANES_MAX)
    head = f"run {clean(state.run_id, 64)} · {word(state.status)}"
    if not rows:
        lines = [head, "nothing has started"]
    else:
        start = min(bar.start for row in rows for bar in row.bars)
        end = max(start + 1, *(bar.end for row in rows for bar in row.bars))
        chart = _Chart(start, end, rows, page)
        chart_rows = [chart.row(row) for row in rows]
        lines = [
            f"{head} · {duration((end - start) / 1000)}",
            chart.axis(),
            *chart_rows,
            "",
            *pack(chart.legend(), "", "", page.width, "   "),
        ]
    lines = [cut(line.rstrip(), page.width) for line in lines]
    if not page.unicode:
        lines = [to_ascii(line) for line in lines]
    return "\n".join(lines)


class _Chart:
    def __init__(self, start: int, end: int, rows: list[Lane], page: Page) -> None:
        self.start = start
        self.page = page
        widest = max(columns(_label(row)) for row in rows)
        self.label_width = min(widest, max(8, page.width // 3), page.width - _BAR_MIN - _TOOK_WIDTH - 5)
        self.bar_width = page.width - self.label_width - _TOOK_WIDTH - 5
        self.per_column = (end - start) / self.bar_width
        self.span_ms = end - start
        self._seldom: set[str] = set()
        """Marks that have been drawn and that few timelines have."""

    def axis(self) -> str:
        """Times, as far as they have room."""
        text = ""
        for at_ms, label in ticks(self.span_ms):
            at = int(at_ms / self.per_column)
            mark = f"▏{label}"
            if at >= len(text) and at + len(mark) <= self.bar_width:
                text = text.ljust(at) + mark
        return " " * (self.label_width + 4) + text

    def legend(self) -> list[str]:
        """What the marks mean, once the rows are drawn."""
        return [*_LEGEND, *(text for mark, text in _LEGEND_SELDOM.items() if mark in self._seldom)]

    def row(self, lane: Lane) -> str:
        mark = "*" if lane.critical else " "
        status = icon(lane.status, unicode=self.page.unicode)
        cells = self._crowd(lane) if lane.many else self._cells(lane)
        took = duration(lane.seconds) + (f" x{lane.attempts}" if lane.attempts > 1 else "")
        return f"{mark}{status} {pad(_label(lane), self.label_width)} {''.join(cells)} {took}"

    def _cells(self, lane: Lane) -> list[str]:
        cells = [" "] * self.bar_width
        for bar in lane.bars:
            first, last = self._columns(bar)
            for column in range(first, last + 1):
                self._put(cells, column, _MARKS[bar.what])
            if bar.what in ("run", "group") and bar.status in _ENDS:
                self._seldom.add(_ENDS[bar.status])
                self._put(cells, last, _ENDS[bar.status])
        if lane.is_open:
            cells[self._columns(lane.bars[-1])[1]] = "▸"
        return cells

    def _crowd(self, lane: Lane) -> list[str]:
        """How many ran at once, per column."""
        self._seldom.add("1")
        counts = [0] * (self.bar_width + 1)
        for bar in lane.bars:
            first, last = self._columns(bar)
            counts[first] += 1
            counts[last + 1] -= 1
        cells: list[str] = []
        now = 0
        for change in counts[:-1]:
            now += change
            cells.append(" " if now == 0 else str(now) if now < 10 else "+")
        return cells

    def _columns(self, bar: Stretch) -> tuple[int, int]:
        top = self.bar_width - 1
        first = min(top, max(0, int((bar.start - self.start) / self.per_column)))
        last = min(top, max(first, int((bar.end - self.start - 1) / self.per_column)))
        return first, last

    @staticmethod
    def _put(cells: list[str], column: int, mark: str) -> None:
        if _STRENGTH[mark] > _STRENGTH[cells[column]]:
            cells[column] = mark


def _label(lane: Lane) -> str:
    return "  " * min(lane.depth, 4) + lane.label
