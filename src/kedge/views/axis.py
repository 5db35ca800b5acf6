"""Where a time axis has its marks: at round times, so that no two of them read the same."""

from __future__ import annotations

from kedge.views.text import duration

_PARTS_MAX = 5
_MIN_MS, _H_MS, _DAY_MS = 60_000, 3_600_000, 86_400_000
_STEPS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 30_000,
    _MIN_MS, 2 * _MIN_MS, 5 * _MIN_MS, 10 * _MIN_MS, 20 * _MIN_MS, 30 * _MIN_MS,
    _H_MS, 2 * _H_MS, 6 * _H_MS, 12 * _H_MS, _DAY_MS,
)  # fmt: skip


def ticks(span_ms: int) -> list[tuple[int, str]]:
    """Times from 0 to `span_ms`, and what to write beside them."""
    step = next((step for step in _STEPS_MS if span_ms <= _PARTS_MAX * step), 0)
    if not step:
        step = -(-span_ms // (_PARTS_MAX * _DAY_MS)) * _DAY_MS
    return [(at, _label(at, step)) for at in range(0, span_ms + 1, step)]


def _label(at: int, step: int) -> str:
    if not at:
        return "0"
    return f"{at} ms" if step < 100 else duration(at / 1000)
