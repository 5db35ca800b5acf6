"""Inbox and drive: what people are asked by all runs, and every run that can move is driven."""

# pyright: reportPossiblyUnboundVariable=none, reportArgumentType=none
# pyright: reportOptionalMemberAccess=none, reportAttributeAccessIssue=none, reportOptionalOperand=none
# ruff: noqa: ASYNC110

import asyncio
import json
import time

import apsw
import msgspec
import pytest

import kedge
from kedge import commands
from kedge.control.inbox import ARGS_MAX
from kedge.control.listing import OVER
from kedge.journal.sqlite import SqliteJournal
from kedge.testing.journal_kit import Driver


@kedge.tool(effect="pure")
async def quick(x: int = 0) -> int:
    return x


@kedge.tool(effect="effect")
async def pay(text: str = "") -> str:
    return text


WAITS = kedge.Plan.parse({"goal": "Wait", "steps": [{"id": "w", "wait": {"signal": "go"}}]})


def asks(text="little", expires_s=3600):
    ask = {"ask": "Pay?", **({"expires_s": expires_s} if expires_s else {})}
    return kedge.Plan.parse(
        {"goal": "Ask", "steps": [{"id": "p", "tool": "pay", "args": {"text": text}, "approval": ask}]}
    )


@pytest.fixture
def store(tmp_path):
    return tmp_path / "kedge.db"


def engine(store, tools=(quick, pay), **more):
    return kedge.Engine(tools=tools, store=store, **more)


async def left(store, plan, run_id):
    async with engine(store) as one:
        await (await one.start(plan, run_id=run_id)).result()


async def test_the_inbox_has_every_open_question_of_every_run_and_no_other(store):
    for n in range(3):
        await left(store, asks(), f"r{n}")
    await left(store, WAITS, "signal")
    async with engine(store) as one:
        run = await one.resume("r1")
        await run.answer("q1", "approve")
        await run.result()
        live = await one.resume("r2")
        await live.result()
        found = one.inbox()
    assert [(one.run_id, one.question, one.driven) for one in found] == [
        ("r0", "q1", False),
        ("r2", "q1", True),
    ]
    first = found[0]
    assert (first.reason, first.path, first.text, first.asked_of) == ("approval", "p", "Pay?", "person")
    assert (json.loads(first.args), first.options) == ({"text": "little"}, ("approve", "refuse"))
    assert first.goal == "Ask"
    assert first.age_s >= found[1].age_s >= 0
    assert first.expires_at.timestamp() - first.asked_at.timestamp() == 3600


async def test_large_arguments_are_cut_and_what_is_cut_is_said(store):
    await left(store, asks("x" * 50_000), "r")
    async with engine(store) as one:
        (found,) = one.inbox()
    assert len(found.args) == ARGS_MAX
    assert found.args_left_out > 46_000


async def test_a_question_that_is_asked_anew_shows_what_is_otherwise(store):
    async with engine(store) as one:
        run = await one.start(asks(), run_id="r")
        await run.result()
        patch = kedge.Patch(change={"p": {"args": {"text": "much"}}})
        assert (await run.send(commands.Edit(patch=patch))).taken
        await run.result()
        found = one.inbox()
    (now,) = found
    assert '-  "text": "little"' in now.diff
    assert '+  "text": "much"' in now.diff


async def test_a_run_that_cannot_be_read_is_in_the_inbox_as_damaged(store):
    await left(store, asks(), "r")
    spoil(store)
    async with engine(store) as one:
        (found,) = one.inbox()
    assert (found.run_id, found.reason, found.question) == ("r", "damaged", "")


async def test_a_run_of_which_only_the_line_is_damaged_is_in_the_inbox_too(store):
    await left(store, asks(), "r")
    db = apsw.Connection(str(store))
    db.execute("update run set crc = crc + 1")
    db.close()
    async with engine(store) as one:
        (found,) = one.inbox()
    assert (found.run_id, found.reason, found.question) == ("r", "damaged", "")


class Stopped:
    """A clock that stands still."""

    def now_ms(self):
        return 1_700_000_000_000

    def monotonic_s(self):
        return 0.0


async def test_a_question_that_is_asked_while_others_work_is_in_everybodys_inbox(store):
    end = asyncio.Event()

    @kedge.tool(effect="read")
    async def slow() -> None:
        await end.wait()

    plan = asks()
    first = kedge.Step(id="first", tool="quick")
    steps = (
        first,
        kedge.Step(id="slow", tool="slow"),
        msgspec.structs.replace(plan.steps[0], after=("first",)),
    )
    async with engine(store, [quick, pay, slow], clock=Stopped()) as one, engine(store) as elsewhere:
        run = await one.start(msgspec.structs.replace(plan, steps=steps), run_id="r")
        async with asyncio.timeout(2):
            while not elsewhere.inbox():
                await asyncio.sleep(0.01)
        assert run.status == "running"
        end.set()


