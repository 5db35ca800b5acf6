"""How a run is to be driven: chosen when it starts, kept in its log, the same for whoever takes it up."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

Ask = Literal["never", "plan", "effects", "every_step"]
ASKS: tuple[Ask, ...] = get_args(Ask)


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of one run."""

    ask: Ask = "never"
    """What a person is asked before, though the plan does not say so: nothing, the plan as a whole, each
    call that changes something outside, or each call."""

    @property
    def asks_about_calls(self) -> bool:
        """Somebody is asked before calls for which the plan asks nobody."""
        return self.ask in ("effects", "every_step")
