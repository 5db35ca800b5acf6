"""Commands from elsewhere: kept until somebody drives the run, decided on once, in order, and told back."""

# pyright: reportPossiblyUnboundVariable=none, reportArgumentType=none
# pyright: reportOptionalMemberAccess=none, reportAttributeAccessIssue=none
# ruff: noqa: ASYNC110

import asyncio
import json
import socket
import subprocess
import sys
import time

import apsw
import pytest

import kedge
from kedge import commands
from kedge.engine import mailbox, post
from kedge.flow.events import CommandRefused, CommandTaken, decode_event
from kedge.journal.entry import Sent
from kedge.journal.sqlite import SqliteJournal


@kedge.tool(effect="pure")
async def quick(x: int = 0) -> int:
    return x


@kedge.tool(effect="effect")
async def pay(x: int = 0) -> int:
    return x


WAITS = kedge.Plan.parse(
    {
        "goal": "Wait, then go",
        "steps": [{"id": "w", "wait": {"signal": "go"}}, {"id": "a", "tool": "quick", "after": ["w"]}],
    }
)
ASKS = kedge.Plan.parse(
    {
        "goal": "Ask first",
        "steps": [{"id": "p", "tool": "pay", "approval": {"ask": "Pay?", "expires_s": 3600}}],
    }
)


@pytest.fixture
def store(tmp_path):
    return tmp_path / "kedge.db"


def engine(store, **more):
    return kedge.Engine(tools=[quick, pay], store=store, **more)


async def left(store, plan=WAITS, run_id="r"):
    """A run that waits and that nobody drives."""
    async with engine(store) as one:
        run = await one.start(plan, run_id=run_id)
        await run.result()


def events(store, run_id="r"):
    journal = SqliteJournal(store)
    found = [decode_event(entry.data) for entry in journal.read(run_id)]
    journal.close()
    return found


def taken(store, run_id="r"):
    return [event.key for event in events(store, run_id) if isinstance(event, CommandTaken)]


async def test_another_engine_sends_and_is_woken(store):
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        began = time.monotonic()
        receipt = await two.send("r", commands.Signal(name="go", by="anna"))
        assert receipt.driven
        decision = await receipt.decided(5)
        assert decision.taken
        assert time.monotonic() - began < 0.9, "woken, and not found by the slow look"
        while not run.state.ended:
            await asyncio.sleep(0.005)
    assert taken(store) == [receipt.key]


async def test_without_a_bell_the_slow_look_finds_it(store, monkeypatch):
    monkeypatch.setattr(post, "NET_S", 0.05)
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        await two._post.open()
        two._post.bell.ring = lambda _ports: None
        one._post.bell.ring = lambda _ports: None
        receipt = await two.send("r", commands.Pause())
        assert (await receipt.decided(5)).taken
        assert run.state.paused


async def test_a_machine_without_a_loopback_says_so_and_works(store, monkeypatch, caplog):
    async def refuse(*_args, **_more):
        raise OSError("no loopback")

    monkeypatch.setattr(asyncio.get_running_loop(), "create_datagram_endpoint", refuse, raising=False)
    monkeypatch.setattr(post, "NET_S", 0.05)
    async with engine(store) as one, engine(store) as two:
        await (await one.start(WAITS, run_id="r")).result()
        assert one._post.bell.port == 0
        receipt = await two.send("r", commands.Pause())
        assert (await receipt.decided(5)).taken
    assert "nobody can wake this process" in caplog.text


async def test_what_is_refused_says_why_and_what_could_be_asked(store):
    async with engine(store) as one, engine(store) as two:
        await (await one.start(WAITS, run_id="r")).result()
        decision = await (await two.send("r", commands.Unpause())).decided(5)
    assert (decision.taken, decision.code, decision.allowed) == (False, "not_paused", ("pause",))
    assert [event.code for event in events(store) if isinstance(event, CommandRefused)] == ["not_paused"]


