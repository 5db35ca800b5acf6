"""Undoing what runs did, with real calls: in order, once, and also long after the end."""

# ruff: noqa: ASYNC110

import asyncio

import pytest

import kedge
from kedge import commands

FAILING = kedge.RunSettings(undo="failure")


class Ledger:
    """What was done outside, as somebody who looks sees it."""

    def __init__(self) -> None:
        self.booked: dict[str, str] = {}
        self.log: list[str] = []
        self.keys: list[str] = []
        self.broken: set[str] = set()

    def tools(self) -> list[kedge.Tool]:
        @kedge.tool(effect="effect")
        async def book(name: str, ctx: kedge.Context) -> dict[str, str]:
            self.log.append(f"+{name}")
            self.keys.append(ctx.idempotency_key)
            self.booked[name] = f"no {name}"
            return {"id": f"no {name}"}

        @kedge.tool(effect="effect")
        async def unbook(id: str, ctx: kedge.Context) -> str:  # noqa: A002
            if id in self.broken:
                raise kedge.ToolError(f"{id} cannot be taken back", "permanent")
            self.log.append(f"-{id.removeprefix('no ')}")
            self.keys.append(ctx.idempotency_key)
            del self.booked[id.removeprefix("no ")]
            return "gone"

        @kedge.tool(effect="pure")
        async def wait() -> None:
            await asyncio.sleep(3600)

        @kedge.tool(effect="pure")
        async def fail() -> None:
            raise kedge.ToolError("it is broken", "permanent")

        return [book, unbook, wait, fail]


def book(name: str, *after: str) -> dict[str, object]:
    undo = {"tool": "unbook", "args": {"id": "${result.id}"}}
    return {"id": name, "tool": "book", "args": {"name": name}, "after": list(after), "compensate": undo}


def plan(*steps: dict[str, object], **more: object) -> kedge.Plan:
    return kedge.Plan.parse({"goal": "g", "steps": list(steps), **more})


TRIP = plan(book("train"), book("hotel", "train"), book("dinner", "hotel"))


async def until(run: kedge.Run, done: int) -> None:
    async with asyncio.timeout(5):
        while run.state.done < done:
            await asyncio.sleep(0.001)


async def test_a_cancelled_run_undoes_what_it_did(tmp_path):
    ledger = Ledger()
    slow = plan(book("train"), book("hotel", "train"), {"id": "rest", "tool": "wait", "after": ["hotel"]})
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        run = await engine.start(slow)
        await until(run, 2)
        await run.cancel("rain", compensate=True)
        result = await run.result()
    assert result.status == "cancelled"
    assert ledger.log == ["+train", "+hotel", "-hotel", "-train"]
    assert ledger.booked == {}
    assert len(set(ledger.keys)) == 4
    assert result.undone == ("hotel", "train")


async def test_a_run_that_fails_undoes_what_it_did_if_started_so(tmp_path):
    ledger = Ledger()
    trip = plan(book("train"), book("hotel", "train"), {"id": "bad", "tool": "fail", "after": ["hotel"]})
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        ledger.broken.add("no train")
        result = await (await engine.start(trip, settings=FAILING)).result()
    assert result.status == "failed"
    assert ledger.booked == {"train": "no train"}
    assert result.undone == ("hotel",)
    assert result.not_undone == {"train": "unbook failed: no train cannot be taken back"}


async def test_what_a_run_did_is_undone_days_later_by_another_process(tmp_path):
    ledger = Ledger()
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        assert (await (await engine.start(TRIP, run_id="r")).result()).ok
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        result = await (await engine.compensate("r", "hotel", "it rains", by="anna")).result()
        assert result.status == "cancelled"
        assert ledger.booked == {"train": "no train"}
        assert result.error is not None
        assert result.error.message == "2 steps were undone by anna: it rains"
        with pytest.raises(kedge.Refused, match="nothing of it can be undone"):
            await engine.compensate("r", "hotel")
        result = await (await engine.compensate("r")).result()
        assert ledger.booked == {}
        with pytest.raises(kedge.Refused, match="has been undone"):
            await engine.resume("r", retry_failed=True)
        assert engine.look("r").undone == result.undone == ("dinner", "hotel", "train")
        (line,) = engine.runs()
        assert (line.status, line.done) == ("cancelled", 0)


async def test_what_is_refused_leaves_the_run_as_it_was(tmp_path):
    ledger = Ledger()
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        await (await engine.start(TRIP, run_id="r")).result()
        before = engine.look("r").state.seq
        with pytest.raises(kedge.NotFound):
            await engine.compensate("r", "nothing")
        assert engine.look("r").state.seq == before
        engine.delete("r")  # nobody drives it


async def test_a_compensation_goes_on_where_another_process_left_it(tmp_path):
    ledger = Ledger()
    ledger.broken.add("no hotel")
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        await (await engine.start(TRIP, run_id="r")).result()
        run = await engine.compensate("r")
        await run.pause()
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        run = await engine.resume("r")
        if run.status == "paused":
            await run.unpause()
        result = await run.result()
        for question in result.questions:
            await run.answer(question, "done")
        result = await run.result()
    assert result.status == "cancelled"
    assert set(result.undone) == {"dinner", "train"}
    assert ledger.log.count("-dinner") <= 1
    assert list(result.not_undone) == ["hotel"]


async def test_a_step_of_a_run_that_goes_on_is_undone():
    ledger = Ledger()
    slow = plan(book("train"), {"id": "rest", "tool": "wait"})
    async with kedge.Engine(ledger.tools()) as engine:
        run = await engine.start(slow, run_id="r")
        await until(run, 1)
        assert (await run.send(commands.Compensate(step="train"))).taken
        again = await run.send(commands.Compensate(step="train"))
        assert (again.taken, again.code) == (False, "cannot_compensate")
        while run.state.undos["train.undo"].outcome is None:
            await asyncio.sleep(0.001)
        assert run.state.steps["train"].status == "compensated"
        with pytest.raises(kedge.Refused, match="it is compensated"):
            await engine.compensate("r", "train")
        await run.cancel()


async def test_a_tool_that_has_changed_is_asked_about_before_it_undoes_anything(tmp_path):
    ledger = Ledger()
    async with kedge.Engine(ledger.tools(), tmp_path / "k.db") as engine:
        await (await engine.start(TRIP, run_id="r")).result()

    @kedge.tool(effect="effect", name="unbook")
    async def another(id: str, force: bool = True) -> str:  # noqa: A002, FBT001, FBT002
        """It takes more now."""
        return f"{id} {force}"

    tools = [tool for tool in ledger.tools() if tool.spec.name != "unbook"]
    async with kedge.Engine([*tools, another], tmp_path / "k.db") as engine:
        run = await engine.compensate("r")
        result = await run.result()
        assert result.status == "waiting"
        (question,) = result.questions
        assert result.questions[question].reason == "tool_changed"
        await run.answer(question, "stop")
        result = await run.result()
    assert result.status == "done"  # nothing was undone
    assert set(result.not_undone.values()) == {"the compensation was stopped before"}


async def test_followers_see_it_in_words():
    ledger = Ledger()
    told: list[str] = []
    trip = plan(book("train"), {"id": "bad", "tool": "fail", "after": ["train"]})
    async with kedge.Engine(ledger.tools()) as engine:
        run = await engine.start(
            trip, run_id="r", settings=FAILING, on_event=lambda e: told.append(e.message)
        )
        await run.result()
    assert "What run r did is being undone" in told
    assert "Undoing train started" in told
    assert "1 step is undone" in told
    assert told[-1].startswith("The run failed")
