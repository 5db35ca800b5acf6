"""Repairs by the thousand: random plans, random failures, random patches, and no finished step runs again.

One case is a repair that the planner was asked for. Each run is driven by hand, with crashes in between, and
after every event its state is compared with the fold of its log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from random import Random

from facts import Fact

from kedge.base.errors import InvalidPlan, KedgeError
from kedge.base.limits import Limits
from kedge.flow.events import StepStarted, StepSucceeded
from kedge.flow.inputs import Raised, Repaired, RepairFailed, Reported
from kedge.flow.settings import RunSettings
from kedge.flow.words import Failure
from kedge.testing.authors import TOOLS, Author
from kedge.testing.menders import Mender
from kedge.testing.programs import check_program
from kedge.testing.ring import Ring

REPAIRS = 2_000
_TURNS = 2_000
"""More than any of these runs needs."""
_LIMITS = Limits(repairs=6)
_SETTINGS = RunSettings(repair=True, adaptation_sensitivity=0.5)


class Account:
    """What became of all the runs."""

    def __init__(self) -> None:
        self.runs = 0
        self.outcomes: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.again: list[str] = []
        """Steps that were finished and began again, with the seed of their run."""
        self.broken: list[str] = []
        """Laws that did not hold, with the seed."""

    @property
    def repairs(self) -> int:
        return sum(self.outcomes.values())


def simulate(count: int, first: int = 0) -> Account:
    """So many repairs, from this seed on."""
    account, seed = Account(), first
    while account.repairs < count:
        try:
            ring = _lived(Random(seed))
        except InvalidPlan:
            seed += 1
            continue
        except AssertionError as error:
            account.broken.append(f"seed {seed}: {error}")
            ring = None
        if ring is not None:
            account.runs += 1
            account.ends[ring.status()] += 1
            account.outcomes.update(one.outcome for one in ring.state.repairs)
            account.again += [f"seed {seed}: {path}" for path in _run_again(ring)]
        seed += 1
    return account


def _lived(luck: Random) -> Ring:
    """A run from its start to its end."""
    ring = Ring(
        Author(luck).plan(), TOOLS, inputs={"many": [1, 2, 3]}, limits=_LIMITS, settings=_SETTINGS
    ).start()
    mender = Mender(luck)
    for _ in range(_TURNS):
        if ring.state.end is not None:
            return ring
        if not luck.randrange(12):
            ring.crash().resume()
        elif _asked(ring) and luck.randrange(3):
            _mend(ring, mender, luck)
        elif ring.calls:
            _land(ring, luck)
        else:
            _move_on(ring, luck)
    raise AssertionError(f"the run does not end: {ring.statuses()}")


def _asked(ring: Ring) -> bool:
    return ring.state.repair is not None and ring.state.repair.asked


def _mend(ring: Ring, mender: Mender, luck: Random) -> None:
    repair = ring.state.repair
    if repair is None:
        return
    if luck.randrange(10):
        ring.put(Repaired(repair.number, repair.round, mender.patch(ring.situation), mender.name))
    else:
        ring.put(RepairFailed(repair.number, repair.round, "no answer", "planner_timeout"))
    check_program(ring.state)


def _land(ring: Ring, luck: Random) -> None:
    """One of the calls comes back, badly half of the time."""
    path = luck.choice(ring.calls)
    starts = ring.step(path).starts
    if not luck.randrange(8):
        ring.put(Reported(path, starts, "something", luck.choice(["", "this", "that"])))
    if luck.randrange(2):
        ring.finish(path, luck.randrange(5))
    else:
        failure = Failure(category="permanent", code="bad_luck", message="bad luck", classified=True)
        ring.put(Raised(path, starts, failure))


def _move_on(ring: Ring, luck: Random) -> None:
    if ring.questions:
        question = luck.choice(ring.questions)
        options = ring.state.questions[question].asked.options
        ring.answer("stop" if "stop" in options else luck.choice(options), question=question)
    elif (at := ring.next_wake_ms) is not None:
        ring.tick(max(0, at - ring.now_ms))
    elif ring.state.listening:
        with suppress(KedgeError):
            ring.send("signal", name=next(iter(ring.state.listeners)), data=1)


def _run_again(ring: Ring) -> Iterator[str]:
    """Another attempt of a composite does its children again: that is no repair's doing."""
    done: set[str] = set()
    for event in ring.events:
        if isinstance(event, StepSucceeded):
            done.add(event.path)
        elif isinstance(event, StepStarted):
            if event.path in done:
                yield event.path
            done = {path for path in done if not path.startswith((f"{event.path}/", f"{event.path}#"))}


def prove(count: int | None) -> Iterator[Fact]:
    """At least so many repairs."""
    account = simulate(count or REPAIRS)
    outcomes = ", ".join(f"{number:,} {word}" for word, number in account.outcomes.most_common())
    yield Fact(
        "finished steps that ran again", f"{len(account.again)}", "0", good=not account.again,
        note=f"{account.repairs:,} repairs ({outcomes}) of {account.runs:,} runs; "
        + "; ".join(account.again[:3]),
    )  # fmt: skip
    yield Fact(
        "laws that did not hold", f"{len(account.broken)}", "0", good=not account.broken,
        note="; ".join(account.broken[:3]),
    )  # fmt: skip
