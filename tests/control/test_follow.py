"""Who follows a run misses nothing and hurts nobody."""

# ruff: noqa: ASYNC110

# pyright: reportRedeclaration=none

import asyncio
import contextlib
import functools
import threading
import time
from typing import Any

import pytest

import kedge


def plan(*steps):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps)})


@kedge.tool(effect="pure")
async def tick(n: int, ctx: kedge.Context) -> int:
    ctx.progress(0.5, "half")
    await asyncio.sleep(0.01)
    return n


CHAIN = plan(
    {"id": "a", "tool": "tick", "args": {"n": 1}},
    {"id": "b", "tool": "tick", "args": {"n": 2}, "after": ["a"]},
    {
        "id": "group",
        "after": ["b"],
        "steps": [
            {"id": "c", "tool": "tick", "args": {"n": 3}},
            {"id": "d", "tool": "tick", "args": {"n": 4}},
        ],
    },
    {"id": "each", "tool": "tick", "foreach": [1, 2, 3], "args": {"n": "${item}"}, "after": ["group"]},
)

STORES = ["memory", "sqlite"]


def store_of(kind, tmp_path):
    return ":memory:" if kind == "memory" else tmp_path / "k.db"


def journalled(events):
    """Events of the journal: group events and progress stand between them."""
    return [e for e in events if e.kind not in ("progress", "group_started", "group_ended")]


@pytest.mark.parametrize("kind", STORES)
async def test_events_are_gapless_live_and_identical_when_read_again(kind, tmp_path):
    async with kedge.Engine(tools=[tick], store=store_of(kind, tmp_path)) as engine:
        run = await engine.start(CHAIN)
        live = [event async for event in run.events()]
        again = [event async for event in run.events()]
        assert (await run.result()).ok
    assert [e.seq for e in journalled(live)] == list(range(1, live[-1].seq + 1))
    assert live[-1].kind == "run_ended"
    assert live[-1].percent == 100
    percents = [e.percent for e in live]
    assert percents == sorted(percents)
    assert all(e.message for e in live)
    assert [e.kind for e in journalled(live)] == [e.kind for e in journalled(again)]
    assert not [e for e in again if e.kind == "progress"]


@pytest.mark.parametrize("kind", STORES)
async def test_following_can_begin_at_any_event(kind, tmp_path):
    async with kedge.Engine(tools=[tick], store=store_of(kind, tmp_path)) as engine:
        run = await engine.start(CHAIN)
        await run.result()
        everything = journalled([event async for event in run.events()])
        last = everything[-1].seq
        for seq in range(1, last + 2):
            part = journalled([event async for event in run.events(from_seq=seq)])
            assert [(e.seq, e.kind, e.percent) for e in part] == [
                (e.seq, e.kind, e.percent) for e in everything[seq - 1 :]
            ]


async def test_levels_tell_less_and_less():
    told = {}
    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(CHAIN)

        async def follow(level):
            told[level] = [event async for event in run.events(level=level)]

        await asyncio.gather(*(follow(level) for level in ("run", "group", "step", "all")))
    kinds = {level: {event.kind for event in events} for level, events in told.items()}
    assert "step_started" not in kinds["run"]
    assert kinds["group"] - kinds["run"] == {"group_started", "group_ended"}
    assert {"step_started", "step_succeeded"} <= kinds["step"] - kinds["group"]
    assert kinds["all"] - kinds["step"] == {"progress"}
    for events in told.values():
        assert events[-1].percent == 100
        assert events[-1].kind == "run_ended"


async def test_a_follower_that_stops_early_leaves_nothing_behind():
    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(CHAIN)
        async with contextlib.aclosing(run.events()) as events:  # pyright: ignore[reportArgumentType]
            async for event in events:
                if event.kind == "step_started":
                    break
        other = [event async for event in run.events()]
        assert other[-1].kind == "run_ended"
        assert not run._feed._followers


