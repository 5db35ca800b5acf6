"""Other engines, where they are installed: the same graphs, each built as that engine wants them built.

None of them is a dependency. A peer is measured if its package is there, and a line says so if it is
not. Each has one file that only builds and runs; the rounds, the clock and the checks are those of
every other row, and the step is `node.work`. Where an engine offers several ways, the file says which
one was taken and why.

Not taken: a table of published numbers. It would age with their releases, and be of other machines.
"""

from __future__ import annotations

import importlib
import os
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Self

from graphs import Graph


@dataclass(frozen=True)
class Peer:
    """Where an engine is found."""

    package: str
    """The installed distribution: unlike a module it has a version, and looking for it imports nothing."""
    module: str
    """The file here that knows it. Called as the engine is, type checkers would take it for the engine."""
    adapter: str = "Adapter"
    keeps: bool = False
    """Whether a finished step is on disk: then it is compared with kedge on disk."""
    cannot: dict[str, str] = field(default_factory=dict)
    """Graphs that cannot be said in its terms, and why."""
    settings: dict[str, str] = field(default_factory=dict)
    """Environment that has to be there before it is imported."""

    @property
    def version(self) -> str:
        """Of what is installed; nothing if it is not."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return ""


PEERS = {
    "langgraph": Peer("langgraph", "with_langgraph", "InMemory"),
    "langgraph-sqlite": Peer("langgraph-checkpoint-sqlite", "with_langgraph", "InSqlite", keeps=True),
    "pydantic-graph": Peer(
        "pydantic-graph",
        "with_pydantic_graph",
        cannot={"W3": "its joins end forks, and do not wait for just any steps"},
    ),
    "llamaindex": Peer("llama-index-workflows", "with_llamaindex"),
    "hamilton": Peer("sf-hamilton", "with_hamilton", settings={"HAMILTON_TELEMETRY_ENABLED": "false"}),
    "prefect": Peer(
        "prefect",
        "with_prefect",
        keeps=True,
        settings={"PREFECT_LOGGING_LEVEL": "CRITICAL", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"},
    ),
    "dbos": Peer("dbos", "with_dbos", keeps=True),
}


class PeerAdapter:
    """What the files here have in common: the built graph is admitted, then the clock runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.began = (0.0, 0.0)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc: object) -> None: ...

    async def admit(self, graph: Graph) -> dict[str, float]:
        """Build, and tell how long that took."""
        asked_s = time.perf_counter()
        await self.build(graph)
        self.began = time.perf_counter(), time.process_time()
        return {"build": self.began[0] - asked_s}

    async def build(self, graph: Graph) -> None:
        """Make what the engine runs."""
        raise NotImplementedError

    async def run(self) -> list[Any]:
        """Every result, by node."""
        raise NotImplementedError

    async def forget(self) -> None: ...


def adapter(name: str, folder: Path) -> PeerAdapter:
    """The adapter of a peer; only now is its engine imported."""
    peer = PEERS[name]
    os.environ.update(peer.settings)
    return getattr(importlib.import_module(f"peers.{peer.module}"), peer.adapter)(folder)