async def test_it_is_kept_while_nobody_drives_the_run_and_comes_before_anything_starts(store):
    async with engine(store) as one:
        chain = [{"id": f"s{n}", "tool": "quick", "after": [f"s{n - 1}"] if n else []} for n in range(200)]
        run = await one.start(kedge.Plan.parse({"goal": "g", "steps": chain}), run_id="r")
        await one.drain(0)
        await one.let_go("r")
        assert not run.state.ended
    started = [event for event in events(store) if type(event).__name__ == "StepStarted"]
    async with engine(store) as two:
        receipt = await two.send("r", commands.Cancel(reason="enough"))
        assert not receipt.driven
        with pytest.raises(TimeoutError):
            await receipt.decided(0.05)
        run = await two.resume("r")
        assert (await run.result()).status == "cancelled"
        assert (await receipt.decided(1)).taken
    assert [event for event in events(store) if type(event).__name__ == "StepStarted"] == started


async def test_one_key_is_one_command_wherever_it_is_sent(store):
    await left(store)
    async with engine(store) as one:
        receipts = [await one.send("r", commands.Pause(key="k")) for _ in range(20)]
        run = await one.resume("r")
        assert {(await receipt.decided(5)).taken for receipt in receipts} == {True}
        assert (await run.send(commands.Pause(key="k"))).taken
        assert (await (await one.send("r", commands.Pause(key="k"))).decided()).taken
    async with engine(store) as two:
        assert (await (await two.send("r", commands.Pause(key="k"))).decided(1)).taken
    assert taken(store) == ["k"]


async def test_a_key_that_the_run_knows_already_leads_to_nothing_new(store):
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        assert (await run.send(commands.Pause(key="k"))).taken
        assert not (await run.send(commands.Pause(key="no"))).taken
        assert (await (await two.send("r", commands.Pause(key="k"))).decided(5)).taken
        again = await (await two.send("r", commands.Pause(key="no"))).decided(5)
        assert (again.taken, again.code) == (False, "already_refused")
    assert taken(store) == ["k"]


async def test_commands_for_no_run_and_for_an_ended_one_are_refused_at_once(store):
    async with engine(store) as one:
        run = await one.start(WAITS, run_id="r")
        await one.send("r", commands.Signal(name="go", key="mine"))
        await run.result()
        with pytest.raises(kedge.NotFound) as unknown:
            await one.send("nobody", commands.Pause())
        with pytest.raises(kedge.Refused) as ended:
            await one.send("r", commands.Pause())
        again = await (await one.send("r", commands.Signal(name="go", key="mine"))).decided()
        with pytest.raises(kedge.BadInput) as none:
            await one.send("r", "pause")
    assert unknown.value.code == "unknown_run"
    assert ended.value.code == "run_ended"
    assert again.taken, "what was taken before the end was taken"
    assert none.value.code == "command"
    assert "pause" in none.value.allowed


async def test_a_refusal_is_remembered_after_the_end(store):
    async with engine(store) as one:
        run = await one.start(WAITS, run_id="r")
        await run.send(commands.Unpause(key="no"))
        await run.cancel()
        await run.result()
        again = await (await one.send("r", commands.Unpause(key="no"))).decided()
    assert (again.taken, again.code) == (False, "already_refused")


async def test_what_came_too_late_is_refused_when_somebody_asks(store, monkeypatch):
    monkeypatch.setattr(post, "NET_S", 0.05)
    await left(store)
    async with engine(store) as one:
        receipt = await one.send("r", commands.Pause())
        journal = SqliteJournal(store)  # as if the run had ended in this moment, elsewhere
        line = journal.runs()[0].headline.replace(b'"waiting"', b'"done"')
        lease = journal.claim("r", 1)
        head = journal.head("r")
        from kedge.journal.entry import Append

        journal.commit([Append("r", lease.epoch, head.seq, [], {}, line)])
        journal.close()
        decision = await receipt.decided(5)
    assert (decision.taken, decision.code) == (False, "run_ended")


