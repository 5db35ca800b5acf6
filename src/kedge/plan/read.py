"""Reading plans: from text, from data, from a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from kedge.base.errors import BadInput, InvalidPlan, NotFound
from kedge.base.limits import DEFAULT_LIMITS, Limits
from kedge.plan.document import to_plan
from kedge.plan.model import Plan
from kedge.plan.nearest import nearest


def parse_plan(document: str | bytes | dict[str, Any], limits: Limits = DEFAULT_LIMITS) -> Plan:
    """A plan from YAML or JSON text, or from plain data. InvalidPlan lists every fault."""
    return to_plan(Plan, document, limits)


def load_plan(path: str | os.PathLike[str], limits: Limits = DEFAULT_LIMITS) -> Plan:
    """The plan in a file."""
    if not isinstance(path, str | os.PathLike):
        raise BadInput(
            f"a file's path is needed, not {type(path).__name__}",
            remedy="a plan that is data or text is read by kedge.Plan.parse",
        )
    place = Path(path)
    raw = _bytes_of(place, limits)
    try:
        return to_plan(Plan, raw, limits)
    except InvalidPlan as error:
        error.where = f"{place}: {error.where}" if error.where else str(place)
        raise


def _bytes_of(place: Path, limits: Limits) -> bytes:
    try:
        with place.open("rb") as file:
            raw = file.read(limits.document_bytes + 1)
    except FileNotFoundError:
        raise _missing(place) from None
    except IsADirectoryError:
        found = _names(place, (".yaml", ".yml", ".json"))
        raise BadInput(
            "this is a folder, not a plan",
            code="file_is_folder",
            where=str(place),
            allowed=found[:10],
            remedy="name the plan's file",
        ) from None
    except (OSError, ValueError) as error:  # ValueError: a path with a NUL in it
        reason = getattr(error, "strerror", None) or str(error)
        raise BadInput(
            f"cannot be read: {reason}",
            code="file_unreadable",
            where=str(place)[:200],
            remedy="check the path and its permissions",
        ) from None
    if len(raw) > limits.document_bytes:
        raise BadInput(
            f"the file is larger than {limits.document_bytes} bytes",
            code="document_too_big",
            where=str(place),
            remedy="keep large values in files of their own, or raise the limit `document_bytes`",
        )
    return raw


def _missing(place: Path) -> NotFound:
    found = _names(place.parent)
    near = nearest(place.name, found)
    remedy = f"did you mean {place.parent / near}?" if near else "check the path"
    plans = [name for name in found if name.endswith((".yaml", ".yml", ".json"))]
    return NotFound(
        "there is no such file", code="file_missing", where=str(place), allowed=plans[:10], remedy=remedy
    )


def _names(folder: Path, endings: tuple[str, ...] = ("",)) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith(endings))[:1000]
    except OSError:
        return []
