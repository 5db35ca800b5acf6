"""A small run that touches everything a run can, and the judge of what became of it after a fault.

The ledger is a file that the tools with effects write to and sync themselves: it cannot be wrong about what
happened, whatever the store says.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import kedge
from kedge.base.errors import InternalError, KedgeError
from kedge.engine import writer
from kedge.journal.sqlite import SqliteJournal

PATIENCE_S = 30.0
"""Nothing may take longer; it takes 20 ms when nothing fails."""
LARGE = "x" * 20_000

PLAN = kedge.Plan.parse(
    {
        "goal": "Touch everything",
        "steps": [
            {"id": "look", "tool": "look"},
            {"id": "each", "tool": "double", "foreach": [1, 2], "args": {"x": "${item}"}},
            {"id": "put", "tool": "put", "args": {"text": "${look}"}},
            {"id": "pay", "tool": "pay", "args": {"text": "${put} ${each}"}},
            {"id": "file", "tool": "files.write", "args": {"path": "sub/out.txt", "text": "${pay}"}},
            {"id": "last", "tool": "pay", "after": ["file"], "args": {"text": "${pay}"}},
        ],
        "outputs": {"paid": "last", "many": "each", "size": "len(look)"},
    }
)
OUTPUTS = {"paid": "paid last", "many": [2, 4], "size": len(LARGE)}


@dataclass
class Life:
    """One folder with a store, a ledger and a root for files, and what was told of the run."""

    folder: Path
    wrong: list[str] = field(default_factory=list[str])
    started: bool = False
    done: bool = False
    said: str = ""
    """The error that ended the first try."""

    @property
    def store(self) -> Path:
        return self.folder / "store" / "k.db"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    def calls(self) -> tuple[Counter[str], dict[str, set[str]]]:
        """How often each step had its effect, and under which keys."""
        counts: Counter[str] = Counter()
        keys: dict[str, set[str]] = {}
        if self.ledger.exists():
            for line in self.ledger.read_text().splitlines():
                step, key = line.split()
                counts[step] += 1
                keys.setdefault(step, set()).add(key)
        return counts, keys

    def tools(self) -> list[Any]:
        """Tools that keep the ledger."""
        (self.folder / "root").mkdir(exist_ok=True)

        def note(ctx: kedge.Context) -> None:
            line = f"{ctx.step} {ctx.idempotency_key}\n".encode()
            fd = os.open(self.ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.write(fd, line)
            os.close(fd)

        @kedge.tool(effect="read")
        async def look() -> str:
            return LARGE

        @kedge.tool(effect="pure")
        async def double(x: int) -> int:
            return 2 * x

        @kedge.tool(effect="idempotent")
        async def put(text: str, ctx: kedge.Context) -> str:
            note(ctx)
            return "put"

        @kedge.tool(effect="effect")
        async def pay(text: str, ctx: kedge.Context) -> str:
            note(ctx)
            return f"paid {ctx.step}"

        return [*kedge.builtin_tools([self.folder / "root"]), look, double, put, pay]


Wrap = Callable[[SqliteJournal], Any]


def live(life: Life, wrap: Wrap | None = None, fault: AbstractContextManager[object] | None = None) -> None:
    """The run, with a fault somewhere; then it is taken up without one, and must have come out right."""
    writer.FULL_RETRY_S = 0.01
    logging.getLogger("kedge").setLevel(logging.CRITICAL)  # it tells of each fault, as it should
    asyncio.run(_first(life, wrap, fault or nullcontext()))
    again(life)


def again(life: Life) -> None:
    """Take the run up without a fault, and judge."""
    asyncio.run(_within(life, "the second try", _finish(life)))
    _judge(life)


async def _first(life: Life, wrap: Wrap | None, fault: AbstractContextManager[object]) -> None:
    tools = life.tools()
    try:
        async with asyncio.timeout(PATIENCE_S):
            with fault:
                await _drive(life, tools, wrap)
    except TimeoutError:
        life.wrong.append("the first try hangs")
    except InternalError as error:
        life.wrong.append(f"called a bug: {error}")
    except KedgeError as error:
        life.said = error.code
        if error.code in ("error", "store"):
            life.wrong.append(f"an error without a name: {error}")
    except BaseException as error:
        life.wrong.append(f"{type(error).__name__}: {error}")


async def _drive(life: Life, tools: list[Any], wrap: Wrap | None) -> None:
    journal = wrap(SqliteJournal(life.store)) if wrap is not None else None
    try:
        async with kedge.Engine(tools, journal if journal is not None else life.store) as engine:
            run = await engine.start(PLAN, run_id="r")
            life.started = True
            result = await run.result()
            life.done = result.ok
    finally:
        if journal is not None:
            journal.close()


async def _within(life: Life, what: str, work: Any) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            await work
    except TimeoutError:
        life.wrong.append(f"{what} hangs")
    except BaseException as error:
        life.wrong.append(f"{what}: {type(error).__name__}: {error}")


async def _finish(life: Life) -> None:
    async with kedge.Engine(life.tools(), life.store) as engine:
        known = {run.id: run for run in engine.runs()}
        if life.started and "r" not in known:
            life.wrong.append("its start was acknowledged, and it is not there")
        if life.done and known["r"].status != "done":
            life.wrong.append(f"its end was acknowledged, and it is {known['r'].status}")
        run = await (
            engine.resume("r", retry_failed=True) if "r" in known else engine.start(PLAN, run_id="r")
        )
        while (result := await run.result()).status == "waiting":
            counts, _ = life.calls()
            for id_, question in result.questions.items():
                answer = "done" if counts[question.path] else "retry"
                await run.answer(id_, answer, f"paid {question.path}" if answer == "done" else None)
        if not result.ok:
            life.wrong.append(f"it ended {result.status}: {result.summary()}")
        elif result.outputs != OUTPUTS:
            life.wrong.append(f"its outputs are {str(result.outputs)[:200]}")


def _judge(life: Life) -> None:
    counts, keys = life.calls()
    for step in ("pay", "last"):
        if counts[step] != 1:
            life.wrong.append(f"{step} had its effect {counts[step]} times")
    if not 1 <= counts["put"] <= 3 or len(keys.get("put", ())) != 1:
        life.wrong.append(f"put was called {counts['put']} times under {len(keys.get('put', ()))} keys")
    written = life.folder / "root" / "sub" / "out.txt"
    if not written.exists() or written.read_text() != "paid pay":
        life.wrong.append("the file is not what was to be written")
    left = (
        [path.name for path in written.parent.iterdir() if path != written] if written.parent.exists() else []
    )
    locks = life.store.with_name("k.db.locks")
    left += [path.name for path in locks.iterdir()] if locks.exists() else []
    if left:
        life.wrong.append(f"left behind: {', '.join(left)}")
