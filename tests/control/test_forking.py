"""Runs that branch off others: from whatever is there of them, and never a repeated effect without a word."""

# pyright: reportOptionalMemberAccess=none, reportArgumentType=none, reportCallIssue=none

import asyncio

import pytest

import kedge
from kedge.journal.memory import MemoryJournal
from kedge.journal.sqlite import SqliteJournal

PLAN = kedge.Plan.parse(
    {
        "goal": "Read, pay, tell",
        "inputs": {"what": {"type": "string", "default": "rent"}},
        "steps": [
            {"id": "read", "tool": "read", "args": {"name": "${inputs.what}"}},
            {"id": "pay", "tool": "pay", "args": {"text": "${read}"}},
            {"id": "note", "tool": "note", "args": {"text": "${pay}"}},
        ],
        "outputs": {"said": "note"},
    }
)
LESS = kedge.Patch(why="less", change={"pay": {"args": {"text": "less"}}})


class World:
    """Tools that write down what they did, and under which key."""

    def __init__(self, size=3):
        self.did = []
        self.hold = asyncio.Event()
        self.hold.set()
        did, hold = self.did, self.hold

        @kedge.tool(effect="read")
        async def read(name: str) -> str:
            did.append("read")
            return name[0] * size

        @kedge.tool(effect="effect")
        async def pay(text: str, ctx: kedge.Context) -> str:
            did.append((ctx.step, ctx.idempotency_key))
            await hold.wait()
            return f"{text} paid"

        @kedge.tool(effect="idempotent")
        async def note(text: str, ctx: kedge.Context) -> str:
            did.append((ctx.step, ctx.idempotency_key))
            return text

        self.tools = [read, pay, note]


async def ended(engine, run_id="r"):
    run = await engine.start(PLAN, run_id=run_id)
    result = await run.result()
    assert result.ok
    return result


def seqs(journal, run_id="r"):
    import json

    return [(json.loads(e.data)["kind"], json.loads(e.data).get("path", "")) for e in journal.read(run_id)]


def seq_of(journal, kind, path, run_id="r"):
    return seqs(journal, run_id).index((kind, path)) + 1


async def test_what_a_tool_gave_before_it_was_changed_is_not_taken_over(tmp_path):
    store = tmp_path / "k.db"
    async with kedge.Engine(World().tools, store=store) as engine:
        await ended(engine)
    world = World()

    @kedge.tool(effect="read", name="read")
    async def mended(name: str, most: int = 0) -> str:
        world.did.append("mended")
        return name

    async with kedge.Engine([mended, *world.tools[1:]], store=store) as engine:
        fork = engine.fork("r", before="read")
        assert "read" in fork.again
        assert "read" not in fork.reused
        assert (await (await fork.start(repeat=True)).result()).outputs == {"said": "rent paid"}
    assert world.did[0] == "mended"


@pytest.mark.parametrize("store", [":memory:", "k.db"])
async def test_a_fork_takes_over_what_is_known_and_is_a_run_like_any_other(store, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    world = World()
    async with kedge.Engine(world.tools, store) as engine:
        first = await ended(engine)
        world.did.clear()
        fork = engine.fork("r", 2)
        assert (fork.source, fork.at, fork.reused, fork.again, fork.repeats, fork.damage) == (
            "r", 2, ("read", "pay", "note"), (), (), "",
        )  # fmt: skip
        told = []
        run = await fork.start(on_event=told.append)
        result = await run.result()
        assert (result.outputs, world.did) == (first.outputs, [])
        assert result.forked_from == ("r", 2)
        assert {run.id for run in engine.runs()} == {"r", result.run_id}
        assert "result_reused" in {event.kind for event in told}
        engine.delete("r")
        assert engine.look(result.run_id).outputs == first.outputs, "it needs the other no more"


async def test_what_would_be_repeated_is_told_and_wants_consent():
    world = World()
    async with kedge.Engine(world.tools) as engine:
        await ended(engine)
        keys = dict(call for call in world.did if call != "read")
        world.did.clear()
        fork = engine.fork("r", patch=LESS, before="pay", by="anna")
        assert (fork.reused, fork.again) == ((), ("pay", "note"))
        assert [(one.path, one.tool, one.status) for one in fork.repeats] == [
            ("pay", "pay", "done"), ("note", "note", "done"),
        ]  # fmt: skip
        assert "may have its effect again: pay (pay, done in the other run)" in str(fork)
        with pytest.raises(kedge.Refused, match="pay, note") as caught:
            await fork.start()
        assert caught.value.code == "repeats_effects"
        assert world.did == [], "nothing has started"
        assert len(engine.runs()) == 1
        result = await (await fork.start(repeat=True)).result()
        assert result.outputs == {"said": "less paid"}
        assert [one for one in world.did if one in keys.items()] == [], "other keys"
        version = result.versions[-1]
        assert (version.number, version.cause, version.by, version.why) == (2, "fork", "anna", "less")


async def test_many_repeats_are_named_in_part():
    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [{"id": f"s{n}", "tool": "pay", "args": {"text": "x"}} for n in range(25)]}
    )
    world = World()
    async with kedge.Engine(world.tools) as engine:
        await (await engine.start(plan, run_id="r")).result()
        with pytest.raises(kedge.Refused, match=r"s19 …"):
            await engine.fork("r", 2, anew=True).start()


