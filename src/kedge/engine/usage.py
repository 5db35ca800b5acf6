"""What a tool says that its call used, as the run records it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kedge.flow.usage import AMOUNT_MAX, Usage

_MEGABYTE = 1_000_000


def added(before: Usage | None, told: Mapping[str, Any]) -> Usage:
    """With what was told now. A tool's process may say anything: what is no amount counts as nothing."""
    usage = before or Usage()
    usage.add(
        Usage(
            tokens=int(_amount(told.get("tokens"))),
            cost=_amount(told.get("cost")),
            cpu_s=round(_amount(told.get("cpu_s")), 6),
            memory_mb=round(_amount(told.get("rss_bytes")) / _MEGABYTE, 3),
        )
    )
    return usage


def _amount(said: object) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float) or not said >= 0:
        return 0.0
    return float(min(said, AMOUNT_MAX))
