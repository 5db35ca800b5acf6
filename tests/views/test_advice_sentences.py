"""Repairs and decisions as they are told to people."""

from __future__ import annotations

from kedge.flow import commands as cmd
from kedge.flow.inputs import DecisionFailed
from kedge.flow.settings import RunSettings
from kedge.plan.patch import Patch
from kedge.testing.ring import Ring
from kedge.views.narrate import Narrator


def told(run: Ring) -> list[str]:
    narrator = Narrator("r", run.plan)
    entries = zip(run.events, run.log, strict=True)
    return [
        one.message
        for seq, (event, (_, at)) in enumerate(entries, 1)
        for one in narrator.tell(seq, at, event)
        if one.level == "run"
    ]


def test_a_repair_from_the_failure_to_the_next_version():
    plan = {"goal": "g", "steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}]}
    run = Ring(plan, settings=RunSettings(repair=True)).start().fail("a", "permanent").fail("b", "permanent")
    run.send("repair", need="more\x1b[31m", step="b", by="anna")
    run.mend(Patch(remove=("a",))).mend(Patch(waive=("a",), why="not needed")).mend(None)
    assert told(run)[2:-1] == [
        "Repair 1 of plan version 1 is asked for: a, a failed: permanent",
        "Trouble at step b by anna: more",
        (
            "Repair 1, round 1: nothing came of it by planner: a is failed: it cannot be removed; "
            "the planner is asked again"
        ),
        "Repair 1 of plan version 1 is asked for, round 2: a, a failed: permanent",
        "Plan version 2 is followed by planner: not needed",
        "Repair 2 of plan version 2 is asked for: b, b failed: permanent and 1 more",
        (
            "Repair 2, round 1: nothing came of it by planner: the planner knows no repair; "
            "the plan stays as it is"
        ),
    ]


def test_decisions_and_what_is_said():
    plan = {"goal": "g", "steps": [{"id": name, "tool": "t"} for name in "abcde"]}
    run = Ring(plan, settings=RunSettings(decide_at="every_step", agent_default="ask")).start()
    run.finish("a").finish("b").finish("c").finish("d").finish("e")
    run.decide(cmd.Say(text="well"), cmd.Note(values={"n": 1}), cmd.Mark(name="half"), by="guide")
    run.put(DecisionFailed(2, "no answer", "agent_timeout", "guide"))
    said = told(run)[2:]
    assert said[0] == "Decision 1: the agent is asked how to go on after a"
    assert "Decision 1 by guide: say, note, mark" in said
    assert "guide says: well" in said
    assert "Something is noted by guide" in said
    assert "This position is named 'half' by guide" in said
    assert "Decision 2: the agent is asked how to go on after b, c, d and 1 more" in said
    assert "Decision 2: no answer; a person is asked" in said
