"""When the store refuses what a run has to write: nothing is told that is not so."""

# ruff: noqa: ASYNC110, PT012

import asyncio
import time

import pytest

import kedge
from kedge.journal.sqlite import SqliteJournal


def plan(*steps, **more):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps), **more})


class Broken(SqliteJournal):
    """Refuses to write once it is told to."""

    error: kedge.KedgeError | None = None

    def commit(self, appends, patience_s=60.0):
        if self.error is not None:
            raise self.error
        super().commit(appends, patience_s)


@pytest.fixture
def store(tmp_path):
    journal = Broken(tmp_path / "k.db")
    yield journal
    journal.close()


@kedge.tool(effect="effect")
async def pay() -> str:
    return "paid"


async def lose(engine, store, opened):
    """A run whose end could not be written."""
    run = await engine.start(
        plan({"id": "a", "tool": "open"}, {"id": "b", "tool": "pay", "after": ["a"]}), run_id="r"
    )
    store.error = kedge.StoreError("disk I/O error", code="store_io")
    opened.set()
    with pytest.raises(kedge.StoreError):
        await run.result()
    store.error = None
    return run


def opener(opened):
    @kedge.tool(effect="pure", name="open")
    async def wait() -> None:
        await opened.wait()

    return wait


async def test_what_could_not_be_written_is_not_shown_as_what_is(store):
    opened = asyncio.Event()
    async with kedge.Engine(tools=[opener(opened), pay], store=store) as engine:
        run = await lose(engine, store, opened)
        with pytest.raises(kedge.StoreError):
            _ = run.status
        with pytest.raises(kedge.StoreError):
            async for event in run.events():
                assert event.kind != "run_ended"
        assert [known.status for known in engine.runs()] == ["running"]
        assert not engine.look("r").ok
        assert "disk I/O error" in repr(run)


async def test_a_run_whose_driver_stopped_can_be_taken_up_by_others(store, tmp_path):
    opened = asyncio.Event()
    async with kedge.Engine(tools=[opener(opened), pay], store=store) as engine:
        await lose(engine, store, opened)
        async with asyncio.timeout(5):
            while engine.runs()[0].driven:
                await asyncio.sleep(0.01)
        async with kedge.Engine(tools=[opener(opened), pay], store=tmp_path / "k.db") as other:
            assert (await (await other.resume("r")).result()).ok


async def test_calls_that_a_failed_turn_did_not_make_give_their_places_back(monkeypatch):
    @kedge.tool(effect="pure", parallel=1)
    async def one() -> int:
        return 1

    from kedge.engine.log import RunLog

    usual = RunLog.append

    def fail(self, events, at, blobs):
        if self.lease.run_id == "broken" and any(type(event).__name__ == "StepStarted" for event in events):
            raise kedge.InternalError("by the test")
        usual(self, events, at, blobs)

    monkeypatch.setattr(RunLog, "append", fail)
    async with kedge.Engine(tools=[one]) as engine:
        broken = await engine.start(plan({"id": "a", "tool": "one"}), run_id="broken")
        with pytest.raises(kedge.InternalError):
            await broken.result()
        async with asyncio.timeout(2):
            assert (await (await engine.start(plan({"id": "a", "tool": "one"}))).result()).ok


@pytest.mark.parametrize("effect", ["effect", "pure"])
async def test_followers_are_told_the_end_and_what_had_effects_once_it_is_on_disk(tmp_path, effect):
    @kedge.tool(effect=effect)
    async def act() -> str:
        return "done"

    told, opened = [], asyncio.Event()
    async with kedge.Engine(tools=[opener(opened), act], store=tmp_path / "k.db") as engine:
        run = await engine.start(
            plan({"id": "a", "tool": "open"}, {"id": "b", "tool": "act", "after": ["a"]}),
            on_event=told.append,
        )
        if effect == "effect":
            opened.set()
            async with asyncio.timeout(2):
                while run.state.steps["b"].status != "running":
                    await asyncio.sleep(0)
        engine._writer.full = "held by the test"
        opened.set()
        async with asyncio.timeout(2):
            while not run.state.ended:
                await asyncio.sleep(0.001)
        await asyncio.sleep(0.1)
        kinds = [(event.kind, event.path) for event in told]
        assert ("run_ended", "") not in kinds
        assert (("step_succeeded", "b") in kinds) == (effect == "pure")
        engine._writer.full = ""
        engine._writer.flush()
        assert (await run.result()).ok
        assert told[-1].kind == "run_ended"


