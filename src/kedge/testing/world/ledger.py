"""What really happened outside: every call, and what was told to people and programs.

Kept by the world, not by the engine: it outlives every process, as the other side of a call does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from kedge.testing.world.life import Life, name_in
from kedge.testing.world.tools import ALL_TOOLS
from kedge.testing.world.undoes import UNDO
from kedge.tools.context import Context

if TYPE_CHECKING:
    from kedge.testing.world.world import World

_decode = msgspec.json.decode
NEEDS_DISK = frozenset({"idempotent", "effect"})


class Ledger:
    """Calls of tools, as the other side sees them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.calls = 0
        self._made: dict[tuple[str, str], int] = {}
        """Calls of a run's path, over all processes."""
        self._keys: dict[str, tuple[Any, ...]] = {}

    def call(self, ctx: Context, epoch: int, tool: str, given: dict[str, Any]) -> int:
        """A call is made; which of its path it is."""
        run_id, path = ctx.run_id, ctx.step
        self.calls += 1
        number = self._made[run_id, path] = self._made.get((run_id, path), 0) + 1
        life = self._world.lives[run_id]
        effect = ALL_TOOLS[tool]
        if effect in NEEDS_DISK:
            self._with_effect(life, epoch, path, ctx.attempt, (ctx.idempotency_key, given))
            self._is_planned(life, epoch, path, tool)
        # A call that did not wait for the disk may be another one than the disk knows of, if what it is in
        # began anew; and one of a driver that was replaced knows nothing of what came after it.
        if epoch == life.epoch and (effect in NEEDS_DISK or "/" not in path):
            track = life.tracks.get(path)
            if track is not None and track.end == "StepSucceeded":
                self._say("I2 finished is finished", f"{run_id}: {path} is called after it was done")
            if effect in NEEDS_DISK or not life.changed:
                self._has_its_arguments(life, path, given)
        return number

    def _is_planned(self, life: Life, epoch: int, path: str, tool: str) -> None:
        """What is called is what the plan says that is on disk."""
        said = life.step_of(path).get("tool")
        if said != tool and epoch == life.epoch:
            self._say("plans hold", f"{life.run_id}: {path} calls {tool}, and the plan says {said}")

    def _say(self, law: str, text: str) -> None:
        self._world.blame(law, text)

    def _with_effect(
        self, life: Life, epoch: int, path: str, attempt: int, made: tuple[str, dict[str, Any]]
    ) -> None:
        key, given = made
        track = life.tracks.get(path)
        if not life.starts[path, epoch]:
            self._say("I3 intent first", f"{life.run_id}: {path} is called before its start is on disk")
            return
        if track is None or track.epoch > epoch:
            return  # a driver that was frozen between the disk and the call: the honest limit
        track.called += 1
        if track.called > 1:
            self._say(
                "I3 effects once", f"{life.run_id}: {path} is called {track.called} times for one start"
            )
        if track.attempt != attempt:
            self._say(
                "I3 intent first", f"{life.run_id}: {path} is called for attempt {attempt}, not on disk"
            )
        means = (life.run_id, path, track.generation, track.iteration, repr(sorted(given.items())))
        if self._keys.setdefault(key, means) != means:
            self._say("I3 keys", f"{life.run_id}: {path} has the key of {self._keys[key]}")
        if self._keys.setdefault("/".join(map(str, means)), (key,)) != (key,):
            self._say("I3 keys", f"{life.run_id}: {path} has two keys for one call")

    def _has_its_arguments(self, life: Life, path: str, given: dict[str, Any]) -> None:
        """What a step is given is what the log says the other one gave."""
        scope = path.rpartition("/")[0]
        args = life.step_of(path).get("args", {})
        for name, value in ((name_in(args.get(arg)), value) for arg, value in given.items()):
            source = life.steps.get(name, {})
            track = life.tracks.get(f"{scope}/{name}" if scope else name)
            if not name or track is None or "foreach" in source or "steps" in source:
                continue
            if path.endswith(UNDO) and "loop" in source:
                continue  # it is given what its round gave
            if track.end != "StepSucceeded":
                continue
            if value is None and (life.step_of(path).get("join") == "any" or life.undoes.began):
                continue  # it did not wait for that one; or that is taken back
            wanted: Any = track.result
            if track.large:
                wanted = _decode(self._world.disk.blobs[track.large])
            if value != wanted:
                got, gave = str(value)[:60], str(wanted)[:60]
                self._say("data", f"{life.run_id}: {path} is given {got} as {name}, which gave {gave}")


