"""`doctor`: whether this machine, store and set-up are sound, and what to do where they are not."""

from __future__ import annotations

import os
import platform
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from kedge import Engine, KedgeError, StoreError, __version__
from kedge.assemble import Settings, build_tools
from kedge.surface.cli.exits import DONE, FAILED
from kedge.surface.cli.lists import in_engine, size
from kedge.surface.cli.options import json_option, settings_of, store_option, tools_option
from kedge.surface.cli.screen import LINE_MAX, Screen
from kedge.views.text import clean

_COLOURS = {"ok": "green", "warn": "yellow", "fail": "red"}
_FSYNCS = 15
_FSYNC_SLOW_S = 0.020
_DISK_LOW, _DISK_OUT = 1 << 30, 50 << 20


class Verdict(msgspec.Struct, frozen=True):
    """One line of the report."""

    name: str
    verdict: Literal["ok", "warn", "fail"]
    text: str
    remedy: str = ""


@click.command()
@tools_option
@store_option
@json_option
def doctor(tools: tuple[str, ...], store: str | None, as_json: bool) -> int:  # noqa: FBT001
    """Look whether this machine, store and set-up are sound.

    Each line says ok, warn or fail, and what to do. Exits with 1 if anything fails.
    """
    screen = Screen(as_json=as_json)
    settings = settings_of(store, tools)
    checks: tuple[Callable[[Settings], Iterator[Verdict]], ...] = (
        _python, _sqlite, _disk, _fsync, _store, _tools, _limits, _terminal,
    )  # fmt: skip
    found: list[Verdict] = []
    for check in checks:
        try:
            found.extend(check(settings))
        except (KedgeError, OSError) as error:
            remedy = error.remedy if isinstance(error, KedgeError) else ""
            found.append(Verdict(check.__name__.strip("_"), "fail", _words(error), remedy))
    sound = all(one.verdict != "fail" for one in found)
    if as_json:
        screen.data({"ok": sound, "checks": found})
    else:
        for one in found:
            mark = screen.coloured(f"{one.verdict:4}", _COLOURS[one.verdict])
            screen.say(f"{mark} {one.name}: {clean(one.text, LINE_MAX)}")
            if one.remedy:
                screen.say(f"     do: {clean(one.remedy, LINE_MAX)}")
    return DONE if sound else FAILED


def _words(error: KedgeError | OSError) -> str:
    if isinstance(error, KedgeError):
        return f"{error.where}: {error.message}" if error.where else error.message
    return str(error)


def _python(settings: Settings) -> Iterator[Verdict]:
    version = platform.python_version()
    if not (3, 11) <= sys.version_info[:2] < (3, 14):
        yield Verdict("python", "warn", f"{version} is not tested", "use Python 3.11, 3.12 or 3.13")
    else:
        yield Verdict(
            "python", "ok", f"{version} on {platform.system()} {platform.machine()}, kedge {__version__}"
        )


def _sqlite(settings: Settings) -> Iterator[Verdict]:
    """On a store of its own beside the real one, so that asking does not make that."""
    with tempfile.TemporaryDirectory(prefix=".kedge-doctor-", dir=_folder(settings)) as folder:
        trial = msgspec.structs.replace(settings, store=str(Path(folder) / "trial.db"), tools=(), planner="")
        try:
            facts = in_engine(trial, lambda engine: engine.stats())
        except StoreError as error:  # an unsafe SQLite is refused, and so is a disk without shared memory
            yield Verdict("sqlite", "fail", _words(error), error.remedy)
            return
    yield Verdict("sqlite", "ok", f"{facts['sqlite']}: safe for several processes")
    yield Verdict("wal", "ok", f"journal mode {facts['journal_mode']}, synchronous {facts['synchronous']}")


def _disk(settings: Settings) -> Iterator[Verdict]:
    folder = _folder(settings)
    free = shutil.disk_usage(folder).free
    text = f"{size(free)} free at {folder}"
    if free < _DISK_OUT:
        yield Verdict("disk", "fail", text, "free some space: a store that is full stops all runs")
    elif free < _DISK_LOW:
        yield Verdict(
            "disk", "warn", text, "free some space, or prune old runs: kedge prune --older-than 30d"
        )
    else:
        yield Verdict("disk", "ok", text)


def _fsync(settings: Settings) -> Iterator[Verdict]:
    times_s: list[float] = []
    with tempfile.TemporaryFile(dir=_folder(settings)) as file:
        for _ in range(_FSYNCS):
            file.write(bytes(4096))
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            times_s.append(time.perf_counter() - began)
    usual_s = statistics.median(times_s)
    text = f"{usual_s * 1000:.2f} ms (median of {_FSYNCS}, slowest {max(times_s) * 1000:.1f} ms)"
    if usual_s > _FSYNC_SLOW_S:
        yield Verdict(
            "fsync", "warn", text, "put the store on a faster disk: each effectful step waits for one"
        )
    else:
        yield Verdict("fsync", "ok", text)


def _store(settings: Settings) -> Iterator[Verdict]:
    if settings.store == ":memory:" or not Path(settings.store).expanduser().exists():
        yield Verdict("store", "ok", f"{settings.store} is not there yet: the first run makes it")
        return

    def ask(engine: Engine) -> tuple[dict[str, Any], list[str], int]:
        found = engine.runs()
        damaged = [run.id for run in found if run.damaged]
        return engine.stats(), damaged, sum(not run.ended and not run.driven for run in found)

    facts, damaged, idle = in_engine(settings, ask)
    used = size(facts["file_bytes"] + facts["wal_bytes"])
    text = f"{settings.store}: {facts['runs']} runs, {used}"
    if damaged:
        names = ", ".join(damaged[:5])
        yield Verdict(
            "store", "fail", f"{text}; damaged: {names}", "restore a copy, or delete them: kedge delete RUN"
        )
    else:
        yield Verdict("store", "ok", text)
    if idle:
        yield Verdict("runs", "ok", f"{idle} not ended and driven by nobody: kedge runs, kedge drive")


def _tools(settings: Settings) -> Iterator[Verdict]:
    specs = [tool.spec for tool in build_tools(settings)]
    off = [spec for spec in specs if not spec.available]
    yield Verdict("tools", "ok", f"{len(specs) - len(off)} of {len(specs)} can be used")
    for spec in off:
        yield Verdict(
            "tools", "ok" if spec.name == "shell.run" else "warn", f"{spec.name}: {spec.unavailable_because}"
        )


def _limits(settings: Settings) -> Iterator[Verdict]:
    bounds = msgspec.structs.asdict(settings.bounds)
    yield Verdict("limits", "ok", ", ".join(f"{name} {value:,.10g}" for name, value in bounds.items()))


def _terminal(settings: Settings) -> Iterator[Verdict]:
    screen = Screen()
    encoding = screen.out.encoding
    if screen.is_terminal and not screen.unicode:
        yield Verdict("terminal", "warn", f"encoding {encoding}: letters for icons", "use a UTF-8 locale")
    else:
        yield Verdict(
            "terminal", "ok", f"{'a terminal' if screen.is_terminal else 'no terminal'}, encoding {encoding}"
        )


def _folder(settings: Settings) -> str:
    """The folder of the store, or what there is of the way to it."""
    place = (
        Path.cwd() if settings.store == ":memory:" else Path(settings.store).expanduser().absolute().parent
    )
    while not place.exists():
        place = place.parent
    return str(place)
