"""Random plans, driven by random luck: what must hold after every event, and that every run ends."""

from __future__ import annotations

import os
from random import Random
from typing import Any

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kedge.base.errors import InvalidPlan
from kedge.flow.events import PlanAdopted, Reopened, ResultReused, RunResumed, StepStarted, StepSucceeded
from kedge.flow.settings import RunSettings
from kedge.testing.authors import TOOLS, Author
from kedge.testing.lives import World
from kedge.testing.ring import Places, Ring

EXAMPLES = int(os.environ.get("KEDGE_FLOW_EXAMPLES", "150"))
_SETTINGS = st.sampled_from(
    [
        RunSettings(),
        RunSettings(repair=True),
        RunSettings(repair=True, adaptation_sensitivity=0.2),
        RunSettings(decide_at="every_step"),
        RunSettings(decide_at="milestone", agent_default="ask", repair=True),
        RunSettings(decide_at="trouble", agent_default="ask"),
    ]
)


@st.composite
def lives(draw: Any) -> tuple[Ring, World]:
    luck: Random = draw(st.randoms(use_true_random=False))
    plan = Author(luck).plan()
    gate = Places({"put": 1}) if luck.randrange(3) == 0 else None
    try:
        ring = Ring(plan, TOOLS, inputs={"many": [1, 2, 3]}, gate=gate, settings=draw(_SETTINGS))
    except InvalidPlan:
        assume(False)
        raise
    return ring, World(ring, luck, calm=luck.randrange(3) > 0)


@settings(max_examples=EXAMPLES)
@given(lives())
def test_whatever_happens_the_laws_hold_and_the_run_ends(life):
    ring, world = life
    ring.start()
    world.live()
    world.end()
    ring.crash()
    for _ in range(2):
        done = _done_on_top(ring)
        ring.resume(retry_failed=True)
        world.end()
        assert done <= _done_on_top(ring)
        ring.crash()
    _no_finished_step_started_again(ring)
    _attempts_had_the_same_arguments(ring)


def _done_on_top(ring: Ring) -> set[str]:
    """Not inside composites: another attempt of one does its children again."""
    return {path for path, status in ring.statuses().items() if status == "done" and "/" not in path}


def _no_finished_step_started_again(ring: Ring) -> None:
    done: set[str] = set()
    for event in ring.events:
        if isinstance(event, StepSucceeded):
            done.add(event.path)
        elif isinstance(event, StepStarted):
            assert event.path not in done
            # Another attempt of a composite, which has no effects, does its children again.
            done = {path for path in done if not path.startswith((f"{event.path}/", f"{event.path}#"))}


def _attempts_had_the_same_arguments(ring: Ring) -> None:
    given_to: dict[tuple[str, int, int], bytes] = {}
    for event in ring.events:
        anew = isinstance(event, RunResumed) and event.retry_failed
        if anew or isinstance(event, PlanAdopted | Reopened):
            given_to.clear()
        if isinstance(event, StepStarted):
            key = event.path, event.generation, event.iteration
            assert given_to.setdefault(key, bytes(event.args)) == bytes(event.args)


@settings(max_examples=EXAMPLES)
@given(lives())
def test_a_fork_from_any_event_is_lawful_and_comes_to_an_end(life):
    ring, world = life
    ring.start()
    world.live()
    if world.luck.randrange(3) == 0:
        world.end()
    for _ in range(world.luck.randint(1, 3)):
        at = world.luck.randint(2, len(ring.log))
        before, launched = ring.log[:at], len(ring.launched)
        done = {e.path for e in ring.events[:at] if isinstance(e, StepSucceeded) and "/" not in e.path}
        ring.fork(at, anew=world.luck.randrange(4) == 0)
        world.heard.clear()  # that was said to the other run
        assert ring.log[:at] == before
        assert not done & {path for path, _ in ring.launched[launched:]}
        world.live()
        ring.crash().resume()
        if world.luck.randrange(2):
            world.end()
    world.end()
    ring.crash()
    reused = [event.source for event in ring.of(ResultReused)]
    assert len(set(reused)) == len(reused), "one result stands for one call"