def spoil(store, run_id="r"):
    db = apsw.Connection(str(store))
    db.execute(
        "update event set data = x'00' where id = ((select key from run where run_id = ?) << 32 | 2)",
        (run_id,),
    )
    db.close()


async def test_an_inbox_of_a_store_in_memory():
    async with kedge.Engine(tools=[pay]) as one:
        await (await one.start(asks(), run_id="r")).result()
        assert [found.run_id for found in one.inbox()] == ["r"]
        assert one.drivable() == []


async def test_100_000_finished_runs_make_no_inbox_slow(store):
    journal = SqliteJournal(store)
    driver = Driver(journal)
    driver.write(1)
    journal.close()
    db = apsw.Connection(str(store))
    line = json.dumps({"goal": "Something of a usual length", "status": "done", "ended_at": 5}).encode()
    assert OVER in line.replace(b": ", b":")
    line = line.replace(b": ", b":")
    with db:
        db.executemany(
            "insert into run (crc, run_id, seq, chain, epoch, headline, created_at, updated_at, bytes)"
            " values (0, ?, 5, 0, 1, ?, 1, 1, 100)",
            ((f"r{n}", line) for n in range(100_000)),
        )
    db.close()
    await left(store, asks(), "asks")
    async with engine(store) as one:
        took_s = []
        for _ in range(3):
            began = time.perf_counter()
            assert [found.run_id for found in one.inbox()] == ["asks"]
            took_s.append(time.perf_counter() - began)
    assert min(took_s) < 0.2


async def test_drive_takes_up_what_can_move_and_nothing_else(store):
    for run_id in ("signalled", "cancelled", "left"):
        await left(store, WAITS, run_id)
    await left(store, asks(), "asks")
    async with engine(store) as one:
        assert {run.run_id: run.why for run in one.drivable()} == {"asks": "time"}
        await one.send("signalled", commands.Signal(name="go"))
        await one.send("cancelled", commands.Cancel())
        said = {}
        found = await one.drive_all(told=lambda driven: said.setdefault(driven.run_id, driven.status))
        assert said == {"signalled": "done", "cancelled": "cancelled"}
        assert [driven.status for driven in found] == list(said.values())
        assert await one.drive_all() == []
        assert one.look("left").state.seq == 3, "nothing was written to what did not move"


async def test_an_interrupted_run_is_driven_to_its_end(store):
    chain = [{"id": f"s{n}", "tool": "quick", "after": [f"s{n - 1}"] if n else []} for n in range(300)]
    async with engine(store) as one:
        await one.start(kedge.Plan.parse({"goal": "g", "steps": chain}), run_id="r")
        await one.drain(0)
    async with engine(store) as two:
        (movable,) = two.drivable()
        assert movable.why == "interrupted"
        (driven,) = await two.drive_all()
    assert driven.status == "done"


async def test_what_has_expired_is_refused_by_whoever_drives(store):
    await left(store, asks(expires_s=0.05), "r")
    await asyncio.sleep(0.06)
    async with engine(store) as one:
        (driven,) = await one.drive_all()
    assert driven.status == "failed"


async def test_one_that_cannot_be_taken_up_is_named_and_stops_no_other(store):
    for run_id in ("damaged", "tools", "elsewhere", "fine"):
        await left(store, asks(), run_id)
    spoil(store, "damaged")
    async with engine(store) as other, engine(store, [quick]) as one:
        held = await other.resume("elsewhere")
        await held.result()
        for run_id in ("tools", "fine"):
            await one.send(run_id, commands.Cancel() if run_id == "fine" else commands.Pause())
        found = {driven.run_id: driven for driven in await one.drive_all()}
    assert {run_id: driven.code for run_id, driven in found.items()} == {
        "damaged": "store_damaged", "tools": "tools_missing", "fine": "tools_missing",
    }  # fmt: skip
    assert "--tools" in found["tools"].why


