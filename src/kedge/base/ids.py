"""Ids: one fixed alphabet each, so an id can never be a path, a query or a piece of markup."""

from __future__ import annotations

import re
import secrets
from typing import NewType

from kedge.base.errors import BadInput

RunId = NewType("RunId", str)
StepPath = NewType("StepPath", str)

_RUN_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}", re.ASCII)
_ALPHABET = "abcdefghjkmnpqrstuvwxyz23456789"  # without letters and digits that look alike

# Names that Windows keeps for devices: a run id may become a file name in an export.
DEVICE_NAMES = {"con", "prn", "aux", "nul"} | {f"{d}{n}" for d in ("com", "lpt") for n in range(1, 10)}


def new_run_id() -> RunId:
    """A fresh id, short enough to type."""
    return RunId("".join(secrets.choice(_ALPHABET) for _ in range(10)))


def run_id(text: str) -> RunId:
    """`text` as a run id, or BadInput."""
    if not isinstance(text, str) or not _RUN_ID.fullmatch(text) or text in DEVICE_NAMES:
        shown = repr(text)
        if len(shown) > 80:
            shown = shown[:77] + "..."
        raise BadInput(
            f"{shown} is not a run id",
            code="run_id",
            remedy="use 1 to 64 of a-z, 0-9, '-' and '_', starting with a letter or digit",
        )
    return RunId(text)


def new_key() -> str:
    """A fresh key for a command that was given none."""
    return secrets.token_hex(16)
