"""`make bench`: how fast kedge is, beside the limits of this machine in the same minutes.

Every measurement is a fresh process, one at a time. The jobs of a row take turns, round after round, so
that what slows the machine for a while slows both sides of a ratio; the least time of each side counts.
"""

from __future__ import annotations

import argparse
import datetime
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rows import Found, Job, Row, rows

HERE = Path(__file__).parent
SOURCES = HERE.parent / "src"
CHILD_S = 600
"""No measurement may take longer."""


class Left(Exception):
    """A measurement that cannot be made here, and why."""


def main() -> int:
    """Measure, print, and say by the exit code whether every target is met."""
    options = _options()
    chosen = [row for row in rows(quick=options.quick) if not options.only or row.part in options.only]
    if not chosen:
        parts = ", ".join(dict.fromkeys(row.part for row in rows(quick=True)))
        print(f"nothing is called {','.join(options.only)}; there is {parts}", file=sys.stderr)
        return 2
    told = [_told(row, found) for row, found in _measured(chosen, 1 if options.quick else options.rounds)]
    print(_table(told))
    if options.json:
        report = {"machine": _machine(), "at": _now(), "quick": options.quick, "rows": told}
        Path(options.json).write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    missed = [line for line in told if line["good"] is False]
    targets = sum(bool(line["target"]) for line in told)
    print(f"\n{_machine()}, {_now()}. {len(missed)} of {targets} targets missed.")
    return 1 if missed and options.strict else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="How fast kedge is, beside the limits of this machine.")
    parser.add_argument("--json", metavar="FILE", help="write the numbers there too")
    parser.add_argument("--quick", action="store_true", help="one round and smaller graphs: for a first look")
    parser.add_argument("--rounds", type=int, default=4, help="how often each measurement is made")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="W1,W3,resume,…")
    parser.add_argument("--strict", action="store_true", help="exit 1 if a target is missed")
    return parser.parse_args()


# --- measuring


def _measured(chosen: list[Row], rounds: int) -> Iterable[tuple[Row, Found | Left]]:
    """Each row with what was found; rows that share their jobs share the measurements."""
    known: dict[str, list[dict[str, Any]] | Left] = {}
    for row in chosen:
        todo = {str(job): job for job in row.jobs.values() if str(job) not in known}
        for name in todo:
            known[name] = []
        for turn in range(_rounds(row, rounds)):
            for name, job in todo.items():
                _progress(f"{row.part} {turn + 1}: {name}")
                found = known[name]
                if isinstance(found, list):
                    try:
                        found.append(_run(job))
                    except Left as why:
                        known[name] = why
        gone = [known[str(job)] for job in row.jobs.values() if isinstance(known[str(job)], Left)]
        if gone:
            yield row, gone[0]  # type: ignore[misc]
        else:
            yield row, {name: known[str(job)] for name, job in row.jobs.items()}  # type: ignore[misc]
    _progress("")


def _rounds(row: Row, rounds: int) -> int:
    if row.part == "W4":
        return max(rounds, 4)  # a hundredth is to be seen: with two runs each, eight of either side
    if row.part == "W7" or "events" in row.jobs["ours"].arguments:
        return 1
    return rounds


def _run(job: Job) -> dict[str, Any]:
    match job.measure:
        case "python":
            return _start_python(**job.arguments)
        case "none":
            raise Left(job.arguments["why"])
        case "resume":
            return _kill_and_resume(job.arguments)
        case _:
            return _child(job.measure, job.arguments)


def _environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(SOURCES), "PYTHONHASHSEED": "0", **more}


def _child(measure: str, arguments: dict[str, Any], killed: bool = False) -> dict[str, Any]:  # noqa: FBT001, FBT002
    command = [sys.executable, str(HERE / "child.py"), measure, json.dumps(arguments)]
    try:
        done = subprocess.run(  # noqa: S603
            command,
            env=_environment(BENCH_BORN_S=str(time.time())),
            capture_output=True,
            text=True,
            timeout=CHILD_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise Left(f"it took more than {CHILD_S} s") from error
    if killed and done.returncode == -9:
        return {}
    if done.returncode or killed:
        lines = done.stderr.strip().splitlines()
        raise Left(f"it failed: {lines[-1] if lines else f'exit {done.returncode}'}")
    return json.loads(done.stdout.splitlines()[-1])


def _kill_and_resume(arguments: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="kedge-bench-") as folder:
        _child("kill", {**arguments, "folder": folder}, killed=True)
        then = json.loads((Path(folder) / "killed.json").read_text(encoding="utf-8"))
        arguments = {name: value for name, value in arguments.items() if name != "shape"}
        return {**then, **_child("resume", {**arguments, "folder": folder})}


def _start_python(words: str, needs: str = "") -> dict[str, Any]:
    """Least seconds of ten starts of the interpreter; a plus in a word is a blank."""
    sys.path.insert(0, str(SOURCES))
    try:
        if needs and find_spec(needs) is None:
            raise Left(f"there is no {needs} yet")
    except ModuleNotFoundError as error:
        raise Left(f"there is no {needs} yet") from error
    finally:
        sys.path.pop(0)
    command = [sys.executable, *(word.replace("+", " ") for word in words.split())]
    taken: list[float] = []
    for _ in range(10):
        began_s = time.perf_counter()
        done = subprocess.run(  # noqa: S603
            command, env=_environment(), capture_output=True, timeout=CHILD_S, check=False
        )
        taken.append(time.perf_counter() - began_s)
        if done.returncode:
            raise Left(f"it failed: {done.stderr.decode().strip().splitlines()[-1:]}")
    return {"seconds": min(taken)}


# --- telling


def _told(row: Row, found: Found | Left) -> dict[str, Any]:
    line: dict[str, Any] = {"part": row.part, "title": row.title, "unit": row.unit, "target": row.target}
    if isinstance(found, Left):
        return {**line, "value": None, "good": None, "note": f"left out: {found}"}
    value = row.value(found)
    if math.isnan(value):
        return {**line, "value": None, "good": None, "note": "left out: this system does not tell"}
    good = row.good(value) if row.target else None
    return {**line, "value": value, "good": good, "note": row.note(found), "raw": found}


def _table(told: list[dict[str, Any]]) -> str:
    lines = [("", "measured", "target", "", "")]
    for line in told:
        value = "-" if line["value"] is None else f"{_figures(line['value'])} {line['unit']}"
        mark = {True: "ok", False: "MISSED", None: ""}[line["good"]]
        lines.append((line["title"], value, line["target"], mark, line["note"]))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    made = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in lines]
    return "\n".join(line.rstrip() for line in made)


def _figures(value: float) -> str:
    return f"{value:,.0f}" if value >= 1_000 else f"{value:.3g}"


def _machine() -> str:
    return (
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} CPUs, Python {platform.python_version()}"
    )


def _now() -> str:
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")


def _progress(text: str) -> None:
    """What is going on, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