async def test_what_memory_does_not_reach_back_to_is_read_from_the_store(tmp_path, monkeypatch):
    monkeypatch.setattr("kedge.engine.log.TAIL_EVENTS", 50)
    wide = plan({"id": "each", "tool": "tick", "foreach": list(range(100)), "args": {"n": "${item}"}})
    async with kedge.Engine(tools=[tick], store=tmp_path / "k.db") as engine:
        run = await engine.start(wide)
        first = 0
        async for _ in run.events():
            first = run._driver.log.tail[0].seq
            if first > 3:
                for after in range(first - 3, first + 1):
                    assert run._feed._after(after)[0].seq == after + 1
                break
        assert first > 3
        await run.result()


async def test_a_follower_goes_on_over_a_long_log_that_is_no_longer_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr("kedge.engine.log.TAIL_EVENTS", 50)
    items = list(range(300))
    wide = plan({"id": "each", "tool": "tick", "foreach": items, "args": {"n": "${item}"}})
    async with kedge.Engine(tools=[tick], store=tmp_path / "k.db") as engine:
        run = await engine.start(wide)
        slow = []
        async for event in run.events(level="step"):
            slow.append(event)
            if len(slow) == 1:
                assert (await run.result()).ok
        assert len(run._driver.log.tail) < 400
    assert slow[-1].kind == "run_ended"
    seqs = [e.seq for e in journalled(slow)]
    assert seqs == list(range(1, seqs[-1] + 1))


async def test_following_ends_when_the_run_is_let_go():
    @kedge.tool(effect="pure")
    async def long() -> int:
        await asyncio.sleep(3600)
        return 1

    engine = kedge.Engine(tools=[long])
    async with engine:
        run = await engine.start(plan({"id": "a", "tool": "long"}))

        async def follow():
            return [event.kind async for event in run.events()]

        following = asyncio.create_task(follow())
        await asyncio.sleep(0.02)
        await engine.close()
        async with asyncio.timeout(2):
            kinds = await following
    assert kinds[-1] == "step_started"


# --- callbacks


async def test_a_plain_callback_has_seen_the_end_before_the_result_is_there():
    for _ in range(5):
        told = []
        async with kedge.Engine(tools=[tick]) as engine:
            run = await engine.start(CHAIN, on_event=told.append)
            await run.result()
            assert told[-1].kind == "run_ended"
            assert told[-1].percent == 100
        seqs = [e.seq for e in journalled(told)]
        assert seqs == list(range(1, seqs[-1] + 1))


async def test_print_works_as_a_callback(capsys):
    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(CHAIN, on_event=print)
        await run.result()
    assert "100 %  The run is done" in capsys.readouterr().out


async def test_plain_callbacks_share_one_thread_that_ends():
    names = set()

    def note(event):
        names.add(threading.current_thread().ident)

    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(CHAIN, on_event=note)
        await run.result()
    assert len(names) == 1
    for _ in range(100):
        if not names & {thread.ident for thread in threading.enumerate()}:
            break
        await asyncio.sleep(0.01)
    assert not names & {thread.ident for thread in threading.enumerate()}


@pytest.mark.parametrize(
    "error", [ValueError("no"), SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()]
)
@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_callback_that_raises_is_switched_off_and_said_so(error, sort, caplog):
    calls = []
    if sort == "async":

        async def bad(event):
            calls.append(event)
            raise error
    else:

        def bad(event):
            calls.append(event)
            raise error

    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(CHAIN, on_event=bad)
        begun = time.monotonic()
        result = await run.result()
        assert time.monotonic() - begun < 1
    assert result.ok
    assert len(calls) == 1
    assert "switched off" in caplog.text


@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_callback_that_hangs_is_not_waited_for(sort, monkeypatch):
    monkeypatch.setattr("kedge.control.follow.CALLBACK_GRACE_S", 0.1)
    release = threading.Event()
    if sort == "async":

        async def bad(event):
            await asyncio.sleep(3600)
    else:

        def bad(event):
            release.wait(5)

    begun = time.monotonic()
    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(CHAIN, on_event=bad)
        assert (await run.result()).ok
    assert time.monotonic() - begun < 2
    release.set()


