"""The shapes of which there is a golden journal: a plan, a script for its tools, and what people did."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

from golden import RUN_ID

import kedge
from kedge.journal.memory import MemoryJournal
from kedge.plan.tools import Catalog, ToolSpec
from kedge.testing import Discover, Fail, Hang, Late, Use, VirtualClock, scripted
from kedge.tools.load import load_tools

ANY_ARGS = {"type": "object", "additionalProperties": True}
PROCESS_TOOLS = Path(__file__).parents[1] / "engine" / "sample_process_tools.py"


class Stage:
    """A store in memory for one run, and engines over it, one after another."""

    def __init__(self, plan: str, script: dict[str, Any], effects: dict[str, str]) -> None:
        self.plan = kedge.Plan.parse(plan)
        self.journal = MemoryJournal()
        self.script = script
        self.effects = effects
        self.more_tools: list[Any] = []

    def engine(
        self,
        *,
        limits: kedge.Limits | None = None,
        changed: bool = False,
        planner: Any = None,
        agent: Any = None,
    ) -> kedge.Engine:
        parameters = {**ANY_ARGS, "description": "changed"} if changed else ANY_ARGS
        known = Catalog(
            ToolSpec(name=name, parameters=parameters, effect=self.effects.get(name, "read"))  # type: ignore[arg-type]
            for name in self.script
        )
        tools = [*scripted(self.script, known), *self.more_tools]
        return kedge.Engine(
            tools, self.journal, limits=limits, clock=VirtualClock(), planner=planner, agent=agent
        )


class Shape(NamedTuple):
    """One journal to be kept."""

    name: str
    says: str
    plan: str
    script: dict[str, Any]
    effects: dict[str, str]
    play: Callable[[Stage], Awaitable[object]]


SHAPES: list[Shape] = []


def shape(
    name: str,
    says: str,
    steps: str,
    script: dict[str, Any],
    effects: dict[str, str] | None = None,
    play: Callable[[Stage], Awaitable[object]] | None = None,
    answers: dict[str, Any] | None = None,
) -> None:
    head, _, body = steps.rpartition("===")
    lines = "".join(f"  - {{{line}}}\n" for line in re.split(r"\n\s*(?=id:)", body.strip()))
    top = "\n".join(line.strip() for line in head.strip().splitlines())
    text = f"goal: {json.dumps(says)}\n{top}\nsteps:\n{lines}"
    SHAPES.append(Shape(name, says, text, script, effects or {}, play or _to_its_end(answers or {})))


def _to_its_end(
    answers: dict[str, Any], inputs: dict[str, Any] | None = None
) -> Callable[[Stage], Awaitable]:
    async def play(stage: Stage) -> None:
        async with stage.engine() as engine:
            run = await engine.start(stage.plan, inputs, RUN_ID)
            await run.result()
            for question, given in answers.items():
                answer, value = given if isinstance(given, tuple) else (given, None)
                await run.answer(question, answer, value, by="anna")
                await run.result()

    return play


async def pause(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
        await run.pause(by="anna")
        await asyncio.sleep(3600)
        await run.unpause(by="ben")
        await run.result()


async def cancel(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
        await run.cancel("not needed any more", by="anna")
        await run.result()


async def lost_and_resumed(stage: Stage) -> None:
    async with stage.engine() as engine:
        await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
    await _resumed(stage, {"q1": "retry"})


async def let_go_and_resumed(stage: Stage) -> None:
    async with stage.engine() as engine:
        await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(0)
    await _resumed(stage, {})


async def lost_and_resumed_with_other_tools(stage: Stage) -> None:
    async with stage.engine() as engine:
        await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
    await _resumed(stage, {"q1": "go on"}, changed=True)


async def lost_and_stopped_over_other_tools(stage: Stage) -> None:
    async with stage.engine() as engine:
        await engine.start(stage.plan, None, RUN_ID)
        await asyncio.sleep(5)
    await _resumed(stage, {"q1": "stop"}, changed=True)


async def _resumed(stage: Stage, answers: dict[str, str], *, changed: bool = False) -> None:
    stage.script = dict.fromkeys(stage.script, "again")
    async with stage.engine(changed=changed) as engine:
        run = await engine.resume(RUN_ID)
        await run.result()
        for question, answer in answers.items():
            if question in run.state.questions:
                await run.answer(question, answer, by="anna")
        await run.result()


async def failed_and_tried_again(stage: Stage) -> None:
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await run.result()
    await asyncio.sleep(3600)
    stage.script = dict.fromkeys(stage.script, "now it works")
    async with stage.engine() as engine:
        run = await engine.resume(RUN_ID, retry_failed=True)
        await run.result()


async def in_another_process(stage: Stage) -> None:
    stage.more_tools = [tool for tool in load_tools(str(PROCESS_TOOLS)) if tool.spec.name == "add"]
    async with stage.engine() as engine:
        run = await engine.start(stage.plan, None, RUN_ID)
        await run.result()


def broken(args: dict[str, Any]) -> None:
    """Raise what no tool means to raise."""
    raise ZeroDivisionError("division by zero")


# Its trace names the file, and a golden journal is the same wherever it is made.
broken.__code__ = broken.__code__.replace(co_filename="tools.py")


def no_data(args: dict[str, Any]) -> set[int]:
    """Answer with what has no JSON form."""
    return {1, 2}


async def ignores_its_end(args: dict[str, Any]) -> str:
    """Come back half a minute after it was told to stop."""
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)
    await asyncio.sleep(30)
    return "sent after all"


# --- without trouble

shape("chain", "Three steps, one after another", """
    outputs: {end: c}
    answer: "It came to ${c}."
    ===
    id: a, tool: one, args: {x: 1}
    id: b, tool: two, args: {x: "${a}"}
    id: c, tool: one, args: {x: "${b}"}
