"""The simulated world: what it simulates, that it is the same each time, and that the engine lives in it."""

import ast
import os
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

import pytest

import kedge
from kedge.control.run import Run
from kedge.engine.attempts import Attempts
from kedge.engine.driver import Driver
from kedge.engine.log import RunLog
from kedge.engine.writer import Writer
from kedge.flow.state import RunState
from kedge.testing.journal_kit import check
from kedge.testing.world import World, drawn, simulate
from kedge.testing.world.disk import Disk, SimulatedJournal
from kedge.testing.world.legal import illegal
from kedge.testing.world.replay import command
from kedge.testing.world.shrink import shrunk

SEEDS = int(os.environ.get("KEDGE_WORLD_SEEDS", "150"))
FOLDER = Path(kedge.__file__).parent / "testing" / "world"
PORTS = {
    "AbstractEventLoop",  # asyncio's, with a time of its own
    "DatagramTransport",  # the loopback
    "Engine",  # to put the next two in, and to look for what comes more rarely
    "Threads",
    "StallWatch",  # a thread
}
"""What the world puts in the place of the real thing by deriving from it. Journal and clock are protocols."""


@pytest.mark.parametrize("seed", [13, 59, 143, 743, 782, 980, 1405, 1577, 3321, 10986, 16879, 19815])
def test_lives_in_which_a_law_was_broken_once_are_well_now(seed):
    report = simulate(seed)
    assert not report.blames, report


@pytest.mark.parametrize("part", range(3))
def test_no_law_is_broken_whatever_happens(part):
    for seed in range(part, SEEDS, 3):
        report = simulate(seed)
        assert not report.blames, f"{command(seed)}\n{report}"


def test_a_seed_is_one_life():
    for seed in range(100, 110):
        assert simulate(seed) == simulate(seed)


def test_a_seed_is_the_same_life_in_every_process():
    script = "from kedge.testing.world import simulate; print([simulate(s).log_hash for s in range(40, 60)])"
    told = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={
                **os.environ,
                "PYTHONPATH": str(Path(kedge.__file__).parents[1]),
                "PYTHONHASHSEED": hash_seed,
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    }
    assert told == {f"{[simulate(seed).log_hash for seed in range(40, 60)]}\n"}


def test_the_simulated_store_keeps_the_contracts_of_every_journal():
    disks = defaultdict(Disk)
    report = check(lambda name: SimulatedJournal(disks[name]))
    assert report.ok, str(report)
    assert not report.skipped


# --- what is real in it


def test_only_ports_are_replaced():
    derived, assigned = set(), set()
    for path in FOLDER.glob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom | ast.Import):
                assert "unittest.mock" not in ast.unparse(node)
            elif isinstance(node, ast.ClassDef):
                derived |= {ast.unparse(base).rpartition(".")[2] for base in node.bases}
            elif isinstance(node, ast.Assign):
                for target in node.targets:
                    text = ast.unparse(target)
                    if path.name == "process.py" and ("_workshop." in text or text.startswith("self._")):
                        assigned.add(text)
            elif isinstance(node, ast.Call) and ast.unparse(node.func) == "setattr":
                raise AssertionError(f"{path.name}:{node.lineno} replaces something")
    ours = {"Struct", "Protocol", "NamedTuple", "BaseException"}
    assert derived - ours == PORTS
    ports = {"self._workshop.threads", "self._workshop.stall"}
    assert assigned == ports | {"self._post", "self._sender"} | {"self._world", "self._loop"}  # and its own


def test_the_engine_in_it_is_the_real_one():
    world = World(drawn(2))
    looked = []

    def look(process):
        for run in process.engine.live if process.engine else ():
            looked.append(run)
            assert (type(run), type(run._driver), type(run.state)) == (Run, Driver, RunState)
            assert (type(run._driver.log), type(run._driver.attempts)) == (RunLog, Attempts)
            assert type(process.engine._writer) is Writer

    world.prefixes.look = look
    world.live()
    assert looked


# --- the scenario that is told


def test_a_scenario_shrinks_to_what_matters():
    lives = (s for s in map(drawn, range(1000)) if len(s.faults) > 3 and len(s.orders) > 1)
    large = next(s for s in lives if s.advisers and any(fault.what == "kill" for fault in s.faults))
    small = shrunk(large, lambda less: any(fault.what == "kill" for fault in less.faults))
    assert [fault.what for fault in small.faults] == ["kill"]
    assert len(small.orders) == 1
    assert len(small.orders[0].plan["steps"]) == 1
    assert not small.fates
    assert not small.advisers
    assert not small.orders[0].settings
    assert not small.orders[0].undone_later
    assert simulate(small).blames == ()


def test_the_command_that_shows_it_again_says_how_it_was():
    env = {**os.environ, "PYTHONPATH": str(Path(kedge.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-m", "kedge.testing.world", "7"],
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "seed 7\n  every law holds" in done.stdout
    assert command(7).startswith("PYTHONPATH=src python -m kedge.testing.world 7")


@pytest.mark.parametrize(
    "steps",
    [
        [{"id": "a", "tool": "pure"}, {"id": "a", "tool": "pure"}],
        [{"id": "a", "tool": "pure", "args": {"x": "${b}"}}],
        [{"id": "a", "tool": "nothing"}],
        [{"id": "a", "tool": "pure", "after": ["b"]}, {"id": "b", "tool": "pure", "when": "present(a)"}],
        [{"id": "a", "steps": [{"id": "b", "tool": "pure", "after": ["a"]}]}],
        [
            {"id": "a", "tool": "pure"},
            {"id": "b", "tool": "pure", "after": ["a"]},
            {"id": "c", "tool": "pure", "fallback_for": "a", "after": ["b"]},
        ],
    ],
)  # fmt: skip
def test_the_second_opinion_finds_an_illegal_plan(steps):
    assert illegal({"goal": "g", "steps": steps}, ["pure"])
    assert not illegal({"goal": "g", "steps": [{"id": "a", "tool": "pure"}]}, ["pure"])
