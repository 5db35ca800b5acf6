"""Large values at hand: those on their way to the disk, and some that were used lately."""

from __future__ import annotations

from kedge.base.errors import NotFound, StoreDamaged
from kedge.engine.log import RunLog
from kedge.engine.ports import Journal

CACHE_BYTES = 32 * 1024 * 1024


class Blobs:
    """Gives the core the bytes of a blob. They never change, so a cache needs no care."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._cache: dict[str, bytes] = {}
        self._size = 0
        self.log: RunLog | None = None

    def fetch(self, sha: str) -> bytes:
        """The bytes of a blob, from memory or from the store."""
        raw = self._cache.get(sha)
        if raw is None and self.log is not None:
            raw = self.log.blobs.get(sha) or self.log.writing.get(sha)
        if raw is None:
            raw = self._stored(sha)
            self.keep(sha, raw)
        return raw

    def _stored(self, sha: str) -> bytes:
        try:
            return self._journal.blob(sha)
        except NotFound as error:  # the log says that it was stored
            run_id = self.log.lease.run_id if self.log is not None else ""
            raise StoreDamaged(
                f"a large value of the run is missing: blob {sha}",
                run_id=run_id,
                remedy="restore the store from a copy, salvage the run, or delete it",
            ) from error

    def keep(self, sha: str, raw: bytes) -> None:
        """Remember a blob for a while; the longest known goes first when there are too many."""
        if sha in self._cache or len(raw) > CACHE_BYTES:
            return
        self._cache[sha] = raw
        self._size += len(raw)
        while self._size > CACHE_BYTES:
            self._size -= len(self._cache.pop(next(iter(self._cache))))
