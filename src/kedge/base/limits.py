"""Named limits with defaults. Each is checked before the work it bounds is started.

Two kinds: what bounds a *document* is a finding of `check`; what bounds a *run* pauses it with a
question and keeps its state.
"""

from __future__ import annotations

import msgspec

from kedge.base.errors import BadInput


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much a plan may ask for and a run may use."""

    parallel: int = 16
    """Steps of one run that may run at the same time."""
    parallel_total: int = 1_000
    """Calls of all runs of an engine at the same time."""
    steps: int = 10_000
    """Steps in a plan document, children included."""
    chain: int = 2_000
    """Steps that depend on each other in a row."""
    nesting: int = 8
    """Composites inside composites."""
    expansions: int = 100_000
    """Items of one foreach."""
    iterations: int = 10_000
    """Rounds of one loop."""
    calls: int = 1_000_000
    """Tool calls of one run, every attempt counted."""
    repairs: int = 3
    """Repairs of one run's plan."""
    planner_s: float = 120.0
    """One answer of a planner."""
    run_s: float = 7 * 24 * 3600.0
    """Wall time of one run while it is driven, waiting for people left out."""
    result_bytes: int = 64 * 1024 * 1024
    """One step's result."""
    args_bytes: int = 64 * 1024 * 1024
    """One call's arguments."""
    journal_bytes: int = 2 * 1024 * 1024 * 1024
    """What one run may write to the store."""
    document_bytes: int = 16 * 1024 * 1024
    """A plan's text."""
    depth: int = 64
    """Lists and maps inside each other, in arguments and results."""
    step_s: float = 300.0
    """One attempt of a step that sets no `timeout_s` and whose tool sets none either."""

    def __post_init__(self) -> None:
        for name, default in zip(self.__struct_fields__, self.__struct_defaults__, strict=True):
            value = getattr(self, name)
            whole = isinstance(default, int)  # with half a place nothing would ever start
            if (
                isinstance(value, bool)
                or not isinstance(value, int if whole else int | float)
                or not value > 0
            ):
                raise BadInput(
                    f"limit {name} must be a {'whole ' if whole else ''}number above 0, not {value!r}",
                    code="limit_value",
                    where=name,
                )


DEFAULT_LIMITS = Limits()
