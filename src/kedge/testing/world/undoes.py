"""What is undone: each call once, only what was done, and nothing before what used it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kedge.testing.world.life import Life

UNDO = ".undo"
_ROUND = re.compile(r"#(\d+)$")
_WORDS = re.compile(r"[a-z][a-z0-9_]*")
_AFTER_THE_END = {
    "RunResumed", "CommandTaken", "CommandRefused", "CompensationStarted", "CompensationEnded", "RunEnded",
    "RunPaused", "RunUnpaused", "RunCancelling", "QuestionAsked", "QuestionAnswered", "LimitReached",
}  # fmt: skip
"""What can happen to a run that has ended and is undone, besides the calls that undo it."""


class Undoes:
    """The compensations of one run, as its log tells them."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self.began = False
        """Something was to be undone, by now."""
        self.undone = 0
        """Steps that were undone by now."""
        self._whole = False
        """All of the run is undone, and nothing else happens in it."""
        self._taken_up = False
        """Somebody drives a run that had ended."""

    def may_follow(self, event: dict[str, Any]) -> bool:
        """Whether that can happen to a run that has ended."""
        kind, path = event["kind"], event.get("path", "")
        if kind == "RunResumed":
            return True
        track = self._life.tracks.get(path)
        known = path.endswith(UNDO) or (track is not None and track.doubt)  # a doubt that is settled now
        return self._taken_up and (kind in _AFTER_THE_END or known)

    def resumed(self) -> None:
        """A driver took the run up."""
        self._taken_up = True

    def start_all(self, event: dict[str, Any]) -> None:
        """A compensation begins: what failed before is to be tried again."""
        life = self._life
        self.began = True
        self._whole = not event.get("steps")
        for path, track in life.tracks.items():
            if path.endswith(UNDO) and track.end in ("StepFailed", "StepCancelled", "StepSkipped"):
                track.end, track.may_start = "", True

    def start(self, path: str) -> None:
        """A call that undoes something begins."""
        life = self._life
        target = path.removesuffix(UNDO)
        round_ = _ROUND.search(target)
        base = target[: round_.start()] if round_ else target
        track = life.tracks.get(base)
        if not self.began:
            self._say(f"{path} starts, and nobody wanted that")
        if track is None or not self._was_done(base, int(round_[1]) if round_ else None):
            self._say(f"{path} starts, and {base} was not done ({track and track.end})")
        if self._whole:
            for user in self._users(base):
                self._say(f"{path} starts before {user}, which used it, is undone")

    def _was_done(self, base: str, round_: int | None) -> bool:
        track = self._life.tracks[base]
        ended = track.end == "StepSucceeded" or (track.end == "StepFailed" and track.gave)
        return ended if round_ is None else round_ < track.rounds or (ended and round_ <= track.rounds)

    def _users(self, base: str) -> list[str]:
        """Steps beside it that used it and are not undone."""
        life = self._life
        scope, _, id_ = base.rpartition("/")
        found: list[str] = []
        for other, step in life.steps.items():
            path = f"{scope}/{other}" if scope else other
            track = life.tracks.get(path)
            if track is None or not ("compensate" in step and id_ in _named(step)):
                continue
            if "loop" in step or "foreach" in step or step.get("fallback_for") == id_:
                continue
            undo = life.tracks.get(path + UNDO)
            if track.doubt or (track.end == "StepSucceeded" and (undo is None or not undo.end)):
                found.append(path)
        return found

    def _say(self, text: str) -> None:
        self._life.say("undone in reverse", text)


def _named(step: dict[str, Any]) -> set[str]:
    texts = [text for text in step.get("args", {}).values() if isinstance(text, str)]
    return {*step.get("after", ()), *(word for text in texts for word in _WORDS.findall(text))}
