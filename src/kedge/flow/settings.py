"""How a run is to be driven: chosen when it starts, kept in its log, the same for whoever takes it up."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from kedge.base.errors import BadInput

Ask = Literal["never", "effects", "every_step"]
ASKS: tuple[Ask, ...] = get_args(Ask)
Undo = Literal["never", "failure"]
UNDOS: tuple[Undo, ...] = get_args(Undo)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of one run."""

    ask: Ask = "never"
    """What a person is asked before, though the plan does not say so: nothing, each call that changes
    something outside, or each call."""
    undo: Undo = "never"
    """When what it did is undone by itself: never, or when it fails."""
    quality_threshold: float = 0.7
    """A result of less quality counts as not good, where its step does not say itself what is good enough."""

    def __post_init__(self) -> None:
        if self.ask not in ASKS:
            raise BadInput(f"{self.ask!r} cannot be asked for", code="ask", where="ask", allowed=ASKS)
        if self.undo not in UNDOS:
            raise BadInput(f"{self.undo!r} is no time to undo", code="undo", where="undo", allowed=UNDOS)
        given: Any = self.quality_threshold
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
            raise BadInput(
                f"quality_threshold is a number from 0 to 1, not {given!r}",
                code="setting_value", where="quality_threshold",
            )  # fmt: skip

    def asking(self, ask: Ask) -> RunSettings:
        """The same, and asking for that too if it is more than nothing."""
        return self if ask == "never" else msgspec.structs.replace(self, ask=ask)
