"""When things reach the disk, and what happens if they do not."""

# pyright: reportArgumentType=none

import asyncio
import logging
import threading
import time

import apsw
import pytest

import kedge
from kedge import commands
from kedge.base.errors import StoreFull
from kedge.engine import writer
from kedge.journal.memory import MemoryJournal
from kedge.journal.sqlite import SqliteJournal
from kedge.plan.patch import Addition


def plan(*steps):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps)})


@kedge.tool(effect="pure")
async def pure() -> int:
    return 1


@kedge.tool(effect="idempotent")
async def write() -> int:
    return 1


def chain(count, tool):
    return plan(*({"id": f"s{i}", "tool": tool, "after": [f"s{i - 1}"] if i else []} for i in range(count)))


class Faulty:
    """A journal that counts commits, and fails those that it is told to fail."""

    def __init__(self, inner, fail=lambda appends, number: None):
        self.inner = inner
        self.fail = fail
        self.commits = []
        self.tries = 0

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def commit(self, appends, patience_s=60.0):
        self.tries += 1
        error = self.fail(appends, self.tries)
        if error is not None:
            raise error
        self.inner.commit(appends)
        self.commits.append([append.run_id for append in appends])


@pytest.fixture
def sqlite(tmp_path):
    journal = SqliteJournal(tmp_path / "k.db")
    yield journal
    journal.close()


def kinds_on_disk(file, run_id):
    """What a second connection finds, as another process would."""
    other = SqliteJournal(file)
    try:
        return [kedge_kind(entry.data) for entry in other.read(run_id)]
    finally:
        other.close()


def kedge_kind(data):
    from kedge.flow.events import decode_event

    event = decode_event(data)
    return type(event).__name__, getattr(event, "path", "")


@pytest.mark.parametrize("effect", ["effect", "idempotent"])
@pytest.mark.parametrize("sort", ["async", "sync"])
async def test_a_call_with_effects_starts_after_its_intent_and_what_it_depends_on_are_on_disk(
    tmp_path, effect, sort
):
    file = tmp_path / "k.db"
    seen = {}

    def look(ctx):
        seen[ctx.step] = kinds_on_disk(file, ctx.run_id)

    if sort == "async":

        @kedge.tool(effect=effect)
        async def act(ctx: kedge.Context) -> int:
            look(ctx)
            return 1
    else:

        @kedge.tool(effect=effect)
        def act(ctx: kedge.Context) -> int:
            look(ctx)
            return 1

    steps = plan(
        {"id": "p", "tool": "pure"},
        {"id": "a", "tool": "act", "after": ["p"]},
        {"id": "b", "tool": "act", "after": ["a"]},
    )
    async with kedge.Engine(tools=[pure, act], store=file) as engine:
        result = await (await engine.start(steps)).result()
    assert result.ok
    assert ("StepStarted", "a") in seen["a"]
    assert ("StepSucceeded", "p") in seen["a"]
    assert ("StepStarted", "b") in seen["b"]
    assert ("StepSucceeded", "a") in seen["b"]


async def test_a_commit_lets_go_only_the_calls_whose_own_intent_is_in_it(sqlite, tmp_path):
    """A slow disk: while one intent is being written others come up, which the next commit takes."""
    seen = {}

    def slow(appends, number):
        time.sleep(0.03)

    @kedge.tool(effect="pure")
    async def nap(ms: int) -> int:
        await asyncio.sleep(ms / 1000)
        return ms

    @kedge.tool(effect="effect")
    async def act(ctx: kedge.Context) -> int:
        seen[ctx.step] = kinds_on_disk(tmp_path / "k.db", ctx.run_id)
        return 1

    steps = []
    for ms in range(0, 100, 10):
        steps.append({"id": f"n{ms}", "tool": "nap", "args": {"ms": ms}})
        steps.append({"id": f"a{ms}", "tool": "act", "after": [f"n{ms}"]})
    async with kedge.Engine(tools=[nap, act], store=Faulty(sqlite, slow)) as engine:
        engine._writer._sync_s = 0.03
        assert (await (await engine.start(plan(*steps))).result()).ok
    assert len(seen) == 10
    assert [path for path, kinds in seen.items() if ("StepStarted", path) not in kinds] == []


