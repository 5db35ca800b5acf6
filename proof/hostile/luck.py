"""Choices, from a seed or from bytes, and the changes that are made to a text by them.

Bytes are what a coverage-guided fuzzer turns and twists: each choice takes as many as it needs, and
those after the last byte are all 0, which every generator takes for the simplest there is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")

LENGTH_MAX = 5_000
"""Characters that a change may make of a text, and a little more than any limit that is looked at first."""
REPEATS = (2, 3, 8, 30, 300, 4_000)


class Luck(Protocol):
    """Where choices come from."""

    def below(self, count: int) -> int:
        """A number from 0 on, below `count`."""
        ...

    def pick(self, options: Sequence[T]) -> T: ...

    def percent(self, share: int) -> bool:
        """True so many times of a hundred."""
        ...


class Seeded:
    """Choices that a number stands for."""

    def __init__(self, seed: int) -> None:
        self._draw: Callable[[], float] = Random(seed).random

    def below(self, count: int) -> int:
        return int(self._draw() * count)

    def pick(self, options: Sequence[T]) -> T:
        return options[int(self._draw() * len(options))]

    def percent(self, share: int) -> bool:
        return self._draw() * 100 < share


class Given:
    """Choices that bytes stand for."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def below(self, count: int) -> int:
        drawn, reach = 0, 1
        while reach < count:
            drawn = drawn << 8 | (self._data[self._at] if self._at < len(self._data) else 0)
            self._at += 1
            reach <<= 8
        return drawn % count

    def pick(self, options: Sequence[T]) -> T:
        return options[self.below(len(options))]

    def percent(self, share: int) -> bool:
        return 100 - self.below(100) <= share  # no more bytes: no more of whatever is rare


def changed(luck: Luck, tokens: list[str], words: Sequence[str], times: int) -> list[str]:
    """The tokens after so many changes, each of a kind that has broken readers before."""
    for _ in range(times):
        _change(luck, tokens, words)
    return tokens


def _change(luck: Luck, tokens: list[str], words: Sequence[str]) -> None:
    size = len(tokens)
    at = luck.below(size + 1)
    match luck.below(9):
        case 0 | 1:
            tokens.insert(at, luck.pick(words))
        case 2 if at < size:
            tokens[at] = luck.pick(words)
        case 3 if at < size:
            del tokens[at : at + 1 + luck.below(3)]
        case 4 if at < size:
            other = luck.below(size)
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 5:
            piece = tokens[at : at + 1 + luck.below(6)]
            tokens[at:at] = piece * luck.pick(REPEATS[:4])
        case 6 if at < size and tokens[at]:
            token = tokens[at]
            place = luck.below(len(token))
            tokens[at] = token[:place] + luck.pick(words)[:1] + token[place + luck.below(2) :]
        case 7:
            del tokens[at:]
        case _:
            tokens.insert(at, chr(_character(luck)))


def _character(luck: Luck) -> int:
    """Any at all, those of ASCII and of the first planes most."""
    return luck.below(luck.pick((0x80, 0x80, 0x100, 0x3000, 0x10000, 0x110000)))


def drawn_out(luck: Luck, tokens: list[str]) -> str:
    """A stretch of the tokens again and again, up to the limit."""
    at = luck.below(len(tokens) + 1)
    piece = "".join(tokens[at : at + 1 + luck.below(5)]) or "("
    head, tail = "".join(tokens[:at])[:200], "".join(tokens[at:])[:200]
    times = min(luck.pick(REPEATS), LENGTH_MAX // len(piece))
    return (head + piece * times + tail)[:LENGTH_MAX]
