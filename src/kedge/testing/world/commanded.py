"""What was asked of runs, and said to be on disk or decided: each once, in the order in which it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedge.engine.receipts import Decision

if TYPE_CHECKING:
    from kedge.testing.world.world import World


class Commanded:
    """Commands of which somebody was told something."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._sent: dict[str, dict[str, int]] = {}
        """Position in the store by run and key."""
        self.decisions: dict[tuple[str, str], bool] = {}
        """What was said to become of each."""

    def sent(self, run_id: str, key: str) -> None:
        """It is on disk, somebody was told: in the store, or decided already."""
        posted = self._world.disk.commands.find(run_id, key)
        if posted is not None:
            self._sent.setdefault(run_id, {})[key] = posted.position
        elif key not in self._world.lives[run_id].commands:
            self._say(f"{run_id}: the command {key} was acknowledged and is not on disk")

    def decided(self, run_id: str, key: str, decision: Decision) -> None:
        """Somebody was told what became of it."""
        taken = decision.taken
        if self.decisions.setdefault((run_id, key), taken) != taken:
            self._say(f"{run_id}: two different things became of the command {key}")
        life = self._world.lives[run_id]
        found = life.commands.get(key)
        if found is None:
            if taken or not (decision.code == "run_ended" or life.ended):  # after the end that is no event
                self._say(f"{run_id}: what became of the command {key} was told and is not on disk")
        elif (found[1] == "CommandTaken") != taken:
            self._say(f"{run_id}: the command {key} was told as taken={taken}, and is {found[1]}")

    def check(self) -> None:
        """At the end: nothing is lost, and those of the store were decided on in the order they came."""
        for run_id, sent in self._sent.items():
            commands = self._world.lives[run_id].commands
            in_order = [commands[key][0] for key in sorted(sent, key=sent.__getitem__) if key in commands]
            if in_order != sorted(in_order):
                self._say(f"{run_id}: commands were decided on in another order than they came: {in_order}")
            for key in sent:
                if self._world.disk.commands.find(run_id, key) is None:
                    self._say(f"{run_id}: the command {key} is lost")
        for (run_id, key), taken in self.decisions.items():
            if taken and key not in self._world.lives[run_id].commands:
                self._say(f"{run_id}: the command {key}, which was taken, is lost")

    def _say(self, text: str) -> None:
        self._world.blame("I1 acknowledged is kept", text)
