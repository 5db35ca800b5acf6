"""Bugs of others about values, stores, plans and callbacks. An error names the place, an id the step."""

# pyright: reportOptionalMemberAccess=none

from __future__ import annotations

import datetime
import random

import apsw
import pytest
from bugs_stage import plan

import kedge
from kedge.journal.sqlite import SqliteJournal
from kedge.testing import try_plan


def test_a_result_that_cannot_be_stored_is_named_with_its_place_and_type():
    """langgraph 8606: the error about a value that could not be stored did not say which value."""
    rows = [{"n": 1}, {"n": 2, "when": datetime.date(2026, 1, 2)}]
    result = try_plan(plan("id: a, tool: t"), {"t": lambda args: {"rows": rows}})
    assert result.error.message
    failure = result.steps["a"].error
    assert (failure.category, "result.rows[1].when" in failure.message, "date" in failure.message) == (
        "not_serializable", True, True,
    )  # fmt: skip
    assert "isoformat" in failure.remedy


def test_a_result_that_cannot_be_stored_ends_its_step_and_leaves_no_run_standing():
    """dbos-py 744: a failure of the serializer left the workflow pending for ever."""
    result = try_plan(
        plan("id: a, tool: t", "id: b, tool: u, fallback_for: a", "id: c, tool: u, args: {x: '${a}'}"),
        {"t": lambda args: object(), "u": 7},
    )
    assert result.status == "done"
    assert result.steps["a"].error.category == "not_serializable"


async def test_text_with_a_nul_is_stored_and_read_as_it_is(tmp_path):
    """langgraph 1878: a NUL character in a message broke the store."""
    text = "before\x00after \ud7ff \U0001f600"

    @kedge.tool(effect="pure")
    async def say(what: str) -> str:
        return what

    async with kedge.Engine([say], store=tmp_path / "k.db") as engine:
        document = plan("id: a, tool: say, args: {what: '${inputs.what}'}", head="inputs: {what: {}}")
        await (await engine.start(document, {"what": text}, run_id="r")).result()
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        assert engine.look("r").steps["a"].result == text


async def test_an_exception_with_a_constructor_of_its_own_is_read_back_elsewhere(tmp_path):
    """dbos-py 371: an error whose class takes other arguments could be stored and not be read again."""

    class HttpError(Exception):
        def __init__(self, *, status: int, detail: str) -> None:
            super().__init__(f"{status}: {detail}")

        def __reduce__(self):
            raise TypeError("cannot be copied")

    @kedge.tool(effect="read")
    async def fetch() -> None:
        raise HttpError(status=500, detail="out of order")

    async with kedge.Engine([fetch], store=tmp_path / "k.db") as engine:
        await (await engine.start(plan("id: a, tool: fetch"), run_id="r")).result()
    async with kedge.Engine(store=tmp_path / "k.db") as engine:
        failure = engine.look("r").steps["a"].error
    assert (failure.code, "500: out of order" in failure.message) == ("HttpError", True)


def test_a_sqlite_that_loses_committed_rows_is_not_used_in_wal_mode(monkeypatch, tmp_path):
    """SQLite 3.7.0 to 3.51.2: a checkpoint beside a writer could lose committed rows (the WAL-reset bug)."""
    SqliteJournal(tmp_path / "now.db").close()
    for version in ("3.40.1", "3.44.5", "3.50.6", "3.51.2"):
        monkeypatch.setattr(apsw, "sqlite_lib_version", lambda version=version: version)
        with pytest.raises(kedge.StoreError, match="can lose committed data"):
            SqliteJournal(tmp_path / "then.db")


async def test_a_plan_that_was_changed_never_takes_the_results_of_another():
    """crewAI 7154: a replay paired stored results with tasks by position, so a new task got another's."""

    @kedge.tool(effect="pure")
    async def do(what: str) -> str:
        return f"did {what}"

    steps = [f"id: {what}, tool: do, args: {{what: {what}}}" for what in ("research", "draft", "review")]
    async with kedge.Engine([do]) as engine:
        await (await engine.start(plan(*steps), run_id="r")).result()
        with pytest.raises(kedge.RunConflict, match="another id"):
            await engine.start(plan("id: outline, tool: do, args: {what: outline}", *steps), run_id="r")
        again = await (await engine.start(plan(*steps), run_id="r")).result()
    assert again.outputs == {what: f"did {what}" for what in ("research", "draft", "review")}


def test_the_order_on_paper_means_nothing():
    """crewAI 3953: plans were matched to tasks by their order, and a planner gave them in another one."""
    steps = [
        "id: first, tool: first",
        "id: second, tool: second, args: {x: '${first}'}",
        "id: third, tool: third, args: {x: '${second}'}",
        "id: last, tool: last, args: {x: '${third}', y: '${first}'}",
    ]
    for seed in range(8):
        random.Random(seed).shuffle(steps)
        answers = {
            "first": 1,
            "second": lambda a: a["x"] + 1,
            "third": lambda a: a["x"] + 1,
            "last": lambda a: a,
        }
        assert try_plan(plan(*steps), answers).outputs == {"last": {"x": 3, "y": 1}}


async def test_a_callback_can_neither_change_nor_spoil_the_result(caplog):
    """crewAI 6439: a callback without a return value made the result None; a wrong name, StopIteration."""

    @kedge.tool(effect="pure")
    async def answer() -> int:
        return 42

    def broken(event):
        raise StopIteration

    async with kedge.Engine([answer]) as engine:
        run = await engine.start(plan("id: a, tool: answer"), on_event=lambda event: None)
        run.subscribe(broken)
        assert (await run.result()).outputs == {"a": 42}
        with pytest.raises(kedge.InvalidPlan) as refused:
            await engine.start(plan("id: a, tool: answre"))
    (finding,) = refused.value.findings.errors
    assert (finding.step, finding.names) == ("a", ("answre",))
    assert "answer" in f"{finding.remedy}{finding.allowed}"
