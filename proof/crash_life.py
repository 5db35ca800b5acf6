"""One life of a client: a process that starts or takes up a run, and may be stopped at a place to be killed.

Forked from the laboratory, which has imported everything and opened nothing. It ends by itself with exit code
0, or says on its pipe where it stands and waits there for the kill.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import signal
import threading
import time
import traceback
from collections import Counter
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from crash_plans import WORKFLOWS, Workflow
from crash_tools import IN_TOOLS, all_tools, append_line

import kedge
from kedge.base.failpoints import armed
from kedge.flow.events import decode_event, kind_of
from kedge.flow.state import RunState
from kedge.testing.failpoints import watch
from kedge.testing.laws import picture

ACKS = "acks.txt"
OUT = "out.json"
STORE = "k.db"
ANY = "any"
"""Instead of a place's name: whichever is passed then."""
_TAKE_UPS = 5
REFUSED, INTERRUPTED = 3, 130


class Kill(NamedTuple):
    """What comes from outside, and where: at the `hit`-th pass of a place."""

    place: str
    hit: int
    how: str = "kill"
    """`kill`; `freeze`, `freeze_kill`: stopped while a rival wants the run, and let go on, or killed; `int`,
    `int2`: Ctrl-C, once and twice; `race`: no place, several are started at once."""

    def __str__(self) -> str:
        return f"{self.place}:{self.hit}" + ("" if self.how == "kill" else f":{self.how}")


class Life:
    """What a client is and knows."""

    engine: kedge.Engine

    def __init__(self, flow: Workflow, number: int, kill: Kill | None, pipe: int) -> None:
        self._flow = flow
        self._number = number
        self._kill = kill
        self._pipe = pipe
        self._faults = dict(flow.faults())
        self._stopping = threading.Lock()
        self.hits: Counter[str] = Counter()
        self.passes = 0
        self.seen = ""
        """How it left the run, and what it passed on the way."""
        self._durable_at_first = -1
        """The last event on disk when this life inserted its first."""

    # --- places

    def arm(self) -> None:
        """Look at every place."""
        watch(self._pass)
        for name in IN_TOOLS:
            armed[name] = partial(self._pass, name)

    def _pass(self, name: str) -> None:
        self.hits[name] += 1
        self.passes += 1
        if name == "journal.append.event" and self._durable_at_first < 0:
            self._durable_at_first = self._durable()
        kill = self._kill
        if kill is not None and (
            (kill.place == name and kill.hit == self.hits[name])
            or (kill.place == ANY and kill.hit == self.passes)
        ):
            self._stop(name, kill.how)
        if self._flow.slow_s and name == "file.commit.before":
            time.sleep(self._flow.slow_s)
        fault = self._faults.get(name)
        if fault is not None and self.hits[name] in fault[0]:
            raise fault[1]

    def _stop(self, name: str, how: str) -> None:
        """Say where we stand, and wait for what comes. Other threads go on, as they would."""
        self._stopping.acquire()
        self._kill = None
        before, after = self._around()
        told = {"at": name, "hit": self.hits[name], "before": before, "after": after, "how": how}
        os.write(self._pipe, json.dumps(told).encode() + b"\n")
        match how:
            case "freeze" | "freeze_kill":
                os.kill(os.getpid(), signal.SIGSTOP)
            case "int" | "int2":
                os.kill(os.getpid(), signal.SIGINT)
            case _:
                time.sleep(60)
        self._stopping.release()

    def _durable(self) -> int:
        driver = self.engine._drivers.get("r")  # noqa: SLF001 - nobody else knows
        return driver.log.durable_seq if driver is not None else 0

    def _around(self) -> tuple[str, str]:
        """The kinds of the last event that was inserted and of the one that was to follow, where known."""
        engine = getattr(self, "engine", None)
        driver = engine._drivers.get("r") if engine is not None else None  # noqa: SLF001
        if driver is None or not driver.log.tail:
            return "", ""
        inserted = self.hits["journal.append.event"]
        last = self._durable_at_first + inserted if inserted else driver.log.durable_seq
        kinds = {entry.seq: kind_of(decode_event(entry.data)) for entry in driver.log.tail}
        return kinds.get(last, ""), kinds.get(last + 1, "")

    # --- what it was told

    def ack(self, kind: str, **data: Any) -> None:
        append_line(ACKS, json.dumps({"kind": kind, **data}, sort_keys=True))

    def acked(self, kind: str, **data: Any) -> bool:
        return any(
            ack["kind"] == kind and all(ack.get(name) == value for name, value in data.items())
            for ack in read_acks(Path())
        )

    def _told(self, event: kedge.RunEvent) -> None:
        """What a follower is told as a promise is on disk."""
        if event.kind in ("run_ended", "question_asked", "step_succeeded"):
            self.ack("told", run=event.run_id, seq=event.seq, event=event.kind, path=event.path)

    # --- what it does

    async def live(self) -> None:
        """Until the run has ended."""
        flow = self._flow
        plan = kedge.Plan.parse({"goal": "g", "steps": flow.steps, **flow.more})
        try:
            await self._open()
            seen = await self._run(flow, plan)
        finally:
            await self.engine.close()
        self.seen = json.dumps({**seen, "hits": self.hits, "passes": self.passes})

    async def _run(self, flow: Workflow, plan: kedge.Plan) -> dict[str, Any]:
        if flow.before is not None:
            await flow.before(self)
        run = await self._started(plan)
        if flow.act is not None:
            await flow.act(self, run)
        result = await self._ended()
        if flow.after is not None:
            await flow.after(self, await self.engine.resume("r"))
            result = self.engine.look("r")
        return {"status": str(result.status), "picture": drawn(result.state)}

    async def _open(self) -> None:
        tools = all_tools(self._number if self._flow.changing else 1)
        if self._flow.files:
            tools += _files()
        self.engine = kedge.Engine(
            tools=tools, store=STORE, planner=self._flow.planner(), agent=self._flow.agent()
        )
        await self.engine.__aenter__()

    async def reopen(self) -> None:
        await self.engine.close()
        await self._open()

    async def second(self, run_id: str, steps: list[dict[str, Any]]) -> kedge.Run:
        run = await self.engine.start(kedge.Plan.parse({"goal": "o", "steps": steps}), run_id=run_id)
        self.ack("started", run=run_id)
        return run

    async def _started(self, plan: kedge.Plan) -> kedge.Run:
        settings = self._flow.settings or kedge.RunSettings(ask=self._flow.ask, undo=self._flow.undo)
        run = await self.engine.start(plan, run_id="r", on_event=self._told, settings=settings)
        self.ack("started", run="r")
        return run

    async def _ended(self) -> kedge.RunResult:
        """Answer what is asked, lift what holds it; take it up again where its driver could not go on."""
        for _ in range(_TAKE_UPS):
            try:
                run = await self.engine.resume("r")
                return await self._answer_all(run)
            except kedge.StoreError as error:
                self.ack("lost", run="r", why=error.code)
        raise AssertionError("its driver was lost again and again")

    async def _answer_all(self, run: kedge.Run) -> kedge.RunResult:
        while True:
            result = await run.result()
            if run.state.ended:
                self.ack("ended", run="r", status=str(result.status))
                return result
            if run.state.paused:
                await run.unpause(by="anna")
                self.ack("unpaused")
            for question, asked in result.questions.items():
                answers = {
                    "limit": "raise", "tool_changed": "go on", "approval": "approve", "failed": "skip",
                    "plan": "approve",
                    "decision": "go on",
                }  # fmt: skip
                answer = answers.get(asked.reason, self._flow.doubt)
                await run.answer(question, answer, by="anna")
                self.ack("answered", run="r", question=question, answer=answer)


