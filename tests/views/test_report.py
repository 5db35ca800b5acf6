"""A run told to people: everything that happened is in it, and nothing that others say can do anything."""

from __future__ import annotations

import msgspec

from kedge.flow import commands as cmd
from kedge.flow import inputs as inp
from kedge.flow.inputs import DecisionFailed
from kedge.flow.settings import RunSettings
from kedge.flow.usage import Usage
from kedge.plan.patch import Patch
from kedge.testing.ring import Ring
from kedge.views.report import report, report_data


def step(id_, tool="t", **more):
    return {"id": id_, "tool": tool, **more}


def ring(*steps, **plan):
    return Ring({"goal": "Get *it* done", "steps": list(steps), **plan}, {"send": "effect"}).start()


def parts(run):
    """Title -> text."""
    head, *others = report(run.result).split("\n## ")
    return {"": head.strip()} | {
        title: text.strip() for title, _, text in (one.partition("\n\n") for one in others)
    }


def test_a_run_from_its_goal_to_its_answer():
    run = ring(
        step("a", do="Look | around", estimate={"seconds": 2, "cost": 1}),
        step("b", args={"x": "${a}"}),
        outputs={"n": "b"}, answer="It is ${b}.\n# really",
    )  # fmt: skip
    run.tick(2_500).put(inp.Used("a", Usage(cost=0.5, tokens=1_200, cpu_s=3.0, memory_mb=64.0)))
    run.finish("a", [1, "`x`"]).finish("b", 7)
    told = parts(run)
    assert told[""] == (
        "# Get \\*it\\* done\n\n"
        "run `r`, **done**, started 1970-01-01 00:00:01 UTC, took 2.5 s. 2 of 2 steps done."
    )
    assert told["Answer"] == "> It is 7.\n> \\# really"
    assert told["Outputs"] == "- `n`: `7`"
    assert told["What was done"].splitlines()[2:] == [
        '| `a` | Look \\| around | done | 2.5 s | 2.0 s | ``[1,"`x`"]`` |',
        "| `b` |  | done | 0 ms |  | `7` |",
    ]
    assert told["Time and cost"].splitlines()[2:] == [
        "| 1 | 2.0 s, 1 without estimate | 2.5 s | 1 | 0.5 | 1,200 |",
        "",
        "3.0 s of processor time, 64 MB at most in one call.",
    ]
    assert set(told) == {"", "Answer", "Outputs", "What was done", "Time and cost"}


def test_what_went_wrong_and_what_became_of_it():
    run = ring(
        step("a", retry={"attempts": 2, "backoff_s": 0}),
        step("b", fallback_for="a"),
        step("c", when="false"),
        step("d", "send", on_error="continue"),
    )
    run.fail("a").tick(1).fail("a", "permanent", classified=True).finish("b").fail("d", "timeout")
    told = parts(run)
    assert told["What went wrong"].splitlines() == [
        "- `a`: an attempt ended as transient, and another was made",
        "- `a` failed: `permanent: a failed: permanent`; `b` did it instead",
        "- `d` in doubt: `timeout: d failed: timeout`",
    ]
    assert told["What was skipped"] == "- `c`: its condition is false: false"
    assert told["What was asked"].endswith("→ not answered")
    run.answer("failed")
    told = parts(run)
    assert "→ **failed** by `anna` after 0 ms" in told["What was asked"]
    assert "- `a`: b did its work" in told["What could be better"]


def test_a_run_that_failed_says_why():
    told = parts(ring(step("a")).fail("a", "permanent"))
    assert told[""].endswith("Why it did not end as it should: `step a failed: a failed: permanent`")


def test_versions_discoveries_and_quality():
    run = ring(step("a", quality="result"), step("b"))
    run.put(inp.Reported("a", 1, "a <door>", "a key")).put(inp.Reported("a", 1, "a window", ""))
    run.send("edit", patch=Patch(base=1, change={"b": {"do": "wait"}}, why="it is *late*"), by="anna")
    run.finish("a", 0.4)
    told = parts(run)
    assert told["What was found on the way"].splitlines() == [
        "- `a`: a \\<door\\> (needs: a key)", "- `a`: a window",
    ]  # fmt: skip
    first, second = told["Versions of the plan"].splitlines()
    assert first == "- version 1, 1970-01-01 00:00:01 UTC, start"
    assert second.endswith("edit by `anna`: it is \\*late\\*")
    assert "| `a` |  | done, quality 0.40 |" in told["What was done"]
    assert "its quality 0.4 is under 0.7" in told["What could be better"]


