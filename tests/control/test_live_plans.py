"""A run is steered while it runs: its plan is changed, calls are approved, signals come."""

# pyright: reportOptionalMemberAccess=none

import asyncio

import pytest

import kedge
from kedge import commands


class Tools:
    """Tools that say what they were called with, and wait until they are let go."""

    def __init__(self):
        self.calls = []
        self.go = asyncio.Event()

        @kedge.tool(effect="read")
        async def slow(x: int = 0) -> int:
            self.calls.append(("slow", x))
            await self.go.wait()
            return x

        @kedge.tool(effect="pure")
        async def quick(x: int = 0) -> int:
            self.calls.append(("quick", x))
            return x + 1

        @kedge.tool(effect="effect")
        async def send(text: str) -> str:
            self.calls.append(("send", text))
            return f"sent {text}"

        self.all = [slow, quick, send]


@pytest.fixture
async def tools():
    return Tools()


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return ":memory:" if request.param == "memory" else tmp_path / "k.db"


async def running(run, path):
    async with asyncio.timeout(10):
        while run.state.steps[path].status != "running":  # noqa: ASYNC110
            await asyncio.sleep(0)


def plan(*steps, **more):
    return kedge.Plan.parse({"goal": "g", "steps": list(steps), **more})


async def test_a_step_is_injected_into_a_running_plan(tools, store):
    async with kedge.Engine(tools.all, store=store) as engine:
        run = await engine.start(plan({"id": "a", "tool": "slow", "args": {"x": 4}}))
        step = kedge.Step(id="b", tool="quick", args={"x": "${a}"})
        decision = await run.send(commands.Inject(step=step, why="more to do"))
        assert decision.taken
        assert decision.version == 2
        tools.go.set()
        result = await run.result()
        assert result.steps["b"].result == 5
        assert [one.cause for one in result.versions] == ["start", "inject"]
        assert result.version == 2


async def test_what_cannot_be_changed_is_refused_with_what_is_allowed(tools, store):
    async with kedge.Engine(tools.all, store=store) as engine:
        run = await engine.start(plan({"id": "a", "tool": "slow"}))
        await running(run, "a")
        refused = await run.send(commands.Remove(step="a"))
        assert not refused.taken
        assert "cancel" in refused.why
        unknown = await run.send(commands.Retry(step="nobody"))
        assert (unknown.code, unknown.allowed) == ("unknown_step", ("a",))
        tools.go.set()
        assert (await run.result()).ok


async def test_a_running_call_is_stopped_by_name(tools, store):
    async with kedge.Engine(tools.all, store=store) as engine:
        run = await engine.start(
            plan(
                {"id": "a", "tool": "slow"},
                {"id": "b", "tool": "quick"},
                {"id": "c", "tool": "quick", "after": ["b"]},
            )
        )
        await running(run, "a")
        decision = await run.send(commands.Edit(patch=kedge.Patch(cancel=("a",), why="not needed")))
        assert decision.taken
        result = await asyncio.wait_for(run.result(), 5)
        assert result.ok
        assert result.steps["a"].status == "cancelled"


async def test_an_edited_approval_is_what_is_called(tools, store):
    ask = {"id": "a", "tool": "send", "args": {"text": "hello"}, "approval": {"ask": "Send it?"}}
    async with kedge.Engine(tools.all, store=store) as engine:
        run = await engine.start(plan(ask), run_id="r")
        result = await run.result()
        assert result.status == "waiting"
        assert result.questions["q1"].text == "Send it?"
    async with kedge.Engine(tools.all, store=store) as engine:
        if store == ":memory:":
            run = await engine.start(plan(ask), run_id="r")
            await run.result()
        else:
            run = await engine.resume("r")
        decision = await run.send(commands.Answer(question="q1", answer="approve", value={"txt": "x"}))
        assert not decision.taken
        await run.answer("q1", "approve", value={"text": "goodbye"}, by="anna")
        result = await run.result()
        assert result.steps["a"].result == "sent goodbye"
    assert tools.calls == [("send", "goodbye")]


async def test_every_effect_is_asked_about_if_the_run_is_told_so(tools, store):
    async with kedge.Engine(tools.all, store=store) as engine:
        steps = {"id": "a", "tool": "quick"}, {"id": "b", "tool": "send", "args": {"text": "${a}!"}}
        run = await engine.start(plan(*steps), ask="effects")
        assert (await run.result()).status == "waiting"
        await run.answer("q1", "refuse")
        assert (await run.result()).status == "failed"
        with pytest.raises(kedge.BadInput) as wrong:
            await engine.start(plan(*steps), ask="sometimes")  # type: ignore[arg-type]
        assert wrong.value.code == "ask"
    assert tools.calls == [("quick", 0)]


async def test_a_signal_from_outside_moves_a_run_that_waits(tools, store):
    async with kedge.Engine(tools.all, store=store) as engine:
        run = await engine.start(
            plan(
                {"id": "a", "wait": {"signal": "paid"}}, {"id": "b", "tool": "quick", "args": {"x": "${a.n}"}}
            )
        )
        assert (await run.result()).status == "waiting"
        assert (await run.send(commands.Signal(name="paid", data={"n": 6}))).taken
        assert (await run.result()).steps["b"].result == 7


async def test_events_of_a_changed_plan_never_go_back(tools, store):
    seen = []
    async with kedge.Engine(tools.all, store=store) as engine:
        run = await engine.start(
            plan({"id": "a", "tool": "slow"}, {"id": "z", "tool": "quick"}), on_event=seen.append
        )
        for number in range(5):
            step = kedge.Step(id=f"n{number}", tool="quick", after=("a",))
            assert (await run.send(commands.Inject(step=step))).taken
        assert (await run.send(commands.Remove(step="n3"))).taken
        tools.go.set()
        result = await run.result()
        assert result.ok
        picture = kedge.draw(run.plan, result)
    percents = [event.percent for event in seen]
    assert percents == sorted(percents)
    assert percents[-1] == 100
    assert "n4" in picture
    assert "n3" not in result.steps


async def test_a_changed_plan_is_taken_up_as_it_was_changed(tools, tmp_path):
    async with kedge.Engine(tools.all, store=tmp_path / "k.db") as engine:
        run = await engine.start(plan({"id": "a", "tool": "slow"}), run_id="r")
        await run.send(commands.Inject(step=kedge.Step(id="b", tool="quick", args={"x": "${a}"})))
    tools.go.set()
    async with kedge.Engine(tools.all, store=tmp_path / "k.db") as engine:
        result = await (await engine.resume("r")).result()
        assert result.steps["b"].result == 1


async def test_a_refusal_with_a_key_is_told_when_it_is_on_disk_and_stays_one(tools, tmp_path):
    step = kedge.Step(id="a", tool="quick")
    async with kedge.Engine(tools.all, store=tmp_path / "k.db") as engine:
        run = await engine.start(plan({"id": "a", "tool": "slow"}), run_id="r")
        refused = await run.send(commands.Inject(step=step, key="k1"))
        assert (refused.taken, refused.code) == (False, "duplicate_id")
        kinds = [event.kind for event in engine.reader("r").news()]
        assert kinds[-1] == "command_refused"
        again = await run.send(commands.Inject(step=step, key="k1"))
        assert again.code == "already_refused"
        tools.go.set()
        assert (await run.result()).ok