async def test_what_comes_as_a_run_ends_is_refused_by_its_driver(store):
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        receipts = await asyncio.gather(
            two.send("r", commands.Cancel()),
            *(two.send("r", commands.Pause(key=f"p{n}")) for n in range(600)),
        )
        decisions = await asyncio.gather(*(receipt.decided(5) for receipt in receipts))
    assert decisions[0].taken
    late = [decision.code for decision in decisions if not decision.taken]
    assert "run_ended" in late
    assert set(late) <= {"run_ended", "cannot_pause"}


async def test_bytes_that_are_no_command_are_refused_and_stop_nothing(store):
    async with engine(store) as one:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        journal = SqliteJournal(store)
        texts = [b"", b"\xff\x00", b"{}", b'{"command":"explode"}', b'{"command":"pause","x":1}', b"[]"]
        sent = [Sent("r", f"bad{n}", 0, 1, raw) for n, raw in enumerate(texts)]
        posted = journal.post([*sent, Sent("r", "good", 0, 1, b'{"command":"pause"}')])
        one._post._on_bell()
        while not run.state.paused:
            await asyncio.sleep(0.01)
        made = {}
        while len(made) < len(posted):
            await asyncio.sleep(0.01)
            made = journal.decisions([one.position for one in posted])
        journal.close()
    codes = [json.loads(made[one.position]).get("code", "") for one in posted]
    assert codes == ["unreadable_command"] * len(texts) + [""]
    assert [event.key for event in events(store) if isinstance(event, CommandRefused)] == [
        one.id for one in sent
    ]


async def test_a_command_whose_bytes_have_changed_is_refused(store):
    await left(store)
    async with engine(store) as one:
        receipt = await one.send("r", commands.Answer(question="q1", answer="approve"))
        db = apsw.Connection(str(store))
        db.execute("update command set data = replace(data, 'q1', 'q2')")
        db.close()
        await one.resume("r")
        decision = await receipt.decided(5)
    assert decision.code == "unreadable_command"
    assert "not what was written" in decision.why


async def test_64_senders_and_more_than_one_batch_are_taken_in_order(store, monkeypatch):
    monkeypatch.setattr(mailbox, "BATCH", 16)
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()

        async def sender(name):
            for n in range(5):
                await two.send("r", commands.SetContext(values={"n": n}, key=f"{name}-{n}"))

        await asyncio.gather(*(sender(name) for name in range(64)))
        last = await two.send("r", commands.Signal(name="go"))
        assert (await last.decided(30)).taken
    keys = taken(store)
    assert len(keys) == 64 * 5 + 1
    for name in range(64):
        assert [key for key in keys if key.startswith(f"{name}-")] == [f"{name}-{n}" for n in range(5)]


async def test_what_waited_is_all_decided_before_what_is_sent_now_and_before_anything_starts(
    store, monkeypatch
):
    monkeypatch.setattr(mailbox, "BATCH", 4)
    await left(store)
    async with engine(store) as one:
        for n in range(30):
            await one.send("r", commands.Signal(name="other", key=f"s{n}"))
        run = await one.resume("r")
        await run.send(commands.Signal(name="other", key="now"))
        await run.send(commands.Signal(name="go", key="go"))
        await run.result()
    assert taken(store) == [*(f"s{n}" for n in range(30)), "now", "go"]


async def test_nothing_starts_before_all_that_waited_is_decided_on(store, monkeypatch):
    monkeypatch.setattr(mailbox, "BATCH", 4)
    await left(store)
    async with engine(store) as one:
        await one.send("r", commands.Signal(name="go"))
        for n in range(30):
            await one.send("r", commands.Signal(name="other", key=f"s{n}"))
        await one.send("r", commands.Cancel())
        assert (await (await one.resume("r")).result()).status == "cancelled"
    assert not [event for event in events(store) if type(event).__name__ == "StepStarted"]


async def test_an_engine_that_closes_while_it_catches_up_leaves_the_rest(store, monkeypatch):
    monkeypatch.setattr(mailbox, "BATCH", 4)
    await left(store)
    async with engine(store) as one:
        for n in range(30):
            await one.send("r", commands.Signal(name="go", key=f"s{n}"))
        await one.resume("r")
    async with engine(store) as two:
        assert (await (await two.resume("r")).result()).status == "done"
    assert len(set(taken(store))) == len(taken(store))