""", {"one": [1, 3], "two": 2})  # fmt: skip

shape("diamond", "Two steps between one and one", """
    id: top, tool: one
    id: left, tool: two, args: {x: "${top}"}
    id: right, tool: three, args: {x: "${top}"}
    id: bottom, tool: one, args: {left: "${left}", right: "${right}"}
""", {"one": [1, 4], "two": Late(2, 2), "three": Late(1, 3)})  # fmt: skip

shape("fan_out", "Eight steps at once, and one that joins them", "\n".join(
    [f"id: s{n}, tool: one, args: {{n: {n}}}" for n in range(8)]
    + ["id: end, tool: two, after: [s0, s1, s2, s3, s4, s5, s6, s7], args: {x: '${s3}'}"]
), {"one": Late(1, "done"), "two": "joined"})  # fmt: skip

shape("foreach", "A step for each of three items", """
    inputs: {names: {type: array, default: [a, b, c]}}
    ===
    id: each, tool: one, foreach: "${inputs.names}", args: {name: "${item}", place: "${index}"}
    id: end, tool: two, args: {all: "${each}"}
""", {"one": [1, 2, 3], "two": 4})  # fmt: skip

shape("foreach_failures", "One of three items fails and is let go", """
    id: each, tool: one, foreach: [1, 2, 3], args: {x: "${item}"}, on_error: continue
    id: end, tool: two, args: {all: "${each}"}
""", {"one": [1, Fail("invalid_input", "no such thing"), 3], "two": 4})  # fmt: skip

shape("foreach_empty", "A step for each of no items", """
    id: each, tool: one, foreach: "${[]}", args: {x: "${item}"}
    id: end, tool: two, args: {all: "${each}"}
""", {"one": [], "two": 4})  # fmt: skip

shape("loop", "Three rounds with a delay between them", """
    id: again, tool: one, args: {round: "${loop.index}"}, loop: {times: 3, delay_s: 60, collect: all}
""", {"one": [1, 2, 3]})  # fmt: skip

shape("loop_until", "Rounds until one says that it is done", """
    id: again, tool: one, loop: {times: 9, until: "loop.previous.ready"}
    id: end, tool: two, args: {x: "${again}"}
""", {"one": [{"ready": False}, {"ready": False}, {"ready": True}], "two": 1})  # fmt: skip

shape("composite", "Steps inside steps inside steps", """
    id: first, tool: one
    id: outer, steps: [
        {id: inner, tool: two, args: {x: "${first}"}},
        {id: deep, steps: [{id: last, tool: one, args: {x: "${inner}"}}]}]
    id: end, tool: two, args: {x: "${outer}"}
""", {"one": [1, 3], "two": [2, 4]})  # fmt: skip

shape("composite_loop", "Two rounds of a composite", """
    id: outer, loop: {times: 2, collect: all}, steps: [
        {id: a, tool: one}, {id: b, tool: two, args: {x: "${a}"}}]
""", {"one": [1, 3], "two": [2, 4]})  # fmt: skip

shape("composite_foreach", "A composite for each of two items", """
    id: outer, foreach: [1, 2], steps: [{id: a, tool: one, args: {x: "${item}"}}]
""", {"one": [1, 2]})  # fmt: skip

shape("big_result", "A result, items, rounds and outputs too large to stand in the log", """
    outputs: {big: "big", rounds: "rounds"}
    ===
    id: big, tool: one
    id: use, tool: two, args: {text: "${big}"}
    id: each, tool: three, foreach: "${[big, big]}", args: {x: "${index}"}
    id: rounds, tool: one, loop: {times: 2}
