"""Commands in memory, as the SQLite file has them in its table."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from kedge.journal.entry import Posted, Sent


class CommandTable:
    """What is asked of runs, in the order of its arrival, and what became of it."""

    def __init__(self) -> None:
        self._by_position: dict[int, Posted] = {}
        self._of_run: dict[str, dict[str, Posted]] = {}
        """By id."""
        self._last = 0

    def post(self, sent: Sent) -> Posted:
        """Keep it, unless the run has one of that id; the one there is."""
        found = self.find(sent.run_id, sent.id)
        if found is None:
            self._last += 1
            found = Posted(self._last, *sent)
            self.put(found)
        return found

    def put(self, posted: Posted) -> None:
        """This is how the command stands."""
        self._by_position[posted.position] = posted
        self._of_run.setdefault(posted.run_id, {})[posted.id] = posted

    def take_out(self, posted: Posted) -> None:
        """There is no such command."""
        self._by_position.pop(posted.position, None)
        self._of_run.get(posted.run_id, {}).pop(posted.id, None)

    def decide(self, decisions: Iterable[tuple[int, bytes]]) -> list[Posted]:
        """Write down what became of commands; how they stood."""
        before = [self._by_position[position] for position, _ in decisions]
        for position, made in decisions:
            self.put(replace(self._by_position[position], decision=made))
        return before

    def find(self, run_id: str, id_: str) -> Posted | None:
        """A run's command by its id."""
        return self._of_run.get(run_id, {}).get(id_)

    def posted(self, run_id: str, after: int, limit: int) -> list[Posted]:
        """A run's commands after a position that nobody has decided on."""
        commands = self._of_run.get(run_id, {}).values()
        return [one for one in commands if one.position > after and one.decision is None][:limit]

    def decisions(self, positions: Iterable[int]) -> dict[int, bytes]:
        """What became of those that are decided."""
        found = {position: self._by_position.get(position) for position in positions}
        return {
            position: one.decision
            for position, one in found.items()
            if one is not None and one.decision is not None
        }

    def arrived(self, after: int) -> tuple[int, list[str]]:
        """The newest position, and the runs for which one has come after `after`."""
        fresh = {one.run_id for position, one in self._by_position.items() if position > after}
        return self._last, sorted(fresh)

    def undecided(self) -> list[str]:
        """The runs with commands that nobody has decided on."""
        return [
            run_id
            for run_id, commands in self._of_run.items()
            if any(one.decision is None for one in commands.values())
        ]

    def forget(self, run_id: str) -> None:
        """The run is deleted."""
        for posted in self._of_run.pop(run_id, {}).values():
            del self._by_position[posted.position]
