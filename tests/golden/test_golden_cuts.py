"""Wherever the driver of a golden run had died, this version takes it up and brings it to an end."""

from __future__ import annotations

import json
from typing import Any

import golden
import golden_shapes as shapes
import pytest
from golden import Golden

import kedge
from kedge.plan.tools import Catalog, ToolSpec
from kedge.testing import Scripted, VirtualClock, assert_replays, scripted, virtual
from kedge.testing.laws import check_laws, check_moves

ANSWERS = {
    "in_doubt": "done", "limit": "raise", "tool_changed": "go on", "approval": "approve", "failed": "skip",
    "plan": "approve", "input": "give", "decision": "go on",
}  # fmt: skip
OF_ONE_TURN = {
    "StepInDoubt", "LimitReached", "QuestionAnswered", "RunEnded", "CommandTaken", "SignalTaken",
    "Forked", "ResultKept", "ResultReused", "DecisionMissed", "DecisionTaken",
}  # fmt: skip
"""What is written together with what follows from it, so that no crash comes right after it; and the end."""


async def to_its_end(run):
    """Say whatever it waits for, until it has ended."""
    result = await run.result()
    while not run.state.ended:
        check_moves(run.state)
        if result.status == "paused":
            await run.unpause()
        for question, asked in result.questions.items():
            await run.answer(question, ANSWERS[asked.reason])
        for name in list(run.state.listeners):
            await run.send(kedge.commands.Signal(name=name, data={"n": 1}))
        result = await run.result()


def cuts(kept: Golden) -> list[int]:
    """After how many events its driver may have died."""
    events = [json.loads(entry.data) for entry in kept.entries]
    kinds = [*(event["kind"] for event in events), ""]
    taken_up_to_undo = {
        n for n in range(1, len(kinds)) if kinds[n - 1 : n + 1] == ["RunResumed", "CompensationStarted"]
    }
    asked_first = sum(event.get("reason") == "input" for event in events if event["kind"] == "QuestionAsked")
    begun = 1 + bool(asked_first)
    ends = {n for n, event in enumerate(events, 1) if n > begun and not _goes_on(event)}
    return sorted(n for n in ends - taken_up_to_undo if kinds[n] != "FailureSettled")


def _goes_on(event: dict[str, Any]) -> bool:
    asks = event.get("reason") == "approval" and event["kind"] == "StepWaiting"
    return event["kind"] in OF_ONE_TURN or asks or bool(event.get("held"))


def tools_of(kept: Golden) -> Scripted:
    marks = json.loads(kept.entries[0].data)["tools"]
    specs = [
        ToolSpec(name=name, parameters=shapes.ANY_ARGS, effect=mark["effect"])
        for name, mark in marks.items()
        if name != "sleep"
    ]
    return scripted({spec.name: lambda args: {"ready": True} for spec in specs}, Catalog(specs))


@pytest.mark.parametrize("path", golden.files(), ids=lambda path: path.stem)
@virtual
async def test_it_is_driven_to_its_end(path):
    kept = golden.read(path)
    for number in cuts(kept):
        before = [json.loads(entry.data) for entry in kept.entries[:number]]
        journal = golden._stored(kept.entries[:number], dict(kept.journal._blobs), {})
        tools = tools_of(kept)
        async with kedge.Engine(tools, journal, clock=VirtualClock()) as engine:
            run = await engine.resume(golden.RUN_ID)
            await to_its_end(run)
            check_laws(run.state)
        assert_replays(journal)
        calls = [call.step for call in tools.log]
        done = {e["path"] for e in before if e["kind"] == "StepSucceeded" and "/" not in e["path"]}
        assert not done.intersection(calls), f"done, and called again after event {number}"
