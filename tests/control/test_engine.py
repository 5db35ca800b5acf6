"""Starting, taking up, listing and deleting runs; what is refused before anything is written."""

# pyright: reportOptionalMemberAccess=none, reportOptionalOperand=none, reportOperatorIssue=none, reportArgumentType=none

import asyncio
import gc
import weakref

import pytest

import kedge
from kedge.journal.memory import MemoryJournal


@kedge.tool(effect="pure")
async def double(x: int) -> int:
    return 2 * x


@kedge.tool(effect="pure")
async def long() -> int:
    await asyncio.sleep(3600)
    return 1


PLAN = kedge.Plan.parse(
    {
        "goal": "double it",
        "inputs": {"x": {"type": "integer", "default": 4}},
        "steps": [{"id": "a", "tool": "double", "args": {"x": "${inputs.x}"}}],
        "outputs": {"y": "a"},
    }
)
LONG = kedge.Plan.parse({"goal": "wait", "steps": [{"id": "a", "tool": "long"}]})
STORES = ["memory", "sqlite"]


@pytest.fixture
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryJournal()
    return tmp_path / "k.db"


both = pytest.mark.parametrize("store", STORES, indirect=True)


@both
async def test_the_same_id_plan_and_inputs_are_the_same_run(store):
    calls = []

    @kedge.tool(effect="idempotent")
    async def count() -> int:
        calls.append(1)
        return len(calls)

    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "count"}]})
    async with kedge.Engine(tools=[count], store=store) as engine:
        first = await engine.start(plan, run_id="r")
        second = await engine.start(plan, run_id="r")
        results = [await first.result(), await second.result()]
        third = await engine.start(plan, run_id="r")
        results.append(await third.result())
    async with kedge.Engine(tools=[count], store=store) as engine:
        results.append(await (await engine.start(plan, run_id="r")).result())
    assert calls == [1]
    assert {result.run_id for result in results} == {"r"}
    assert all(result.outputs == {"a": 1} for result in results)


@both
async def test_two_starts_at_the_same_moment_are_one_run(store):
    async with kedge.Engine(tools=[double], store=store) as engine:
        runs = await asyncio.gather(*(engine.start(PLAN, run_id="r") for _ in range(5)))
        assert len({id(run) for run in runs}) == 1
        for run in runs:
            assert (await run.result()).ok
        assert len(engine.runs()) == 1


@both
async def test_another_plan_or_other_inputs_are_a_conflict_and_drive_nothing(store):
    async with kedge.Engine(tools=[double, long], store=store) as engine:
        await engine.start(LONG, run_id="r")
        await engine.start(PLAN, {"x": 1}, run_id="p")
    async with kedge.Engine(tools=[double, long], store=store) as engine:
        for plan, inputs, id_, what in ((PLAN, {}, "r", "plan"), (PLAN, {"x": 2}, "p", "inputs")):
            with pytest.raises(kedge.RunConflict) as refused:
                await engine.start(plan, inputs, run_id=id_)
            assert what in str(refused.value)
            assert id_ in str(refused.value)
            assert refused.value.remedy
        assert not engine._runs, "the other run was taken up"


@both
async def test_resuming_twice_is_the_same_run_and_drives_it_once(store):
    starts = []

    @kedge.tool(effect="read")
    async def fetch() -> int:
        starts.append(1)
        await asyncio.sleep(0.02 if len(starts) > 1 else 3600)
        return 1

    plan = kedge.Plan.parse({"goal": "g", "steps": [{"id": "a", "tool": "fetch"}]})
    async with kedge.Engine(tools=[fetch], store=store) as engine:
        await engine.start(plan, run_id="r")
        await asyncio.sleep(0.05)
    async with kedge.Engine(tools=[fetch], store=store) as engine:
        one, two = await engine.resume("r"), await engine.resume("r")
        assert one is two
        assert (await one.result()).ok
    assert len(starts) == 2


async def test_runs_are_listed_newest_first_and_as_they_stand(tmp_path):
    async with kedge.Engine(tools=[double, long], store=tmp_path / "k.db") as engine:
        await (await engine.start(PLAN, run_id="old")).result()
        await engine.start(LONG, run_id="new")
        await asyncio.sleep(0.02)
        new, old = engine.runs()
        assert (new.id, new.status, new.driven, new.done, new.total) == ("new", "running", True, 0, 1)
        assert (old.id, old.status, old.driven, old.done, old.total) == ("old", "done", False, 1, 1)
        assert old.goal == "double it"
        assert old.ended
        assert old.started_at <= old.ended_at <= old.updated_at
        assert old.position == 5
        assert old.size_bytes > 100


async def test_a_run_in_memory_is_listed_from_its_first_moment():
    async with kedge.Engine(tools=[long]) as engine:
        run = await engine.start(LONG)
        (info,) = engine.runs()
        assert (info.id, info.status, info.goal) == (run.id, "running", "wait")
        assert engine.look(run.id).status == "running"


