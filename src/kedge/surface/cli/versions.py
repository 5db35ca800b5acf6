"""The versions of a run's plan, as people and programs get them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from kedge import NotFound, RunResult
from kedge.surface.cli.screen import Screen, ago
from kedge.views.text import clean


def version_of(result: RunResult, number: int) -> Any:
    """That version; NotFound names those that there are."""
    for version in result.versions:
        if version.number == number:
            return version
    raise NotFound(
        f"there is no version {number} of its plan",
        code="unknown_version",
        where=f"run {result.run_id}",
        allowed=[str(version.number) for version in result.versions],
    )


def version_data(version: Any) -> dict[str, Any]:
    """All but the plan itself."""
    return {
        "version": version.number,
        "plan_id": version.id,
        "at": _when(version),
        "seq": version.seq,
        "cause": version.cause,
        "by": version.by,
        "why": version.why,
    }


def tell_versions(screen: Screen, result: RunResult) -> None:
    """A line for each."""
    if screen.as_json:
        screen.data([version_data(version) for version in result.versions])
        return
    rows = [
        (str(version.number), version.cause, version.by, ago(_when(version)), version.why)
        for version in result.versions
    ]
    screen.table(("version", "cause", "by", "since", "why"), rows)


def tell_version(screen: Screen, result: RunResult, number: int) -> Any:
    """Where the version comes from, in a line, before its picture; as data with the plan."""
    version = version_of(result, number)
    if screen.as_json:
        plan = msgspec.json.decode(version.plan.dump("json"))
        screen.data(version_data(version) | {"plan": plan})
        return version
    by = f" by {clean(version.by, 60)}" if version.by else ""
    why = f": {clean(version.why, 300)}" if version.why else ""
    cause = clean(version.cause, 60)
    screen.say(f"version {number} of {len(result.versions)}, {cause}{by}, {ago(_when(version))}{why}", "bold")
    return version


def _when(version: Any) -> datetime:
    return datetime.fromtimestamp(version.at / 1000, UTC)