async def test_the_end_is_on_disk_before_the_result_is_there(tmp_path):
    file = tmp_path / "k.db"
    async with kedge.Engine(tools=[pure], store=file) as engine:
        for i in range(5):
            run = await engine.start(chain(3, "pure"), run_id=f"r{i}")
            assert kinds_on_disk(file, run.id)[0] == ("RunStarted", "")
            await run.result()
            assert kinds_on_disk(file, run.id)[-1] == ("RunEnded", "")


async def test_a_command_is_on_disk_before_it_is_acknowledged(tmp_path):
    @kedge.tool(effect="pure")
    async def long() -> int:
        await asyncio.sleep(3600)
        return 1

    file = tmp_path / "k.db"
    async with kedge.Engine(tools=[long], store=file) as engine:
        run = await engine.start(chain(1, "long"), run_id="r")
        await run.pause()
        assert ("RunPaused", "") in kinds_on_disk(file, "r")
        await run.cancel()
        assert ("RunCancelling", "") in kinds_on_disk(file, "r")


async def test_pure_steps_do_not_wait_for_the_disk_and_runs_share_commits(sqlite):
    journal = Faulty(sqlite)
    async with kedge.Engine(tools=[pure, write], store=journal) as engine:
        result = await (await engine.start(chain(60, "pure"))).result()
        assert result.ok
        assert len(journal.commits) < 30
        journal.commits.clear()
        runs = await asyncio.gather(*(engine.start(chain(5, "write"), run_id=f"r{i}") for i in range(8)))
        results = await asyncio.gather(*(run.result() for run in runs))
    assert all(result.ok for result in results)
    assert max(len(set(batch)) for batch in journal.commits) >= 4
    assert len(journal.commits) < 8 * 6


async def test_the_watermark_is_never_far_behind(tmp_path):
    @kedge.tool(effect="pure")
    async def slow() -> int:
        await asyncio.sleep(0.15)
        return 1

    file = tmp_path / "k.db"
    async with kedge.Engine(tools=[slow, pure], store=file) as engine:
        run = await engine.start(
            plan({"id": "p", "tool": "pure"}, {"id": "a", "tool": "slow", "after": ["p"]}), run_id="r"
        )
        await asyncio.sleep(0.1)
        assert ("StepStarted", "a") in kinds_on_disk(file, "r")
        await run.result()


async def test_a_turn_so_long_that_it_is_committed_at_once_makes_its_calls(sqlite, monkeypatch):
    monkeypatch.setattr(writer, "INLINE_SYNC_S", 60.0)  # in the loop, however slow this disk is
    skipped = [{"id": f"s{i}", "tool": "pure", "when": "false"} for i in range(writer.MAX_BEHIND_EVENTS)]
    async with kedge.Engine(tools=[pure, write], store=sqlite) as engine:
        async with asyncio.timeout(20):
            run = await engine.start(plan({"id": "w", "tool": "write"}, *skipped))
            result = await run.result()
    assert result.steps["w"].result == 1


