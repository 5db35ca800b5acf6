"""A plan tried out: the real engine, scripted tools, virtual time, no disk and no network.

`try_plan` is the whole test of most plans: it runs the plan to its end, gives the answers that people
would give, and returns the result. `rehearsal` hands out the live run, for tests that steer it.

Why not a fake engine: a test would then show what the fake does. What runs here is what runs at night in
production; only the tools, the clock and the loop's idea of time are others.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

from kedge.base.limits import Limits
from kedge.control.engine import Engine
from kedge.control.run import Run
from kedge.engine.ports import Journal
from kedge.flow.events import QuestionAsked
from kedge.flow.result import RunResult
from kedge.plan.model import Plan
from kedge.testing.scripts import Scripted, scripted
from kedge.testing.virtual_time import VirtualClock, VirtualLoop, run_virtually
from kedge.tools.tool import Tool

Tools = Scripted | Mapping[str, Any] | Iterable[Tool | Callable[..., Any]]
RUN_ID = "rehearsal"


def try_plan(
    plan: Plan | str | dict[str, Any],
    tools: Tools,
    inputs: Mapping[str, Any] | None = None,
    *,
    answers: Mapping[str, Any] | None = None,
    limits: Limits | None = None,
) -> RunResult:
    """Run a plan to its end in virtual time, and return its result.

    `tools` is what `scripted` takes, or what it made, or real tools. `answers` says what people answer, by
    the path of the step in doubt, the name of the limit reached, or the id of the question: `"retry"`, or
    `("done", {"id": 17})` where the answer has a value; a list is answers to one question after another. A
    question without an answer ends the try with the status `waiting`; an answer without a question is an
    AssertionError, and so is what `Scripted.verify` finds.
    """

    async def main() -> RunResult:
        async with rehearsal(plan, tools, inputs, limits=limits) as run:
            people = _People(answers or {})
            result = await run.result()
            while await people.answer(run, result):
                result = await run.result()
            people.verify()
        return result

    return _elsewhere(main) if _in_a_loop() else run_virtually(main())


@asynccontextmanager
async def rehearsal(
    plan: Plan | str | dict[str, Any],
    tools: Tools,
    inputs: Mapping[str, Any] | None = None,
    *,
    limits: Limits | None = None,
    store: str | Path | Journal = ":memory:",
) -> AsyncGenerator[Run]:
    """Start a run of a plan in virtual time and hand it out, to be steered and looked at.

    For tests decorated with `@kedge.testing.virtual`: `async with rehearsal(plan, tools) as run:`. At the
    end the script is verified and the run let go, whether it has ended or not. With a `store`
    (a path, or a journal), a second rehearsal of the same plan takes the run up where the first left it.
    """
    document = plan if isinstance(plan, Plan) else Plan.parse(plan)
    known = scripted(cast("Mapping[str, Any]", tools), document) if isinstance(tools, Mapping) else tools
    async with Engine(known, store, limits=limits, clock=VirtualClock()) as engine:
        run = await engine.start(document, inputs, RUN_ID)
        cast("VirtualLoop", asyncio.get_running_loop()).outside = lambda: _works_outside(engine, run)
        yield run
    if isinstance(known, Scripted):
        known.verify()


def _works_outside(engine: Engine, run: Run) -> bool:
    """A tool or a callback is at work in a thread or a process."""
    # Nobody but a test has to know, so there is no public way to ask.
    calls = engine._workshop  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    callbacks = run._subscriptions  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return calls.outside or any(callback.busy for callback in callbacks)


class _People:
    """Whoever answers the questions of a run."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._left = {key: _listed(given) for key, given in answers.items()}

    async def answer(self, run: Run, result: RunResult) -> bool:
        """Answer what can be answered of the open questions; False: nothing can be."""
        answered = False
        for id_, asked in result.questions.items():
            key = self._key(id_, asked)
            if key is not None:
                answer, value = _split(self._left[key].pop(0))
                await run.answer(id_, answer, value, by="test")
                answered = True
        return answered

    def _key(self, id_: str, asked: QuestionAsked) -> str | None:
        names = (id_, asked.path, asked.limit)
        return next((name for name in names if name and self._left.get(name)), None)

    def verify(self) -> None:
        """AssertionError if an answer was not asked for."""
        left = {key: given for key, given in self._left.items() if given}
        if left:
            raise AssertionError(f"answers that nobody asked for: {left}")


def _listed(given: Any) -> list[Any]:
    return [*given] if isinstance(given, list) else [given]


def _split(given: Any) -> tuple[str, Any]:
    return cast("tuple[str, Any]", given) if isinstance(given, tuple) else (given, None)


def _in_a_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _elsewhere(main: Callable[[], Any]) -> RunResult:
    """In a thread: this one has a loop already, an async test's for instance."""
    found: list[RunResult] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(run_virtually(main()))
        except BaseException as error:  # raised again where the test sees it
            failed.append(error)

    thread = threading.Thread(target=work, name="kedge-try-plan")
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
