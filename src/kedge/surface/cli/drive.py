"""Driving a run from the command line: start it, show it, stop it when asked to, tell how it came out."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from typing import Any

import msgspec

from kedge import Engine, Run, RunResult
from kedge.assemble import Settings, build_engine
from kedge.surface.cli import exits
from kedge.surface.cli.account import as_data, tell
from kedge.surface.cli.live import kept_apart, watcher
from kedge.surface.cli.screen import Screen

GRACE_S = 5.0
"""How long what runs may go on after the first Ctrl-C."""
LEFT_BEHIND_S = 3.0
"""How long tools that cannot be stopped may hold up the end of the process."""


class Manner(msgspec.Struct, frozen=True, kw_only=True):
    """How a run is driven here."""

    settings: Settings
    screen: Screen
    no_live: bool = False
    again: str = ""
    """Options to repeat when the run is taken up again."""


def drive(manner: Manner, begin: Callable[[Engine], Awaitable[Run]]) -> int:
    """Drive the run that `begin` gives until it ends, waits for a person or is interrupted."""
    engine = build_engine(manner.settings)  # imports tools: before signals are ours
    code, alarm = asyncio.run(_drive(engine, manner, begin))
    alarm.cancel()
    return code


async def _drive(
    engine: Engine, manner: Manner, begin: Callable[[Engine], Awaitable[Run]]
) -> tuple[int, threading.Timer]:
    view = watcher(manner.screen, no_live=manner.no_live)
    stop = Stop()
    with stop.listening():
        async with engine:
            run = await begin(engine)
            with kept_apart(view):
                view.begin(run)
                try:
                    result = await _until(run, stop)
                    if result is None:
                        view.note("stopping: what runs may end; once more to end at once")
                        await engine.drain(GRACE_S)
                finally:
                    await view.end()
            code = _came_to(manner, result) if result else _interrupted(manner, run.id, stop.signal)
        return code, end_soon(code)


def end_soon(code: int) -> threading.Timer:
    """End the process even if a tool that cannot be stopped keeps the loop from closing."""
    alarm = threading.Timer(LEFT_BEHIND_S, os._exit, [code])
    alarm.daemon = True
    alarm.start()
    return alarm


async def _until(run: Run, stop: Stop) -> RunResult | None:
    """What the run came to; None if it is to be stopped before."""
    asked = asyncio.ensure_future(stop.asked.wait())
    settled = asyncio.ensure_future(run.result())
    try:
        await asyncio.wait([asked, settled], return_when=asyncio.FIRST_COMPLETED)
        return settled.result() if settled.done() else None
    finally:
        asked.cancel()
        settled.cancel()


class Stop:
    """Ctrl-C and SIGTERM: the first asks, the second ends."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.signal = 0
        self._loop = asyncio.get_running_loop()

    @contextlib.contextmanager
    def listening(self) -> Generator[None]:
        """Signals are ours in here."""
        if threading.current_thread() is not threading.main_thread():
            yield  # Python gives signals to the main thread alone
            return
        before = {
            number: signal.signal(number, self._on_signal) for number in (signal.SIGINT, signal.SIGTERM)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: Any) -> None:
        if self.signal:
            os._exit(128 + number)
        self.signal = number
        self._loop.call_soon_threadsafe(self.asked.set)


def _interrupted(manner: Manner, run_id: str, number: int) -> int:
    remedy = f"resume with: kedge resume {run_id}{manner.again}"
    if manner.screen.as_json:
        fields: dict[str, Any] = {"code": "interrupted", "message": "the run was interrupted"}
        fields |= {"where": f"run {run_id}", "allowed": [], "remedy": remedy, "findings": []}
        manner.screen.data({"error": fields})
    else:
        manner.screen.remark(remedy)
    return 128 + number


def _came_to(manner: Manner, result: RunResult) -> int:
    with contextlib.suppress(BrokenPipeError):  # nobody reads; the exit code still tells
        if manner.screen.as_json:
            manner.screen.data(as_data(result, manner.again))
        else:
            tell(manner.screen, result, manner.again)
    return exits.OF_STATUS[result.status]
