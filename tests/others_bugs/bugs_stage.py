"""Runs in virtual time over one store in memory, taken up by one engine after another."""

from __future__ import annotations

from typing import Any

import kedge
from kedge.journal.entry import Append, Entry
from kedge.journal.memory import MemoryJournal
from kedge.plan.tools import Catalog, ToolSpec
from kedge.testing import Scripted, VirtualClock, scripted

ANY_ARGS = {"type": "object", "additionalProperties": True}


def plan(*steps: str, head: str = "") -> kedge.Plan:
    return kedge.Plan.parse(
        f"goal: Try it\n{head}\nsteps:\n" + "".join(f"  - {{{step}}}\n" for step in steps)
    )


class Stage:
    """A store, and what each engine over it was asked."""

    def __init__(self, effects: dict[str, str] | None = None) -> None:
        self.journal = MemoryJournal()
        self.effects = effects or {}
        self.tools: list[Scripted] = []

    def engine(self, script: dict[str, Any]) -> kedge.Engine:
        known = Catalog(
            ToolSpec(name=name, parameters=ANY_ARGS, effect=self.effects.get(name, "read"))  # type: ignore[arg-type]
            for name in script
        )
        self.tools.append(scripted(script, known))
        return kedge.Engine(self.tools[-1], self.journal, clock=VirtualClock())

    def calls(self, tool: str) -> list[dict[str, Any]]:
        """Of all engines."""
        return [args for tools in self.tools for args in tools.calls(tool)]

    def steps_called(self) -> list[str]:
        return [call.step for tools in self.tools for call in tools.log]


def cut(journal: MemoryJournal, run_id: str, events: int) -> MemoryJournal:
    """A journal as it was when the run had only so many events: its driver was killed right then."""
    part = MemoryJournal()
    kept: list[Entry] = journal.read(run_id)[:events]
    lease = part.claim(run_id, kept[0].at)
    part.commit([Append(run_id, lease.epoch, 0, kept, dict(journal._blobs), b"{}")])
    part.release(lease)
    return part