async def test_cancelling_stops_what_runs_although_the_store_is_full(tmp_path):
    stopped = []

    @kedge.tool(effect="pure")
    async def long() -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            stopped.append(time.monotonic())

    async with kedge.Engine(tools=[long], store=tmp_path / "k.db") as engine:
        run = await engine.start(plan({"id": "a", "tool": "long"}))
        await asyncio.sleep(0.05)
        engine._writer.full = "held by the test"
        began = time.monotonic()
        cancelling = asyncio.create_task(run.cancel())
        async with asyncio.timeout(2):
            while not stopped:
                await asyncio.sleep(0.01)
        assert stopped[0] - began < 1
        assert not cancelling.done(), "acknowledged only when it is on disk"
        engine._writer.full = ""
        engine._writer.flush()
        await cancelling
        result = await run.result()
    assert result.status == "cancelled"
    assert result.steps["a"].status == "cancelled"


async def test_another_process_that_writes_for_long_does_not_stop_the_loop(tmp_path):
    import apsw

    @kedge.tool(effect="idempotent")
    async def step() -> int:
        return 1

    async with kedge.Engine(tools=[step], store=tmp_path / "k.db") as engine:
        assert (await (await engine.start(plan({"id": "a", "tool": "step"}), run_id="r0")).result()).ok
        other = apsw.Connection(str(tmp_path / "k.db"))
        gate = asyncio.Event()

        run = await engine.start(
            plan(
                {"id": "a", "tool": "sleep", "args": {"seconds": 0.05}},
                {"id": "b", "tool": "step", "after": ["a"]},
            )
        )
        other.execute("begin immediate")
        longest_s, last_s = 0.0, time.monotonic()
        ends_s = last_s + 0.5
        while time.monotonic() < ends_s:
            await asyncio.sleep(0.005)
            longest_s = max(longest_s, time.monotonic() - last_s)
            last_s = time.monotonic()
        other.execute("rollback")
        other.close()
        gate.set()
        assert longest_s < 0.2
        assert (await run.result()).ok


async def test_leaving_an_engine_does_not_hide_the_error_that_made_it_leave(tmp_path, caplog):
    with pytest.raises(ValueError, match="mine"):
        async with kedge.Engine(store=tmp_path / "k.db") as engine:
            await engine.start(plan({"id": "a", "tool": "sleep", "args": {"seconds": 60}}))
            (tmp_path / "k.db").unlink()
            raise ValueError("mine")
    assert "did not close well" in caplog.text


async def test_a_large_value_that_is_gone_is_damage_and_not_the_step_that_reads_it(tmp_path):
    import apsw

    opened = asyncio.Event()

    @kedge.tool(effect="pure")
    async def large() -> str:
        return "x" * 100_000

    @kedge.tool(effect="pure")
    async def size(text: str) -> int:
        return len(text)

    document = plan(
        {"id": "large", "tool": "large"},
        {"id": "wait", "tool": "open", "after": ["large"]},
        {"id": "size", "tool": "size", "args": {"text": "${large}"}, "after": ["wait"]},
    )
    async with kedge.Engine(tools=[large, size, opener(opened)], store=tmp_path / "k.db") as engine:
        await engine.start(document, run_id="r")
        await asyncio.sleep(0.1)
    other = apsw.Connection(str(tmp_path / "k.db"))
    other.execute("delete from blob where length(data) > 50000")
    other.close()
    opened.set()
    async with kedge.Engine(tools=[large, size, opener(opened)], store=tmp_path / "k.db") as engine:
        run = await engine.resume("r")
        with pytest.raises(kedge.StoreDamaged) as damaged:
            await run.result()
        assert damaged.value.run_id == "r"
        assert engine.runs()[0].status == "running", "it can go on once the store is restored"
