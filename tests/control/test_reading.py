"""A run's events, told from the store."""

from __future__ import annotations

import apsw
import pytest

import kedge
from kedge.base.errors import NotFound, StoreDamaged


@kedge.tool(effect="pure")
async def double(x: int) -> int:
    return 2 * x


PLAN = kedge.Plan.parse(
    {"goal": "Many", "steps": [{"id": "a", "tool": "double", "args": {"x": "${item}"}, "foreach": [1, 2, 3]}]}
)


async def done(store, name="r1"):
    async with kedge.Engine([double], store) as engine:
        run = await engine.start(PLAN, run_id=name)
        await run.result()
        return [event async for event in run.events()]


async def test_a_reader_tells_what_a_follower_of_the_live_run_was_told(tmp_path):
    told = await done(tmp_path / "kedge.db")
    async with kedge.Engine((), tmp_path / "kedge.db") as engine:
        reader = engine.reader("r1")
        read = list(reader.news())
        assert [event.plain() for event in read] == [event.plain() for event in told]
        assert reader.ended
        assert list(reader.news()) == [], "each event is news once"


async def test_a_reader_sees_what_another_driver_writes(tmp_path):
    store = tmp_path / "kedge.db"
    async with kedge.Engine([double], store) as driver, kedge.Engine((), store) as onlooker:
        run = await driver.start(PLAN, run_id="r1")
        reader = onlooker.reader("r1")
        before = list(reader.news())
        reader.changed()
        assert not reader.changed()
        await run.result()
        assert reader.changed() or reader.ended
        told = [*before, *reader.news()]
        assert reader.ended
        assert told[-1].seq == run.state.seq


async def test_an_unknown_run_is_not_found(tmp_path):
    async with kedge.Engine((), tmp_path / "kedge.db") as engine:
        with pytest.raises(NotFound) as caught:
            engine.reader("nobody")
        assert caught.value.code == "unknown_run"


async def test_what_is_intact_before_a_damage_is_told_and_the_damage_is_an_error(tmp_path):
    await done(tmp_path / "kedge.db")
    db = apsw.Connection(str(tmp_path / "kedge.db"))
    db.execute("update event set data = x'7b7d' where id & 4294967295 = 5")
    db.close()
    async with kedge.Engine((), tmp_path / "kedge.db") as engine:
        reader, seqs = engine.reader("r1"), []
        with pytest.raises(StoreDamaged) as caught:
            seqs.extend(event.seq for event in reader.news())
        assert (caught.value.run_id, caught.value.seq) == ("r1", 5)
        assert sorted(set(seqs)) == [1, 2, 3, 4]
        assert engine.runs()[0].status == "damaged"
