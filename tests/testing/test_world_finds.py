"""Defects put in on purpose: the simulated world must find each of them, within a few lives."""

import pytest
from msgspec.structs import replace

from kedge.engine import driver
from kedge.engine.driver import Driver
from kedge.engine.writer import Writer
from kedge.flow import decide
from kedge.testing.world import disk, simulate
from kedge.testing.world.disk import Disk
from kedge.testing.world.scenario import unsteered
from kedge.testing.world.shrink import shrunk

LIVES = 400


def acknowledged_before_it_is_on_disk(patch):
    def promise(self, future):
        if not future.done():
            future.set_result(None)

    patch.setattr(Driver, "_promise", promise)


def result_before_the_end_is_on_disk(patch):
    async def settled(self):
        while self._moves_by_itself or self._intake:
            future = self._loop.create_future()
            self._idle.append(future)
            await future
        if self.lost is not None:
            raise self.lost
        if self.log.behind:
            await self.durable()  # and nobody looks again whether it has been moved meanwhile

    patch.setattr(Driver, "settled", settled)


def effects_before_their_start_is_on_disk(patch):
    patch.setattr(driver, "NEEDS_NO_DISK", frozenset({"pure", "read", "idempotent", "effect"}))


def effects_in_flight_are_run_again(patch):
    patch.setattr(decide, "RETRYABLE_UNASKED", ("pure", "read", "idempotent", "effect"))


def no_epoch_is_looked_at(patch):
    real = disk.advance

    def advance(head, append):
        return replace(real(replace(head, epoch=append.epoch), append), epoch=head.epoch)

    patch.setattr(disk, "advance", advance)


def nothing_is_synced(patch):
    patch.setattr(Disk, "sync", lambda self: self.on_synced())


def a_full_store_forgets_what_it_was_given(patch):
    real = Writer._hold

    def hold(self, batch, error):
        real(self, batch, error)
        for log, append in batch:
            log.written(append)

    patch.setattr(Writer, "_hold", hold)


DEFECTS = {
    acknowledged_before_it_is_on_disk: ("I1", 0),
    result_before_the_end_is_on_disk: ("I1", 0),
    effects_before_their_start_is_on_disk: ("I3", 0),
    effects_in_flight_are_run_again: ("I3", 0),
    no_epoch_is_looked_at: ("I5", 400),
    nothing_is_synced: ("I1", 0),
    a_full_store_forgets_what_it_was_given: ("I3", 0),
}
"""Which law each breaks, and the seed to begin with: the rarest shows in one life of a hundred."""


@pytest.mark.parametrize("plant", DEFECTS, ids=lambda plant: plant.__name__)
def test_a_planted_defect_is_found(plant, monkeypatch):
    law, first = DEFECTS[plant]
    plant(monkeypatch)
    for seed in range(first, first + LIVES):
        blames = simulate(seed).blames
        if blames:
            assert blames[0].law.startswith(law), f"seed {seed}: {blames[0]}"
            return
    raise AssertionError(f"not found in {LIVES} lives")


def test_what_is_told_of_a_defect_is_as_small_as_it_gets(monkeypatch):
    effects_in_flight_are_run_again(monkeypatch)
    large = next(report for report in map(simulate, map(unsteered, range(LIVES))) if report.blames)
    law = large.blames[0].law
    small = shrunk(large.scenario, lambda less: any(blame.law == law for blame in simulate(less).blames))
    (order,) = small.orders
    assert len(order.plan["steps"]) == 1
    assert len(small.faults) <= 1
    assert simulate(small).blames[0].law == law
