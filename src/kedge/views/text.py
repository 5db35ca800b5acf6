"""Text as it may be shown: without anything that could act on a terminal, a diagram or a page.

Labels come from plans, errors from tools, both from anywhere. `clean` leaves one line of visible
characters. It drops what only reorders or hides text (bidi marks, zero-width characters, variation
selectors) along with control characters, so that what is read is what is there.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime

ELLIPSIS = "…"

# A terminal's commands, with or without their end. Each class stops at what starts the next
# command, so the time is linear in the text.
_COMMANDS = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor
    r"|(?:\x1b\]|\x9d)[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c)?"  # OSC: titles, links, clipboard
    r"|(?:\x1b[PX^_]|[\x90\x98\x9e\x9f])[^\x1b\x9c]*(?:\x1b\\|\x9c)?"  # DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-~]?"
)
_SELECTORS = frozenset(map(chr, range(0xFE00, 0xFE10)))
_DROPPED = frozenset({"Cc", "Cf", "Cs"})
_MARKS = frozenset({"Mn", "Me"})
_MARKS_IN_A_ROW_MAX = 3
_ASCII = str.maketrans("…·─┄│├└█░▏▸→↳✗⊘", "~--:||`#.|>>>x/")


def clean(text: str, width: int = 80) -> str:
    """One line of `text`, at most `width` columns, of nothing but visible characters and single spaces."""
    if len(text) <= width and text.isascii() and text.isprintable():
        return " ".join(text.split()) if "  " in text or text != text.strip() else text
    shown = _COMMANDS.sub("", text[: 8 * width + 1000])  # more than can be shown, less than can hurt
    if not (shown.isascii() and shown.isprintable()):
        shown = _visible(shown)
    return cut(" ".join(shown.split()), width)


def _visible(text: str) -> str:
    kept: list[str] = []
    marks = 0
    for char in text:
        if char.isspace():
            kept.append(" ")
            continue
        category = unicodedata.category(char)
        if category in _DROPPED or char in _SELECTORS or ord(char) & 0xFFFE == 0xFFFE:
            continue  # what is not shown does not part the marks around it either
        marks = marks + 1 if category in _MARKS else 0
        if marks <= _MARKS_IN_A_ROW_MAX:
            kept.append(char)
    return "".join(kept)


def columns(text: str) -> int:
    """How wide a terminal shows it. Ambiguous characters count as narrow, as in most terminals."""
    if text.isascii():
        return len(text)
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if unicodedata.east_asian_width(char) in "WF":
        return 2
    return 0 if unicodedata.category(char) in _MARKS else 1


def cut(text: str, width: int) -> str:
    """`text`, shortened with an ellipsis where it is wider than `width`."""
    if columns(text) <= width:
        return text
    room = width - 1
    kept = 0
    for char in text:
        room -= _columns(char)
        if room < 0:
            break
        kept += 1
    return text[:kept].rstrip() + ELLIPSIS if width > 0 else ""


def pad(text: str, width: int) -> str:
    """`text` in exactly `width` columns."""
    text = cut(text, width)
    return text + " " * (width - columns(text))


def pack(segments: Sequence[str], before: str, below: str, width: int, between: str = " · ") -> list[str]:
    """Segments on as few lines as hold them: `before` stands before the first, `below` before the others."""
    room = width // 2
    if len(before) > room:  # nested so deep that nothing else would fit
        before, below = ELLIPSIS + before[1 - room :], ELLIPSIS + below[1 - room :]
    lines: list[str] = []
    line = before + segments[0]
    for segment in segments[1:]:
        longer = f"{line}{between}{segment}"
        if columns(longer) <= width:
            line = longer
        else:
            lines.append(line)
            line = below + segment
    return [cut(line, width) for line in (*lines, line)]


def to_ascii(text: str) -> str:
    """For terminals that show nothing else. Never wider than before."""
    if text.isascii():
        return text
    plain = text.translate(_ASCII)
    return "".join(char if char.isascii() else "?" for char in plain if char.isascii() or _columns(char))


def duration(seconds: float) -> str:
    """A time span as people say it."""
    if seconds < 0.0995:
        return f"{max(0.0, seconds) * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return _two(whole, 60, "min", 1, "s")
    if whole < 86_400:
        return _two(whole, 3600, "h", 60, "min")
    return _two(whole, 86_400, "d", 3600, "h")


def _two(whole: int, large: int, large_name: str, small: int, small_name: str) -> str:
    rest = whole % large // small
    return f"{whole // large} {large_name}" + (f" {rest} {small_name}" if rest else "")


def moment(ms: int) -> str:
    """A point in time, the same for every reader."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
