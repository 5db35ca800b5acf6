"""Tools with `isolation="process"`: run where they can be killed, and where a crash is only theirs.

A call gets a process of its own group (`child`; what runs in it is `process_child`). Arguments and
results cross as canonical JSON, errors as plain data; nothing is pickled. The group ends when

- the call is cancelled or timed out, raises what no tool says deliberately, or the process dies;
- the call leaves processes behind: what is to outlive it needs a session of its own;
- the process was idle for a while, the engine closes, or the engine's process is gone, however.

After a call that returned or raised a ToolError, and left nothing behind, the process is kept for
the next call of a tool from the same module: a fresh one takes 0.1 to 0.2 s, and as long as the
module takes to import.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from kedge.base.errors import BadInput, NotDone, ToolError
from kedge.base.failpoints import armed, reach
from kedge.base.limits import DEFAULT_LIMITS
from kedge.engine import process_child
from kedge.engine.child import Child, Setting, spawn
from kedge.engine.failures import ToolFailed
from kedge.engine.frames import Call
from kedge.tools.context import Context, Sink
from kedge.tools.source import ToolSource
from kedge.tools.tool import Tool

MAX_ALIVE = 16
"""Processes of one engine; further calls wait."""
IDLE_S = 30.0
_PACKAGE_FOLDER = str(Path(__file__).parents[2])


class Processes:
    """The processes of one engine."""

    def __init__(self, result_bytes: int = DEFAULT_LIMITS.result_bytes) -> None:
        if process_child.loading:
            raise BadInput(
                "a tool's process imports this module, and importing it starts an engine",
                code="engine_at_import",
                remedy='put what starts it under `if __name__ == "__main__":`',
            )
        self._result_bytes = result_bytes
        self._places = asyncio.Semaphore(MAX_ALIVE)
        self._alive: set[Child] = set()
        self._idle: list[Child] = []
        """Longest idle first."""
        self._closed = False

    async def call(self, tool: Tool, args: bytes, context: Context, sink: Sink) -> bytes:
        """The canonical bytes of what `tool` returns in another process.

        Raises ToolFailed for what the tool raised there, ProcessDied if the process ended in the
        middle of the call, NotDone or ToolError if the call was never made. When the awaiting task
        is cancelled, the process and its group are gone before this is left. `sink` hears "began"
        when there is a process for the call, and "usage", what it took.
        """
        source = _source_elsewhere(tool)
        setting = _setting(source)
        async with self._places:
            child = await self._child(setting)
            sink.report("began", {})
            try:
                ended, raw = await child.run(self._call(tool, source, context), args, sink)
                if armed:
                    reach("processes.answered")
            except BaseException:
                await child.end()
                raise
            sink.report("usage", msgspec.structs.asdict(ended.usage))
            failure = ended.failure
            if ended.alone and child.started and (failure is None or failure.classified):
                self._keep(child)
            elif failure is None:
                child.end_soon()  # not waited for: being cancelled here would lose the result
            else:
                await child.end()
            if failure is not None:
                raise ToolFailed(failure)
            return raw

    def _call(self, tool: Tool, source: ToolSource, context: Context) -> Call:
        return Call(
            source=source,
            tool=tool.spec.name,
            run_id=context.run_id,
            step=context.step,
            attempt=context.attempt,
            key=context.idempotency_key,
            folder=_current_folder(),
            result_bytes=self._result_bytes,
        )

    async def _child(self, setting: Setting) -> Child:
        """An idle process with that setting, or a fresh one."""
        for child in reversed(self._idle):
            if child.setting == setting and child.usable:
                self._idle.remove(child)
                if child.idle_timer is not None:
                    child.idle_timer.cancel()
                return child
        if self._idle and len(self._alive) >= MAX_ALIVE:
            await self._idle.pop(0).end()
        child = None if self._closed else await spawn(setting, self._result_bytes, self._ended)
        if child is not None:
            self._alive.add(child)
            if armed:
                reach("processes.spawned")
        if child is None or self._closed:
            if child is not None:
                await child.end()
            raise NotDone("the engine is closed")
        return child

    def _keep(self, child: Child) -> None:
        if self._closed or not child.usable:
            child.end_soon()
            return
        if armed:
            reach("processes.kept")
        self._idle.append(child)
        child.idle_timer = asyncio.get_running_loop().call_later(IDLE_S, child.end_soon)

    def _ended(self, child: Child) -> None:
        self._alive.discard(child)
        if child in self._idle:
            self._idle.remove(child)

    async def close(self) -> None:
        """Leave nothing running, of calls that were not cancelled neither."""
        self._closed = True
        await asyncio.gather(*(child.end() for child in list(self._alive)))


def _setting(source: ToolSource) -> Setting:
    path = sys.path if _PACKAGE_FOLDER in sys.path else [*sys.path, _PACKAGE_FOLDER]
    return Setting(source.module, source.file, tuple(map(str, path)), frozenset(os.environ.items()))


def _source_elsewhere(tool: Tool) -> ToolSource:
    """Where another process finds `tool`; ToolError if it would find none, or another one."""
    source = tool.source
    module = sys.modules.get(source.module)
    found: Any = module
    for name in source.qualname.split("."):
        found = getattr(found, name, None)
    if module is None or (found.function if isinstance(found, Tool) else found) is not tool.function:
        raise _unfindable(tool, f"what is at {source} is not the tool's function")
    if source.module == "__main__":
        if (name := _imported_name(module)) is not None:
            return ToolSource(name, source.qualname)
        if not Path(source.file).is_file():
            raise _unfindable(tool, "it was typed in, not written in a file")
    return source


def _imported_name(main: ModuleType) -> str | None:
    """The name of a module run by `python -m`."""
    spec = main.__spec__
    return spec.name if spec is not None and spec.name != "__main__" else None


def _unfindable(tool: Tool, why: str) -> ToolError:
    return ToolError(
        f"no other process can find tool {tool.spec.name!r}: {why}",
        "bug",
        remedy="define its function at the top level of a module, under its own name "
        "(no lambda, partial or method), or leave out isolation",
    )


def _current_folder() -> str:
    try:
        return str(Path.cwd())
    except OSError:
        return ""  # it was removed; the process stays where it was