def _files() -> list[kedge.Tool]:
    return [tool for tool in kedge.builtin_tools() if tool.spec.name.startswith("files.")]


async def warm_up() -> None:
    """Run something, so that everything is imported."""
    async with kedge.Engine(tools=[*all_tools(), *_files()]) as engine:
        plan = kedge.Plan.parse(
            {"goal": "g", "steps": [{"id": "nap", "tool": "sleep", "args": {"seconds": 0}}]}
        )
        drawn((await (await engine.start(plan)).result()).state)


def drawn(state: RunState) -> str:
    """A state as text, the same for all that are equal."""
    plain = msgspec.to_builtins(picture(state, state.at), enc_hook=_as_text)
    return json.dumps(_with_plain_numbers(plain), sort_keys=True)


def _as_text(value: Any) -> str:
    return bytes(value).decode() if isinstance(value, msgspec.Raw) else repr(value)


def _with_plain_numbers(value: Any) -> Any:
    """A number that was stored comes back as 1.0 where it was 1."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case dict():
            return {str(key): _with_plain_numbers(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_with_plain_numbers(inner) for inner in value]
        case _:
            return value


def read_acks(folder: Path) -> list[dict[str, Any]]:
    """What clients of a case were told."""
    path = folder / ACKS
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def live(workflow: str, number: int, kill: Kill | None, pipe: int) -> int:
    """The life of a forked process, in the current folder; its exit code.

    `REFUSED`: somebody else drives the run. `INTERRUPTED`: it was told to end, and did.
    """
    flow = WORKFLOWS[workflow]
    logging.disable(logging.CRITICAL)
    for name, value in flow.constants.items():
        module, _, constant = name.rpartition(".")
        setattr(importlib.import_module(module), constant, value)
    life = Life(flow, number, kill, pipe)
    life.arm()
    try:
        asyncio.run(life.live())
        Path(OUT).write_text(life.seen)
    except kedge.NotOwner:
        return REFUSED
    except KeyboardInterrupt:
        return INTERRUPTED
    except Exception:
        traceback.print_exc()
        return 1
    return 0


def parse_kills(words: Sequence[str]) -> list[Kill]:
    """Kills as they are written on a command line: `journal.commit.before:2 any:17`."""
    found: list[Kill] = []
    for word in words:
        place, hit, how, *_ = [*word.split(":"), "", ""]
        found.append(Kill(place, int(hit or 1), how or "kill"))
    return found
