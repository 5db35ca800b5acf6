"""`make prove`: break kedge in every way we know, and show that what it promises holds all the same.

Each part is a module beside this one with a function `prove(count)` that gives facts. `count` is how many
cases are wanted, in the part's own unit (kills, seeds, inputs); None: what takes a minute or so.
"""

from __future__ import annotations

import argparse
import importlib
import json
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from facts import Fact

PARTS = {
    "world": "seeded simulation of whole processes: one case is a seed",
    "crashes": "real processes, really killed: one case is a kill and its recovery",
    "calls": "every call to the store and the system fails once",
    "damage": "damaged, replaced, full and power-cut stores",
    "repairs": "plans that are repaired, at random: one case is a repair",
    "fuzz": "hostile input to everything that reads some: one case is an input of each target",
    "planted": "bugs put in on purpose, to see that the tests find them: one case is a bug",
    "mutants": "every small change to the core is a bug that the tests find: one case is a change",
}


def main() -> int:
    """Prove, print, and say by the exit code whether everything holds."""
    options = _options()
    unknown = [name for name in options.only if name not in PARTS]
    if unknown:
        print(f"there is no part {', '.join(unknown)}; there is {', '.join(PARTS)}", file=sys.stderr)
        return 2
    if options.told:
        _tell(options.only[0], options.count)
        return 0
    there = [name for name in options.only or PARTS if (Path(__file__).parent / f"{name}.py").exists()]
    facts = [(name, fact) for name in there for fact in _facts(name, options.count)]
    print(_table(facts))
    failed = [fact for _, fact in facts if fact.good is False]
    print(f"\n{len(facts)} facts, {len(failed)} of them not as they should be.")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    listed = "\n".join(f"  {name:10}{text}" for name, text in PARTS.items())
    parser = argparse.ArgumentParser(
        description="Break kedge in every way we know.",
        epilog=f"parts:\n{listed}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", type=int, metavar="N", help="how many cases of each part")
    parser.add_argument("--only", type=lambda text: text.split(","), default=[], metavar="PART,…")
    parser.add_argument("--told", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _facts(name: str, count: int | None) -> Iterator[Fact]:
    """What a part found, in a process of its own: one that breaks or dies hides nothing of the others."""
    began_s = time.monotonic()
    print(f"{name}: {PARTS[name]} …", file=sys.stderr, flush=True)
    asked = [] if count is None else ["--count", str(count)]
    command = [sys.executable, __file__, "--only", name, "--told", *asked]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)  # noqa: S603 - ourselves
    told = done.stdout.splitlines()
    yield from (Fact(**json.loads(line)) for line in told)
    if done.returncode:
        yield Fact(name, f"broke with exit code {done.returncode}", "runs to its end", good=False)
    print(f"{name}: {time.monotonic() - began_s:.0f} s", file=sys.stderr, flush=True)


def _tell(name: str, count: int | None) -> None:
    """Of one part, a line of JSON for each fact."""
    found: Iterable[Fact] = importlib.import_module(name).prove(count)
    for fact in found:
        print(json.dumps(asdict(fact)), flush=True)


def _table(facts: Iterable[tuple[str, Fact]]) -> str:
    lines = [("part", "what", "found", "target", "", "")]
    for name, fact in facts:
        mark = {True: "ok", False: "FAILED", None: ""}[fact.good]
        lines.append((name, fact.title, fact.value, fact.target, mark, fact.note))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[5]]).rstrip()
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
