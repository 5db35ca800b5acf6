"""What is left of a damaged run goes on in another store, and repeats no effect unasked."""

# pyright: reportOptionalMemberAccess=none

import asyncio
import os
from contextlib import closing

import apsw
import pytest

import kedge
from kedge.journal.sqlite import SqliteJournal

PLAN = kedge.Plan.parse(
    {
        "goal": "Read, pay, tell",
        "steps": [
            {"id": "read", "tool": "read"},
            {"id": "pay", "tool": "pay", "args": {"text": "${read}"}},
            {"id": "note", "tool": "note", "args": {"text": "${pay}"}},
            {"id": "tell", "tool": "pay", "args": {"text": "${note}"}},
        ],
        "outputs": {"said": "tell"},
    }
)


class World:
    """Tools that write down what they did, and under which key."""

    def __init__(self, size=10):
        self.did = []
        did = self.did

        @kedge.tool(effect="read")
        async def read() -> str:
            return "r" * size

        @kedge.tool(effect="effect")
        async def pay(text: str, ctx: kedge.Context) -> str:
            did.append((ctx.step, ctx.idempotency_key))
            return ctx.step

        @kedge.tool(effect="idempotent")
        async def note(text: str, ctx: kedge.Context) -> str:
            did.append((ctx.step, ctx.idempotency_key))
            return ctx.step

        self.tools = [read, pay, note]


async def lived(store, world=None, run_id="r"):
    """A run from its start to its end."""
    world = world or World()
    async with kedge.Engine(world.tools, store) as engine:
        result = await (await engine.start(PLAN, run_id=run_id)).result()
        assert result.ok
        return world, [(event.kind, event.path) async for event in (await engine.resume(run_id)).events()]


def change(store, statement):
    db = apsw.Connection(str(store))
    db.execute(statement)
    assert db.changes()
    db.close()


def flip(store, seq, run=1):
    change(store, f"update event set data = replace(data, '{{', '[') where id = ({run} << 32) + {seq}")


def seq_of(told, kind, path):
    return told.index((kind, path)) + 1


@pytest.fixture
def store(tmp_path):
    return tmp_path / "k.db"


@pytest.fixture
def other(tmp_path):
    return tmp_path / "other.db"


async def test_it_tells_what_is_intact_what_is_lost_and_what_can_be_read_behind(store):
    _, told = await lived(store)
    flip(store, bad := seq_of(told, "step_started", "pay"))
    async with kedge.Engine((), store) as engine:
        found = engine.salvage("r")
    assert (found.id, found.goal, found.status, found.store) == ("r", "Read, pay, tell", "running", "")
    assert (found.intact, found.lost) == (bad - 1, len(told) - bad + 1)
    assert (found.done, found.total) == (1, 4)
    assert f"event {bad}" in found.damage
    assert "read" in found.last
    assert found.last_at is not None
    assert found.behind == {"pay": "succeeded", "note": "succeeded", "tell": "succeeded"}


async def test_the_salvaged_run_asks_about_each_effect_and_keeps_keys_and_results(store, other):
    world, told = await lived(store)
    flip(store, seq_of(told, "step_started", "pay"))
    async with kedge.Engine((), store) as engine:
        found = engine.salvage("r", to=other)
    assert found.store == str(other)
    before = list(world.did)
    async with kedge.Engine(world.tools, other) as engine:
        assert (engine.runs()[0].status, engine.runs()[0].questions) == ("waiting", 1)
        run = await engine.resume("r")
        result = await run.result()
        assert (result.status, world.did) == ("waiting", before)
        ((asked, question),) = result.questions.items()
        assert question.reason == "salvaged"
        assert "are lost" in question.text
        assert "pay succeeded" in question.text
        await run.answer(asked, "ask")
        for path, value in (("pay", "pay"), ("tell", "told")):
            result = await run.result()
            ((doubt, question),) = result.questions.items()
            assert (question.reason, question.path) == ("in_doubt", path)
            await run.answer(doubt, "done", value)
        result = await run.result()
    assert result.ok
    assert result.outputs == {"said": "told"}
    assert result.steps["pay"].result == "pay"
    assert world.did == [
        *before,
        before[1],
    ]  # the idempotent one, under its old key: it is given what it was given then


