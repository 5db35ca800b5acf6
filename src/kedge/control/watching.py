"""A run that somebody else drives, as it goes on: its state added up from the store, event by event."""

from __future__ import annotations

from kedge.base.limits import Limits
from kedge.engine.blobs import Blobs
from kedge.engine.ports import Journal
from kedge.engine.recovery import fold, go_on
from kedge.flow.state import RunState
from kedge.plan.tools import Catalog

_BATCH = 5_000


class Watched:
    """One run. It is read and never touched."""

    def __init__(self, journal: Journal, run_id: str, catalog: Catalog, limits: Limits) -> None:
        self._journal = journal
        self.id = run_id
        """Its name in the store."""
        entries = journal.read(run_id)
        self.state: RunState = fold(run_id, entries, Blobs(journal).fetch, catalog, limits).state
        """How it stands."""
        self._seq = entries[-1].seq
        self._version: int | None = None

    def changed(self) -> bool:
        """Whether anything has been written to the store since the last look. Cheap enough to ask often."""
        version = self._journal.data_version()
        changed, self._version = version != self._version, version
        return changed

    def refresh(self) -> bool:
        """Take in what is new; whether anything was."""
        before = self._seq
        while entries := self._journal.read(self.id, self._seq, _BATCH):
            go_on(self.state, entries)
            self._seq = entries[-1].seq
        return self._seq != before