async def test_effects_that_certainly_did_not_happen_are_no_repeats():
    @kedge.tool(effect="effect")
    async def pay(text: str) -> str:
        raise kedge.ToolError("no money", "permanent")

    world = World()
    async with kedge.Engine([world.tools[0], pay, world.tools[2]]) as engine:
        result = await (await engine.start(PLAN, run_id="r")).result()
        assert str(result.status) == "failed"
        fork = engine.fork("r")
        assert (fork.again, fork.repeats) == ((), ())
        fork = engine.fork("r", before="pay")
        assert (fork.again, fork.repeats) == (("pay",), ())
        assert str((await (await fork.start()).result()).status) == "failed"


async def test_a_fork_of_a_run_that_goes_on_has_what_is_on_disk_and_tells_what_is_in_flight(tmp_path):
    world = World()
    world.hold.clear()
    async with kedge.Engine(world.tools, tmp_path / "k.db") as engine:
        run = await engine.start(PLAN, run_id="r")
        while len(world.did) < 2:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0)
        fork = engine.fork("r")
        assert [(one.path, one.status) for one in fork.repeats] == [("pay", "running")]
        world.hold.set()
        mine, other = await asyncio.gather((await fork.start(repeat=True)).result(), run.result())
        assert mine.outputs == other.outputs
        assert len({key for call in world.did if call != "read" for key in [call[1]]}) == 4


async def test_any_event_can_be_named_and_no_other():
    world = World()
    async with kedge.Engine(world.tools) as engine:
        await ended(engine)
        last = len(seqs(engine._journal))
        assert engine.fork("r", 1).at == 2, "before its plan is followed there is no run"
        assert engine.fork("r").at == last
        for at in (0, -1, last + 1, True, 2.5):
            with pytest.raises(kedge.BadInput) as caught:
                engine.fork("r", at)
            assert caught.value.code == "fork_at"
            assert f"1 to {last}" in str(caught.value)
        for before in ("nope", "pay[0]"):
            with pytest.raises(kedge.NotFound) as unknown:
                engine.fork("r", before=before)
            assert unknown.value.allowed == ("read", "pay", "note")
        with pytest.raises(kedge.NotFound):
            engine.fork("nobody", 2)
        with pytest.raises(kedge.BadInput) as wrong:
            engine.fork("r", ask="sometimes")
        assert wrong.value.code == "ask"


async def test_an_edit_that_is_none_is_refused_before_anything_is_there():
    world = World()
    async with kedge.Engine(world.tools) as engine:
        await ended(engine)
        with pytest.raises(kedge.InvalidPlan):
            engine.fork("r", patch=LESS)  # it has paid by then
        with pytest.raises(kedge.Refused):
            engine.fork("r", 2, kedge.Patch())
        assert len(engine.runs()) == 1


async def test_a_fork_can_be_driven_otherwise():
    world = World()
    async with kedge.Engine(world.tools) as engine:
        await ended(engine)
        run = await engine.fork("r", 2, LESS, ask="effects").start(repeat=True)
        result = await run.result()
        assert [asked.path for asked in result.questions.values()] == ["pay"]


