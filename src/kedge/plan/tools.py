"""What a plan may know of tools: specifications, not functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from kedge.base.codec import digest, encode
from kedge.base.errors import BadInput
from kedge.plan.model import Retry

Effect = Literal["pure", "read", "idempotent", "effect"]
EFFECTS: tuple[Effect, ...] = ("pure", "read", "idempotent", "effect")
"""Weakest first: no I/O; repeatable; a write that its key makes repeatable; anything else."""


class ToolSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A tool as a plan sees it."""

    name: str
    description: str = ""
    parameters: Mapping[str, Any] = msgspec.field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    """JSON Schema (object) of the arguments."""
    returns: Mapping[str, Any] | None = None
    """JSON Schema of the result, as far as it is known."""
    effect: Effect = "effect"
    timeout_s: float | None = None
    retry: Retry | None = None
    resources: tuple[str, ...] = ()
    parallel: int | None = None
    """Calls of this tool at the same time, over all runs of an engine."""
    isolation: Literal["none", "thread", "process"] = "none"
    available: bool = True
    unavailable_because: str = ""
    substitutes: tuple[str, ...] = ()
    """Names of tools with the same signature that can stand in."""

    @property
    def definition_hash(self) -> str:
        """Identity of what the tool promises: changes when its name, schema or effect does."""
        return digest(
            encode([self.name, dict(self.parameters), self.returns and dict(self.returns), self.effect])
        )


class Catalog:
    """Tools by name, in the order they were given."""

    def __init__(self, specs: Iterable[ToolSpec] = ()) -> None:
        self._specs: dict[str, ToolSpec] = {}
        for spec in specs:
            if spec.name in self._specs:
                raise BadInput(f"two tools are named {spec.name!r}", code="duplicate_tool", where=spec.name)
            self._specs[spec.name] = spec

    def get(self, name: str) -> ToolSpec | None:
        return self._specs.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._specs

    def __iter__(self) -> Iterator[ToolSpec]:
        return iter(self._specs.values())

    def __len__(self) -> int:
        return len(self._specs)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._specs)
