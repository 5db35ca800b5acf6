"""A cassette is recorded once, then played without a call; what it does not hold is told with a diff."""

# pyright: reportOptionalMemberAccess=none

from __future__ import annotations

import json

import pytest

import kedge
from kedge.testing import cassette, try_plan

PLAN = """
goal: Ask twice
inputs: {days: {default: [1, 2]}}
steps:
  - id: ask
    tool: market
    foreach: "${inputs.days}"
    args: {day: "${item}", where: {city: Graz}}
    on_error: continue
  - {id: note, tool: note, args: {what: "${ask}"}}
"""


class World:
    """Real tools that count how often they are called."""

    def __init__(self):
        self.calls = 0

        @kedge.tool(effect="read")
        def market(day: int, where: dict[str, str]) -> float:
            self.calls += 1
            if day == 2:
                raise kedge.ToolError("closed on that day", "invalid_input", remedy="take another")
            return 1.5 * day

        @kedge.tool(effect="pure")
        async def note(what: list) -> str:
            self.calls += 1
            return f"noted: {what}"

        self.tools = [market, note]


@pytest.fixture
def tape(tmp_path, monkeypatch):
    monkeypatch.delenv("CI", raising=False)
    return tmp_path / "cassettes" / "market.json"


def _run(tape, world, **inputs):
    with cassette(tape, world.tools) as taped:
        return try_plan(PLAN, taped, inputs)


def _told(result):
    return {path: (step.status, step.result, step.error) for path, step in result.steps.items()}


def test_what_was_recorded_is_played_without_a_call(tape):
    real, played = World(), World()
    first = _run(tape, real)
    second = _run(tape, played)
    assert (real.calls, played.calls) == (3, 0)
    assert second.outputs == first.outputs == {"note": "noted: [1.5, None]"}
    failed, again = first.steps["ask[1]"].error, second.steps["ask[1]"].error
    assert (again.category, again.message, again.remedy) == (failed.category, failed.message, failed.remedy)


def test_the_file_can_be_read_by_people(tape):
    _run(tape, World())
    held = json.loads(tape.read_text())
    assert [call["tool"] for call in held["calls"]] == ["market", "market", "note"]
    assert held["calls"][0] == {
        "tool": "market",
        "args": {"day": 1, "where": {"city": "Graz"}},
        "result": 1.5,
    }
    assert held["calls"][1]["failure"]["category"] == "invalid_input"
    assert list(held["tools"]) == ["market", "note"]


def test_a_recording_of_the_same_calls_is_the_same_file(tape):
    _run(tape, World())
    first = tape.read_bytes()
    tape.unlink()
    _run(tape, World())
    assert tape.read_bytes() == first


def test_a_miss_is_told_with_a_diff_to_the_nearest_call_and_the_way_to_record_anew(tape):
    _run(tape, World())
    with pytest.raises(AssertionError) as told:
        _run(tape, World(), days=[7])
    text = str(told.value)
    assert "step ask[0] makes a call of market that was not recorded" in text
    assert '-  "day": 1,' in text or '-  "day": 2,' in text
    assert '+  "day": 7,' in text
    assert f"delete {tape}" in text


def test_calls_of_the_same_arguments_are_answered_in_their_order_and_no_more_of_them(tape):
    said = iter([1, 2, 3])

    @kedge.tool(effect="read")
    def count() -> int:
        return next(said)

    text = "goal: Count\nsteps: [{id: a, tool: count, loop: {times: %d, collect: all}}]"
    for _ in range(2):
        with cassette(tape, [count]) as taped:
            assert try_plan(text % 3, taped).outputs == {"a": [1, 2, 3]}
    with (
        pytest.raises(AssertionError, match="not recorded so often: 3 times"),
        cassette(tape, [count]) as taped,
    ):
        try_plan(text % 4, taped)


def test_a_tool_that_has_changed_since_is_told(tape):
    _run(tape, World())
    changed = World()

    @kedge.tool(effect="read", name="market")
    def other(day: int, where: dict[str, str], currency: str = "EUR") -> float:
        return 0.0

    changed.tools[0] = other
    with pytest.raises(AssertionError, match="market has other parameters"):
        _run(tape, changed)


def test_a_test_that_fails_records_nothing(tape):
    def failing():
        with cassette(tape, World().tools) as taped:
            try_plan(PLAN, taped)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        failing()
    assert not tape.exists()


def test_ci_calls_no_real_tool(tape, monkeypatch):
    monkeypatch.setenv("CI", "true")
    world = World()
    with pytest.raises(kedge.BadInput, match="CI calls no real tools"):
        _run(tape, world)
    assert world.calls == 0


@pytest.mark.parametrize("text", ["{}", "no json", '{"cassette": 2, "tools": {}, "calls": []}'])
def test_a_file_that_is_no_cassette_is_refused(tape, text):
    tape.parent.mkdir()
    tape.write_text(text)
    with pytest.raises(kedge.BadInput, match="delete it to record anew"):
        _run(tape, World())