async def test_an_answer_that_was_sent_in_time_counts_however_late_it_is_taken(store):
    await left(store, ASKS)
    async with engine(store) as one:
        receipt = await one.send("r", commands.Answer(question="q1", answer="approve", by="anna"))
    clock = _Later(3_700_000)
    async with engine(store, clock=clock) as two:
        assert (await (await two.resume("r")).result()).status == "done"
        again = await two.send("r", commands.Answer(question="q1", answer="approve", key=receipt.key))
        assert (await again.decided(1)).taken


async def test_an_answer_that_was_sent_too_late_is_refused_though_nobody_had_refused_it_yet(store):
    await left(store, ASKS)
    clock = _Later(3_700_000)
    async with engine(store, clock=clock) as two:
        receipt = await two.send("r", commands.Answer(question="q1", answer="approve"))
        result = await (await two.resume("r")).result()
        decision = await receipt.decided(5)
    assert (decision.taken, decision.code) == (False, "expired")
    assert result.status == "failed"
    assert result.steps["p"].error.code == "approval_expired"


class _Later:
    def __init__(self, ahead_ms):
        self._ahead_ms = ahead_ms

    def now_ms(self):
        return time.time_ns() // 1_000_000 + self._ahead_ms

    def monotonic_s(self):
        return time.perf_counter()


async def test_a_run_in_memory_takes_them_too():
    async with kedge.Engine(tools=[quick]) as one:
        run = await one.start(WAITS, run_id="r")
        assert (await (await one.send("r", commands.Pause())).decided()).taken
        await one.let_go("r")
        receipt = await one.send("r", commands.Unpause())
        assert not receipt.driven
        run = await one.resume("r")
        assert (await receipt.decided(1)).taken
        await run.send(commands.Signal(name="go"))
        assert (await run.result()).status == "done"


async def test_what_has_no_json_form_or_is_too_large_is_refused_before_it_is_kept(store):
    await left(store)
    async with engine(store, limits=kedge.Limits(document_bytes=2_000)) as one:
        with pytest.raises(kedge.NotSerializable, match=r"command\.data"):
            await one.send("r", commands.Signal(name="go", data={1, 2}))
        with pytest.raises(kedge.BadInput) as large:
            await one.send("r", commands.Signal(name="go", data="x" * 3_000))
        assert large.value.code == "command_size"
        assert one.drivable() == []


async def test_a_flood_of_datagrams_costs_few_looks(store):
    async with engine(store) as one:
        await (await one.start(WAITS, run_id="r")).result()
        looks = 0
        usual = one._journal.arrived

        def counted(after):
            nonlocal looks
            looks += 1
            return usual(after)

        one._journal.arrived = counted
        began = time.monotonic()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            for n in range(2_000):
                other.sendto(b"\0" * (n % 1_400), ("127.0.0.1", one._post.bell.port))
                if n % 50 == 0:
                    await asyncio.sleep(0)
        await asyncio.sleep(0.02)
        took_s = time.monotonic() - began
        assert 0 < looks <= took_s / post.LOOK_EVERY_S + 2


async def test_a_store_that_cannot_be_read_for_a_moment_is_looked_at_again(store, monkeypatch, caplog):
    monkeypatch.setattr(post, "NET_S", 0.05)
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        failing = [kedge.StoreError("busy")] * 2
        for name in ("arrived", "posted"):
            usual = getattr(one._journal, name)

            def sometimes(*args, usual=usual):
                if failing:
                    raise failing.pop()
                return usual(*args)

            monkeypatch.setattr(one._journal, name, sometimes)
        await two.send("r", commands.Pause())
        while not run.state.paused:
            await two.send("r", commands.Skip(step="nothing"))  # something is written
            await asyncio.sleep(0.05)
    assert "commands cannot be read" in caplog.text


