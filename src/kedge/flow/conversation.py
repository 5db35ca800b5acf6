"""What agents and people say to each other in a run, and how it is put together.

The rule by which words and values come together is a type, not a convention: `Appended` keeps the last so
many in order, `Merged` keeps the last value of each name. Both are bounded in the state; all of it stands
in the log.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

import msgspec

T = TypeVar("T")

MESSAGES = 50
"""Messages that are kept at hand."""
SHOWN = 2_000
"""Characters of a message that are kept at hand."""
MESSAGE = 64 * 1024
"""Characters that a message may have."""
NAMES = 1_000
"""Names that notes and positions may have, each."""
MARK = 200
"""Characters that the name of a position may have."""
NOTES_BYTES = 64 * 1024
"""Bytes that all notes may have together."""


class Appended(msgspec.Struct, Generic[T]):
    """One after another; of many, the last ones."""

    kept: list[T] = []
    most: int = MESSAGES
    dropped: int = 0
    """How many came before those that are kept."""

    def append(self, one: T) -> None:
        """It comes last."""
        self.kept.append(one)
        if len(self.kept) > self.most:
            del self.kept[0]
            self.dropped += 1


class Merged(msgspec.Struct, Generic[T]):
    """By name; what comes later counts."""

    kept: dict[str, T] = {}

    def merge(self, values: dict[str, Any]) -> None:
        """Each value takes the place of the one that had its name; null takes it out."""
        for name, value in values.items():
            if value is None:
                self.kept.pop(name, None)
            else:
                self.kept[name] = value


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was said."""

    seq: int
    """Number of the event in which all of it stands."""
    by: str
    """Who said it."""
    role: str
    """`person` or `agent`."""
    text: str
    """Its beginning."""


def message(seq: int, by: str, role: str, text: str) -> Message:
    """As it is kept at hand."""
    shown = text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"
    return Message(seq=seq, by=by, role=role, text=shown)
