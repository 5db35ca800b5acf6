"""How a run is to be driven: chosen when it starts, kept in its log, the same for whoever takes it up."""

from __future__ import annotations

from typing import Any, Literal, get_args

import msgspec

from kedge.base.errors import BadInput

Ask = Literal["never", "effects", "every_step"]
ASKS: tuple[Ask, ...] = get_args(Ask)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of one run."""

    ask: Ask = "never"
    """What a person is asked before, though the plan does not say so: nothing, each call that changes
    something outside, or each call."""
    repair: bool | None = None
    """Whether the planner mends the plan. None: if the engine that starts the run has a planner."""
    adaptation_sensitivity: float = 0.7
    """Trouble of lower severity starts no repair: the higher, the less the plan is adapted."""

    def __post_init__(self) -> None:
        if self.ask not in ASKS:
            raise BadInput(f"{self.ask!r} cannot be asked for", code="ask", where="ask", allowed=ASKS)
        given: Any = self.adaptation_sensitivity
        if isinstance(given, bool) or not isinstance(given, int | float) or not 0 <= given <= 1:
            raise BadInput(
                f"adaptation_sensitivity is a number from 0 to 1, not {given!r}",
                code="setting_value", where="adaptation_sensitivity",
            )  # fmt: skip
        if not isinstance(self.repair, bool | None):
            raise BadInput(
                f"repair is true, false or left out, not {self.repair!r}",
                code="setting_value", where="repair",
            )  # fmt: skip

    def completed(self, ask: Ask | None, *, repair: bool) -> RunSettings:
        """The settings with all that was left open filled in."""
        return msgspec.structs.replace(
            self,
            ask=self.ask if ask is None else ask,
            repair=repair if self.repair is None else self.repair,
        )