async def test_who_awaits_a_decision_is_told_when_the_engine_is_closed(store):
    await left(store)
    async with engine(store) as one:
        receipt = await one.send("r", commands.Pause())
        waiting = asyncio.ensure_future(receipt.decided())
        await asyncio.sleep(0.01)
    with pytest.raises(kedge.KedgeError) as stopped:
        await waiting
    assert stopped.value.code == "stopped"
    assert "command" in repr(receipt)


DRIVER = """
import asyncio, sys, kedge
from kedge.testing.failpoints import kill_at
@kedge.tool(effect="pure")
async def quick(x: int = 0) -> int: return x
async def main():
    async with kedge.Engine(tools=[quick], store=sys.argv[1]) as engine:
        run = await engine.resume("r")
        print("ready", flush=True)
        if sys.argv[2]:
            kill_at(sys.argv[2])
        while not run.state.ended:
            await asyncio.sleep(0.002)
asyncio.run(main())
"""


@pytest.fixture
def drive(store, tmp_path):
    processes = []

    def start(kill=""):
        process = subprocess.Popen(
            [sys.executable, "-c", DRIVER, str(store), kill], stdout=subprocess.PIPE, text=True,
            env={"PYTHONPATH": str(kedge.__path__[0].rsplit("/", 1)[0]), "PATH": ""},
        )  # fmt: skip
        processes.append(process)
        assert process.stdout.readline() == "ready\n"
        return process

    yield start
    for process in processes:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    "place",
    ["mailbox.fetched", "driver.delivery.decided", "journal.append.decided", "file.commit.before",
     "file.commit.after", "mailbox.durable", "mailbox.told"],
)  # fmt: skip
async def test_a_driver_that_is_killed_while_it_takes_a_command_takes_it_once(store, drive, place):
    await left(store)
    drive(place)
    async with engine(store) as one:
        receipt = await one.send("r", commands.SetContext(values={"n": 1}, key="k"))
        await asyncio.sleep(0.1)
        drive()
        decision = await receipt.decided(10)
        assert decision.taken
        assert (await (await one.send("r", commands.Signal(name="go"))).decided(10)).taken
    assert taken(store).count("k") == 1
    assert [event.version for event in events(store) if type(event).__name__ == "PlanAdopted"] == [1, 2]


async def test_64_questions_answered_by_two_people_in_any_order_are_each_answered_once(store):
    steps = [{"id": f"p{n}", "tool": "pay", "args": {"x": n}, "approval": {"ask": "Pay?"}} for n in range(64)]
    plan = kedge.Plan.parse({"goal": "g", "steps": steps})
    await left(store, plan)
    order = [(n * 37) % 64 for n in range(64)]
    async with engine(store) as one, engine(store) as two:
        early = [
            await two.send("r", commands.Answer(question=f"q{n + 1}", answer="approve", by="anna"))
            for n in order[:32]
        ]
        run = await one.resume("r")
        late = await asyncio.gather(
            *(
                two.send("r", commands.Answer(question=f"q{n + 1}", answer="approve", by=who))
                for n in order
                for who in ("ben", "cleo")
            )
        )
        decisions = await asyncio.gather(*(receipt.decided(20) for receipt in [*early, *late]))
        result = await run.result()
    assert sum(decision.taken for decision in decisions) == 64
    assert {decision.code for decision in decisions if not decision.taken} <= {
        "already_answered",
        "run_ended",
    }
    assert [result.steps[f"p{n}"].result for n in range(64)] == list(range(64))
    asked = [event.question for event in events(store) if type(event).__name__ == "QuestionAnswered"]
    assert sorted(asked) == sorted(f"q{n + 1}" for n in range(64))


async def test_the_same_key_a_thousand_times_at_once_is_one_command(store):
    async with engine(store) as one, engine(store) as two:
        run = await one.start(WAITS, run_id="r")
        await run.result()
        receipts = await asyncio.gather(*(two.send("r", commands.Pause(key="k")) for _ in range(1_000)))
        assert {(await receipt.decided(10)).taken for receipt in receipts} == {True}
    assert taken(store) == ["k"]
