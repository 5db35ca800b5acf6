"""SVG elements as text. All text is cleaned and escaped on its way in, by `Canvas.text` alone."""

from __future__ import annotations

from xml.sax.saxutils import escape

from kedge.views.layout import Box
from kedge.views.text import clean

CHAR = 7.2
"""Width of one column of text, in pixels; text is cut to fit, so a wider font only crowds."""


class Canvas:
    """SVG elements as text."""

    def __init__(self) -> None:
        self.parts: list[str] = []

    def rect(self, box: Box, css: str, radius: float = 6.0) -> None:
        width, height = max(0.0, box.width), max(0.0, box.height)
        place = f'x="{box.x:.1f}" y="{box.y:.1f}" width="{width:.1f}" height="{height:.1f}"'
        self.parts.append(f'<rect {place} rx="{radius:g}" class="{css}"/>')

    def text(self, x: float, y: float, text: str, width: float, css: str = "") -> None:
        """At most `width` pixels of it."""
        shown = escape(clean(text, max(1, int(width / CHAR))))
        style = f' class="{css}"' if css else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}"{style}>{shown}</text>')

    def line(self, start: tuple[float, float], end: tuple[float, float], css: str) -> None:
        (x1, y1), (x2, y2) = start, end
        bend = max(16.0, abs(x2 - x1) / 2)
        way = f"M{x1:.1f} {y1:.1f}C{x1 + bend:.1f} {y1:.1f} {x2 - bend:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
        self.parts.append(f'<path d="{way}" class="{css}" marker-end="url(#kedge-arrow)"/>')

    def path(self, way: str, css: str) -> None:
        self.parts.append(f'<path d="{way}" class="{css}"/>')