@both
async def test_a_deleted_run_is_gone_and_a_live_one_stays(store):
    async with kedge.Engine(tools=[double, long], store=store) as engine:
        await (await engine.start(PLAN, run_id="r")).result()
        live = await engine.start(LONG, run_id="live")
        engine.delete("r")
        assert [run.id for run in engine.runs()] == ["live"]
        with pytest.raises(kedge.BadInput) as refused:
            engine.delete("live")
        assert refused.value.code == "run_is_live"
        await live.cancel()
        await live.result()
        engine.delete("live")
        with pytest.raises(kedge.NotFound):
            await engine.resume("live")
        for action in (engine.delete, engine.look):
            with pytest.raises(kedge.NotFound):
                action("live")
        assert (await (await engine.start(PLAN, run_id="r")).result()).ok


async def test_a_damaged_run_is_flagged_and_harms_no_other(tmp_path):
    import apsw

    file = tmp_path / "k.db"
    async with kedge.Engine(tools=[double], store=file) as engine:
        for id_ in ("bad", "good"):
            await (await engine.start(PLAN, run_id=id_)).result()
    with apsw.Connection(str(file)) as db:
        tables = [name for (name,) in db.execute("select name from sqlite_master where type = 'table'")]
        (events,) = [name for name in tables if name.startswith("event")]
        found = f"select rowid, data from {events} where instr(cast(data as text), 'StepStarted')"
        row, data = db.execute(found).fetchall()[0]
        assert isinstance(data, bytes)
        db.execute(f"update {events} set data = ? where rowid = ?", (data.replace(b"4", b"5"), row))
    async with kedge.Engine(tools=[double], store=file) as engine:
        broken = next(id_ for id_ in ("bad", "good") if _is_damaged(engine, id_))
        other = {"bad": "good", "good": "bad"}[broken]
        with pytest.raises(kedge.StoreDamaged) as refused:
            await engine.resume(broken)
        assert refused.value.run_id == broken
        assert refused.value.seq > 0
        assert {run.id: run.status for run in engine.runs()} == {broken: "damaged", other: "done"}
        assert engine.look(other).ok
        engine.delete(broken)
        assert [run.id for run in engine.runs()] == [other]


def _is_damaged(engine, run_id):
    try:
        engine.look(run_id)
    except kedge.StoreDamaged:
        return True
    return False


# --- refused before anything is written

BAD_INPUTS = {
    "unknown": ({"x": 1, "z": 2}, "unknown: z"),
    "wrong type": ({"x": "four"}, "needs integer, got str 'four'"),
    "boolean for number": ({"x": True}, "got a boolean"),
    "too long to show": ({"x": [10**5000]}, "cannot be shown"),
    "a key that is no text": ({1: 2}, "unknown: 1"),
    "no map": ([1], "not list"),
}


@pytest.mark.parametrize("name", BAD_INPUTS)
async def test_inputs_that_do_not_fit_are_refused(name):
    inputs, message = BAD_INPUTS[name]
    async with kedge.Engine(tools=[double]) as engine:
        with pytest.raises(kedge.BadInput) as refused:
            await engine.start(PLAN, inputs)
        assert message in str(refused.value)
        assert engine.runs() == []


@pytest.mark.parametrize(
    ("value", "type_"), [(float("nan"), "number"), ({1, 2}, "any"), ("\ud800", "string")]
)
async def test_inputs_that_cannot_be_stored_are_refused(value, type_):
    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "inputs": {"x": {"type": type_}},
            "steps": [{"id": "a", "tool": "double", "args": {"x": 1}}],
        }
    )
    async with kedge.Engine(tools=[double]) as engine:
        with pytest.raises(kedge.NotSerializable) as refused:
            await engine.start(plan, {"x": value})
        assert refused.value.path == "inputs.x"
        assert engine.runs() == []


async def test_all_missing_inputs_are_named_at_once():
    inputs = {name: {"type": "integer"} for name in ("one", "two")}
    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "inputs": inputs,
            "steps": [{"id": "a", "tool": "double", "args": {"x": "${inputs.one}"}}],
        }
    )
    async with kedge.Engine(tools=[double]) as engine:
        with pytest.raises(kedge.BadInput) as refused:
            await engine.start(plan)
    assert "missing: one, two" in str(refused.value)


async def test_a_plan_with_faults_is_refused_with_all_of_them():
    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "steps": [{"id": "a", "tool": "dubble"}, {"id": "b", "tool": "double", "after": ["zz"]}],
        }
    )
    async with kedge.Engine(tools=[double]) as engine:
        with pytest.raises(kedge.InvalidPlan) as refused:
            await engine.start(plan)
        assert len(refused.value.findings.errors) >= 2
        assert engine.runs() == []


LATER = {
    "role": {"id": "a", "role": "analyze"},
    "goal": {"id": "a", "goal": "find out"},
    "secret": {"id": "a", "tool": "say", "args": {"text": "${secret.TOKEN}"}},
}


