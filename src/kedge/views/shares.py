"""How much of a run is done, in percent, as a fold over what settled.

Steps of one scope have equal shares; a composite's children, a foreach's items and a loop's rounds
divide what is left of their parent's share *at the moment they begin*. So a retry, another round or
ten thousand new items divide what is still to come, and nothing credited is ever taken back.
(Counting settled of known steps is simpler, and goes backwards with every expansion.)
"""

from __future__ import annotations

from collections.abc import Iterable

from kedge.plan.model import Loop, Retry

ALMOST = 99.9
"""The most before the run has ended."""
_UNTIL_ROUNDS = 4
_ATTEMPTS = 2
"""Reckoned with while a composite has any left: most need one, and those that need more need some room."""


class _Group:
    __slots__ = ("credited", "part", "round_end", "share")

    def __init__(self, share: float) -> None:
        self.share = share
        self.credited = 0.0
        self.part = 0.0
        """Share of one child, item or round."""
        self.round_end = 0.0


class Shares:
    """Shares of all steps by path."""

    def __init__(self) -> None:
        self._groups = {"": _Group(100.0)}
        self._partial: dict[str, float] = {}
        self._partial_sum = 0.0
        self._undone: dict[str, float] = {}
        """Credited for steps that did not succeed: owed again if the run is taken up after its end."""

    @property
    def settled(self) -> float:
        """Percent that is settled."""
        return self._groups[""].credited

    @property
    def reached(self) -> float:
        """Percent, what running tools reported included."""
        return self.settled + self._partial_sum

    def divide(self, path: str, count: int, rounds: int = 1, attempts: int = 1) -> None:
        """The step at `path` ("": the run) begins `count` children.

        They are in the first of `rounds` rounds, and in the first of `attempts` attempts at that.
        """
        group = self._group(path)
        round_part = max(0.0, group.share - group.credited) / rounds
        group.round_end = group.credited + round_part
        group.part = round_part / attempts / count if count else 0.0

    def end_round(self, path: str) -> None:
        """A round is done."""
        group = self._group(path)
        self._drop_partial(path)
        self._credit(path, group, group.round_end - group.credited)

    def settle(self, path: str, *, done: bool) -> None:
        """Nothing more will happen at `path`."""
        self._drop_partial(path)
        group = self._groups.get(path)
        amount = group.share - group.credited if group is not None else self._share(path)
        amount = max(0.0, amount)
        self._credit(path, group, amount)
        if not done:
            self._undone[path] = amount

    def stand_in(self, path: str) -> None:
        """A fallback succeeded for the step at `path`."""
        self._undone.pop(path, None)

    def report(self, path: str, fraction: float) -> None:
        """A running tool says how far it is."""
        group = self._groups.get(path)
        part = group.part if group is not None else self._share(path)
        self._drop_partial(path)
        self._partial[path] = part * fraction
        self._partial_sum += part * fraction

    def restart(self, path: str) -> None:
        """What was reported of an attempt counts no more."""
        self._drop_partial(path)

    def reopen(self) -> Iterable[str]:
        """What did not succeed is to be done again: the paths of it."""
        undone, self._undone = self._undone, {}
        for path, amount in undone.items():
            self._credit(path, self._groups.get(path), -amount)
        return undone

    def _drop_partial(self, path: str) -> None:
        if self._partial:
            self._partial_sum -= self._partial.pop(path, 0.0)
            if not self._partial:
                self._partial_sum = 0.0  # no rest from rounding

    def _group(self, path: str) -> _Group:
        group = self._groups.get(path)
        if group is None:
            group = self._groups[path] = _Group(self._share(path))
        return group

    def _share(self, path: str) -> float:
        owner = self._groups.get(owner_of(path))
        return owner.part if owner is not None else 0.0

    def _credit(self, path: str, group: _Group | None, amount: float) -> None:
        if group is not None:
            group.credited += amount
        while path:
            path = owner_of(path)
            above = self._groups.get(path)
            if above is not None:
                above.credited += amount


def owner_of(path: str) -> str:
    """Path of the step that holds this one: `a[3]#1/b` -> `a[3]` -> `a` -> ""."""
    if path.endswith("]"):
        return path[: path.rindex("[")]
    owner = path.rpartition("/")[0]
    head, mark, number = owner.rpartition("#")
    return head if mark and number.isdigit() else owner


def rounds_to_come(loop: Loop | None, iteration: int) -> int:
    """How many rounds to reckon with, the one that begins included. With `until`, nobody knows: few."""
    if loop is None:
        return 1
    left = max(1, loop.times - iteration)
    return left if loop.until is None else min(left, _UNTIL_ROUNDS)


def attempts_to_come(retry: Retry | None, attempt: int) -> int:
    """How many attempts of a composite to reckon with, the one that begins included."""
    left = retry.attempts - attempt + 1 if retry is not None else 1
    return max(1, min(left, _ATTEMPTS))
