"""How a run is to be driven: chosen when it starts, kept in its log, the same for whoever takes it up."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec
from msgspec import Meta

Ask = Literal["never", "effects", "every_step"]
ASKS: tuple[Ask, ...] = get_args(Ask)


QUALITY_THRESHOLD = 0.7


class RunSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Settings of one run."""

    ask: Ask = "never"
    """What a person is asked before, though the plan does not say so: nothing, each call that changes
    something outside, or each call."""
    quality_threshold: Annotated[float, Meta(ge=0, le=1)] = QUALITY_THRESHOLD
    """A result of less quality is told as not good, where its step does not say itself what is good enough."""
