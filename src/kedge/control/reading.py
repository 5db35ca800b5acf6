"""A run's events read from the store, whoever drives it: for lists, logs and followers from outside."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kedge.base.errors import StoreDamaged, StoreError
from kedge.engine.ports import Journal
from kedge.engine.recovery import check_items, decode, senseless
from kedge.flow.events import RunEnded, RunStarted
from kedge.journal.entry import Entry
from kedge.plan.model import Plan
from kedge.views.narrate import Narrator, RunEvent

_BATCH = 2_000
_decode_plan = msgspec.json.Decoder(Plan).decode


class Reader:
    """Tells one run from its first event on, and again whenever there is something new."""

    def __init__(self, journal: Journal, run_id: str) -> None:
        self._journal = journal
        self._run_id = run_id
        self._narrator: Narrator | None = None
        self._seq = 0
        self._version: int | None = None
        self.ended = False
        """The last event that was told is the end of the run."""

    def news(self) -> Iterator[RunEvent]:
        """The events since the last call. What is intact before a damage is told before its error."""
        damage: StoreDamaged | None = None
        while damage is None:
            try:
                entries = self._journal.read(self._run_id, self._seq, _BATCH)
            except StoreDamaged as error:
                damage = error
                entries = self._journal.good_prefix(self._run_id)[self._seq :]
            if not entries and damage is None:
                return
            for entry in entries:
                yield from self._tell(entry)
        raise damage

    def changed(self) -> bool:
        """Has anything been written to the store since the last look? Cheap enough to ask often."""
        version = self._journal.data_version()
        changed, self._version = version != self._version, version
        return changed

    def _tell(self, entry: Entry) -> list[RunEvent]:
        event = decode(self._run_id, entry)
        if self._narrator is None:
            if not isinstance(event, RunStarted):
                raise StoreDamaged(
                    "the log does not begin with RunStarted", run_id=self._run_id, seq=entry.seq
                )
            self._narrator = self._begin(event, entry)
        self._seq = entry.seq
        self.ended = isinstance(event, RunEnded)
        try:
            check_items(event, self._journal.blob)
            return self._narrator.tell(entry.seq, entry.at, event)
        except StoreError:
            raise
        except Exception as error:
            raise senseless(self._run_id, entry, error) from error

    def _begin(self, event: RunStarted, entry: Entry) -> Narrator:
        raw = self._journal.blob(event.plan)
        try:
            return Narrator(self._run_id, _decode_plan(raw))
        except Exception as error:
            raise senseless(self._run_id, entry, error) from error