@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_callback_that_is_too_slow_is_told_the_end_and_that_is_said(sort, monkeypatch, caplog):
    monkeypatch.setattr("kedge.control.follow.CALLBACK_GRACE_S", 0.1)
    monkeypatch.setattr("kedge.control.follow.AHEAD", 4)
    told = []
    if sort == "async":

        async def slow(event):
            told.append(event)
            await asyncio.sleep(0.03)
    else:

        def slow(event):
            told.append(event)
            time.sleep(0.03)

    items = {"id": "each", "tool": "tick", "foreach": list(range(30)), "args": {"n": "${item}"}}
    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(plan(items), on_event=slow)
        assert (await run.result()).ok
    await asyncio.sleep(0.05)
    assert (told[-1].kind, told[-1].percent) == ("run_ended", 100)
    assert [event.seq for event in told] == sorted(event.seq for event in told)
    assert "too slow" in caplog.text


async def test_async_callbacks_of_every_shape_are_awaited():
    told = {"function": [], "partial": [], "object": []}

    async def note(where, event):
        await asyncio.sleep(0)
        told[where].append(event.kind)

    class Callback:
        async def __call__(self, event):
            await note("object", event)

    async def function(event):
        await note("function", event)

    async with kedge.Engine(tools=[tick]) as engine:
        run = await engine.start(CHAIN, on_event=function)
        run.subscribe(functools.partial(note, "partial"))
        run.subscribe(Callback())
        await run.result()
    assert all(kinds[-1] == "run_ended" for kinds in told.values())


async def test_a_callback_may_use_the_engine_and_the_run():
    seen = []
    async with kedge.Engine(tools=[tick]) as engine:

        async def steer(event):
            if event.kind == "step_succeeded" and not seen:
                seen.append(engine.runs()[0].id)
                other = await engine.start(plan({"id": "a", "tool": "tick", "args": {"n": 1}}))
                seen.append((await other.result()).status)
                await run.cancel(by="callback")
            if event.kind == "run_cancelling":
                seen.append((await run.result()).status)

        run = await engine.start(CHAIN)
        run.subscribe(steer)
        result = await run.result()
        assert result.status == "cancelled"
        async with asyncio.timeout(3):
            while len(seen) < 3:
                await asyncio.sleep(0.01)
    assert seen == [run.id, "done", "cancelled"]


async def test_an_event_reaches_its_follower_within_a_millisecond_or_so():
    delays = []

    @kedge.tool(effect="pure")
    async def stamp() -> float:
        return time.monotonic()

    steps = [{"id": f"s{i}", "tool": "stamp", "after": [f"s{i - 1}"] if i else []} for i in range(50)]
    async with kedge.Engine(tools=[stamp]) as engine:
        run = await engine.start(plan(*steps))
        async for event in run.events():
            if event.kind == "step_succeeded":
                delays.append(time.monotonic() - event.data["result"])  # noqa: PERF401
    assert sorted(delays)[len(delays) // 2] < 0.01


async def test_what_is_no_callback_or_no_level_is_refused_and_no_run_begins():
    wrong: Any = "steps"
    async with kedge.Engine(tools=[tick]) as engine:
        with pytest.raises(kedge.BadInput, match="print_progress"):
            await engine.start(CHAIN, on_event=wrong)
        assert engine.runs() == []
        run = await engine.start(CHAIN)
        with pytest.raises(kedge.BadInput, match="print_progress"):
            await engine.resume(run.id, on_event=wrong)
        with pytest.raises(kedge.BadInput, match="no level"):
            run.subscribe(print, wrong)


async def test_who_comes_after_the_plan_was_changed_is_told_everything(tmp_path):
    async with kedge.Engine([tick], tmp_path / "k.db") as engine:
        run = await engine.start(CHAIN)
        extra = kedge.Step(id="extra", tool="tick", args={"n": 9})
        assert (await run.send(kedge.commands.Inject(step=extra))).taken
        told = [event.kind async for event in run.events()]
        assert told[-1] == "run_ended"
        again = await engine.resume(run.id)
        assert [event.kind async for event in again.events()] == [kind for kind in told if kind != "progress"]
