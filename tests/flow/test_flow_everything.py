"""Lives in which everything meets: changes, repairs, agents, questions, forks, undoing, crashes, lost logs.

After each event the laws hold and the state is the fold of the log; in the end each run has ended, whatever
came, and can be told. And then it is taken up again, or undone.
"""

from __future__ import annotations

import os

import pytest

from kedge.base.errors import InvalidPlan
from kedge.testing.lives import Everything

LIVES = int(os.environ.get("KEDGE_FLOW_LIVES", "240"))
BLOCKS = 8


def live(seed: int) -> None:
    try:
        life = Everything(seed)
    except InvalidPlan:
        return
    life.ring.start()
    life.live()
    life.look()
    for end in (life.end, life.again, life.afterwards):
        end()
        life.ring.crash()
        life.look()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_whatever_meets_the_laws_hold_and_the_run_comes_to_an_end_that_can_be_told(block: int):
    for seed in range(block, LIVES, BLOCKS):
        try:
            live(seed)
        except Exception as error:
            raise AssertionError(f"life {seed}: {error}") from error
