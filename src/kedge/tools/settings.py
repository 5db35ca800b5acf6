"""What the settings of a tool may be. A wrong one would stop a run long after the tool was made."""

from __future__ import annotations

from typing import Any

import msgspec

from kedge.base.errors import BadInput
from kedge.plan.model import YEAR_S, Retry
from kedge.plan.tools import EFFECTS, ToolSpec


def check_settings(spec: ToolSpec) -> None:
    """BadInput for the first setting that no engine could act on."""
    if spec.effect not in EFFECTS:
        raise _unfit(spec, f"unknown effect {spec.effect!r}", allowed=EFFECTS)
    _check_number(spec, "timeout_s", int | float, YEAR_S)
    _check_number(spec, "parallel", int, None)
    _check_retry(spec)


def _check_number(spec: ToolSpec, setting: str, kind: Any, most: float | None) -> None:
    value: Any = getattr(spec, setting)
    if value is None:
        return
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not value > 0 or (most is not None and value > most):
        upto = "" if most is None else f" and at most {most:.0f}"
        raise _unfit(spec, f"{setting} must be a number above 0{upto}, not {value!r}")


def _check_retry(spec: ToolSpec) -> None:
    """The ranges stand in the type, and a struct made in Python was never held against them."""
    retry: Any = spec.retry
    if retry is None:
        return
    if not isinstance(retry, Retry):
        raise _unfit(
            spec, f"retry must be a kedge.Retry, not {retry!r}", remedy="give kedge.Retry(attempts=3)"
        )
    try:
        msgspec.json.decode(msgspec.json.encode(retry), type=Retry)
    except (msgspec.MsgspecError, TypeError) as error:
        fault = str(error).replace("Expected ", "expected ").replace("`", "")
        raise _unfit(
            spec, f"retry: {fault}, in {retry!r}", remedy="as in kedge.Retry(attempts=3, backoff_s=1)"
        ) from None


def _unfit(spec: ToolSpec, what: str, allowed: tuple[str, ...] = (), remedy: str = "") -> BadInput:
    return BadInput(what, code="tool_setting", where=f"tool {spec.name}", allowed=allowed, remedy=remedy)
