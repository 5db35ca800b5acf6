"""Recorded tools: real answers, taken once, played in every test after that.

    with cassette("tests/cassettes/report.json", tools) as taped:
        result = try_plan(plan, taped)

Without the file the real tools are called, and their answers written to it at the end; with it no tool is
called at all. To record anew, delete the file. A call that was not recorded is an error that shows what was
recorded and what is asked now, and it is told at the end of the `with` too: a run may survive it. Calls are
told apart by tool and arguments; those of the same arguments are answered in their order.

What a tool reports on its way (progress, discoveries) is not recorded. There is no mode that records what is
missing and plays the rest: such a file holds two days of one world.
"""

from __future__ import annotations

import difflib
import inspect
import json
import os
from collections import defaultdict, deque
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from kedge.base.codec import decode, encode
from kedge.base.errors import BadInput, ToolError
from kedge.engine.failures import ToolFailed, failure_of
from kedge.flow.words import Failure
from kedge.testing.standing_in import standing_in
from kedge.tools.context import Context
from kedge.tools.registry import Registry
from kedge.tools.tool import Tool

FORM = 1
"""Of the file: a newer one is refused."""


class Recorded(msgspec.Struct, omit_defaults=True):
    """One call, as the file has it."""

    tool: str
    args: Any
    result: Any = None
    failure: Failure | None = None


class Tape(msgspec.Struct):
    """What stands in the file."""

    cassette: int
    tools: dict[str, str]
    """The definition hash of each tool that was called."""
    calls: list[Recorded]


@contextmanager
def cassette(path: str | Path, tools: Iterable[Tool | Callable[..., Any]]) -> Generator[list[Tool]]:
    """Tools that play what the file holds, or record it if there is no file."""
    file, registry = Path(path), Registry(tools)
    if file.exists():
        player = _Player(file, registry)
        yield player.tools
        player.verify()
    else:
        if os.environ.get("CI"):
            raise BadInput(
                "there is no such cassette, and CI calls no real tools",
                code="no_cassette",
                where=str(file),
                remedy="record it at home and add it to the project",
            )
        recorder = _Recorder(registry)
        yield recorder.tools
        recorder.write(file)


class _Recorder:
    """Calls the real tools and remembers."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._calls: list[Recorded] = []
        self.tools = [self._recording(tool) for tool in registry]

    def _recording(self, tool: Tool) -> Tool:
        def prepared(raw: bytes) -> tuple[bytes, Any]:
            return raw, tool.decode(raw)

        async def call(given: tuple[bytes, Any], ctx: Context) -> Any:
            entry = Recorded(tool.spec.name, _kept(decode(given[0])))
            self._calls.append(entry)
            try:
                found = tool.invoke(given[1], ctx)
                result = await found if inspect.isawaitable(found) else found
                entry.result = _kept(decode(encode(result)))
            except Exception as error:
                entry.failure = msgspec.structs.replace(failure_of(error), trace="")
                raise
            return result

        return standing_in(tool.spec, prepared, call)

    def write(self, file: Path) -> None:
        """The file, for people to read and to compare."""
        called = {entry.tool for entry in self._calls}
        hashes = {t.spec.name: t.spec.definition_hash for t in self._registry if t.spec.name in called}
        calls = sorted(self._calls, key=lambda entry: (entry.tool, encode(entry.args)))
        tape = msgspec.to_builtins(Tape(FORM, dict(sorted(hashes.items())), calls))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(tape, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


class _Player:
    """Answers as the file says."""

    def __init__(self, file: Path, registry: Registry) -> None:
        self._file = file
        self._tape = _read(file)
        self._misses: list[str] = []
        self._left: defaultdict[tuple[str, bytes], deque[Recorded]] = defaultdict(deque)
        self._refuse_changed(registry)
        for entry in self._tape.calls:
            self._left[entry.tool, encode(entry.args)].append(entry)
        self.tools = [self._playing(tool) for tool in registry]

    def _refuse_changed(self, registry: Registry) -> None:
        for name, recorded in self._tape.tools.items():
            tool = registry.get(name)
            if tool is not None and tool.spec.definition_hash != recorded:
                raise AssertionError(
                    f"{self._file}: {name} has other parameters, another result or another effect class than "
                    f"when it was recorded; {self._anew}"
                )

    @property
    def _anew(self) -> str:
        return f"to record anew, delete {self._file} and run the test where the real tools work"

    def _playing(self, tool: Tool) -> Tool:
        def checked(raw: bytes) -> bytes:
            tool.decode(raw)
            return raw

        async def call(raw: bytes, ctx: Context) -> Any:
            args = _kept(decode(raw))
            left = self._left.get((tool.spec.name, encode(args)))
            if not left:
                self._misses.append(self._miss(tool.spec.name, ctx.step, args))
                raise ToolError(self._misses[-1], remedy=self._anew)
            entry = left.popleft()
            if entry.failure is not None:
                raise ToolFailed(entry.failure)
            return entry.result

        return standing_in(tool.spec, checked, call)

    def _miss(self, tool: str, step: str, args: Any) -> str:
        asked = _lines(args)
        recorded = [_lines(entry.args) for entry in self._tape.calls if entry.tool == tool]
        told = f"step {step} makes a call of {tool} that was not recorded"
        if not recorded:
            return f"{told}, nor any other of that tool:\n" + "\n".join(asked)
        near = max(recorded, key=lambda lines: difflib.SequenceMatcher(None, lines, asked).ratio())
        if near == asked:
            return f"{told} so often: {recorded.count(near)} times\n" + "\n".join(asked)
        diff = difflib.unified_diff(near, asked, "nearest recorded call", "this call", lineterm="", n=99)
        return f"{told}:\n" + "\n".join(diff)

    def verify(self) -> None:
        """AssertionError that tells every miss."""
        if self._misses:
            raise AssertionError("\n\n".join([f"{self._file}:", *self._misses, self._anew]))


def _read(file: Path) -> Tape:
    try:
        tape = msgspec.json.decode(file.read_bytes(), type=Tape)
    except (msgspec.ValidationError, msgspec.DecodeError) as error:
        raise BadInput(
            f"is no cassette: {error}", code="cassette", where=str(file), remedy="delete it to record anew"
        ) from None
    if tape.cassette != FORM:
        raise BadInput(
            f"has form {tape.cassette}, and this version of kedge reads {FORM}",
            code="cassette",
            where=str(file),
            remedy="use the version that wrote it, or delete it to record anew",
        )
    return tape


def _kept(value: Any) -> Any:
    """What of a value may stand in the file.

    The one place where secrets are to be taken out, once there are any: arguments and results pass here,
    when they are recorded and when they are looked up.
    """
    return value


def _lines(args: Any) -> list[str]:
    return json.dumps(args, indent=2, ensure_ascii=False, sort_keys=True).splitlines()
