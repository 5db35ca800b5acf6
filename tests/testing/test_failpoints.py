"""Named places: a closed set, each in one place of the code, and next to nothing while nothing is armed."""

# pyright: reportMissingImports=none

import ast
import functools
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import kedge
from kedge.base.failpoints import armed, reach
from kedge.testing.failpoints import PLACES, arm, counting, disarm, raise_at

ROOT = Path(__file__).parents[2]
PLACE = "journal.commit.before"


@pytest.fixture(autouse=True)
def _disarmed():
    yield
    disarm()


def calls(tree):
    """Calls of `reach`."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.Call) and getattr(n.func, "id", "") == "reach"]


@functools.cache
def parents(tree):
    """What each node stands in."""
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


@functools.cache
def sources():
    return {path: ast.parse(path.read_text()) for path in (ROOT / "src").rglob("*.py")}


def test_every_place_is_listed_and_stands_once_in_the_code():
    names = Counter(ast.literal_eval(call.args[0]) for tree in sources().values() for call in calls(tree))
    assert [name for name, count in names.items() if count > 1] == []
    assert set(names) == set(PLACES)


def test_a_place_costs_a_look_and_no_call_when_nothing_is_armed():
    bare = []
    for path, tree in sources().items():
        for call in calls(tree):
            inside = parents(tree)[parents(tree)[call]]
            if not (isinstance(inside, ast.If) and getattr(inside.test, "id", "") == "armed"):
                bare.append(f"{path.name}:{call.lineno} {ast.literal_eval(call.args[0])}")
    assert bare == [
        "rows.py:" + text for text in [b.partition(":")[2] for b in bare if "append.event" in b]
    ], "only the rows that are made when something is armed need no look of their own"
    assert len(bare) == 1


def test_no_place_is_named_where_each_event_passes():
    tree = ast.parse((ROOT / "src/kedge/engine/log.py").read_text())
    assert calls(tree) == []


def test_a_step_of_a_chain_passes_few_places():
    sys.path.append(str(ROOT / "proof"))
    try:
        import crash_cost
    finally:
        sys.path.remove(str(ROOT / "proof"))
    assert 2 < crash_cost.looks_a_step() <= crash_cost.LOOKS_MAX


def test_nothing_is_armed_by_itself():
    assert not armed


def test_an_act_is_done_at_its_pass_and_once():
    done = []
    arm(PLACE, lambda: done.append(1), hit=3)
    found = []
    for _ in range(5):
        reach(PLACE)
        found.append(len(done))
    assert found == [0, 0, 1, 1, 1]


def test_an_error_is_raised_at_its_pass():
    raise_at(PLACE, ValueError("there"))
    with pytest.raises(ValueError, match="there"):
        reach(PLACE)
    reach(PLACE)


def test_counting_counts_and_disarms_after_it():
    with counting() as hits:
        reach(PLACE)
        reach(PLACE)
        reach("journal.read")
    assert hits == {PLACE: 2, "journal.read": 1}
    assert not armed


def test_a_place_that_there_is_not_is_refused_with_those_there_are():
    with pytest.raises(kedge.BadInput) as refused:
        arm("journal.commit.befor", lambda: None)
    assert refused.value.code == "failpoint"
    assert PLACE in str(refused.value)
    assert not armed


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_process_ends_where_it_is_told_to():
    code = (
        "from kedge.base.failpoints import reach\nfrom kedge.testing.failpoints import kill_at\n"
        f"kill_at({PLACE!r}, hit=2)\nreach({PLACE!r})\nprint('once', flush=True)\n"
        f"reach({PLACE!r})\nprint('twice')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, "once\n")