async def test_a_call_that_a_long_change_of_the_plan_stops_is_not_made_by_the_commit_of_that_change(
    sqlite, monkeypatch
):
    monkeypatch.setattr(writer, "INLINE_SYNC_S", 60.0)
    let_go = asyncio.Event()
    written = []

    @kedge.tool(effect="pure")
    async def gate() -> int:
        await let_go.wait()
        return 1

    @kedge.tool(effect="effect")
    async def put() -> int:
        written.append(1)
        return 1

    extra = [
        Addition(step=kedge.Step(id=f"s{i}", tool="gate", when="false"))
        for i in range(writer.MAX_BEHIND_EVENTS)
    ]
    async with kedge.Engine(tools=[gate, put], store=sqlite) as engine, asyncio.timeout(20):
        run = await engine.start(
            plan({"id": "g", "tool": "gate"}, {"id": "w", "tool": "put", "after": ["g"]})
        )
        with monkeypatch.context() as held:  # its start is not on disk yet, so the call waits
            held.setattr(writer, "MAX_BEHIND_S", 60.0)
            held.setattr(engine._writer, "flush_soon", lambda: None)
            held.setattr(engine._drivers[run.id], "_flush", lambda: None)
            let_go.set()
            while run.state.steps["w"].status != "running":  # noqa: ASYNC110
                await asyncio.sleep(0)
            decided = asyncio.ensure_future(
                run.send(commands.Edit(patch=kedge.Patch(cancel=("w",), add=tuple(extra))))
            )
            await asyncio.sleep(0.01)
        engine._writer.flush_soon()
        assert (await decided).taken
        result = await run.result()
    assert not written
    assert result.steps["w"].status == "cancelled"


async def test_a_slow_disk_is_written_by_a_thread_and_large_values_are_at_hand_meanwhile(sqlite):
    def slow(appends, number):
        time.sleep(0.02)

    @kedge.tool(effect="pure")
    async def large() -> str:
        return "x" * 50_000

    @kedge.tool(effect="pure")
    async def measure(text: str) -> int:
        return len(text)

    steps = []
    for i in range(6):
        steps.append({"id": f"l{i}", "tool": "large", "after": [f"m{i - 1}"] if i else []})
        steps.append({"id": f"m{i}", "tool": "measure", "args": {"text": f"${{l{i}}} {i}"}})
    journal = Faulty(sqlite, slow)
    async with kedge.Engine(tools=[large, measure], store=journal) as engine:
        engine._writer._sync_s = 0.02
        result = await (await engine.start(plan(*steps))).result()
        assert engine._writer._thread is not None
    assert result.ok, result.summary()
    assert result.steps["m5"].result == 50_002


# --- no room


async def test_runs_wait_while_the_store_is_full_and_go_on_by_themselves(sqlite, monkeypatch, caplog):
    monkeypatch.setattr("kedge.engine.writer.FULL_RETRY_S", 0.05)
    full = False

    def fail(appends, number):
        return kedge.StoreFull("no space left", where="k.db") if full else None

    journal = Faulty(sqlite, fail)
    called = []

    @kedge.tool(effect="effect")
    async def act() -> int:
        called.append(1)
        return 1

    @kedge.tool(effect="pure")
    async def fill() -> str:
        nonlocal full
        await gate.wait()
        full = True
        return "y" * 20_000

    gate = asyncio.Event()
    steps = plan({"id": "f", "tool": "fill"}, {"id": "a", "tool": "act", "after": ["f"]})
    with caplog.at_level(logging.WARNING):
        async with kedge.Engine(tools=[fill, act, pure], store=journal) as engine:
            run = await engine.start(steps, run_id="r")
            other = await engine.start(steps, run_id="other")
            gate.set()
            await asyncio.sleep(0.3)
            assert not called
            assert run.status == "running"
            full = False
            async with asyncio.timeout(3):
                result = await run.result()
                assert (await other.result()).ok
        assert result.ok
    assert called == [1, 1]
    assert caplog.text.count("store full") == 1
    assert caplog.text.count("room again") == 1
    entries = sqlite.read("r")
    assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))


