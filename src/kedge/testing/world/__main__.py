"""`python -m kedge.testing.world 12345`: live the life of a seed again, and shrink it if it broke a law."""

from __future__ import annotations

import argparse
import sys

from kedge.testing.world import Report, Scenario, simulate
from kedge.testing.world.replay import command
from kedge.testing.world.shrink import shrunk


def main() -> int:
    """Tell what came of each seed; 1 if a law was broken."""
    parser = argparse.ArgumentParser(prog="python -m kedge.testing.world", description=__doc__)
    parser.add_argument("seed", type=int, nargs="+", help="one life each")
    parser.add_argument("--whole", action="store_true", help="do not look for a smaller scenario")
    options = parser.parse_args()
    broken = 0
    for seed in options.seed:
        report = simulate(seed)
        _say(f"seed {seed}\n{report}")
        if report.blames:
            broken = 1
            _say(_told(report, whole=options.whole))
    return broken


def _told(report: Report, *, whole: bool) -> str:
    law = report.blames[0].law
    scenario = report.scenario if whole else shrunk(report.scenario, lambda less: _breaks(less, law))
    title = "the scenario" if whole else "the scenario, as small as it gets"
    return f"\n{title}:\n{scenario}\n{simulate(scenario)}\n{command(scenario.seed)}"


def _breaks(scenario: Scenario, law: str) -> bool:
    return any(blame.law == law for blame in simulate(scenario).blames)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