def test_items_are_told_with_their_step_and_long_lists_are_cut():
    run = ring(*(step(f"s{n}") for n in range(210)), step("each", foreach=list(range(30))))
    for path in list(run.calls):
        run.finish(path, "x" * 20_000 if path == "s0" else 1)
    while run.calls:
        run.fail(run.calls[0], "permanent")
    told = parts(run)
    assert "`20,002 bytes`" in told["What was done"]
    assert told["What was done"].endswith("and 11 more steps")
    assert "each[0]" not in told["What was done"]
    assert any(row["path"] == "each" and "of 30 items" in row["result"] for row in plain(run)["steps"])


def test_more_than_anybody_reads_is_cut_and_counted():
    run = ring(*(step(f"s{n}", when="false") for n in range(25)))
    assert parts(run)["What was skipped"].endswith("and 5 more")


def plain(run):
    return msgspec.json.decode(msgspec.json.encode(report_data(run.result), enc_hook=str))


def test_the_same_as_data():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 0}), step("b", "send"))
    run.fail("a").tick(1).finish("a", 1).fail("b", "timeout").answer("done", 5)
    told = plain(run)
    assert (told["run_id"], told["status"], told["goal"]) == ("r", "done", "Get *it* done")
    assert [one["path"] for one in told["steps"]] == ["a", "b"]
    assert told["retries"] == [{"path": "a", "what": "transient", "seconds": 0.0}]
    (question,) = told["questions"]
    assert (question["reason"], question["answer"], question["by"], question["after_s"]) == (
        "in_doubt", "done", "anna", 0.0,
    )  # fmt: skip
    assert told["versions"][0]["cause"] == "start"
    assert told["estimates"][0]["steps"] == 2


def test_a_run_that_has_not_begun_and_one_that_waits():
    run = ring({"id": "a", "wait": {"signal": "go"}})
    assert "**waiting**" in parts(run)[""]
    assert plain(run)["ended_at"] is None


def test_repairs_are_told_with_what_was_refused_of_them():
    plan = {"goal": "g", "steps": [{"id": "a", "tool": "t"}, {"id": "b", "tool": "t"}]}
    run = Ring(plan, settings=RunSettings(repair=True)).start().fail("a", "permanent")
    assert parts(run)["Repairs"] == "- failed: `a`: a failed: permanent → **still open**"
    run.mend(Patch(remove=("a",))).mend(Patch(waive=("a",), why="not needed"))
    assert parts(run)["Repairs"] == (
        "- failed: `a`: a failed: permanent → **version 2 of the plan** by `planner`; "
        "round 1 was refused: a is failed: it cannot be removed"
    )
    for number in range(7):
        run.send("repair", need=f"more of {number}", by="anna")
    run.mend(None).mend(None)
    told = parts(run)["Repairs"].splitlines()
    assert told[1].startswith("- demand: more of 0 → **nothing came of it**")
    assert len(plain(run)["repairs"]) == len(told)


def test_what_an_agent_decided_is_told():
    plan = {"goal": "g", "steps": [{"id": name, "tool": "t"} for name in "abc"]}
    run = Ring(plan, settings=RunSettings(decide_at="every_step")).start().finish("a")
    assert parts(run)["What the agent decided"] == "- step `a` → **not decided yet**"
    run.decide(cmd.Say(text="well"), by="guide").finish("b").decide(by="guide").finish("c")
    run.put(DecisionFailed(3, "no answer", "agent_timeout", "guide"))
    assert parts(run)["What the agent decided"].splitlines() == [
        "- step `a` → **say** by `guide`",
        "- step `b` → **go on** by `guide`",
        "- step `c` → **no answer: no answer** by `guide`",
    ]


def test_what_was_undone_and_what_was_not_is_told():
    undo = {"tool": "unput", "args": {"id": "${result}"}}
    steps = [step("a", "put", compensate=undo), step("b", "send", after=["a"]), step("c", after=["b"])]
    effects = {"put": "idempotent", "unput": "idempotent", "send": "effect"}
    run = Ring({"goal": "g", "steps": steps}, effects).start()  # type: ignore[arg-type]
    run.finish("a", 1).finish("b", 2).send("pause")
    assert parts(run)["What it waits for"] == "- it is paused"
    run.send("unpause").send("cancel", reason="enough", compensate=True, by="ben")
    while run.calls:
        run.finish(run.calls[0], 1)
    told = parts(run)["What was undone"].splitlines()
    assert told[0] == "- `a` is undone"
    assert told[1].startswith("- `b` is **not** undone: ")
    assert plain(run)["undone"] == ["a"]
    assert "What it waits for" not in parts(run)