async def test_a_real_full_store_heals(tmp_path, monkeypatch):
    monkeypatch.setattr("kedge.engine.writer.FULL_RETRY_S", 0.05)
    journal = SqliteJournal(tmp_path / "k.db")
    db = journal._file._opened_writer()

    @kedge.tool(effect="pure")
    async def fill() -> str:
        await limited.wait()
        return "z" * 500_000

    limited = asyncio.Event()
    try:
        async with kedge.Engine(tools=[fill], store=journal) as engine:
            pages = db.execute("pragma page_count").fetchall()[0][0]
            run = await engine.start(chain(1, "fill"), run_id="r")
            db.execute(f"pragma max_page_count = {pages + 20}")
            limited.set()
            for _ in range(100):
                if engine._writer.full:
                    break
                await asyncio.sleep(0.01)
            assert engine._writer.full
            assert run.state.ended  # in memory only: nobody is told
            waiting = asyncio.create_task(run.result())
            await asyncio.sleep(0.1)
            assert not waiting.done()
            db.execute("pragma max_page_count = 1000000")
            async with asyncio.timeout(3):
                assert (await waiting).ok
    finally:
        journal.close()


async def test_a_list_says_how_a_run_stands_that_ended_while_the_store_was_full(sqlite, monkeypatch):
    monkeypatch.setattr("kedge.engine.writer.FULL_RETRY_S", 0.01)
    left = 2

    def fail(appends, number):
        nonlocal left
        if any(b"RunEnded" in entry.data for append in appends for entry in append.entries) and left:
            left -= 1
            return kedge.StoreFull("full")
        return None

    async with kedge.Engine(tools=[pure], store=Faulty(sqlite, fail)) as engine:
        run = await engine.start(chain(2, "pure"), run_id="r")
        assert (await run.result()).ok
        assert not left
        assert [known.status for known in engine.runs()] == ["done"]


async def test_closing_while_the_store_is_full_does_not_hang(sqlite, monkeypatch):
    monkeypatch.setattr("kedge.engine.writer.FULL_RETRY_S", 0.05)
    full = False
    journal = Faulty(sqlite, lambda appends, number: kedge.StoreFull("full") if full else None)
    async with asyncio.timeout(5):
        async with kedge.Engine(tools=[write], store=journal) as engine:
            run = await engine.start(chain(3, "write"), run_id="r")
            full = True
            await asyncio.sleep(0.1)
        tries = journal.tries
        await asyncio.sleep(0.15)
    assert journal.tries == tries, "a closed engine went on writing"
    full = False
    async with kedge.Engine(tools=[write], store=journal) as engine:
        run = await engine.resume("r")
        assert (await run.result()).ok


# --- commits that fail


@pytest.mark.parametrize("landed", [False, True])
def test_what_a_commit_was_writing_when_it_was_interrupted_is_written_at_the_end(
    sqlite, landed, caplog, monkeypatch
):
    """Ctrl-C twice raises KeyboardInterrupt wherever the loop is, and the engine is closed after that."""
    monkeypatch.setattr("kedge.engine.writer.INLINE_SYNC_S", 60.0)
    interrupted = False

    def fail(appends, number):
        nonlocal interrupted
        if interrupted or not any(append.blobs and append.after_seq for append in appends):
            return None
        interrupted = True
        if landed:
            sqlite.commit(appends)
        return KeyboardInterrupt()

    calls = []

    @kedge.tool(effect="idempotent")
    def fill() -> str:
        calls.append("fill")
        while not started:
            time.sleep(0.001)
        return "x" * 50_000

    steps = plan({"id": "a", "tool": "fill"}, {"id": "b", "tool": "write", "after": ["a"]})
    started = []

    async def drive(store):
        async with kedge.Engine(tools=[fill, write], store=store) as engine:
            run = await engine.start(steps, run_id="r")
            started.append(run)
            return await run.result()

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(drive(Faulty(sqlite, fail)))
    assert interrupted
    assert "driver stops" not in caplog.text
    result = asyncio.run(drive(sqlite))
    assert result.ok
    assert len(result.steps["a"].result) == 50_000
    assert calls == ["fill"]