@pytest.mark.parametrize("name", LATER)
async def test_what_cannot_be_run_yet_is_refused_and_not_left_out(name):
    plan = kedge.Plan.parse(
        {"goal": "g", "steps": [LATER[name], {"id": "b", "tool": "double", "args": {"x": 1}}]}
    )

    @kedge.tool(effect="pure")
    async def say(text: str) -> str:
        return text

    async with kedge.Engine(tools=[double, say]) as engine:
        with pytest.raises(kedge.InvalidPlan) as refused:
            await engine.start(plan)
        codes = {finding.code for finding in refused.value.findings.errors}
        assert codes == {"not_supported_yet"}, refused.value
        assert engine.runs() == []


@pytest.mark.parametrize("run_id", ["", "../x", "A", "a" * 65, "con", "a b", "a\0", 7])
async def test_a_bad_run_id_is_refused(run_id):
    async with kedge.Engine(tools=[double]) as engine:
        for action in (lambda: engine.start(PLAN, run_id=run_id), lambda: engine.resume(run_id)):
            with pytest.raises(kedge.BadInput) as refused:
                await action()
            assert refused.value.code == "run_id"


@pytest.mark.parametrize("plan", ["plan.yaml", {"goal": "g"}, None])
async def test_what_is_no_plan_is_refused(plan):
    async with kedge.Engine(tools=[double]) as engine:
        with pytest.raises(kedge.BadInput) as refused:
            await engine.start(plan)
        assert "kedge.load" in refused.value.remedy


# --- the engine itself


async def test_an_engine_that_is_not_open_says_how_to_open_it():
    engine = kedge.Engine(tools=[double])
    actions = [
        lambda: engine.start(PLAN),
        lambda: engine.resume("r"),
    ]
    for action in actions:
        with pytest.raises(kedge.KedgeError) as refused:
            await action()
        assert refused.value.code == "not_open"
        assert "async with" in refused.value.remedy
    for look in (engine.runs, lambda: engine.look("r"), lambda: engine.delete("r"), engine.stats):
        with pytest.raises(kedge.KedgeError):
            look()
    await engine.close()


async def test_an_engine_cannot_be_opened_twice_at_a_time_but_again_later():
    engine = kedge.Engine(tools=[double])
    async with engine:
        with pytest.raises(kedge.KedgeError):
            await engine.__aenter__()
        assert (await (await engine.start(PLAN)).result()).ok
    async with engine:
        assert (await (await engine.start(PLAN)).result()).ok


async def test_two_tools_of_one_name_are_refused():
    @kedge.tool(effect="pure", name="double")
    async def other(x: int) -> int:
        return x

    with pytest.raises(kedge.BadInput) as refused:
        kedge.Engine(tools=[double, other])
    assert refused.value.code == "duplicate_tool"


async def test_tools_see_the_context_variables_of_whoever_started_the_run():
    import contextvars

    user = contextvars.ContextVar("user", default="nobody")

    @kedge.tool(effect="pure")
    async def in_loop() -> str:
        return user.get()

    @kedge.tool(effect="pure")
    def in_thread() -> str:
        return user.get()

    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "steps": [{"id": "a", "tool": "in_loop"}, {"id": "b", "tool": "in_thread", "after": ["a"]}],
        }
    )
    async with kedge.Engine(tools=[in_loop, in_thread]) as engine:
        user.set("ada")
        run = await engine.start(plan)
        user.set("bob")
        result = await run.result()
    assert result.steps["a"].result == "ada"
    assert result.steps["b"].result == "ada"


async def test_changed_tools_with_effects_are_asked_about(tmp_path):
    @kedge.tool(effect="effect", name="send")
    async def before(to: str) -> int:
        return 1

    @kedge.tool(effect="effect", name="send")
    async def after(to: str, copy: int = 0) -> int:
        return 2

    plan = kedge.Plan.parse(
        {
            "goal": "g",
            "steps": [
                {"id": "l", "tool": "long"},
                {"id": "s", "tool": "send", "args": {"to": "x"}, "after": ["l"]},
            ],
        }
    )

    @kedge.tool(effect="pure", name="long")
    async def short() -> int:
        return 1

    async with kedge.Engine(tools=[long, before], store=tmp_path / "k.db") as engine:
        await engine.start(plan, run_id="r")
    async with kedge.Engine(tools=[short, after], store=tmp_path / "k.db") as engine:
        run = await engine.resume("r")
        result = await run.result()
        assert result.status == "waiting"
        ((id_, question),) = result.questions.items()
        assert question.reason == "tool_changed"
        assert "send" in question.text
        await run.answer(id_, "go on")
        assert (await run.result()).steps["s"].result == 2


@pytest.mark.parametrize("end", ["done", "deleted", "looked at again"])
async def test_an_engine_keeps_nothing_of_a_run_that_it_is_done_with(tmp_path, end):
    async with kedge.Engine(tools=[double, long], store=tmp_path / "k.db") as engine:
        run = await engine.start(LONG if end == "deleted" else PLAN)
        if end == "deleted":
            await run.cancel()
        await run.result()  # a cancel is told when it is on disk; the end of the run is later
        if end == "deleted":
            engine.delete(run.id)
        elif end == "looked at again":
            run = await engine.resume(run.id)
            assert engine._workshop.alone
        driver = weakref.ref(run._driver)
        del run
        await asyncio.sleep(0.05)  # callbacks see the last of it
        gc.collect()
        assert driver() is None