""", {"one": "many words " * 1_800, "two": 2, "three": 3})  # fmt: skip

shape("durable_sleep", "Three days of waiting", """
    id: before, tool: one
    id: rest, tool: sleep, args: {seconds: 259200}, after: [before]
    id: after_it, tool: two, after: [rest]
""", {"one": 1, "two": 2})  # fmt: skip

shape("discovery", "A tool finds what nobody planned for", """
    id: look, tool: one
""", {"one": Discover("3 XML files", "parse xml", Discover("and a picture", "", 1))})  # fmt: skip

shape("feedback", "Steps say how good their results are, and their tools what they used", """
    id: good, tool: one, quality: "result.score", estimate: {seconds: 1, cost: 0.1, tokens: 10}
    id: poor, tool: one, quality: "result.score", quality_min: 0.5, retry: {attempts: 2, backoff_s: 1}
    id: instead, tool: two, fallback_for: poor, output: {type: object, required: [x]}
    id: form, tool: two, output: {type: string}, on_error: continue
""", {
    "one": [Use(900, 0.25, {"score": 0.6}), Use(7, 0.0, Fail("transient")), Late(1, {"score": 0.2})],
    "two": {"x": 1},
})  # fmt: skip

shape("process_usage", "What a tool in a process of its own used is measured", """
    id: three, tool: add, args: {a: 1, b: 2}
""", {"one": 4}, play=in_another_process)  # fmt: skip

shape("process_tool", "A tool in a process of its own", """
    id: three, tool: add, args: {a: 1, b: 2}
    id: end, tool: one, args: {x: "${three}"}
""", {"one": 4}, play=in_another_process)  # fmt: skip

# --- what does not run

shape("when_false", "A step whose condition is false, and what depends on it", """
    id: ask, tool: one
    id: no, tool: two, when: "ask > 5", args: {x: 1}
    id: after_no, tool: two, args: {x: "${no}"}
    id: yes, tool: three, when: "ask < 5"
""", {"one": 1, "two": [], "three": 3})  # fmt: skip

shape("empty_run", "Every step is skipped", """
    inputs: {go: {type: boolean, default: false}}
    ===
    id: a, tool: one, when: "inputs.go"
    id: inside, steps: [{id: b, tool: one, when: "inputs.go"}]
""", {"one": []})  # fmt: skip

shape("join_any", "The first of three is enough", """
    id: slow, tool: one
    id: quick, tool: two
    id: bad, tool: three, on_error: continue
    id: end, tool: four, after: [slow, quick, bad], join: any, args: {x: "${quick}", y: "${slow}"}
""", {"one": Late(60, 1), "two": Late(1, 2), "three": Fail(), "four": 4})  # fmt: skip

shape("join_settled", "However they end, when all have", """
    id: good, tool: one
    id: bad, tool: two, on_error: continue
    id: end, tool: three, after: [good, bad], join: settled, args: {x: "${good}", y: "${bad}"}
""", {"one": Late(5, 1), "two": Fail("permission", "not for you"), "three": 3})  # fmt: skip

# --- failures

shape("continue_on_error", "A step that may fail does, and the run is done", """
    id: bad, tool: one, on_error: continue
    id: good, tool: two
""", {"one": Fail("permanent", "gone"), "two": 2})  # fmt: skip

shape("failed", "A step fails, what depends on it is skipped, the rest goes on", """
    id: bad, tool: one
    id: after_bad, tool: two, args: {x: "${bad}"}
    id: good, tool: three
""", {"one": broken, "two": [], "three": 3})  # fmt: skip

shape("no_data", "A tool answers with what cannot be stored", """
    id: a, tool: one
""", {"one": no_data})  # fmt: skip

shape("retry", "Two attempts fail, the third does not", """
    id: a, tool: one, retry: {attempts: 3, backoff_s: 2}
    id: inside, retry: {attempts: 2, backoff_s: 1}, steps: [
        {id: b, tool: two}, {id: each, tool: three, foreach: [1], args: {x: "${item}"}}]
""", {"one": [Fail("transient"), Fail("rate_limited", "slower", retry_after_s=30), 3], "three": 5,
      "two": [Fail("transient"), 4]})  # fmt: skip

shape("fallback", "Another step stands in for one that failed", """
    id: a, tool: one
    id: b, tool: two, fallback_for: a
    id: unneeded, tool: two, fallback_for: end
    id: end, tool: three, args: {x: "${a}"}
""", {"one": Fail("missing_tool", "not here"), "two": [2], "three": 3})  # fmt: skip

shape("fallback_chain", "The fallback of a fallback", """
    id: a, tool: one
    id: b, tool: two, fallback_for: a
    id: c, tool: three, fallback_for: b
    id: end, tool: four, args: {x: "${a}"}