async def test_a_run_taken_over_by_another_stops_and_the_others_go_on(sqlite):
    taken = set()

    def fail(appends, number):
        if any(append.run_id in taken for append in appends):
            return kedge.NotOwner("another driver took it over", where="run lost")
        return None

    gate = asyncio.Event()

    @kedge.tool(effect="idempotent")
    async def wait() -> int:
        await gate.wait()
        return 1

    steps = plan({"id": "a", "tool": "wait"}, {"id": "b", "tool": "write", "after": ["a"]})
    async with kedge.Engine(tools=[wait, write], store=Faulty(sqlite, fail)) as engine:
        lost = await engine.start(steps, run_id="lost")
        kept = [await engine.start(steps, run_id=f"kept{i}") for i in range(3)]
        await asyncio.sleep(0.02)
        taken.add("lost")
        following = asyncio.create_task(collect(lost))
        gate.set()
        with pytest.raises(kedge.NotOwner):
            await lost.result()
        with pytest.raises(kedge.NotOwner):
            await lost.cancel()
        for run in kept:
            assert (await run.result()).ok
        async with asyncio.timeout(2):
            with pytest.raises(kedge.NotOwner):  # not as if it had come to its end
                await following
        taken.clear()
        # The same engine may take it up again.
        run = await engine.resume("lost")
        assert (await run.result()).ok


async def collect(run):
    return [event async for event in run.events()]


async def test_a_commit_that_fails_stops_the_run_with_that_error_and_loses_nothing(sqlite, caplog):
    broken = False
    journal = Faulty(
        sqlite,
        lambda appends, number: kedge.StoreError("disk I/O error", code="store_io") if broken else None,
    )
    called = []

    @kedge.tool(effect="effect")
    async def act() -> int:
        called.append(1)
        return 1

    gate = asyncio.Event()

    @kedge.tool(effect="pure")
    async def wait() -> int:
        await gate.wait()
        return 1

    steps = plan({"id": "w", "tool": "wait"}, {"id": "a", "tool": "act", "after": ["w"]})
    async with kedge.Engine(tools=[wait, act], store=journal) as engine:
        run = await engine.start(steps, run_id="r")
        await asyncio.sleep(0.05)
        broken = True
        gate.set()
        with pytest.raises(kedge.StoreError) as failed:
            await run.result()
        assert failed.value.code == "store_io"
        assert not called
        broken = False
        again = await engine.start(steps, run_id="r")
        assert (await again.result()).ok
    assert called == [1]


async def test_a_start_that_cannot_be_written_is_an_error_and_leaves_the_id_free(sqlite):
    journal = Faulty(sqlite, lambda appends, number: kedge.StoreError("no") if number == 1 else None)
    async with kedge.Engine(tools=[pure], store=journal) as engine:
        with pytest.raises(kedge.StoreError):
            await engine.start(chain(1, "pure"), run_id="r")
        assert engine.runs() == []
        assert (await (await engine.start(chain(1, "pure"), run_id="r")).result()).ok


async def test_a_bug_of_ours_in_a_turn_is_told_to_everybody_who_waits(monkeypatch):
    @kedge.tool(effect="pure")
    async def long() -> int:
        await asyncio.sleep(3600)
        return 1

    def broken(turn, given):
        raise kedge.InternalError("it is broken")

    async with kedge.Engine(tools=[long]) as engine:
        run = await engine.start(chain(1, "long"))
        waiting = asyncio.create_task(run.result())
        await asyncio.sleep(0.02)
        monkeypatch.setattr("kedge.engine.driver.decide", broken)
        async with asyncio.timeout(2):
            with pytest.raises(kedge.InternalError):
                await run.pause()
            with pytest.raises(kedge.InternalError):
                await waiting


async def test_a_run_in_memory_needs_no_disk():
    journal = MemoryJournal()
    async with kedge.Engine(tools=[write], store=journal) as engine:
        run = await engine.start(chain(20, "write"), run_id="r")
        assert (await run.result()).ok
    assert len(journal.read("r")) == 2 + 40 + 1


def test_the_store_is_there_for_other_tools(tmp_path):
    kedge.run_sync(chain(3, "pure"), tools=[pure], store=tmp_path / "k.db")
    with apsw.Connection(str(tmp_path / "k.db")) as db:
        assert db.execute("pragma integrity_check").fetchall() == [("ok",)]


