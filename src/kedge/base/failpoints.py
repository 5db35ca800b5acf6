"""Named places at which a test can stop, kill, count or raise. Off, a place costs one look at an empty dict.

    if armed:
        reach("journal.commit.before")

The look stands at the place itself: a call takes four times as long, and the hottest places are passed for
every step. The names, and what it takes to arm them, are in `kedge.testing.failpoints`. No environment
variable and no setting arms anything: what can stop a run in production is one thing less.
"""

from __future__ import annotations

from collections.abc import Callable

armed: dict[str, Callable[[], None]] = {}
"""What is done at a place, by its name. Filled by tests alone."""


def reach(name: str) -> None:
    """The place of that name was reached, and something is armed."""
    act = armed.get(name)
    if act is not None:
        act()
