"""What is written where: answers to stdout, remarks to stderr, and one JSON document if that is asked for."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, ClassVar, TextIO

import msgspec

from kedge.views.text import clean, columns, pack, to_ascii

LINE_MAX = 2_000
"""Columns of one line of text that is not ours, before it is cut."""
_MARGIN_MAX = 40
_UNSEEN = 120
"""Columns where there is no terminal."""
_LAST_MIN = 20
"""Columns that the last one of a table needs, if it has so much to say."""

_SGR = {
    "red": "31", "green": "32", "yellow": "33", "blue": "34", "magenta": "35", "cyan": "36",
    "bright_black": "90", "bright_yellow": "93", "bold": "1",
}  # fmt: skip


class Screen:
    """The terminal, file or pipe that a command writes to, and what it can show."""

    answers: ClassVar[TextIO | None] = None
    """The real stdout, while everybody else's is turned away from it."""

    def __init__(self, *, as_json: bool = False) -> None:
        self.as_json = as_json
        self.out: TextIO = (Screen.answers if as_json else None) or sys.stdout
        self.is_terminal = self.out.isatty()
        dumb = os.environ.get("TERM") == "dumb"
        self.unicode = "utf" in (self.out.encoding or "").lower() and not dumb
        self.colour = self.is_terminal and not dumb and not os.environ.get("NO_COLOR")
        self.can_repaint = self.is_terminal and not dumb and not as_json

    @property
    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        try:
            found = os.get_terminal_size(self.out.fileno())
            columns, lines = found.columns, found.lines
        except (OSError, ValueError):
            columns, lines = 0, 0
        return columns or 100, lines or 24

    def say(self, text: str = "", colour: str = "") -> None:
        """Lines of our own for people, already clean. Nothing where JSON is asked for."""
        if not self.as_json:
            shown = text if self.unicode else to_ascii(text)
            self.raw(self.coloured(shown, colour) + "\n")

    def remark(self, text: str) -> None:
        """A line that is no answer: to stderr."""
        print(text if self.unicode else to_ascii(text), file=sys.stderr, flush=True)  # noqa: T201

    def data(self, value: Any) -> None:
        """The JSON document."""
        self.raw(self.json_text(value))

    @staticmethod
    def json_text(value: Any) -> str:
        """A JSON document as it is written."""
        return msgspec.json.format(msgspec.json.encode(value, enc_hook=str), indent=2).decode() + "\n"

    def line(self, value: Any) -> None:
        """One line of JSON, at once."""
        self.raw(msgspec.json.encode(value, enc_hook=str).decode() + "\n")

    def raw(self, text: str) -> None:
        """Write and flush. BrokenPipeError says that nobody reads any more."""
        self.out.write(text)
        self.out.flush()

    def coloured(self, text: str, colour: str) -> str:
        """`text` in a colour, where there are colours."""
        return f"\x1b[{_SGR[colour]}m{text}\x1b[0m" if colour and self.colour and text else text

    def table(self, titles: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        """Columns of cells that need not be clean. Only the last is wrapped: half an id is none."""
        shown = [[self.fit(clean(cell, LINE_MAX)) for cell in row] for row in rows]
        width = self.size[0] if self.is_terminal else _UNSEEN
        others = [max(map(columns, column)) for column in zip(*[titles, *shown], strict=True)][:-1]
        room = width - sum(others) - 2 * len(others)
        if room < min(_LAST_MIN, max(columns(row[-1]) for row in shown)):
            self._stacked(shown, width)
            return
        self._columns(titles, shown, width)

    def _stacked(self, rows: Iterable[Sequence[str]], width: int) -> None:
        """A few lines for each row: columns of such a width would say nothing."""
        for first, *others, last in rows:
            self.raw(self.coloured(first, "bold") + "\n")
            facts = pack([cell for cell in others if cell], "  ", "  ", width) if any(others) else []
            told = textwrap.wrap(last, width - 2, initial_indent="  ", subsequent_indent="  ")
            for line in [*facts, *told]:
                self.raw(self.fit(line) + "\n")

    def _columns(self, titles: Sequence[str], rows: Iterable[Sequence[str]], width: int) -> None:
        from rich.console import Console
        from rich.table import Column, Table
        from rich.text import Text

        *others, last = titles
        heads = [*(Column(title, no_wrap=True) for title in others), Column(last)]
        table = Table(*heads, box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
        for row in rows:
            # As Text, so that a cell that looks like markup is shown as it is.
            table.add_row(*(Text(cell) for cell in row))
        console = Console(
            file=self.out, width=width, no_color=not self.colour, force_terminal=self.colour, highlight=False
        )
        console.print(table)
        self.out.flush()

    def fit(self, text: str) -> str:
        """`text` in characters that the terminal has."""
        return text if self.unicode else to_ascii(text)


def lines_of(text: str, indent: str = "") -> str:
    """Text of others, line by line clean, and set in as it was."""
    return "\n".join(f"{indent}{_margin(line)}{clean(line, LINE_MAX)}" for line in text.splitlines())


def _margin(line: str) -> str:
    return " " * min(_MARGIN_MAX, len(line) - len(line.lstrip(" ")))


def ago(moment: datetime | None) -> str:
    """A point in time in the reader's own zone."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S") if moment is not None else ""