async def test_go_on_makes_every_call_again(store, other):
    world, told = await lived(store)
    flip(store, seq_of(told, "step_started", "pay"))
    async with kedge.Engine((), store) as engine:
        engine.salvage("r", to=other)
    async with kedge.Engine(world.tools, other) as engine:
        run = await engine.resume("r")
        await run.answer("q1", "go on")
        assert (await run.result()).ok
    assert [step for step, _ in world.did] == ["pay", "note", "tell"] * 2


async def test_wherever_it_is_damaged_no_effect_is_repeated_unasked_and_every_run_ends_well(tmp_path):
    world, told = await lived(tmp_path / "k.db")
    original = (tmp_path / "k.db").read_bytes()
    for bad in range(3, len(told) + 1):
        damaged, other = tmp_path / f"{bad}.db", tmp_path / f"{bad}-other.db"
        damaged.write_bytes(original)
        flip(damaged, bad)
        async with kedge.Engine((), damaged) as engine:
            found = engine.salvage("r", to=other)
        assert (found.intact, found.lost) == (bad - 1, len(told) - bad + 1)
        again = World()
        async with kedge.Engine(again.tools, other) as engine:
            run = await engine.resume("r")
            while (result := await run.result()).status == "waiting":
                assert not {step for step, _ in again.did} & {"pay", "tell"}
                for id_, question in result.questions.items():
                    await run.answer(id_, "ask" if question.reason == "salvaged" else "done", question.path)
            assert result.ok
        assert {key for _, key in again.did} <= {key for _, key in world.did}


async def test_a_large_value_that_is_not_intact_is_where_the_run_is_cut(store, other):
    _, told = await lived(store, World(size=50_000))
    change(store, "update blob set data = x'00' where length(data) > 40000")
    async with kedge.Engine((), store) as engine:
        found = engine.salvage("r", to=other)
    assert found.intact == seq_of(told, "step_succeeded", "read") - 1
    assert "blob" in found.damage
    change(store, "delete from blob where length(data) < 2")
    async with kedge.Engine((), store) as engine:
        assert "missing" in engine.salvage("r").damage


async def test_large_values_come_along(store, other):
    world, told = await lived(store, World(size=50_000))
    flip(store, seq_of(told, "step_started", "note"))
    async with kedge.Engine((), store) as engine:
        engine.salvage("r", to=other)
    async with kedge.Engine(world.tools, other) as engine:
        assert engine.look("r").steps["read"].result == "r" * 50_000


async def test_a_damaged_row_loses_no_event(store, other):
    _, told = await lived(store)
    change(store, "update run set seq = 3")
    async with kedge.Engine((), store) as engine:
        found = engine.salvage("r", to=other)
    assert (found.intact, found.lost, found.status) == (len(told), None, "done")
    async with kedge.Engine((), other) as engine:
        assert engine.look("r").ok  # what is done asks nothing
        assert engine.runs()[0].status == "done"


async def test_a_run_that_is_not_damaged_is_not_doubled(store, other):
    await lived(store)
    async with kedge.Engine((), store) as engine:
        found = engine.salvage("r")
        assert (found.damage, found.lost, found.behind) == ("", 0, {})
        with pytest.raises(kedge.BadInput) as refused:
            engine.salvage("r", to=other)
        assert refused.value.code == "not_damaged"
        run = await engine.resume("r")
        assert run.state.ended, "it can still be had where it is"


async def test_intact_runs_of_a_store_that_takes_no_writes_can_be_had_elsewhere(tmp_path):
    store, other = tmp_path / "k.db", tmp_path / "other.db"
    world = World()
    await lived(store, world, "first")
    for n in range(8):
        await lived(store, world, f"more{n}")
    size = store.stat().st_size
    with store.open("r+b") as file:
        file.truncate(size - 4096)
    with closing(SqliteJournal(store)) as journal, pytest.raises(kedge.StoreDamaged):
        journal.claim("first", 1)
    async with kedge.Engine(world.tools, store) as engine:
        found = engine.salvage("first", to=other)
        assert (found.damage, found.lost) == ("", 0)
    async with kedge.Engine(world.tools, other) as engine:
        assert engine.look("first").ok


async def test_a_run_that_somebody_drives_is_not_salvaged(store, other):
    await lived(store)
    flip(store, 5)
    journal = SqliteJournal(store)
    try:
        lease = journal.claim("r", 1)
        second = SqliteJournal(store)
        async with kedge.Engine((), second) as engine:
            with pytest.raises(kedge.NotOwner):
                engine.salvage("r", to=other)
            assert engine.salvage("r").intact == 4  # looking is free
        second.close()
        journal.release(lease)
    finally:
        journal.close()