async def test_the_same_fork_under_the_same_id_is_that_run():
    world = World()
    async with kedge.Engine(world.tools) as engine:
        await ended(engine)
        one = await (await engine.fork("r", 2, LESS).start("mine", repeat=True)).result()
        world.did.clear()
        other = await (await engine.fork("r", 2, LESS).start("mine", repeat=True)).result()
        assert (one.outputs, world.did) == (other.outputs, [])
        for fork in (engine.fork("r", 2), engine.fork("r", 5), engine.fork("mine", 2)):
            with pytest.raises(kedge.RunConflict):
                await fork.start("mine", repeat=True)
        with pytest.raises(kedge.RunConflict):
            await engine.fork("mine", 2).start("r", repeat=True)
        plain = await (await engine.fork("r", 2).start("plain")).result()
        assert plain.ok
        assert (await (await engine.fork("r", 2).start("plain")).result()).ok
        with pytest.raises(kedge.BadInput):
            await engine.fork("r", 2).start("No Id")


async def test_a_damaged_run_can_be_forked_before_the_damage(tmp_path):
    import apsw

    world = World(size=20_000)
    store = tmp_path / "k.db"
    async with kedge.Engine(world.tools, store) as engine:
        await ended(engine)
        bad = seq_of(engine._journal, "StepSucceeded", "pay")
    db = apsw.Connection(str(store))
    db.execute(f"update event set data = replace(data, '{{', '[') where id = (1 << 32) + {bad}")
    db.close()
    world.did.clear()
    async with kedge.Engine(world.tools, store) as engine:
        with pytest.raises(kedge.BadInput, match=r"damage|written"):
            engine.fork("r", bad)
        fork = engine.fork("r")
        assert fork.at == bad - 1
        assert "damaged" in fork.damage
        assert fork.damage in str(fork)
        assert [(one.path, one.status) for one in fork.repeats] == [("pay", "running")]
        run = await fork.start("mended", repeat=True)
        result = await run.result()
        (asked,) = result.questions.values()
        assert (asked.reason, world.did) == ("salvaged", [])
        await run.answer(next(iter(result.questions)), "go on", by="anna")
        assert (await run.result()).ok


async def test_large_values_come_along(tmp_path):
    world = World(size=30_000)
    async with kedge.Engine(world.tools, tmp_path / "k.db") as engine:
        first = await ended(engine)
        world.did.clear()
        for at in (2, seq_of(engine._journal, "StepSucceeded", "read")):
            result = await (await engine.fork("r", at).start()).result()
            assert (result.outputs, world.did) == (first.outputs, [])
        engine.delete("r")
        for run in engine.runs():
            assert engine.look(run.id).outputs == first.outputs


async def test_a_fork_that_cannot_be_written_leaves_its_id_free():
    class Broken(MemoryJournal):
        broken = False

        def commit(self, appends, patience_s=0.0):
            if self.broken:
                raise kedge.StoreError("the disk is gone")
            super().commit(appends, patience_s)

    world, journal = World(), Broken()
    async with kedge.Engine(world.tools, journal) as engine:
        await ended(engine)
        journal.broken = True
        with pytest.raises(kedge.StoreError, match="the disk is gone"):
            await engine.fork("r", 2).start("mine")
        journal.broken = False
        assert (await (await engine.fork("r", 2).start("mine")).result()).ok


async def test_a_step_that_is_replaced_is_told_by_its_name():
    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "steps": [
                {
                    "id": "job",
                    "foreach": [1, 2],
                    "steps": [{"id": "put", "tool": "note", "args": {"text": "x"}}],
                }
            ],
        }
    )
    world = World()
    async with kedge.Engine(world.tools) as engine:
        await (await engine.start(plan, run_id="r")).result()
        fork = engine.fork("r", 2, anew=True)
        assert fork.again == ("job[0]/put", "job[1]/put")
        assert [one.path for one in fork.repeats] == ["job[0]/put", "job[1]/put"]


async def test_a_salvaged_run_whose_plan_was_changed_is_whole(tmp_path):
    from kedge import commands

    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "steps": [
                {"id": "go", "wait": {"signal": "go"}},
                {"id": "a", "tool": "read", "args": {"name": "x"}},
            ],
        }
    )
    world = World()
    async with kedge.Engine(world.tools, tmp_path / "k.db") as engine:
        run = await engine.start(plan, run_id="r")
        await run.result()
        assert (await run.send(commands.SetGoal(goal="other"))).taken
    with_changes = SqliteJournal(tmp_path / "k.db")
    count = len(with_changes.read("r"))
    with_changes.close()
    async with kedge.Engine(world.tools, tmp_path / "k.db") as engine:
        facts = engine.salvage("r")
        assert (facts.intact, facts.damage) == (count, "")