""", {"one": Fail(), "two": Fail(), "three": 3, "four": 4})  # fmt: skip

shape("timeout", "A call takes too long, then its second attempt does not", """
    id: a, tool: one, timeout_s: 10, retry: {attempts: 2, backoff_s: 1}
""", {"one": [Hang(), 2]})  # fmt: skip

shape("idle_timeout", "A call gives no sign of life", """
    id: a, tool: one, timeout_s: 1000, idle_timeout_s: 10
""", {"one": Hang()})  # fmt: skip

# --- people

DOUBT = "id: send, tool: one, timeout_s: 10\nid: end, tool: two, args: {x: '${send}'}"
for _answer, _given in {"done": ("done", {"id": 17}), "failed": "failed", "retry": "retry"}.items():
    shape(f"in_doubt_{_answer}", f"A call with effects ends without an answer; a person says: {_answer}",
          DOUBT,
          {"one": [Hang(), "sent"], "two": 2}, {"one": "effect"}, answers={"q1": _given})  # fmt: skip

shape("in_doubt_late", "A call in doubt comes back after all", """
    id: send, tool: one, timeout_s: 10
    id: other, tool: two
""", {"one": ignores_its_end, "two": Late(60, 2)}, {"one": "effect"})  # fmt: skip

shape("not_done", "A call with effects says that nothing happened, and is made again", """
    id: send, tool: one, retry: {attempts: 2, backoff_s: 1}
""", {"one": [Fail("transient", "no connection", None, True), "sent"]}, {"one": "effect"})  # fmt: skip

CALLS = "limits: {calls: 2}\n===\n" + "\n".join(f"id: s{n}, tool: one" for n in range(4))
shape(
    "limit_raised",
    "A limit is reached, and a person raises it",
    CALLS,
    {"one": 1},
    answers={"q1": ("raise", 9)},
)
shape(
    "limit_stopped",
    "A limit is reached, and a person stops the run",
    CALLS,
    {"one": 1},
    answers={"q1": "stop"},
)
shape("pause", "Paused for an hour while one step runs", """
    id: a, tool: one
    id: b, tool: two, args: {x: "${a}"}
""", {"one": Late(60, 1), "two": 2}, play=pause)  # fmt: skip
shape("cancel", "Cancelled while two steps run and two have not begun", """
    id: a, tool: one
    id: b, tool: two
    id: c, tool: one, args: {x: "${a}"}
    id: d, tool: sleep, args: {seconds: 60}
""", {"one": Hang(), "two": Hang()}, {"two": "effect"}, play=cancel)  # fmt: skip

# --- more than one driver

LOST = "id: a, tool: zero\nid: b, tool: one, args: {x: '${a}'}\nid: c, tool: two, args: {x: '${a}'}"
shape("lost_driver", "The driver is lost during two calls, one of them with effects", LOST,
      {"zero": 1, "one": Hang(), "two": Hang()}, {"two": "effect"}, lost_and_resumed)  # fmt: skip
shape("not_made", "The driver lets go before the call with effects that it announced is made", LOST,
      {"zero": 1, "one": 2, "two": 3}, {"two": "effect"}, let_go_and_resumed)  # fmt: skip
TOOLS = "id: a, tool: one\nid: b, tool: two, args: {x: '${a}'}"
shape("changed_tools", "The run is taken up with another version of its tool with effects", TOOLS,
      {"one": Hang(), "two": 2}, {"two": "effect"}, lost_and_resumed_with_other_tools)  # fmt: skip
shape("changed_tools_stopped", "The same, and a person stops it", TOOLS,
      {"one": Hang(), "two": 2}, {"two": "effect"}, lost_and_stopped_over_other_tools)  # fmt: skip
shape("retry_failed", "A failed run is taken up again, inside a composite and a foreach too", """
    id: good, tool: one
    id: bad, tool: two
    id: outer, steps: [{id: fine, tool: one}, {id: deep, tool: two, args: {x: "${fine}"}}]
    id: each, tool: three, foreach: [1, 2], args: {x: "${item}"}
    id: end, tool: one, args: {bad: "${bad}", outer: "${outer}", each: "${each}"}
""", {"one": "done", "two": Fail("permanent", "not today"), "three": [1, Fail()]},
      play=failed_and_tried_again)  # fmt: skip

import golden_agents  # noqa: E402, F401 # pyright: ignore[reportUnusedImport] - for those with an agent
import golden_forks  # noqa: E402, F401 # pyright: ignore[reportUnusedImport] - and for those that branched off
import golden_repairs  # noqa: E402, F401 # pyright: ignore[reportUnusedImport] - and for those that are repaired
import golden_steering  # noqa: E402, F401 # pyright: ignore[reportUnusedImport] - more of them, for runs that are steered
import golden_undoing  # noqa: E402, F401 # pyright: ignore[reportUnusedImport] - and for runs of which something is undone
