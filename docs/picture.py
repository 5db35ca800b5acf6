"""The demo, really run, as text: what the README shows."""

from __future__ import annotations

import re
import tempfile
from functools import cache
from pathlib import Path

import kedge
from kedge.tools.load import load_tools

_ROOT = Path(__file__).resolve().parent.parent
_MEASURED = re.compile(r"\d[\d.,:-]*( (UTC|ms|s|min|h|d|%)\b)?|[█─░┄·▏▎▍▌▋▊▉▐*│├└↳]+")


@cache
def _run() -> tuple[kedge.Plan, kedge.RunResult]:
    """The run of `make demo`; what it writes goes into a folder that is thrown away."""
    with tempfile.TemporaryDirectory() as folder:
        plan = kedge.load(_ROOT / "examples/compare/plan.yaml")
        tools = [
            *kedge.builtin_tools([Path(folder), _ROOT]),
            *load_tools(str(_ROOT / "examples/compare/tools.py")),
        ]
        result = kedge.run_sync(plan, tools=tools, run_id="demo")
    if not result.ok:
        raise SystemExit(f"the demo failed: {result.summary()}")
    return plan, result


def demo_picture() -> str:
    """The plan as a tree, with what became of each step."""
    plan, result = _run()
    return _fenced(kedge.draw(plan, result, "ascii"))


def demo_timeline() -> str:
    """What ran when."""
    plan, result = _run()
    return _fenced(kedge.draw(plan, result, "timeline"))


def _fenced(picture: str) -> str:
    lines = [line.rstrip() for line in picture.strip("\n").splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


def same_picture(one: str, other: str) -> bool:
    """True if two pictures differ in nothing but times, and in what follows from times."""
    return _words(one) == _words(other)


def _words(picture: str) -> list[str]:
    """The words of a picture, in any order: what ran together ends in any, and long lines break anywhere."""
    lines = (line for line in picture.splitlines() if not line.startswith("critical path"))
    return sorted(_MEASURED.sub(" ", "\n".join(lines)).split())
