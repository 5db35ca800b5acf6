"""What all events are made of."""

from __future__ import annotations

from typing import Annotated, dataclass_transform

import msgspec

Raw = msgspec.Raw
"""Canonical JSON bytes, written into the event as they are."""

NONE = Raw(b"")
"""No value at all; `null` is a value."""

Whole = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A number or a time in ms. What somebody else wrote into a log can be reckoned with, too."""


@dataclass_transform(frozen_default=True, kw_only_default=True, field_specifiers=(msgspec.field,))
class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", gc=False):
    """Base of all kinds."""
