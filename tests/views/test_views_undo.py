"""What people see of a run that undoes what it did."""

from __future__ import annotations

from kedge.flow.settings import RunSettings
from kedge.testing.ring import Ring
from kedge.views.draw import draw
from kedge.views.narrate import Narrator
from kedge.views.progress import tree_rows

UNDO = {"tool": "unput", "args": {"id": "${result}"}}
PLAN = {
    "goal": "g",
    "steps": [
        {"id": "a", "tool": "put", "compensate": UNDO},
        {"id": "b", "tool": "put", "after": ["a"], "compensate": UNDO},
        {"id": "c", "tool": "think", "after": ["b"]},
    ],
}


def failed() -> Ring:
    """Two steps are done, the third has failed, and the second is being undone."""
    effects = {"put": "idempotent", "unput": "idempotent"}
    run = Ring(PLAN, effects, settings=RunSettings(undo="failure")).start()  # type: ignore[arg-type]
    for path in ("a", "b"):
        run.tick(1_000).finish(path, path)
    return run.fail("c", "permanent", classified=True)


def test_undoing_is_told_in_sentences():
    run = failed().tick(1_000).fail("b.undo", "transient").tick(500)
    run.tick(1_000).finish("b.undo").tick(1_000).fail("a.undo", "permanent", classified=True)
    narrator = Narrator("r", run.state.program)
    told = [
        one
        for seq, event in enumerate(run.events, 1)
        for one in narrator.tell(seq, run.log[seq - 1][1], event)
    ]
    messages = [one.message for one in told]
    began = messages.index("What run r did is being undone")
    assert messages[began:] == [
        "What run r did is being undone",
        "Undoing b started",
        "Undoing b: attempt 1 failed: b.undo failed: transient; attempt 2 in 0.5 s",
        "Undoing b: attempt 2 started",
        "Undoing b done in 2.5 s",
        "Undoing a started",
        "Undoing a failed in 1.0 s: a.undo failed: permanent",
        "1 step is undone, 1 could not be",
        "The run failed in 5.5 s: step c failed: c failed: permanent",
    ]
    assert [one.percent for one in told] == sorted(one.percent for one in told)
    assert {one.level for one in told[began:]} == {"run", "step"}


def test_undoing_one_step_is_told_with_who_wanted_it_and_why():
    run = failed()
    for path in ("b.undo", "a.undo"):
        run.fail(path, "permanent", classified=True)
    run.send("compensate", step="a", by="anna", reason="wrong month").finish("b.undo").finish("a.undo")
    narrator = Narrator("r", run.state.program)
    told = [one.message for seq, e in enumerate(run.events, 1) for one in narrator.tell(seq, 0, e)]
    assert "What a did is being undone by anna: wrong month" in told
    assert told[-2] == "2 steps are undone"


def test_undoing_is_seen_while_it_goes_on():
    run = failed().tick(1_000).finish("b.undo")
    rows = tree_rows(run.state, run.now_ms)
    assert [(row.icon, row.label) for row in rows] == [
        ("✓", "a"), ("↶", "b"), ("✗", "c"), ("✓", "b.undo"), ("▸", "a.undo"),
    ]  # fmt: skip


def test_the_timeline_has_a_row_for_each_call_that_undoes_something():
    run = failed().tick(1_000).finish("b.undo").tick(1_000).finish("a.undo")
    drawn = draw(run.state.plan, run.state, "timeline", width=60)
    lines = drawn.splitlines()
    assert [line.split()[1] for line in lines[2:7]] == ["a", "b", "c", "b.undo", "a.undo"]
    assert lines[2].split()[0].lstrip("*") == "↶"


def test_pictures_show_what_is_undone():
    run = failed().finish("b.undo").finish("a.undo")
    assert "↶" in draw(run.state.plan, run.state, "ascii")
    assert "compensated" in draw(run.state.plan, run.state, "mermaid")
