"""What calls used besides time, and what else a log alone would not know of a step's work.

Only `evolve` changes what a state holds of it.
"""

from __future__ import annotations

import msgspec

AMOUNT_MAX = 1e12
"""More of anything in one call is a mistake, and sums would overflow."""


class Usage(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What calls used."""

    tokens: int = 0
    """A model's tokens."""
    cost: float = 0.0
    """Money, in whatever currency all of the plan uses."""
    cpu_s: float = 0.0
    """Processor time; known of tools with a process of their own."""
    memory_mb: float = 0.0
    """The most memory that one call had at once; known of the same tools."""

    def add(self, other: Usage) -> None:
        """What `other` used comes on top."""
        self.tokens += other.tokens
        self.cost += other.cost
        self.cpu_s += other.cpu_s
        self.memory_mb = max(self.memory_mb, other.memory_mb)


class Told:
    """What the log says of a step's work."""

    __slots__ = ("quality", "usage")

    def __init__(self) -> None:
        self.quality: float | None = None
        """Of its last result, as the step itself finds it."""
        self.usage = Usage()
        """Of all its calls so far, those that came to nothing included."""