async def test_a_run_that_ended_while_there_was_no_room_is_listed_as_done(sqlite, monkeypatch):
    """Its line in the list went with the commit that was refused."""
    monkeypatch.setattr("kedge.engine.writer.FULL_RETRY_S", 0.02)
    refused = []

    def fail(appends, number):
        if (
            b"RunEnded" in b"".join(entry.data for append in appends for entry in append.entries)
            and not refused
        ):
            refused.append(number)
            return kedge.StoreFull("full")
        return None

    async with kedge.Engine(tools=[write], store=Faulty(sqlite, fail)) as engine:
        assert (await (await engine.start(chain(2, "write"), run_id="r")).result()).ok
    assert refused
    async with kedge.Engine(store=sqlite) as engine:
        assert [(run.status, run.done) for run in engine.runs()] == [("done", 2)]


async def test_a_start_that_is_cancelled_leaves_no_call_in_doubt_that_was_never_made(sqlite, caplog):
    """A start waits for the disk. Whoever gives up in that time has started a run all the same."""

    class Slow(Faulty):
        def commit(self, appends, patience_s=60.0):
            super().commit(appends, patience_s)
            time.sleep(0.05)

    called = []

    @kedge.tool(effect="effect")
    async def pay() -> int:
        called.append(1)
        return 1

    async with kedge.Engine(tools=[pay], store=Slow(sqlite)) as engine:
        assert (await (await engine.start(chain(2, "pay"), run_id="before")).result()).ok
        called.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.02):
                await engine.start(chain(1, "pay"), run_id="r")
        result = await (await engine.resume("r")).result()
    assert (str(result.status), called) == ("done", [1])
    assert "driver stops" not in caplog.text


class Held(Faulty):
    """Commits what holds a question only when it is told to, and the end of a run a little later."""

    def __init__(self, inner):
        super().__init__(inner)
        self.asked, self.go_on = threading.Event(), threading.Event()

    def commit(self, appends, patience_s=60.0):
        written = b"".join(entry.data for append in appends for entry in append.entries)
        if b"QuestionAsked" in written:
            self.asked.set()
            self.go_on.wait(5)
        elif b"RunEnded" in written:
            time.sleep(0.1)
        super().commit(appends, patience_s)


async def test_a_result_is_given_once_the_end_is_on_disk_also_if_it_came_while_a_question_was_written(sqlite):
    steps = chain(2, "pure")
    held = Held(sqlite)
    async with kedge.Engine(tools=[pure], store=held, limits=kedge.Limits(calls=1)) as engine:
        engine._writer._is_quick = lambda: False  # a slow disk: commits are left to the thread
        run = await engine.start(steps, run_id="r")
        result = asyncio.create_task(run.result())
        assert await asyncio.to_thread(held.asked.wait, 5)
        cancel = asyncio.create_task(run.cancel())
        await asyncio.sleep(0.002)
        held.go_on.set()
        assert (await result).status == "cancelled"
        assert b"RunEnded" in sqlite.read("r")[-1].data
        await cancel


async def test_how_a_run_stands_is_told_by_the_store_also_if_it_was_full_when_that_changed(
    sqlite, monkeypatch
):
    monkeypatch.setattr(writer, "FULL_RETRY_S", 0.01)
    refused = []

    def full(appends, number):
        asks = any(b"QuestionAsked" in entry.data for append in appends for entry in append.entries)
        if asks and not refused:
            refused.append(number)
            return StoreFull("no room")
        return None

    async with kedge.Engine(tools=[pure], store=Faulty(sqlite, full), limits=kedge.Limits(calls=1)) as engine:
        run = await engine.start(chain(2, "pure"))
        assert (await run.result()).status == "waiting"
    assert refused
    async with kedge.Engine(tools=[pure], store=sqlite) as engine:
        assert [run.status for run in engine.runs()] == ["waiting"]