async def test_a_run_that_is_driven_here_is_not_salvaged(store, other):
    @kedge.tool(effect="pure")
    async def wait() -> str:
        await asyncio.sleep(60)
        return ""

    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "wait"}]})
    async with kedge.Engine([wait], store) as engine:
        await engine.start(plan, run_id="r")
        with pytest.raises(kedge.BadInput) as refused:
            engine.salvage("r", to=other)
        assert refused.value.code == "run_is_live"


async def test_what_cannot_be_is_refused_by_name(store, other):
    await lived(store)
    flip(store, 5)
    async with kedge.Engine((), store) as engine:
        with pytest.raises(kedge.NotFound):
            engine.salvage("nobody", to=other)
        with pytest.raises(kedge.BadInput, match="name a file"):
            engine.salvage("r", to=":memory:")
        with pytest.raises(kedge.RunConflict, match="another store"):
            engine.salvage("r", to=store)
        engine.salvage("r", to=other)
        with pytest.raises(kedge.RunConflict):
            engine.salvage("r", to=other)


@pytest.mark.parametrize("bad", [1, 2])
async def test_without_its_beginning_nothing_can_be_salvaged(store, other, bad):
    await lived(store)
    flip(store, bad)
    async with kedge.Engine((), store) as engine:
        with pytest.raises(kedge.StoreDamaged, match="nothing of it can be salvaged") as told:
            engine.salvage("r", to=other)
    assert told.value.run_id == "r"
    assert not os.path.exists(other)  # noqa: ASYNC240, PTH110


async def test_damage_in_two_places_ends_what_is_told_of_the_part_behind(store):
    _, told = await lived(store)
    flip(store, seq_of(told, "step_started", "pay"))
    flip(store, seq_of(told, "step_succeeded", "note"))
    async with kedge.Engine((), store) as engine:
        assert engine.salvage("r").behind == {}


async def test_a_target_without_room_leaves_nothing_that_could_be_resumed(store, other, monkeypatch):
    await lived(store)
    flip(store, 5)
    commit = SqliteJournal.commit

    def full(self, appends, patience_s=60.0):
        raise kedge.StoreFull("no space left")

    async with kedge.Engine((), store) as engine:
        monkeypatch.setattr(SqliteJournal, "commit", full)
        with pytest.raises(kedge.StoreFull):
            engine.salvage("r", to=other)
        monkeypatch.setattr(SqliteJournal, "commit", commit)
        async with kedge.Engine((), other) as elsewhere:
            assert elsewhere.runs() == []
        engine.salvage("r", to=other)


async def test_the_events_of_a_run_with_a_damaged_row_are_told_before_the_damage(store):
    _, told = await lived(store)
    change(store, "update run set seq = 3")
    async with kedge.Engine((), store) as engine:
        seen = []
        with pytest.raises(kedge.StoreDamaged):
            seen.extend((event.kind, event.path) for event in engine.reader("r").news())
    assert seen == told


async def test_a_run_whose_name_the_index_has_lost_is_salvaged_and_not_begun_anew(store, other):
    world, told = await lived(store)
    raw = bytearray(store.read_bytes())
    db = apsw.Connection(str(store))
    ((page,),) = db.execute("select rootpage from sqlite_master where name = 'sqlite_autoindex_run_1'")
    db.close()
    at = raw.rindex(b"\x0f\x09r", (page - 1) * 4096, page * 4096)  # the heading of a text of one letter
    raw[at + 2] = ord("s")
    store.write_bytes(raw)
    async with kedge.Engine(world.tools, store) as engine:
        with pytest.raises(kedge.StoreDamaged, match="lost it"):
            await engine.start(PLAN, run_id="r")
        found = engine.salvage("r", to=other)
        assert (found.intact, found.status) == (len(told), "done")
        assert [run.id for run in engine.runs()] == ["r"]


async def test_what_a_run_was_after_the_plan_was_changed_can_be_salvaged(store):
    world = World()
    async with kedge.Engine(world.tools, store) as engine:
        run = await engine.start(PLAN, run_id="r")
        extra = kedge.Step(id="extra", tool="read")
        assert (await run.send(kedge.commands.Inject(step=extra))).taken
        assert (await run.result()).ok
        assert engine.salvage("r").total == 5
