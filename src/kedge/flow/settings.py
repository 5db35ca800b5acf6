"""How a run is to be driven: chosen when it starts, kept in its log, the same for whoever takes it up."""

from __future__ import annotations

from typing import Literal, get_args

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


def settings_of(ask: Ask, undo: Undo) -> RunSettings:
    """The settings; BadInput for a word that is none."""
    if ask not in ASKS:
        raise BadInput(f"{ask!r} cannot be asked for", code="ask", where="ask", allowed=ASKS)
    if undo not in UNDOS:
        raise BadInput(f"{undo!r} is no time to undo", code="undo", where="undo", allowed=UNDOS)
    return RunSettings(ask=ask, undo=undo)
