"""Single commands to a live run: what each does, what it refuses, and what it leaves in the log."""

from __future__ import annotations

from typing import Any

import pytest

from kedge.base.errors import NotFound, Refused
from kedge.flow import steer
from kedge.flow.events import CommandRefused, CommandTaken, Reopened, plain
from kedge.plan.parts import Step
from kedge.plan.tools import Catalog, ToolSpec
from kedge.testing.ring import Ring


def step(id_: str, tool: str = "t", **more: Any) -> dict[str, Any]:
    return {"id": id_, "tool": tool, **more}


def group(id_: str, *steps: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": id_, "steps": list(steps), **more}


def made(id_: str, **fields: Any) -> Step:
    fields.setdefault("tool", "t")
    return Step(id=id_, **fields)


def ring(*steps: dict[str, Any], **plan: Any) -> Ring:
    return Ring({"goal": "g", "steps": list(steps), **plan}, {"send": "effect"}).start()


def test_the_goal_and_the_context_can_be_said_otherwise():
    run = ring(
        step("a"), step("b", args={"g": "${goal}", "c": "${context}"}, after=["a"]), context={"x": 1, "y": 2}
    )
    run.send("set_goal", goal="other").send("set_context", values={"x": None, "z": 3})
    run.finish("a")
    assert run.args("b") == {"g": "other", "c": {"y": 2, "z": 3}}


def test_a_step_can_go_before_others():
    run = ring(step("a"), step("b"), step("c"), limits={"parallel": 1})
    run.send("prioritise", step="c", priority=5)
    assert run.finish("a").calls == ["c"]


def test_a_step_can_be_removed_and_injected_by_a_command_of_its_own():
    run = ring(step("a"), group("p", step("k"), step("l", after=["a"])))
    run.send("remove", step="p/l", why="no").send("inject", step=made("m"), into="p", why="yes")
    assert run.calls == ["a", "p/k", "p/m"]
    assert [one.why for one in run.state.versions] == ["", "no", "yes"]
    assert [one.cause for one in run.state.versions] == ["start", "remove", "inject"]


@pytest.mark.parametrize(
    ("path", "words", "remedy"),
    [
        ("a", "it is running", "cancel it with an edit"),
        ("d", "it is in_doubt", "answer the question about it"),
        ("x", "it is done", "it has ended"),
        ("p", "it is running", "cancel it"),
    ],
)
def test_only_what_has_not_begun_can_be_skipped(path, words, remedy):
    run = ring(step("a"), step("d", "send"), step("x"), group("p", step("k")))
    run.fail("d", "timeout").finish("x")
    with pytest.raises(Refused, match=words) as refused:
        run.send("skip", step=path)
    assert refused.value.code == "cannot_skip"
    assert remedy in str(refused.value)
    assert f"step {path}" in str(refused.value)


def test_a_step_that_waits_for_its_next_attempt_can_be_skipped():
    run = ring(step("a", retry={"attempts": 2, "backoff_s": 9}), step("b")).fail("a")
    run.send("skip", step="a", reason="enough")
    assert (run.status("a"), run.step("a").because) == ("skipped", ("enough",))
    assert run.tick(9_000).finish("b").status() == "done"


@pytest.mark.parametrize("join", ["settled", "all"])
def test_a_fallback_that_was_ruled_out_beforehand_stands_in_for_nothing(join):
    run = ring(step("a"), step("f", fallback_for="a"), step("c", after=["a"], join=join), step("z"))
    run.send("skip", step="f")
    run.fail("a", "permanent")
    assert run.calls == (["z", "c"] if join == "settled" else ["z"])
    run.finish("z")
    if join == "settled":
        run.finish("c")
    assert (run.status(), run.status("f")) == ("failed", "skipped")


def test_a_fallback_that_was_ruled_out_is_not_missed_by_a_success():
    run = ring(step("a"), step("f", fallback_for="a"), step("c", args={"a": "${a}"}))
    run.send("skip", step="f")
    assert run.finish("a", 1).args("c") == {"a": 1}
    assert run.finish("c").status() == "done"


def test_a_failure_that_is_being_decided_on_can_be_skipped():
    run = ring(step("a", on_error="ask"), step("b")).fail("a", "permanent")
    run.send("skip", step="a")
    assert run.finish("b").status() == "done"


def test_what_cannot_be_tried_again_is_refused():
    run = ring(step("a"), step("f", fallback_for="a"), step("b"), group("p", step("k")), step("z"))
    run.fail("a", "permanent").fail("p/k", "permanent")
    refusals = {
        "b": "it is running, not failed", "a": "its fallback stands in",
        "p/k": "p, which it is part of, has ended",
    }  # fmt: skip
    said = {}
    for path, words in refusals.items():
        with pytest.raises(Refused, match=words) as refused:
            run.send("retry", step=path)
        assert refused.value.code == "cannot_retry"
        said[path] = str(refused.value)
    assert all(f"step {path}" in text for path, text in said.items())
    assert "retry p" in said["p/k"]
    run.finish("f")
    with pytest.raises(Refused, match="its fallback stands in"):
        run.send("retry", step="a")


def test_a_step_nobody_knows_is_told_with_the_nearest_one():
    run = ring(step("alpha"), step("beta"))
    with pytest.raises(NotFound, match="run r has no step 'alpho'") as refused:
        run.send("skip", step="alpho")
    assert "did you mean 'alpha'?" in str(refused.value)
    assert (refused.value.code, list(refused.value.allowed)) == ("unknown_step", ["alpha", "beta"])
    with pytest.raises(NotFound, match="name a step of the run"):
        run.send("skip", step="zzzzzzzzzzzz")


def test_items_that_failed_can_be_tried_again():
    run = ring(step("e", foreach=[1, 2]), step("z"), step("y", args={"e": "${e}"}))
    run.finish("e[0]", 1).fail("e[1]", "permanent")
    run.send("retry", step="e")
    assert run.calls == ["z", "e[1]"]
    assert run.finish("e[1]", 2).args("y") == {"e": [1, 2]}


def test_a_failed_item_can_be_tried_again_while_the_others_run():
    run = ring(step("e", foreach=[1, 2])).fail("e[1]", "permanent")
    run.send("retry", step="e[1]")
    assert run.calls == ["e[0]", "e[1]"]
    assert run.finish("e[0]").finish("e[1]").status() == "done"


def test_a_child_that_failed_can_be_tried_again_while_its_siblings_run():
    run = ring(group("p", step("a"), step("b", after=["a"]), step("c")))
    run.fail("p/a", "permanent")
    assert run.status("p/b") == "skipped"
    run.send("retry", step="p/a")
    assert run.calls == ["p/c", "p/a"]
    assert run.finish("p/a").finish("p/b").finish("p/c").status() == "done"


def test_what_waits_for_a_step_that_is_tried_again_goes_on_waiting():
    run = ring(
        step("a"), step("z"), step("c", after=["a", "z"], join="settled"), step("d", after=["a"], join="any")
    )
    run.fail("a", "permanent")
    run.send("retry", step="a")
    assert run.finish("z").calls == ["a"]
    assert sorted(run.finish("a").calls) == ["c", "d"]


def test_commands_leave_their_keys_in_the_log():
    run = ring(step("a"), step("b", after=["a"]))
    run.send("pause", key="k1", by="anna", role="agent")
    assert plain(run.of(CommandTaken)[0]) == {
        "kind": "CommandTaken", "key": "k1", "command": "pause", "by": "anna", "role": "agent",
    }  # fmt: skip
    with pytest.raises(Refused):
        run.send("pause", key="k2", by="ben")
    told = plain(run.of(CommandRefused)[0])
    assert (told["key"], told["command"], told["code"], told["by"]) == ("k2", "pause", "cannot_pause", "ben")
    assert "the run is paused" in told["message"]
    before = len(run.log)
    run.send("pause", key="k1")  # said twice
    with pytest.raises(Refused, match="the run is paused") as again:
        run.send("pause", key="k2")
    assert again.value.code == "already_refused"
    assert "command k2" in str(again.value)
    assert len(run.log) == before


def test_every_change_says_what_it_was_for_and_by_whom():
    run = ring(step("a"), step("b", after=["a"]), step("c", after=["b"]))
    run.send("rewire", step="c", reads={"b": "a"}, why="one", by="anna")
    run.send("set_goal", goal="other", why="two", by="ben")
    run.send("set_context", values={"x": 1}, why="three", by="cleo")
    run.send("prioritise", step="c", priority=2, by="dan")
    run.send("rollback", version=1, why="five", by="eve")
    assert [(one.cause, one.why, one.by) for one in run.state.versions[1:]] == [
        ("rewire", "one", "anna"), ("set_goal", "two", "ben"), ("set_context", "three", "cleo"),
        ("prioritise", "", "dan"), ("rollback", "five", "eve"),
    ]  # fmt: skip


def test_a_refusal_of_an_agent_is_kept_as_one():
    run = ring(step("a"))
    with pytest.raises(Refused):
        run.send("unpause", key="k", by="bot", role="agent")
    assert plain(run.of(CommandRefused)[0])["role"] == "agent"


def test_a_run_that_has_ended_tells_what_can_be_done_instead():
    with pytest.raises(Refused, match="start another run"):
        ring(step("a")).finish("a").send("skip", step="a")


def test_a_signal_may_carry_much_and_comes_whole():
    run = ring({"id": "w", "wait": {"signal": "go"}})
    run.send("signal", name="go", data="x" * 20_000).crash()
    assert run.value("w") == "x" * 20_000


def test_too_many_signals_are_refused_with_what_to_do(monkeypatch):
    monkeypatch.setattr(steer, "SIGNALS_MAX", 1)
    run = ring(step("a")).send("signal", name="x")
    with pytest.raises(Refused, match="1 signals are kept already that no step has taken") as refused:
        run.send("signal", name="y")
    assert "run r" in str(refused.value)
    assert "look whether any step waits for them" in str(refused.value)


def test_who_tried_a_step_again_is_kept():
    run = ring(step("a"), step("b")).fail("a", "permanent").send("retry", step="a", by="anna")
    assert plain(run.of(Reopened)[0]) == {"kind": "Reopened", "path": "a", "by": "anna"}


def test_a_step_tried_again_begins_anew():
    run = ring(step("b"), step("a", retry={"attempts": 2, "backoff_s": 1})).fail("a").tick(1_000).fail("a")
    run.send("retry", step="a")
    assert (run.step("a").attempt, run.step("a").starts, run.step("a").error) == (1, 3, None)
    assert run.fail("a").status("a") == "waiting"


def test_a_step_that_comes_takes_the_limits_of_its_tool():
    anything = {"type": "object"}
    disk = ToolSpec(name="disk", parameters=anything, effect="read", resources=("disk",))
    catalog = Catalog([ToolSpec(name="t", parameters=anything, effect="pure"), disk])
    run = Ring({"goal": "g", "steps": [step("a")]}, catalog=catalog).start()
    run.send("inject", step=made("b", tool="disk"))
    node = run.step("b").node
    assert (node.effect, node.resources, node.bounded) == ("read", ("disk",), True)


@pytest.mark.parametrize(("reason", "said"), [("late", "somebody said so: late"), ("", "somebody said so")])
def test_a_step_that_was_skipped_on_command_tells_why(reason, said):
    run = ring(step("a"), step("b", after=["a"])).send("skip", step="b", reason=reason)
    assert run.result.steps["b"].skipped_because == said


def test_the_versions_of_the_plan_are_told_with_the_result():
    run = ring(step("a")).send("set_goal", goal="other")
    assert [one.number for one in run.result.versions] == [1, 2]
