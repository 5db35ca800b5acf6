"""A question of a run, as part of its state."""

from __future__ import annotations

from kedge.flow.events import QuestionAsked


class Question:
    """Something only a person (or a late result) can decide."""

    __slots__ = ("answer", "answered_at", "asked", "asked_at", "by")

    def __init__(self, asked: QuestionAsked, asked_at: int) -> None:
        self.asked = asked
        self.asked_at = asked_at
        self.answer = ""
        self.answered_at = 0
        self.by = ""

    @property
    def open(self) -> bool:
        return not self.answer