async def test_a_run_that_could_not_be_taken_up_is_tried_again_once_it_has_moved(store, monkeypatch):
    monkeypatch.setattr("kedge.engine.post.NET_S", 0.02)
    steps = [
        {"id": "w", "wait": {"signal": "go"}},
        {"id": "p", "tool": "pay", "after": ["w"]},
        {"id": "s", "tool": "sleep", "args": {"seconds": 0.3}, "after": ["p"]},
    ]
    await left(store, kedge.Plan.parse({"goal": "g", "steps": steps}), "r")
    told = []
    async with engine(store, [quick]) as here:
        driving = asyncio.ensure_future(here.drive_all(forever=True, told=told.append))
        await here.send("r", commands.Signal(name="go"))
        async with asyncio.timeout(5):
            while [driven.code for driven in told] != ["tools_missing"]:
                await asyncio.sleep(0.01)
            async with engine(store) as elsewhere:
                run = await elsewhere.resume("r")
                while run.state.steps["s"].status != "waiting":
                    await asyncio.sleep(0.01)
            while told[-1].status != "done":
                await asyncio.sleep(0.01)
        driving.cancel()
        await asyncio.wait([driving])


async def test_few_at_a_time_are_all_driven(store):
    for n in range(12):
        await left(store, WAITS, f"r{n}")
    async with engine(store) as one:
        for n in range(12):
            await one.send(f"r{n}", commands.Signal(name="go"))
        found = await one.drive_all(at_once=2)
    assert [driven.status for driven in found] == ["done"] * 12


async def test_commands_for_a_run_that_has_ended_are_refused_and_it_is_not_taken_up(store):
    async with engine(store) as one:
        run = await one.start(WAITS, run_id="r")
        await run.cancel()
        await run.result()
        from kedge.journal.entry import Sent

        (late,) = one._journal.post([Sent("r", "k", 0, 1, b'{"command":"pause"}')])
        assert [run.why for run in one.drivable()] == ["commands"]
        assert await one.drive_all() == []
        assert b"run_ended" in one._journal.decisions([late.position])[late.position]
        assert one.drivable() == []


async def test_driving_for_ever_goes_on_with_whatever_comes(store, monkeypatch):
    monkeypatch.setattr("kedge.engine.post.NET_S", 0.05)
    await left(store, WAITS, "r1")
    two_signals = [
        {"id": "a", "wait": {"signal": "go"}},
        {"id": "b", "wait": {"signal": "go"}, "after": ["a"]},
    ]
    await left(store, kedge.Plan.parse({"goal": "g", "steps": two_signals}), "r2")
    await left(store, asks(expires_s=0.5), "expires")
    told = []
    async with engine(store) as one, engine(store) as two:
        driving = asyncio.ensure_future(
            one.drive_all(
                forever=True, at_once=2, told=lambda driven: told.append((driven.run_id, driven.status))
            )
        )
        await asyncio.sleep(0.05)
        first = await two.send("r2", commands.Signal(name="go"))
        assert (await first.decided(5)).taken
        while ("r2", "waiting") not in told:
            await asyncio.sleep(0.01)
        began = time.monotonic()
        second = await two.send("r2", commands.Signal(name="go"))
        assert second.driven, "what waits stays taken up, to be woken at once"
        assert (await second.decided(5)).taken
        assert time.monotonic() - began < 1
        await two.send("r1", commands.Signal(name="go"))
        async with asyncio.timeout(5):
            while len([status for _, status in told if status in ("done", "failed")]) < 3:
                await asyncio.sleep(0.01)
        driving.cancel()
        await asyncio.wait([driving])
    assert set(told) >= {("r1", "done"), ("r2", "done"), ("expires", "failed")}


async def test_watching_a_run_from_elsewhere(store):
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        watched = two.watch("r")
        assert watched.changed()
        assert not watched.refresh()
        assert not watched.changed()
        await run.send(commands.Signal(name="go"))
        await run.result()
        assert watched.changed()
        assert watched.refresh()
        assert watched.state.status == "done"
        with pytest.raises(kedge.NotFound):
            two.watch("nobody")


async def test_a_run_that_is_let_go_while_it_is_kept_is_not_driven_on(store):
    await left(store, WAITS, "r")
    told = []
    async with engine(store) as one:
        await one.send("r", commands.Signal(name="other"))
        driving = asyncio.ensure_future(one.drive_all(forever=True, told=told.append))
        while not told:
            await asyncio.sleep(0.005)
        await one.let_go("r")
        await asyncio.sleep(0.02)
        assert len(told) == 1
        driving.cancel()
        await asyncio.wait([driving])


async def test_an_engine_that_is_closed_while_it_drives_for_ever_ends(store):
    await left(store, WAITS, "r")
    told = []
    async with asyncio.timeout(5), engine(store) as one:
        await one.send("r", commands.Signal(name="other"))
        driving = asyncio.ensure_future(one.drive_all(forever=True, told=told.append))
        while not told:
            await asyncio.sleep(0.005)
    driving.cancel()
    await asyncio.wait([driving])