class Acknowledged:
    """What somebody was told: from then on it must be true for ever."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._promised: dict[str, tuple[int, int, str]] = {}
        """The furthest promise of each run: event, its chain value, what was promised."""
        self.count = 0

    def told(self, run_id: str, what: str, kind: str, after_seq: int = 0, **fields: Any) -> None:
        """`what` was acknowledged: an event of that kind and with these fields must be on disk."""
        self.count += 1
        entries = self._world.disk.entries(run_id)
        for entry in entries[after_seq:]:
            event = _decode(entry.data)
            if event["kind"] == kind and all(event.get(name) == value for name, value in fields.items()):
                if self._promised.get(run_id, (0,))[0] < entry.seq:
                    self._promised[run_id] = entry.seq, entry.chain, what
                return
        self._world.blame("I1 acknowledged is kept", f"{run_id}: {what} was acknowledged and is not on disk")

    def check(self) -> None:
        """After a crash, and at the end: everything that was promised is there."""
        for run_id, (seq, chain, what) in self._promised.items():
            entries = self._world.disk.entries(run_id)
            if len(entries) < seq or entries[seq - 1].chain != chain:
                self._world.blame("I1 acknowledged is kept", f"{run_id}: {what} (event {seq}) is lost")


class Listener:
    """Somebody who follows a run, and compares what they are told with the log."""

    def __init__(self, world: World, run_id: str, epoch: int) -> None:
        self._world = world
        self._run_id = run_id
        self._epoch = epoch
        self._seq = 0
        self._percent = 0.0
        self.may_miss = False
        """It is slow: the end alone may be told to it."""
        self._told: list[tuple[int, str, int]] = []

    def hear(self, seq: int, kind: str, at: int, percent: float) -> None:
        """One thing is told."""
        if percent < self._percent:
            self._say(f"percent goes from {self._percent:g} back to {percent:g} at event {seq}")
        self._percent = 0.0 if kind == "run_ended" else percent
        if kind in ("group_started", "group_ended", "progress"):
            return
        if seq != self._seq + 1 and not (self.may_miss and kind == "run_ended"):
            self._say(f"event {seq} is told after {self._seq}")
        self._seq = seq
        self._told.append((seq, kind, at))
        if kind in ("run_ended", "question_asked") and len(self._world.disk.entries(self._run_id)) < seq:
            self._say(f"{kind} is told before it is on disk")

    def compare(self, *, to_the_end: bool) -> None:
        """Nothing more is told: it must have been what the log says."""
        entries = self._world.disk.entries(self._run_id)
        for (seq, kind, at), entry in zip(self._told, entries, strict=False):
            if entry.epoch > self._epoch:
                break  # ahead of the disk when its driver was lost; another one wrote something else
            if _snake(_decode(entry.data)["kind"]) != kind or entry.at != at:
                self._say(f"event {seq} was told as {kind}, and is not that")
        if to_the_end and _decode(entries[self._seq - 1].data)["kind"] != "RunEnded":
            self._say(f"event {self._seq} of {len(entries)} was told as the last one")

    def _say(self, text: str) -> None:
        self._world.blame("I14 gapless", f"{self._run_id}: {text}")


def _snake(kind: str) -> str:
    return "".join("_" + c.lower() if c.isupper() else c for c in kind).lstrip("_")
